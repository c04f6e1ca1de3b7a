"""The state machine of a run: what it waits for, in which order it acts, and that no wait is without an end."""

from __future__ import annotations

import pickle
import random

import pytest
from light_tune import LightController, Table
from rb_ray import RubberBandScheduler
from rb_ray.scheduling.allotting import EvenAllotter
from rb_ray.scheduling.fleet import FixedFleet
from rb_ray.scheduling.rungs import Rungs
from rb_ray.scheduling.seen import Seen
from rb_ray.scheduling.stages import CLEARING_S, SEARCHING_S, Phase, Stages, Standing

from rb_core.clock import ManualClock, pause
from rb_core.errors import InvalidInput, LaunchFailure


class World(FixedFleet):
    """Host, fleet and writer in one, which notes what it is asked for; each answer can be set."""

    def __init__(self, clock):
        super().__init__(clock)
        self.did = []
        self.gathered = self.cleared = self.saved = self.there = True
        self.stalled = False
        self.standings = {}

    def standing(self, trial):
        return self.standings.get(trial, Standing.RESTING)

    def stop(self, trial):
        self.did.append(f"stop {trial}")
        self.standings[trial] = Standing.ENDED

    def save(self):
        self.did.append("save")

    def give(self, trial, allocation, stage):
        self.did.append(f"give {trial} {allocation.slots_per_trial}")
        self.standings[trial] = Standing.ACTIVE

    def note(self):
        if self.did[-1:] != ["note"]:
            self.did.append("note")

    @property
    def nodes(self):
        return (2,)

    def resize(self, allocation, stage):
        self.did.append(f"resize {stage}")

    def poll(self):
        if self.there is None:
            raise LaunchFailure("never")

    @property
    def ready(self):
        return bool(self.there)

    def close(self):
        self.did.append("close")


class Run:
    """A run of some trials with r = 1, R = 4, eta = 2."""

    def __init__(self, trials):
        self.clock = ManualClock()
        self.world = World(self.clock)
        self.rungs = Rungs(r=1, R=4, eta=2, mode="max")
        for trial in range(trials):
            self.rungs.come(trial)
        self.stages = Stages(
            self.rungs,
            self.world,
            self.world,
            EvenAllotter(self.world, widths=(1, 2)),
            self.clock,
            allotments={},
            seen=Seen,
            note=self.world.note,
        )

    def advance(self):
        """What was done in one go."""
        self.world.did.clear()
        self.stages.advance()
        return self.world.did

    def reach(self, *trials, standing=Standing.RESTING):
        for trial in trials:
            self.rungs.report(trial, self.rungs.rung, float(trial))
            self.world.standings[trial] = standing
            self.stages.rests(trial)


def test_a_barrier_in_its_order():
    run = Run(2)
    assert run.advance() == ["note", "save", "resize 0", "give 0 1", "give 1 1"]
    assert run.stages.released == [0, 1]
    run.reach(0)
    assert run.advance() == []
    run.reach(1)
    assert run.advance() == ["note", "save", "note", "stop 0", "note", "save", "resize 1", "give 1 2"]
    run.rungs.report(1, 4, 0.0)
    run.world.standings[1] = Standing.ENDED
    assert run.advance() == ["note", "close"]
    assert run.stages.phase is Phase.OVER
    assert run.advance() == []


def test_nothing_begins_before_all_have_come():
    run = Run(2)
    run.world.gathered = False
    assert run.advance() == []
    assert run.stages.phase is Phase.GATHERING


def test_a_searcher_that_waits_for_ends_is_given_up():
    run = Run(2)
    run.world.gathered, run.world.stalled = False, True
    run.advance()
    run.reach(0)
    pause(run.clock, SEARCHING_S + 1)
    assert run.advance() == []
    run.reach(1)
    assert run.advance() == []
    pause(run.clock, SEARCHING_S + 1)
    with pytest.raises(InvalidInput, match="`num_samples` to 2"):
        run.advance()


def test_a_trial_that_is_still_saving_is_waited_for():
    run = Run(2)
    run.advance()
    run.reach(0)
    run.reach(1, standing=Standing.ACTIVE)
    assert run.advance() == []
    run.world.standings[1] = Standing.RESTING
    assert "stop 0" in run.advance()


@pytest.mark.parametrize("waits", ["saved", "cleared"])
def test_what_is_not_done_is_waited_for_but_not_for_ever(waits):
    run = Run(2)
    setattr(run.world, waits, False)
    run.advance()
    assert run.stages.phase is Phase.CLEARING
    assert run.advance() == []
    pause(run.clock, CLEARING_S + 1)
    assert "resize 0" in run.advance()


def test_a_rung_is_decided_only_when_its_state_is_saved():
    run = Run(2)
    run.advance()
    run.reach(0, 1)
    run.world.saved = False
    assert run.advance() == ["note", "save"]
    assert run.stages.phase is Phase.SETTLING
    assert not run.rungs.decided
    run.world.saved = True
    assert "stop 0" in run.advance()


def test_the_fleet_is_waited_for_until_it_says_never():
    run = Run(2)
    run.world.there = False
    run.advance()
    assert run.stages.phase is Phase.RESIZING
    assert run.advance() == []
    run.world.there = None
    with pytest.raises(LaunchFailure, match="never"):
        run.advance()


def test_when_everybody_fails_it_is_over():
    run = Run(2)
    run.advance()
    for trial in (0, 1):
        run.rungs.leave(trial, "failed")
        run.world.standings[trial] = Standing.ENDED
    assert "close" in run.advance()
    assert run.stages.phase is Phase.OVER


def test_the_end_stops_whoever_is_left_and_gives_everything_back():
    run = Run(3)
    run.advance()
    run.world.standings[0] = Standing.ENDED
    run.world.did.clear()
    run.stages.end()
    assert run.world.did == ["stop 1", "stop 2", "close"]
    assert run.advance() == []


def test_a_trial_that_a_restored_state_lacks_is_not_waited_for(tmp_path):
    table = Table(mode="max", reduction_factor=2, min_t=1, max_t=2, scores=((0.0,) * 2, (1.0,) * 2, (2.0,) * 2))
    scheduler = RubberBandScheduler(**table.scheduler_args())
    as_made = pickle.dumps(scheduler)
    controller = LightController(scheduler, table, random.Random(0), 3, folder=tmp_path)
    controller.begin()
    for _ in range(2):
        controller.step()
    del controller.runs[2]
    after = controller.restored(pickle.loads(as_made))
    assert [done for _, done in after.run()] == [1, 2]


def test_a_cluster_that_stays_too_small_is_given_up_in_time(monkeypatch):
    clock = ManualClock()
    fleet = FixedFleet(clock, patience_s=10.0)
    monkeypatch.setattr(FixedFleet, "nodes", (1, 1))
    monkeypatch.setattr("ray.is_initialized", lambda: True)
    fleet.open("run", bundle={"CPU": 2.0}, restored=False)
    allocation = EvenAllotter(fleet, widths=(4,)).allot(Rungs(r=1, R=4, eta=2, mode="max").experiment, 0, [0], Seen())
    fleet.resize(allocation, 0)
    fleet.poll()
    assert not fleet.ready
    pause(clock, 11.0)
    with pytest.raises(LaunchFailure, match=r"4 x \{'CPU': 2.0\}.*room for 2"):
        fleet.poll()
