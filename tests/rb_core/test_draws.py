import dataclasses

import numpy as np
import pytest
from model_reference import worked_problem

from rb_core.draws import Draws
from rb_core.hardware import Latency
from rb_core.spec import ExperimentSpec

SAMPLES = 20_000


def noisy(**profile):
    problem = worked_problem()
    return dataclasses.replace(
        problem,
        experiment=ExperimentSpec.from_stages([(3, 9), (2, 4)]),
        profile=dataclasses.replace(problem.profile, **profile),
        cloud=dataclasses.replace(problem.cloud, launch_s=Latency(mean=30, std=15), init_s=Latency(mean=60, std=6)),
    )


def draws(problem, seed=1, samples=SAMPLES):
    return Draws(problem, samples, np.random.default_rng(seed))


def close(values, mean, std, *, tolerance=4):
    error = std / np.sqrt(values.shape[-1])
    assert np.all(np.abs(values.mean(axis=-1) - mean) < tolerance * error + 1e-9)
    assert values.std(axis=-1) == pytest.approx(np.full(len(values), std), rel=0.1)


def test_a_quantity_without_spread_is_one_number():
    quiet = draws(worked_problem())
    assert quiet.factors(0).tolist() == [[1.0]]
    assert quiet.trainings(0, 0, slots_per_trial=1, factor=1.0).tolist() == [[106.0]]
    launch, init = quiet.nodes(0, 0, 2)
    assert (launch.tolist(), init.tolist()) == ([[30.0], [30.0]], [[60.0], [60.0]])


def test_factors_are_lognormal_with_mean_one():
    values = draws(noisy(trial_cv=0.4)).factors(0)
    assert values.shape == (3, SAMPLES)
    close(values, 1.0, 0.4)
    logs = np.log(values)
    assert logs.std() == pytest.approx(np.sqrt(np.log(1.16)), rel=0.02)
    assert np.mean(((logs - logs.mean()) / logs.std()) ** 3) == pytest.approx(0, abs=0.05)


def test_trials_of_a_run_have_its_factor_in_common():
    problem = noisy(run_cv=0.2)
    several = dataclasses.replace(problem, experiment=ExperimentSpec(chains=problem.experiment.chains * 2))
    drawn = draws(several)
    one, other = drawn.factors(0), drawn.factors(1)
    assert np.array_equal(one, other)
    close(one, 1.0, 0.2)
    both = draws(noisy(run_cv=0.2, trial_cv=0.3)).factors(0)
    close(both, 1.0, np.sqrt(1.04 * 1.09 - 1))
    assert np.corrcoef(np.log(both))[0, 1] == pytest.approx(np.log(1.04) / (np.log(1.04) + np.log(1.09)), abs=0.03)


def test_a_run_s_factor_changes_no_other_number():
    sure, unsure = (draws(noisy(trial_cv=0.3, run_cv=run_cv)) for run_cv in (0.0, 0.2))
    common = unsure.factors(0) / sure.factors(0)
    assert np.allclose(common, common[0])
    assert np.array_equal(sure.nodes(0, 1, 2), unsure.nodes(0, 1, 2))


def test_trainings_add_start_iterations_and_save():
    problem = noisy(
        start_s=Latency(mean=5, std=2), save_s=Latency(mean=1, std=0.5), iteration_s={1: Latency(mean=10, std=3)}
    )
    values = draws(problem).trainings(0, 0, slots_per_trial=1, factor=2.0)
    assert values.shape == (3, SAMPLES)
    # Nine iterations: the std grows by the root of their number, and the factor scales them alone.
    close(values, 5 + 2 * 90 + 1, np.sqrt(2**2 + (2 * 3 * 3) ** 2 + 0.5**2))


def test_iterations_never_take_negative_time():
    problem = noisy(start_s=Latency(mean=5), save_s=Latency(mean=1), iteration_s={1: Latency(mean=1, std=10)})
    values = draws(problem).trainings(0, 0, slots_per_trial=1, factor=1.0)
    assert values.min() == 6.0
    assert np.mean(values == 6.0) == pytest.approx(0.382, abs=0.02)  # P(Z < -9 / (3 * 10))


def test_nodes_are_drawn_one_by_one():
    launch, init = draws(noisy()).nodes(0, 0, 4)
    assert launch.shape == init.shape == (4, SAMPLES)
    close(launch, 30, 15)
    close(init, 60, 6)
    assert np.abs(np.corrcoef(np.vstack([launch, init])) - np.eye(8)).max() < 0.04


def test_two_plans_of_one_problem_meet_the_same_trials_and_nodes():
    problem = noisy(
        trial_cv=0.2, start_s=Latency(mean=5, std=1), iteration_s={w: Latency(mean=8 / w, std=1) for w in (1, 2)}
    )
    one, other = draws(problem, samples=7), draws(problem, samples=7)
    few = one.nodes(0, 1, 2)
    many = other.nodes(0, 1, 5)
    assert np.array_equal(few[0], many[0][:2])
    assert np.array_equal(few[1], many[1][:2])
    narrow = one.trainings(0, 0, slots_per_trial=1, factor=0.0)
    wide = other.trainings(0, 0, slots_per_trial=2, factor=0.0)
    assert np.array_equal(narrow, wide)
    assert np.array_equal(one.factors(0), other.factors(0))


def test_stages_and_seeds_do_not_share_their_numbers():
    problem = noisy(start_s=Latency(mean=5, std=1))
    one = draws(problem, samples=50)
    assert not np.array_equal(one.nodes(0, 0, 1)[0], one.nodes(0, 1, 1)[0])
    assert not np.array_equal(
        draws(problem, seed=2, samples=50).nodes(0, 0, 1)[0], draws(problem, samples=50).nodes(0, 0, 1)[0]
    )
