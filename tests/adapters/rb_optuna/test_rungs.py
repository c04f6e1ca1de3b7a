from __future__ import annotations

import optuna
from optuna.trial import TrialState
from rb_optuna.rungs import rung_results


def trial(number, values, state=TrialState.PRUNED, value=None):
    made = optuna.create_trial(state=TrialState.RUNNING, intermediate_values=values)
    made.number, made.state, made.value = number, state, value
    return made


def results(*trials, min_resource=1, reduction_factor=3):
    return rung_results(trials, min_resource=min_resource, reduction_factor=reduction_factor)


def test_first_value_at_a_rung_or_beyond():
    assert results(trial(7, {1: 0.5, 2: 0.4, 4: 0.3, 9: 0.2})) == [{7: 0.5}, {7: 0.3}, {7: 0.2}]


def test_one_report_may_pass_several_rungs():
    assert results(trial(7, {10: 0.5})) == [{7: 0.5}, {7: 0.5}, {7: 0.5}]


def test_steps_may_count_from_zero():
    assert results(trial(7, {k: float(k) for k in range(3)})) == [{7: 0.0}, {7: 2.0}]
    assert results(trial(7, {k: float(k) for k in range(1, 3)})) == [{7: 1.0}]


def test_order_of_reports_is_that_of_steps():
    assert results(trial(7, {3: 0.3, 1: 0.1})) == [{7: 0.1}, {7: 0.3}]


def test_states():
    assert results(
        trial(0, {1: 0.1}, TrialState.RUNNING),
        trial(1, {1: 0.2}, TrialState.PRUNED),
        trial(2, {1: 0.3}, TrialState.COMPLETE, 9.0),
        trial(3, {1: 0.4}, TrialState.FAIL),
        trial(4, {}, TrialState.WAITING),
    ) == [{0: 0.1, 1: 0.2, 2: 0.3}]


def test_without_reports_a_final_value_counts_at_the_top():
    unreported = trial(0, {}, TrialState.COMPLETE, 0.9)
    assert results(unreported) == [{0: 0.9}]
    assert results(unreported, trial(1, {1: 0.1, 3: 0.3})) == [{1: 0.1}, {1: 0.3, 0: 0.9}]
    assert results(trial(0, {}, TrialState.PRUNED), trial(1, {}, TrialState.RUNNING)) == [{}]


def test_other_rungs():
    values = {k: float(k) for k in range(1, 9)}
    assert results(trial(0, values), min_resource=2, reduction_factor=2) == [{0: 2.0}, {0: 4.0}, {0: 8.0}]
    assert results(trial(0, {1: 1.0}), min_resource=2) == [{}]
