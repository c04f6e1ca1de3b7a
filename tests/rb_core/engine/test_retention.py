import math

from rb_core.engine.retention import superseded
from rb_core.state import Checkpoint, TrialState


def trial(*scores):
    checkpoints = [Checkpoint(path=str(n), iterations=n, size_bytes=1, score=score) for n, score in enumerate(scores)]
    return TrialState(trial=0, chain=0, config={}, checkpoints=checkpoints)


def test_the_last_and_the_best_are_needed_and_no_other():
    assert [c.path for c in superseded(trial(0.1, 0.9, 0.5, 0.3), "max")] == ["0", "2"]
    assert [c.path for c in superseded(trial(0.1, 0.9, 0.5, 0.3), "min")] == ["1", "2"]


def test_where_the_last_is_the_best_it_alone_is_needed():
    assert [c.path for c in superseded(trial(0.1, 0.5, 0.5), "max")] == ["0", "1"]


def test_without_a_score_only_the_last_is_needed():
    assert [c.path for c in superseded(trial(None, math.nan, None), "max")] == ["0", "1"]


def test_there_may_be_nothing_to_remove():
    assert superseded(trial(), "max") == ()
    assert superseded(trial(0.1), "max") == ()
