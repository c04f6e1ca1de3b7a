"""Trials that have nothing more to run before their stages are over, chains that nobody passes, and errands."""

from __future__ import annotations

import math

import pytest
from engine_world import World, nth, plan, problem, worked_training
from test_resume import AWAY_S, check

from rb_core import events
from rb_core.errors import RunInterrupted, TrialFailure
from rb_core.eventlog import EventLog, read_log
from rb_core.events import RunEnding
from rb_core.ports import Errand
from rb_core.state import TrialPhase, fold

WIDE = plan([(2, 1), (2, 2), (2, 4)])
TWO = problem([[(4, 10), (2, 20)], [(3, 10), (1, 40)]])
AFTER_EACH_OTHER = plan([(2, 1), (1, 2)], [(2, 1), (1, 2)])


def leaving(*starts, **more):
    """Training in which these starts, (trial, stage), leave."""
    return worked_training(leaves=lambda run: "returned" if (run.trial, run.stage) in starts else "", **more)


def phases(state):
    return [state.trials[number].phase.value for number in sorted(state.trials)]


@pytest.mark.parametrize(
    ("starts", "stages", "ended"),
    [
        ([(3, 0)], [(2, 1), (2,), (2,)], ["stopped", "stopped", "finished", "left"]),
        ([(0, 0)], [(3, 2), (3,), (3,)], ["left", "stopped", "stopped", "finished"]),
        ([(3, 1)], [(3, 2), (2,), (2,)], ["stopped", "stopped", "finished", "left"]),
        ([(3, 2)], [(3, 2), (3,), ()], ["stopped", "stopped", "stopped", "left"]),
        ([(0, 0), (1, 0), (2, 0)], [(3,), (3,), (3,)], ["left", "left", "left", "finished"]),
    ],
)
def test_a_trial_that_leaves_is_out_of_the_bracket_and_of_nobody_s_way(starts, stages, ended):
    world = World(training=leaving(*starts))
    state = world.run(problem(), WIDE)
    assert [stage.survivors for stage in state.stages] == stages
    assert phases(state) == ended
    assert [(e.trial, e.stage, e.cause) for e in world.of(events.TrialLeft)] == [
        (*start, "returned") for start in starts
    ]
    assert world.of(events.TrialFailed) == []
    assert state.ending is RunEnding.DONE
    assert world.released()


def test_a_place_that_was_left_is_taken_by_the_next_trial_at_once():
    world = World(training=leaving((0, 0)))
    world.run(problem([[(3, 10)]]), plan([(1, 1)]))
    assert [(e.trial, e.t_s) for e in world.of(events.TrialStarted)] == [(0, 90.0), (1, 90.0), (2, 95.0)]


@pytest.mark.parametrize("stage", [0, 1])
def test_a_chain_that_all_leave_ends_and_the_next_one_runs(stage):
    world = World(training=leaving(*[(trial, stage) for trial in range(4)]))
    state = world.run(TWO, AFTER_EACH_OTHER)
    first = [s for s in state.stages if s.chain == 0]
    assert (len(first), first[-1].survivors) == (stage + 1, ())
    assert [s.survivors for s in state.stages if s.chain == 1] == [(6,), (6,)]
    assert state.ending is RunEnding.DONE
    assert world.released()


def test_some_fail_and_some_leave():
    world = World(
        training=leaving((0, 0), (3, 1), failure=lambda run: "boom" if (run.trial, run.stage) in {(1, 0)} else "")
    )
    state = world.run(problem(), WIDE)
    assert phases(state) == ["left", "failed", "finished", "left"]
    assert [stage.survivors for stage in state.stages] == [(3, 2), (2,), (2,)]


def test_where_nobody_is_left_and_somebody_left_the_chain_just_ends():
    world = World(training=leaving((3, 0), failure=lambda run: f"E{run.trial}" if run.trial < 3 else ""))
    state = world.run(problem([[(4, 10), (2, 20)]]), plan([(2, 1), (1, 2)]))
    assert phases(state) == ["failed", "failed", "failed", "left"]
    assert state.ending is RunEnding.DONE


def test_checkpoints_of_trials_that_left_are_removed_at_the_barrier():
    world = World(training=leaving((3, 1)))
    world.run(problem(), WIDE)
    (gone,) = [e for e in world.history if isinstance(e, events.CheckpointDeleted) and e.trial == 3]
    barrier = [e for e in world.history if isinstance(e, events.StageEnded)][1]
    assert gone.checkpoint == "store/trial-3/10"
    assert "store/trial-3/10" in world.removed
    assert world.history.index(gone) > world.history.index(barrier)


CASES = {
    "at each stage": (problem(), WIDE, leaving((0, 0), (3, 1), (2, 2))),
    "some fail": (
        problem(),
        WIDE,
        leaving((3, 0), (2, 1), failure=lambda run: "boom" if (run.trial, run.stage) == (1, 0) else ""),
    ),
    "a whole chain": (TWO, AFTER_EACH_OTHER, leaving(*[(trial, 1) for trial in range(4)])),
}


