"""Profiles that may be off as a whole: rehearsals, simulations and plans under `run_cv`."""

import dataclasses

import numpy as np
import pytest
from sim_cases import Falling, case_of

from rb_core.draws import lognormals
from rb_core.expectation import ExpectedModel
from rb_core.hardware import Latency
from rb_core.sim.faults import Faults
from rb_core.sim.rehearsal import rehearse_once
from rb_core.simulate import simulate

PROBLEM, PLAN = case_of("noisy_00")
RUN_CV = 0.2


def unsure(problem, run_cv=RUN_CV):
    return dataclasses.replace(problem, profile=dataclasses.replace(problem.profile, run_cv=run_cv))


def sampled(problem, samples=1000, seed=0):
    return simulate(problem, PLAN, samples=samples, rng=np.random.default_rng(seed))


@pytest.mark.parametrize("seed", range(5))
def test_a_rehearsal_is_one_sample_of_the_simulation(seed):
    run = rehearse_once(unsure(PROBLEM), PLAN, seed=seed, curves=Falling())
    sample = sampled(unsure(PROBLEM), 1, seed)
    assert run.state.jct_s == pytest.approx(sample.jct_s[0])
    assert run.bill.cost_usd == pytest.approx(sample.cost_usd[0])


def test_a_factor_that_all_have_in_common_is_as_wide_as_it_was_told():
    quiet = dataclasses.replace(
        PROBLEM,
        profile=dataclasses.replace(
            PROBLEM.profile,
            iteration_s={w: Latency(mean=latency.mean) for w, latency in PROBLEM.profile.iteration_s.items()},
            start_s=Latency(mean=0.0),
            save_s=Latency(mean=0.0),
            sync_s=0.0,
            trial_cv=0.0,
        ),
        cloud=dataclasses.replace(PROBLEM.cloud, launch_s=Latency(mean=0.0), init_s=Latency(mean=0.0)),
    )
    (sure,) = sampled(quiet, 1).jct_s
    ratios = sampled(unsure(quiet), 20_000).jct_s / sure
    assert ratios.mean() == pytest.approx(1.0, abs=4 * RUN_CV / np.sqrt(20_000))
    assert ratios.std() == pytest.approx(RUN_CV, rel=0.03)


def test_bands_hold_four_rehearsals_in_five_only_if_told_how_far_off_the_profile_may_be():
    factors = lognormals(Latency(mean=1.0, std=RUN_CV), np.random.default_rng(3).standard_normal(150))
    actual = [
        rehearse_once(PROBLEM, PLAN, seed=seed, faults=Faults(true_iteration_factor=factor)).state.jct_s
        for seed, factor in enumerate(factors.tolist())
    ]
    for problem, low, high in ((PROBLEM, 0.0, 0.6), (unsure(PROBLEM), 0.7, 0.9)):
        p10, p90 = np.quantile(sampled(problem, seed=10**6).jct_s, [0.1, 0.9])
        assert low < np.mean([p10 <= jct_s <= p90 for jct_s in actual]) < high


def test_the_expected_model_does_not_depend_on_it():
    assert ExpectedModel(unsure(PROBLEM)).evaluate(PLAN) == ExpectedModel(PROBLEM).evaluate(PLAN)
