"""What a rehearsal says of its runs."""

import logging
from dataclasses import replace

import numpy as np
import pytest
from sim_cases import Falling, case_of

from rb_core.errors import InvalidInput
from rb_core.hardware import Latency
from rb_core.plan import Objective, Problem
from rb_core.sim import rehearsal
from rb_core.sim.faults import Faults
from rb_core.sim.invariants import BrokenInvariant
from rb_core.sim.rehearsal import rehearse

PROBLEM, PLAN = case_of("noisy_00")


def limited(objective: Objective) -> Problem:
    return Problem(experiment=PROBLEM.experiment, profile=PROBLEM.profile, cloud=PROBLEM.cloud, objective=objective)


def test_equal_seeds_give_equal_runs_and_others_others():
    faults = Faults(node_loss_per_hour=5.0, driver_kill_per_run=1.0, launch_failure=0.3)
    one, same, other = (rehearse(PROBLEM, PLAN, seeds=seeds, faults=faults) for seeds in ((1, 2), (1, 2), (3, 4)))
    assert one.jct_s.tolist() == same.jct_s.tolist()
    assert one.events == same.events
    assert one.jct_s.tolist() != other.jct_s.tolist()


@pytest.mark.parametrize("key", ["deadline_s", "budget_usd"])
def test_fractions_are_of_the_problem_s_limit(key):
    values = getattr(rehearse(PROBLEM, PLAN, seeds=range(20)), "jct_s" if key == "deadline_s" else "cost_usd")
    median = float(np.median(values))
    told = rehearse(limited(Objective(**{key: median})), PLAN, seeds=range(20))
    fractions = (told.deadline_met_fraction, told.within_budget_fraction)
    assert sorted(fractions, key=lambda x: x is None) == [pytest.approx(np.mean(values <= median + 1e-9)), None]


def test_runs_that_do_not_finish_are_told_apart():
    told = rehearse(PROBLEM, PLAN, seeds=range(30), faults=Faults(trial_failure=0.6))
    assert 0 < told.finished.sum() < 30
    assert len(told.jct_s) == len(told.cost_usd) == 30
    assert len(told.estimate.jct_s) == len(told.estimate.stages[0].end_s) == told.finished.sum()
    assert told.failed_trials > 0
    assert (told.leaked_nodes, told.lost_trials) == (0, 0)


def test_each_run_is_told_of():
    runs = []
    rehearse(PROBLEM, PLAN, seeds=(4, 9), curves=Falling(), on_run=runs.append)
    assert [run.seed for run in runs] == [4, 9]
    assert all(run.finished and run.state.stages[0].survivors[0] == 0 for run in runs)


def test_a_rehearsal_needs_a_seed():
    with pytest.raises(InvalidInput, match="seeds: must be at least one"):
        rehearse(PROBLEM, PLAN, seeds=())


def test_what_is_amiss_is_raised_with_the_seed(monkeypatch):
    monkeypatch.setattr(rehearsal, "violations", lambda evidence: ["time_passes: it does not"])
    with pytest.raises(BrokenInvariant, match="the rehearsal with seed 5 broke 1 invariant") as caught:
        rehearse(PROBLEM, PLAN, seeds=(5, 6))
    assert (caught.value.seed, caught.value.problems) == (5, ("time_passes: it does not",))


def test_the_faults_of_a_rehearsal_are_not_logged_and_the_level_comes_back(caplog):
    before = logging.getLogger("rb_core").level
    rehearse(PROBLEM, PLAN, seeds=range(10), faults=Faults(answer_lost=0.3))
    assert caplog.records == []
    assert logging.getLogger("rb_core").level == before


def test_what_happens_is_the_truth_whatever_is_believed():
    """Where the plan is kept, what is believed changes nothing; the bill is by the prices that are believed."""
    iteration_s = {
        slots: Latency(mean=latency.mean / slots, std=0.0) for slots, latency in PROBLEM.profile.iteration_s.items()
    }
    dearer = tuple(replace(kind, usd_per_hour=2 * kind.usd_per_hour) for kind in PROBLEM.cloud.instance_types)
    believed = replace(
        PROBLEM,
        profile=replace(PROBLEM.profile, iteration_s=iteration_s, trial_cv=0.0),
        cloud=replace(
            PROBLEM.cloud, instance_types=dearer, transfer_usd_per_gib=2 * PROBLEM.cloud.transfer_usd_per_gib
        ),
    )
    misled = rehearse(believed, PLAN, seeds=(1, 2), truth=PROBLEM)
    informed = rehearse(PROBLEM, PLAN, seeds=(1, 2))
    assert misled.jct_s.tolist() == informed.jct_s.tolist()
    assert misled.cost_usd.tolist() == pytest.approx((2 * informed.cost_usd).tolist())
    assert rehearse(believed, PLAN, seeds=(1, 2)).jct_s.tolist() != informed.jct_s.tolist()