@pytest.mark.parametrize("written", [False, True], ids=["before the write", "after the write"])
@pytest.mark.parametrize("case", CASES)
def test_a_run_that_trials_leave_is_resumed_to_the_same_end_wherever_it_is_killed(case, written):
    wanted, chosen, training = CASES[case]
    whole = World(training=training)
    whole.run(wanted, chosen)
    assert any(isinstance(event, events.TrialLeft) for event in whole.history)
    for at in range(0 if written else 1, len(whole.history) - written):
        world = World(training=training)
        world.killed(wanted, chosen, nth(at), written=written)
        world.resume(wanted, chosen, away_s=AWAY_S[at % 3])
        check(world, wanted)
        assert same(world.history, whole.history), f"killed at event {at}"


def same(one, other):
    """Whether two runs came to the same; nobody may have come to the end."""
    folded = [fold(history) for history in (one, other)]
    stages = [{(s.chain, s.stage): (s.survivors, s.stopped) for s in state.stages} for state in folded]
    kept = [{t.trial: [c.path for c in t.checkpoints] for t in state.trials.values()} for state in folded]
    return (stages[0], kept[0], phases(folded[0])) == (stages[1], kept[1], phases(folded[1]))


def test_a_trial_that_left_is_found_in_a_log_file(tmp_path):
    with EventLog(tmp_path / "log") as log:
        World(training=leaving((3, 1)), log=log).run(problem(), WIDE)
    state = fold(read_log(tmp_path / "log").events)
    assert (state.trials[3].phase, state.trials[3].cause) == (TrialPhase.LEFT, "returned")


# Nobody passes a rung


@pytest.mark.parametrize("stage", [0, 1])
def test_without_an_end_of_hope_a_chain_whose_trials_all_fail_ends_and_the_next_one_runs(stage):
    training = worked_training(failure=lambda run: "boom" if run.trial < 4 and run.stage == stage else "")
    world = World(training=training)
    state = world.run(TWO, AFTER_EACH_OTHER, hopeless_after=None)
    assert [s.survivors for s in state.stages if s.chain == 0][-1] == ()
    assert [s.survivors for s in state.stages if s.chain == 1] == [(6,), (6,)]
    assert [trial.phase for trial in state.trials.values()].count(TrialPhase.FAILED) == (4 if stage == 0 else 2)
    assert world.released()
    with pytest.raises(TrialFailure, match="boom"):
        World(training=training).run(TWO, AFTER_EACH_OTHER)


def test_without_an_end_of_hope_scores_that_are_all_nan_end_the_chain():
    training = worked_training(score=lambda trial, done: math.nan if trial < 4 else float(trial))
    state = World(training=training).run(TWO, AFTER_EACH_OTHER, hopeless_after=None)
    assert [s.survivors for s in state.stages] == [(), (6,), (6,)]
    with pytest.raises(TrialFailure, match="is NaN"):
        World(training=training).run(TWO, AFTER_EACH_OTHER)


# Errands


def test_errands_are_run_in_the_order_of_all_notices():
    world = World()
    done = []

    def errand(name):
        world.inbox.put(Errand(action=lambda: done.append((name, len(world.of(events.TrialReady))))))

    def errands():
        errand("first")
        errand("second")

    world.clock.call_at(94.0, errands)
    world.clock.call_at(96.0, lambda: errand("third"))
    world.run(problem(), WIDE)
    assert done == [("first", 0), ("second", 0), ("third", 4)]


@pytest.mark.parametrize("error", [ValueError("of the host"), KeyboardInterrupt()])
@pytest.mark.parametrize("at_s", [10.0, 95.0, 199.0, 400.0])
def test_what_an_errand_raises_ends_the_run_with_everything_released(error, at_s):
    world = World()

    def action():
        raise error

    world.clock.call_at(at_s, lambda: world.inbox.put(Errand(action=action)))
    expected = RunInterrupted if isinstance(error, KeyboardInterrupt) else ValueError
    with pytest.raises(expected) as caught:
        world.run(problem(), WIDE)
    assert expected is RunInterrupted or caught.value is error
    assert world.released()
    assert world.told[-1].ending is (RunEnding.INTERRUPTED if expected is RunInterrupted else RunEnding.FAILED)


def test_errands_are_still_run_while_trials_are_stopped():
    world = World(training=worked_training(hangs=lambda run: run.trial == 0))
    done = []
    world.clock.call_at(150.0, world.interrupt)
    world.clock.call_at(155.0, lambda: world.inbox.put(Errand(action=lambda: done.append(world.clock.now()))))
    with pytest.raises(RunInterrupted):
        world.run(problem(), WIDE, grace_s=10.0)
    assert done == [155.0]
