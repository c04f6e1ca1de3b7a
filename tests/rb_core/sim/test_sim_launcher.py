"""The simulated launcher: how long a start takes, what it says and when, and how it ends."""

import math
from pathlib import Path

import numpy as np
import pytest

from rb_core.clock import ManualClock
from rb_core.errors import FailureKind, LaunchFailure
from rb_core.hardware import Cloud, InstanceType, Latency
from rb_core.plan import Problem
from rb_core.ports import Slot, TrialExit, TrialRun
from rb_core.profile import ScalingProfile
from rb_core.sim.cloud import SimCloud
from rb_core.sim.fates import NodeFate, TrialFate
from rb_core.sim.faults import Faults
from rb_core.sim.launcher import SimLauncher, Training
from rb_core.sim.starts import StartEnding
from rb_core.sim.store import SimStore
from rb_core.spec import ExperimentSpec
from rb_core.trial import Iterated, Ready, Reported, Saved, Stop

KINDS = (
    InstanceType(name="a", slots=2, usd_per_hour=1.0),
    InstanceType(name="b", slots=2, usd_per_hour=1.0, speed=2.0),
)
PROBLEM = Problem(
    experiment=ExperimentSpec.from_stages([(4, 10), (2, 20)]),
    profile=ScalingProfile(
        iteration_s={1: Latency(mean=10.0), 2: Latency(mean=6.0), 4: Latency(mean=4.0)},
        start_s=Latency(mean=5.0),
        save_s=Latency(mean=1.0),
        spread_penalty=0.5,
    ),
    cloud=Cloud(instance_types=KINDS),
)
USUAL = TrialFate(start_s=5.0, save_s=1.0, noise=0.0, speed=1.0)


class Chosen:
    """Fates that the test chooses, by (trial, stage)."""

    def __init__(self, fates):
        self._fates = fates

    def trial(self, chain, stage, trial):
        return self._fates.get((trial, stage), USUAL)

    def restart(self):
        return 7.0, 0.0


class Steps:
    def score(self, trial, iterations):
        return trial + iterations / 100


