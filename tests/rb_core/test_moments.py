import dataclasses

import numpy as np
import pytest
from model_reference import plan_of, worked_problem

from rb_core.hardware import Latency
from rb_core.moments import SAMPLES, SEED, moments_of
from rb_core.placement import Placement
from rb_core.plan import Objective
from rb_core.simulate import simulate
from rb_core.spec import ExperimentSpec


def noisy():
    problem = worked_problem()
    return dataclasses.replace(
        problem,
        profile=dataclasses.replace(problem.profile, trial_cv=0.2, save_s=Latency(mean=1, std=0.5)),
        cloud=dataclasses.replace(problem.cloud, max_nodes=8, init_s=Latency(mean=60, std=20)),
    )


def place(trials, width, nodes):
    return Placement(trials=trials, slots_per_trial=width, node_slots=2, nodes=nodes)


@pytest.mark.parametrize(("width", "nodes"), [(1, 1), (1, 3), (1, 8), (2, 3), (4, 2), (4, 5)])
def test_the_first_stage_is_that_of_the_simulated_job(width, nodes):
    problem = dataclasses.replace(noisy(), experiment=ExperimentSpec.from_stages([(4, 10)]))
    ends_s = simulate(problem, plan_of(("a", nodes, width)), samples=SAMPLES, rng=np.random.default_rng(SEED)).jct_s
    moments = moments_of(problem).of(0, 0, place(4, width, nodes), 1.0, (), nodes)
    assert moments == pytest.approx((ends_s.mean(), ends_s.var()))


def test_nodes_without_work_change_nothing():
    stages = moments_of(noisy())
    enough = stages.of(0, 1, place(2, 2, 2), 1.0, ((0.0, 2),), 0)
    assert stages.of(0, 1, place(2, 2, 8), 1.0, ((0.0, 1), (0.0, 1), (30.0, 1)), 5) == enough
    assert stages.of(0, 1, place(2, 2, 2), 1.0, ((0.0, 1),), 1) != enough


def test_nodes_are_usable_in_their_own_time():
    stages = moments_of(noisy())
    offsets_s = (0.0, 10.0, 1000.0)
    means = [stages.of(0, 0, place(4, 1, 2), 1.0, ((0.0, 1), (offset, 1)), 0)[0] for offset in offsets_s]
    assert means[0] < means[1] < means[2] == stages.of(0, 0, place(4, 1, 1), 1.0, ((0.0, 1),), 0)[0]


def test_problems_that_differ_in_what_is_wanted_share_their_stages():
    problem = noisy()
    shared = moments_of(problem)
    assert moments_of(dataclasses.replace(noisy(), objective=Objective(deadline_s=5))) is shared
    assert moments_of(dataclasses.replace(problem, cloud=dataclasses.replace(problem.cloud, max_nodes=3))) is shared
    slower = dataclasses.replace(problem.cloud, launch_s=Latency(mean=99))
    assert moments_of(dataclasses.replace(problem, cloud=slower)) is not shared


def test_sharing_is_forgotten_without_being_missed():
    problem = noisy()
    asked = (0, 0, place(4, 1, 3), 1.0, (), 3)
    first = moments_of(problem).of(*asked)
    for trials in (3, 5, 6):
        moments_of(dataclasses.replace(problem, experiment=ExperimentSpec.from_stages([(trials, 1)])))
    assert moments_of(problem).of(*asked) == first
