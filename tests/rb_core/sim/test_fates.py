"""Fates: the numbers of the simulation where it has them, streams of their own for faults, and the right shares."""

import math

import numpy as np
import pytest
from sim_cases import case_of

from rb_core.draws import Draws
from rb_core.hardware import Latency
from rb_core.sim.fates import Fates, lasting_s
from rb_core.sim.faults import Faults, Slowness

PROBLEM, _ = case_of("noisy_00")
NONE = Faults()
MANY = 4000


def nodes(faults: Faults = NONE, seed: int = 0, count: int = MANY):
    fates = Fates(PROBLEM, faults, seed)
    return [fates.node(0, 0) for _ in range(count)]


def test_nodes_have_the_latencies_that_the_simulation_draws():
    launches, inits = Draws(PROBLEM, 1, np.random.default_rng(5)).nodes(0, 0, 40)
    told = nodes(seed=5, count=40)
    assert [fate.launch_s for fate in told] == launches[:, 0].tolist()
    assert [fate.init_s for fate in told] == inits[:, 0].tolist()


def test_trials_have_the_durations_that_the_simulation_draws():
    draws, fates = Draws(PROBLEM, 1, np.random.default_rng(5)), Fates(PROBLEM, Faults(), 5)
    stage = PROBLEM.experiment.chains[0][0]
    width, latency = next(iter(PROBLEM.profile.iteration_s.items()))
    wanted = draws.trainings(0, 0, slots_per_trial=width, factor=draws.factors(0))
    for trial in range(stage.trials):
        fate = fates.trial(0, 0, trial)
        total_s = fate.start_s + fate.speed * lasting_s(latency, stage.iterations, fate.noise) + fate.save_s
        assert total_s == pytest.approx(float(wanted[trial, 0]), rel=1e-12)


def test_faults_leave_the_latencies_alone():
    faulty = Faults(launch_failure=0.5, never_ready=0.2, node_loss_per_hour=1.0, trial_failure=0.5)
    plain, struck = nodes(count=40), nodes(faulty, count=40)
    assert [fate.launch_s for fate in plain] == [fate.launch_s for fate in struck]
    ready = [(one.init_s, other.init_s) for one, other in zip(plain, struck, strict=True) if other.init_s < math.inf]
    assert all(one == other for one, other in ready)


def share(flags) -> float:
    return float(np.mean(list(flags)))


def test_shares_are_those_asked_for():
    off = 4 * 0.5 / math.sqrt(MANY)
    told = nodes(Faults(launch_failure=0.4, never_ready=0.3, mass_loss_probability=0.25))
    # Of the calls 0.2 fail by themselves; of what is left, 0.25, so that 0.4 fail in all.
    assert share(not fate.granted for fate in told) == pytest.approx(0.25, abs=off)
    assert share(math.isinf(fate.init_s) for fate in told) == pytest.approx(0.3, abs=off)
    assert share(fate.company for fate in told) == pytest.approx(0.25, abs=off)
    assert share(fate.granted for fate in nodes(Faults(launch_failure=1.0), count=50)) == 0.0
    assert share(fate.granted for fate in nodes(count=50)) == 1.0


def test_losses_come_at_their_rate():
    lives = np.array([fate.life_s for fate in nodes(Faults(node_loss_per_hour=6.0))])
    assert lives.mean() == pytest.approx(600.0, rel=4 / math.sqrt(MANY))
    assert lives.std() == pytest.approx(600.0, rel=0.1)
    assert all(math.isinf(fate.life_s) for fate in nodes(count=50))


def test_slow_nodes_and_true_factors():
    slow = nodes(Faults(slow_init=Slowness(probability=0.5, factor=10.0), true_init_factor=3.0), count=400)
    ratios = {round(fate.init_s / plain.init_s, 6) for fate, plain in zip(slow, nodes(count=400), strict=True)}
    assert ratios == {3.0, 30.0}


def test_a_trial_s_mishaps_are_its_own_whatever_the_order_of_the_starts():
    faults = Faults(trial_failure=0.5, trial_hang=0.5, nan_score=0.5, straggler=Slowness(probability=0.5, factor=7.0))
    trials = range(PROBLEM.experiment.chains[0][0].trials)

    def told(order):
        fates = Fates(PROBLEM, faults, 3)
        of = {trial: fates.trial(0, 0, trial) for trial in order}
        return {t: (fate.raises_at, fate.hangs_at, fate.nan, fate.speed) for t, fate in of.items()}

    assert told(trials) == told(reversed(trials))
    assert len(set(told(trials).values())) > 1


def test_a_restart_has_a_start_latency_of_the_profile():
    fates = Fates(PROBLEM, Faults(), 0)
    starts, noises = zip(*(fates.restart() for _ in range(MANY)), strict=True)
    wanted = PROBLEM.profile.start_s
    assert wanted != Latency(mean=0.0)
    assert np.mean(starts) == pytest.approx(wanted.mean, abs=4 * wanted.std / math.sqrt(MANY) + 1e-9)
    assert np.std(noises) == pytest.approx(1.0, abs=0.06)
