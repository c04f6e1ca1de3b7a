"""Synthetic learning curves: repeatable, rising, and told apart by trial."""

import numpy as np
import pytest

from rb_core.sim.curves import SyntheticCurves
from rb_core.sim.reference import best_first

TRIALS = 64


def curves(seed: int = 0, **changes: float) -> SyntheticCurves:
    return SyntheticCurves(TRIALS, np.random.default_rng(seed), **changes)


def test_a_score_depends_on_seed_trial_and_iterations_alone():
    one, same, other = curves(), curves(), curves(1)
    asked = [(trial, iterations) for trial in range(TRIALS) for iterations in (1, 9, 81)]
    told = [one.score(*point) for point in asked]
    assert told == [same.score(*point) for point in reversed(asked)][::-1]
    assert told != [other.score(*point) for point in asked]
    assert len(set(told)) == len(told)


def test_smooth_curves_rise_and_stay_within_0_and_1():
    smooth = curves(noise=0.0)
    for trial in range(TRIALS):
        scores = [smooth.score(trial, iterations) for iterations in range(1, 200)]
        assert scores == sorted(scores)
        assert 0 < scores[0] < scores[-1] < 1


@pytest.mark.parametrize("trial", range(3))
def test_noise_is_bounded_and_differs_from_iteration_to_iteration(trial):
    noisy, smooth = curves(noise=0.02), curves(noise=0.0)
    off = [noisy.score(trial, i) - smooth.score(trial, i) for i in range(1, 400)]
    assert max(map(abs, off)) <= 0.02
    assert abs(float(np.mean(off))) < 0.003
    assert len(set(off)) == len(off)


def test_early_ranks_agree_with_late_ones_often_and_not_always():
    one = curves()
    early, late = (best_first({t: one.score(t, at) for t in range(TRIALS)}, "max") for at in (4, 508))
    kept = len(set(early[: TRIALS // 4]) & set(late[: TRIALS // 4]))
    assert TRIALS // 16 < kept < TRIALS // 4