class World:
    def __init__(self, *, fates=None, torn=0.0, life_s=math.inf, **faults):
        self.clock = ManualClock()
        self.inbox = self.clock.inbox()
        node = NodeFate(launch_s=0.0, init_s=0.0, life_s=life_s)
        self.cloud = SimCloud(self.clock, Faults(), lambda name: node, np.random.default_rng(0))
        self.store = SimStore(torn=torn, rng=np.random.default_rng(0))
        self.training = Training(PROBLEM, Faults(**faults), Chosen(fates or {}), Steps(), self.cloud, self.store)
        self.launcher = SimLauncher(self.clock, self.training, self.cloud)
        self.cloud.launch(["a0", "a1"], KINDS[0], run="r")
        self.cloud.launch(["b0"], KINDS[1], run="r")
        self.clock.advance(0.0)
        while self.clock.advance(0.0):
            pass

    def start(self, trial=0, *, stage=0, begin=None, nodes=("a0",), width=1, every_s=600.0, checkpoint=None):
        begins, ends = (0, 10), (10, 30)
        slots = tuple(Slot(node=nodes[i * len(nodes) // width], index=i) for i in range(width))
        run = TrialRun(
            trial=trial, stage=stage, config={}, slots=slots,
            from_iteration=begins[stage] if begin is None else begin, to_iteration=ends[stage], max_iterations=30,
            checkpoint=None if checkpoint is None else Path(checkpoint), storage=Path("store"), logs=Path("logs"),
            checkpoint_every_s=every_s,
        )  # fmt: skip
        return self.launcher.start(run, self.inbox)

    def told(self, until_s=math.inf):
        """What is said, with the time at which it is."""
        said = []
        while (notice := self.inbox.get(until_s)) is not None:
            said.append((self.clock.now(), notice if isinstance(notice, TrialExit) else notice.message))
        return said

    def of(self, kind, said):
        return [(at, message) for at, message in said if isinstance(message, kind)]

    @property
    def last(self):
        return self.training.starts[-1]


@pytest.mark.parametrize(
    ("nodes", "width", "factor", "whole_s"),
    [
        (("a0",), 1, 1.0, 5.0 + 10 * 10.0 + 1.0),
        (("a0",), 2, 1.0, 5.0 + 10 * 6.0 + 1.0),
        (("b0",), 1, 1.0, 5.0 + 10 * 5.0 + 1.0),
        (("a0", "a1"), 4, 1.0, 5.0 + 10 * 4.0 * 1.5 + 1.0),
        (("a0",), 1, 2.0, 5.0 + 10 * 20.0 + 1.0),
    ],
)
def test_a_stage_takes_what_the_model_says(nodes, width, factor, whole_s):
    world = World(true_iteration_factor=factor)
    world.start(nodes=nodes, width=width)
    said = world.told()
    assert said[-1][0] == pytest.approx(whole_s)
    assert said[-1][1] == TrialExit(trial=0)
    assert world.last.ending is StartEnding.COMPLETED
    assert world.launcher.live == {}


def test_it_says_what_a_real_trial_says_in_the_same_order():
    world = World()
    world.start(every_s=40.0)
    said = world.told()
    assert [type(message).__name__ for _, message in said] == [
        "Ready", "Iterated", "Reported", "Iterated", "Saved", "Iterated", "Reported", "Iterated", "Saved",
        "Reported", "Iterated", "Saved", "TrialExit",
    ]  # fmt: skip
    assert world.of(Ready, said)[0][0] == 5.0
    assert [(at, m.iterations) for at, m in world.of(Saved, said)] == [(45.0, 4), (85.0, 8), (106.0, 10)]
    assert [m.score for _, m in world.of(Reported, said)] == [0.04, 0.08, 0.1]
    assert [m.iterations for _, m in world.of(Iterated, said)] == [3, 4, 7, 8, 10]
    assert world.training.scores == {(0, 0): 0.1}
    assert [stored.iterations for stored in world.store.kept.values()] == [4, 8, 10]


def test_long_iterations_are_all_told_of():
    world = World(true_iteration_factor=6.0)
    world.start()
    assert [m.iterations for _, m in world.of(Iterated, world.told())] == list(range(1, 11))


def test_a_start_within_a_stage_has_less_to_do_and_a_latency_of_its_own():
    world = World()
    world.store.save("half", 0, 4)
    world.start()
    world.launcher.live[0].kill()
    world.start(begin=4, checkpoint="half")
    assert world.told()[-1][0] == pytest.approx(7.0 + 6 * 10.0 + 1.0)
    assert world.last.restored == 4


@pytest.mark.parametrize(("share", "done", "at_s"), [(0.0, 0, 5.0), (0.35, 3, 35.0), (0.99, 9, 95.0)])
def test_one_that_raises_does_so_there(share, done, at_s):
    world = World(fates={(0, 0): TrialFate(start_s=5.0, save_s=1.0, noise=0.0, speed=1.0, raises_at=share)})
    world.start()
    said = world.told()
    assert said[-1][0] == at_s
    assert said[-1][1].failure.kind is FailureKind.RAISED
    assert max((m.iterations for _, m in world.of(Iterated, said)), default=0) == done
    assert world.last.ending is StartEnding.RAISED


def test_one_that_hangs_says_nothing_more_until_it_is_killed_and_hangs_once():
    world = World(fates={(0, 0): TrialFate(start_s=5.0, save_s=1.0, noise=0.0, speed=1.0, hangs_at=0.5)})
    handle = world.start()
    said = world.told(1e6)
    assert said[-1][1] == Iterated(iterations=5, seconds=10.0)
    assert 0 in world.launcher.live
    handle.kill()
    assert world.told()[-1][1].failure.kind is FailureKind.DIED
    assert world.last.ending is StartEnding.KILLED
    world.start()
    assert world.told()[-1][1].failure is None


def test_one_that_hangs_is_stopped_by_force():
    world = World(fates={(0, 0): TrialFate(start_s=5.0, save_s=1.0, noise=0.0, speed=1.0, hangs_at=0.5)})
    handle = world.start()
    world.told(100.0)
    handle.stop(grace_s=20.0)
    at_s, end = world.told()[-1]
    assert at_s == 120.0
    assert end.failure.kind is FailureKind.DIED


def test_nan_is_told_at_the_end_alone():
    world = World(fates={(0, 0): TrialFate(start_s=5.0, save_s=1.0, noise=0.0, speed=1.0, nan=True)})
    world.start(every_s=40.0)
    scores = [m.score for _, m in world.of(Reported, world.told())]
    assert scores[:2] == [0.04, 0.08]
    assert math.isnan(scores[2])


def test_a_stop_ends_it_after_the_current_iteration_with_a_checkpoint():
    world = World()
    handle = world.start()
    world.told(52.0)
    handle.stop(grace_s=60.0)
    handle.stop(grace_s=60.0)
    said = world.told()
    assert [(at, m.iterations) for at, m in world.of(Saved, said)] == [(56.0, 5)]
    assert said[-1] == (56.0, TrialExit(trial=0))
    assert world.last.ending is StartEnding.STOPPED


def test_a_stop_by_message_and_before_the_first_iteration():
    world = World()
    world.start().send(0, Stop())
    assert world.told() == [(0.0, TrialExit(trial=0))]
    assert world.store.kept == {}


def test_a_stop_that_takes_too_long_is_a_kill():
    world = World(true_iteration_factor=100.0)
    handle = world.start()
    world.told(100.0)
    handle.stop(grace_s=10.0)
    at_s, end = world.told()[-1]
    assert at_s == 110.0
    assert end.failure.kind is FailureKind.DIED


def test_a_torn_checkpoint_and_a_missing_one():
    world = World(torn=1.0)
    world.store.save("torn", 0, 10)
    for path, ending in (("torn", StartEnding.TORN), ("missing", StartEnding.MISSING)):
        world.start(stage=1, checkpoint=path)
        assert world.told()[-1][1].failure.kind is FailureKind.CHECKPOINT
        assert world.last.ending is ending


def test_it_dies_with_its_node():
    world = World(life_s=50.0)
    world.start()
    exits = []
    while len(exits) < 1:
        notice = world.inbox.get()
        if isinstance(notice, TrialExit):
            exits.append((world.clock.now(), notice.failure.kind))
    assert exits == [(50.0, FailureKind.DIED)]
    assert world.last.ending is StartEnding.LOST
    world.start(trial=1)
    assert world.last.ending is StartEnding.LOST
    assert world.last.ended_s == world.clock.now()


def test_it_vanishes_without_a_word():
    world = World()
    world.start()
    world.told(50.0)
    world.launcher.vanish()
    assert world.told() == []
    assert (world.last.ending, world.last.ended_s) == (StartEnding.VANISHED, 50.0)


def test_a_trial_runs_once_at_a_time_and_all_end_with_the_launcher():
    world = World()
    with world.launcher:
        world.start()
        with pytest.raises(LaunchFailure, match="runs already"):
            world.start()
    assert world.launcher.live == {}
    assert world.told()[-1][1].failure.kind is FailureKind.DIED
