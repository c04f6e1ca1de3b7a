"""Without faults a rehearsal is one sample of the simulation: the engine and the model agree draw for draw."""

import dataclasses
import math

import numpy as np
import pytest
from sim_cases import CASES, Falling, case_of

from rb_core.hardware import Latency
from rb_core.plan import AllocationPlan, ChainOrder, Policies, Problem, StageAllocation
from rb_core.sim.rehearsal import rehearse
from rb_core.sim.trouble import trouble
from rb_core.simulate import simulate
from rb_core.spec import ExperimentSpec

SEEDS = range(5)
MEANS_OVER = 300

policies = pytest.mark.parametrize("early_release", [False, True])


def agree(problem: Problem, plan: AllocationPlan, *, early_release: bool) -> None:
    """Time, bill and every stage of each seed, to a millionth."""
    problem = dataclasses.replace(problem, policies=Policies(early_release=early_release))
    rehearsal = rehearse(problem, plan, seeds=SEEDS, curves=Falling())
    assert rehearsal.finished.all()
    for number, seed in enumerate(SEEDS):
        sample = simulate(problem, plan, samples=1, rng=np.random.default_rng(seed))
        assert rehearsal.jct_s[number] == pytest.approx(sample.jct_s[0], abs=1e-6)
        assert rehearsal.cost_usd[number] == pytest.approx(sample.cost_usd[0], abs=1e-6)
        for got, wanted in zip(rehearsal.estimate.stages, sample.stages, strict=True):
            assert (got.chain, got.stage) == (wanted.chain, wanted.stage)
            for key in ("start_s", "end_s", "cost_usd", "idle_fraction"):
                assert getattr(got, key)[number] == pytest.approx(getattr(wanted, key)[0], abs=1e-6), key


@policies
@pytest.mark.parametrize("name", CASES)
def test_every_case_agrees_draw_for_draw(name, early_release):
    agree(*case_of(name), early_release=early_release)


@policies
@pytest.mark.parametrize("order", list(ChainOrder))
def test_several_chains_agree_draw_for_draw(order, early_release):
    problem, _ = case_of("noisy_00")
    problem = Problem(experiment=ExperimentSpec.hyperband(R=9, eta=3), profile=problem.profile, cloud=problem.cloud)
    kind = problem.cloud.instance_types[0]
    plan = AllocationPlan(
        chains=tuple(
            tuple(StageAllocation(instance_type=kind.name, nodes=1, slots_per_trial=1) for _ in chain)
            for chain in problem.experiment.chains
        ),
        order=order,
    )
    agree(problem, plan, early_release=early_release)


@policies
def test_random_problems_agree_draw_for_draw(early_release):
    for number in range(50):
        case = trouble(number)
        agree(case.problem, case.plan, early_release=early_release)


def test_nodes_are_given_back_before_the_barrier_where_none_is_needed_after_it():
    problem, plan = case_of("noisy_02")
    usual = rehearse(problem, plan, seeds=SEEDS)
    early = rehearse(dataclasses.replace(problem, policies=Policies(early_release=True)), plan, seeds=SEEDS)
    assert early.jct_s == pytest.approx(usual.jct_s)
    assert np.all(early.cost_usd < usual.cost_usd)


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("noisy")])
def test_the_means_of_synthetic_scores_agree_too(name):
    # Who goes on is another one in each run, and speed has nothing to do with score.
    problem, plan = case_of(name)
    rehearsal = rehearse(problem, plan, seeds=range(MEANS_OVER))
    estimate = simulate(problem, plan, samples=20_000, rng=np.random.default_rng(1))
    for key in ("jct_s", "cost_usd"):
        got, wanted = getattr(rehearsal, key), getattr(estimate, key)
        error = math.sqrt(got.var() / len(got) + wanted.var() / len(wanted))
        assert got.mean() == pytest.approx(wanted.mean(), abs=4 * error + 1e-6), key


def test_a_disagreement_would_be_seen():
    problem, plan = case_of("noisy_00")
    rehearsal = rehearse(problem, plan, seeds=[0], curves=Falling())
    other = simulate(problem, plan, samples=1, rng=np.random.default_rng(1))
    assert abs(rehearsal.jct_s[0] - other.jct_s[0]) > 1e-3
    assert problem.profile.start_s != Latency(mean=0.0)
