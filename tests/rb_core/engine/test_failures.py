from rb_core.engine.failures import Failures
from rb_core.errors import TrialFailure


def failure(trial, cause):
    return TrialFailure(trial=trial, rank=0, cause=cause)


def test_the_first_of_enough_equal_failures_is_the_runs():
    failures = Failures(3)
    first = failure(4, "boom")
    assert failures.failed(first) is None
    assert failures.failed(failure(2, "boom")) is None
    assert failures.failed(failure(7, "boom")) is first


def test_a_success_or_another_cause_means_that_there_is_hope():
    one, other = Failures(2), Failures(2)
    one.succeeded()
    other.failed(failure(0, "bang"))
    other.failed(failure(1, "boom"))
    for failures in (one, other):
        assert [failures.failed(failure(trial, "boom")) for trial in range(9)] == [None] * 9
