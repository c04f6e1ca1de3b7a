from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest
from engine_world import World, nth, plan, problem, worked_training

from rb_core import events
from rb_core.engine.request import OnDeadline
from rb_core.errors import BudgetExceeded, LaunchFailure, NoAnswer, RunInterrupted, TrialFailure, UnusableLog
from rb_core.eventlog import EventLog, MemoryLog, line, read_log
from rb_core.events import RunEnding
from rb_core.ledger import cost_usd
from rb_core.plan import ChainOrder, Objective
from rb_core.state import TrialPhase, fold

WIDE = plan([(2, 1), (2, 2), (2, 4)])
NARROW = plan([(2, 1), (1, 2), (1, 2)])
TWO = problem([[(4, 10), (2, 20)], [(3, 10), (1, 40)]])
AFTER_EACH_OTHER = plan([(2, 1), (1, 2)], [(2, 1), (1, 2)])
SIDE_BY_SIDE = plan([(2, 1), (1, 2)], [(2, 1), (1, 2)], order=ChainOrder.PARALLEL)

SAVING = worked_training(every_iteration=True, save_every=5)
FAILING = worked_training(failure=lambda run: f"E{run.trial}" if (run.trial, run.stage) in {(2, 0), (1, 1)} else "")


def outcome(history):
    """What a run came to: who survived each stage, who won, and what is kept of whom."""
    state = fold(history)
    stages = {(s.chain, s.stage): (s.survivors, s.stopped) for s in state.stages if s.end_s is not None}
    kept = {trial.trial: [c.path for c in trial.checkpoints] for trial in state.trials.values()}
    return stages, state.best().trial, kept, {t.trial: t.phase for t in state.trials.values()}


def check(world, wanted):
    """What holds of the log, the nodes and the money of a run that was killed and resumed to its end."""
    state = fold(world.history)
    assert state.ending is RunEnding.DONE
    assert world.released()
    assert not state.held
    assert not state.training
    assert world.provider.most_held <= wanted.cloud.max_nodes
    assert cost_usd(state, wanted.cloud) == pytest.approx(world.billed_usd(wanted.cloud))
    times = [event.t_s for event in world.history]
    assert times == sorted(times)

    begun, ended, created = Counter(), Counter(), Counter()
    done = dict.fromkeys(state.trials, 0)
    saved = set()
    for event in world.history:
        match event:
            case events.TrialCreated():
                created[event.trial] += 1
            case events.StageStarted():
                begun[event.chain, event.stage] += 1
            case events.StageEnded():
                ended[event.chain, event.stage] += 1
            case events.TrialStarted():
                assert event.from_iteration == done[event.trial]
            case events.TrialSaved():
                assert event.iterations > done[event.trial]
                done[event.trial] = event.iterations
                saved.add(event.checkpoint)
    assert set(begun.values()) == set(ended.values()) == set(created.values()) == {1}
    assert saved - set(world.removed) == {c.path for trial in state.trials.values() for c in trial.checkpoints}


CASES = {
    "wide": (problem(), WIDE, worked_training()),
    "saving within stages": (
        problem([[(3, 4), (2, 5), (1, 5)]]),
        NARROW,
        worked_training(every_iteration=True, save_every=2),
    ),
    "failing": (problem(), NARROW, FAILING),
    "another type": (problem(max_nodes=2), plan([(2, 1), (1, 2), (1, 2)], kinds="aba"), worked_training()),
    "chains after each other": (TWO, AFTER_EACH_OTHER, worked_training()),
    "chains side by side": (TWO, SIDE_BY_SIDE, worked_training()),
}


AWAY_S = (0.0, 45.0, 1000.0)
"""Times that pass between a kill and the resumption: nothing happens meanwhile, nodes get on, all nodes are ready."""


@pytest.mark.parametrize("written", [False, True], ids=["before the write", "after the write"])
@pytest.mark.parametrize("case", CASES)
def test_a_run_that_is_killed_at_any_event_is_resumed_to_the_same_end(case, written):
    wanted, chosen, training = CASES[case]
    whole = World(training=training)
    whole.run(wanted, chosen)
    check(whole, wanted)
    # There is nothing to resume before the first event, and after the last one.
    for at in range(0 if written else 1, len(whole.history) - written):
        world = World(training=training)
        world.killed(wanted, chosen, nth(at), written=written)
        world.resume(wanted, chosen, away_s=AWAY_S[at % 3])
        check(world, wanted)
        assert outcome(world.history) == outcome(whole.history), f"killed at event {at}"


@pytest.mark.parametrize("written", [False, True], ids=["before the write", "after the write"])
@pytest.mark.parametrize("first", range(3, 48, 8))
def test_a_resumed_run_that_is_killed_at_any_event_is_resumed_again(first, written):
    wanted, chosen, training = CASES["failing"]
    whole = World(training=training)
    whole.run(wanted, chosen)
    at, over = 0, False
    while not over:
        world = World(training=training)
        world.killed(wanted, chosen, nth(first), written=written)
        world.pass_away(AWAY_S[at % 3])
        world.killed(wanted, chosen, nth(at), written=written)
        over = type(world.history[-1]) is events.RunEnded
        if not over:
            world.resume(wanted, chosen, away_s=AWAY_S[at % 2])
        check(world, wanted)
        assert outcome(world.history) == outcome(whole.history), f"killed at event {first}, then at {at}"
        at += 1
    assert at > 10


def test_time_that_passes_between_two_processes_is_time_of_the_run():
    world = World()
    world.killed(problem(), WIDE, nth(30))
    before_s = world.history[-1].t_s
    world.resume(problem(), WIDE, away_s=3600.0)
    resumed = next(event for event in world.history if type(event) is events.RunResumed)
    assert resumed.t_s == before_s + 3600.0
    assert resumed.clock == world.clock.origin


def test_a_log_that_a_kill_cut_at_any_byte_is_resumed(tmp_path):
    whole = World()
    whole.run(problem(), WIDE)
    lines = [line(event).encode() for event in whole.history]
    text = b"".join(lines[:-1])
    for size in range(len(lines[0]), len(text) + 1, len(text) // 40):
        (tmp_path / "log").write_bytes(text[:size])
        with EventLog(tmp_path / "log") as log:
            world = World(log=log)
            state = world.resume(problem(), WIDE)
        assert world.released()
        stages = {(s.chain, s.stage): (s.survivors, s.stopped) for s in state.stages}
        assert (stages, state.best().trial) == outcome(whole.history)[:2]
        assert [type(event) for event in read_log(tmp_path / "log").events].count(events.RunResumed) == 1


def test_a_trial_that_saved_the_end_of_its_stage_but_told_no_score_is_started_once_more_to_tell_it():
    world = World()
    world.killed(problem(), WIDE, lambda event: type(event) is events.TrialSaved and event.trial == 3)
    world.log.events = [e for e in world.history if not (type(e) is events.TrialReported and e.trial == 3)]
    state = world.resume(problem(), WIDE)
    check(world, problem())
    again = [event for event in world.history if type(event) is events.TrialStarted and event.trial == 3][1]
    assert (again.stage, again.from_iteration) == (0, 10)
    assert state.best().trial == 3


# After an ending


def test_an_interrupted_run_goes_on_where_its_trials_saved():
    world = World()
    world.clock.call_at(295.0, world.interrupt)
    with pytest.raises(RunInterrupted, match="it can be resumed"):
        world.run(problem(), WIDE)
    assert world.released()
    world.resume(problem(), WIDE, away_s=1000.0)
    check(world, problem())
    again = [e for e in world.history if type(e) is events.TrialStarted and e.stage == 1 and e.t_s > 1295.0]
    assert [(e.trial, e.from_iteration) for e in again] == [(3, 25), (2, 25)]
    assert fold(world.history).best().trial == 3
    assert [event.ending for event in world.history if type(event) is events.RunEnded] == ["interrupted", "done"]


@pytest.mark.parametrize("when_s", [0.0, 15.0, 60.0, 92.0, 198.0, 260.0, 329.0, 400.0])
def test_a_run_can_be_interrupted_at_any_time_and_again(when_s):
    world = World(training=SAVING)
    whole = World(training=SAVING)
    whole.run(problem(), WIDE)
    world.clock.call_at(when_s, world.interrupt)
    world.clock.call_at(when_s + 137.0, world.interrupt)
    with pytest.raises(RunInterrupted):
        world.run(problem(), WIDE)
    with pytest.raises(RunInterrupted):
        world.resume(problem(), WIDE, away_s=5.0)
    world.resume(problem(), WIDE, away_s=5.0)
    check(world, problem())
    stages, best, _, _ = outcome(world.history)
    assert (stages, best) == outcome(whole.history)[:2]
    assert fold(world.history).resumed == 2


def test_a_run_that_failed_for_want_of_nodes_goes_on_when_there_are_some():
    world = World()
    world.provider.refuse, world.provider.refusals = "no capacity", 20
    with pytest.raises(LaunchFailure, match="could be had in 20 attempts"):
        world.run(problem(), WIDE)
    assert world.history[-1].ending is RunEnding.FAILED
    world.resume(problem(), WIDE)
    check(world, problem())


def test_a_run_whose_trials_all_failed_fails_again_in_the_same_way():
    world = World(training=worked_training(failure=lambda run: f"E{run.trial}"))
    for go in (world.run, world.resume):
        with pytest.raises(TrialFailure, match="trial 0, rank 0 failed: E0"):
            go(problem(), WIDE)
        assert world.released()
    assert not [e for e in world.history if type(e) is events.TrialStarted and e.t_s > world.history[-2].t_s]


def test_checkpoints_of_trials_that_failed_in_an_undecided_stage_are_kept():
    world = World(training=worked_training(failure=lambda run: "boom" if run.stage == 1 else ""))
    for go in (world.run, world.resume):
        with pytest.raises(TrialFailure, match="boom"):
            go(problem(), WIDE)
        kept = {trial.trial: len(trial.checkpoints) for trial in fold(world.history).trials.values()}
        assert kept == {0: 0, 1: 0, 2: 1, 3: 1}


def test_a_trial_that_hung_has_its_attempts_again_in_a_resumed_run():
    world = World(training=worked_training(hangs=lambda run: run.trial == 0, every_iteration=True))
    world.killed(problem(), NARROW, nth(25), patience=10.0)
    state = world.resume(problem(), NARROW, patience=10.0)
    assert state.trials[0].phase is TrialPhase.FAILED
    assert state.stages[0].survivors == (3, 2)


def test_who_was_promoted_stays_promoted_whatever_the_hook_says_now():
    world = World(engine={"promote": lambda spec, stage, scores: [0, 1] if stage == 0 else None})
    world.killed(problem(), WIDE, nth(45))
    world.engine = {}
    state = world.resume(problem(), WIDE)
    check(world, problem())
    assert [stage.survivors for stage in state.stages] == [(0, 1), (1,), (1,)]


# What may change


def with_deadline(deadline_s):
    return replace(problem(), objective=Objective(deadline_s=deadline_s))


def test_a_run_that_was_stopped_at_its_deadline_goes_on_with_a_later_one():
    world = World()
    state = world.run(with_deadline(250.0), WIDE, on_deadline=OnDeadline.STOP)
    assert state.ending is RunEnding.DEADLINE
    state = world.resume(with_deadline(9999.0), WIDE, on_deadline=OnDeadline.STOP, record={"deadline": "9999s"})
    check(world, problem())
    assert next(e.problem for e in world.history if type(e) is events.RunResumed) == {"deadline": "9999s"}


def test_a_deadline_counts_from_the_first_request_also_in_a_resumed_run():
    world = World()
    world.killed(problem(), WIDE, nth(30))
    state = world.resume(with_deadline(250.0), WIDE, away_s=50.0, on_deadline=OnDeadline.STOP)
    assert state.ending is RunEnding.DEADLINE
    assert world.history[-1].t_s == 250.0
    assert world.released()


def test_a_deadline_that_has_passed_stops_a_resumed_run_at_once():
    world = World()
    world.killed(problem(), WIDE, nth(30))
    state = world.resume(with_deadline(100.0), WIDE, away_s=500.0, on_deadline=OnDeadline.STOP)
    assert state.ending is RunEnding.DEADLINE
    assert world.released()
    assert world.history[-1].t_s == pytest.approx(world.history[29].t_s + 500.0, abs=11.0)


def test_a_run_that_reached_its_money_limit_goes_on_with_a_higher_one():
    world = World(training=SAVING)
    with pytest.raises(BudgetExceeded):
        world.run(problem(), WIDE, max_usd=0.5)
    with pytest.raises(BudgetExceeded):
        world.resume(problem(), WIDE, max_usd=0.5)
    assert world.released()
    assert cost_usd(fold(world.history), problem().cloud) <= 0.5
    world.resume(problem(), WIDE, max_usd=2.0)
    check(world, problem())


def test_what_an_earlier_process_spent_counts():
    world = World()
    world.killed(problem(), WIDE, nth(45))
    with pytest.raises(BudgetExceeded):
        world.resume(problem(), WIDE, max_usd=0.1)
    assert world.released()


# What is refused


def refused(world, match, history=None):
    before = len(world.history)
    if history is not None:
        world.log.events[:] = history
        before = len(history)
    with pytest.raises(UnusableLog, match=match):
        world.resume(problem(), WIDE)
    assert len(world.history) == before
    assert world.launcher.starts == []


def test_a_finished_run_is_not_resumed():
    world = World()
    world.run(problem(), WIDE)
    refused(world, "run r has come to its end; there is nothing to resume")


def test_a_log_without_a_beginning_is_not_resumed():
    refused(World(), "does not begin with the start of a run", [])
    world = World()
    world.killed(problem(), WIDE, nth(30))
    refused(world, "does not begin with the start of a run", world.history[1:])


@pytest.mark.parametrize(
    "missing", [events.TrialCreated, events.NodeRequested, events.StageStarted, events.TrialPaused, events.StageEnded]
)
def test_a_log_in_which_something_is_missing_is_not_resumed(missing):
    world = World()
    world.killed(problem(), WIDE, nth(50))
    first = next(event for event in world.history if type(event) is missing)
    history = [event for event in world.history if event is not first]
    refused(world, "was edited, or lines of it are missing; restore the file as rb-tune wrote it", history)


# The clock


def test_another_clock_goes_on_by_the_wall_clock():
    world = World()
    world.killed(problem(), WIDE, nth(30))
    last = world.history[-1]
    world.reboot(later=timedelta(seconds=250))
    world.resume(problem(), WIDE)
    resumed = next(event for event in world.history if type(event) is events.RunResumed)
    assert resumed.t_s == pytest.approx(last.t_s + 250.0)
    assert (resumed.clock, resumed.clock_s) == (world.clock.origin, 7.0)
    assert fold(world.history).ending is RunEnding.DONE
    assert [e.t_s for e in world.history] == sorted(e.t_s for e in world.history)


def test_a_wall_clock_that_was_set_back_does_not_turn_the_run_back():
    world = World()
    world.killed(problem(), WIDE, nth(30))
    last = world.history[-1]
    world.reboot(later=timedelta(days=-30))
    world.resume(problem(), WIDE)
    resumed = next(event for event in world.history if type(event) is events.RunResumed)
    assert resumed.t_s == last.t_s


def test_a_wall_clock_that_steps_is_no_matter_while_the_clock_is_the_same():
    world = World()
    world.killed(problem(), WIDE, nth(30))
    for step_s in (1e6, -2e6):
        world.clock.step(step_s)
    world.resume(problem(), WIDE, away_s=10.0)
    check(world, problem())


def test_a_second_resumption_counts_on_from_the_first():
    world = World()
    world.killed(problem(), WIDE, nth(30))
    world.reboot(later=timedelta(seconds=100))
    world.killed(problem(), WIDE, nth(10))
    last = world.history[-1]
    world.resume(problem(), WIDE, away_s=60.0)
    second = [event for event in world.history if type(event) is events.RunResumed][1]
    assert second.t_s == pytest.approx(last.t_s + 60.0)


# What the provider says is owned


def killed_at_a_release():
    """A world whose second node starts so late that the first stage ends before; killed as that node is given back."""
    world = World()
    inner = world.provider.launch

    def launch(names, instance_type, *, run):
        for name in names:
            world.provider.launch_s = 500.0 if name == "r-1" else 30.0
            inner([name], instance_type, run=run)

    world.provider.launch = launch
    world.killed(problem(), NARROW, lambda event: type(event) is events.NodeReleased)
    assert (world.history[-1].node, world.provider.owned("r")) == ("r-1", ("r-0", "r-1"))
    return world


@pytest.mark.parametrize("away_s", [0.0, 400.0])
def test_a_node_that_the_log_released_but_the_provider_holds_is_given_back_and_billed_until_then(away_s):
    world = killed_at_a_release()
    state = world.resume(problem(), NARROW, away_s=away_s)
    check(world, problem())
    node = state.nodes["r-1"]
    assert node.released_s == world.provider.books["r-1"].released_s
    assert (node.running_s is None) == (away_s == 0.0)
    reasons = [e.reason for e in world.history if type(e) is events.NodeReleased and e.node == "r-1"]
    assert reasons == ["not needed for the next stage", "it was still held when the run was resumed"]


def test_a_node_that_no_log_knows_is_given_back():
    world = World()
    world.killed(problem(), WIDE, nth(30))
    world.provider.launch(["r-9"], problem().cloud.instance_type("a"), run="r")
    world.resume(problem(), WIDE)
    assert world.provider.books["r-9"].released_s == world.provider.books["r-9"].requested_s
    assert world.released()


def test_a_node_that_was_lost_meanwhile_is_billed_until_then_and_replaced():
    world = World()
    world.killed(problem(), WIDE, nth(30))
    world.clock.call_at(210.0, lambda: world.provider.lose("r-1"))
    world.resume(problem(), WIDE, away_s=200.0)
    check(world, problem())
    lost = next(event for event in world.history if type(event) is events.NodeLost)
    assert (lost.until_s, lost.reason) == (210.0, "gone")
    assert len(world.provider.books) == 3


def test_a_node_that_was_about_to_be_taken_away_is_given_back_and_not_used_again():
    world = World()
    world.clock.call_at(250.0, lambda: world.provider.warn("r-1", 120.0))
    world.killed(problem(), WIDE, lambda event: type(event) is events.NodeLeaving)
    state = world.resume(problem(), WIDE)
    check(world, problem())
    assert state.nodes["r-1"].released_s == 250.0
    again = [event for event in world.history if type(event) is events.TrialStarted and event.t_s >= 250.0]
    assert "r-1" not in {name for event in again for name in event.nodes}


@pytest.mark.parametrize("lost", ["unheard", "unanswered"])
@pytest.mark.parametrize("call", ["owned", "adopt", "release", "slots"])
def test_a_provider_that_answers_late_is_asked_again(call, lost):
    world = killed_at_a_release()
    getattr(world.provider, lost)[call] = 3
    world.resume(problem(), NARROW)
    assert fold(world.history).best().trial == 3
    assert world.released()


@pytest.mark.parametrize("call", ["owned", "adopt"])
def test_a_provider_that_never_answers_ends_a_resumed_run_and_what_was_held_is_given_back(call):
    world = World()
    world.killed(problem(), WIDE, nth(30))
    world.provider.unheard[call] = 6
    with pytest.raises(NoAnswer):
        world.resume(problem(), WIDE)
    assert world.released()
    assert not fold(world.history).held
    world.resume(problem(), WIDE)
    check(world, problem())


class FullLog(MemoryLog):
    """A log that has room for so many events more."""

    def __init__(self, history, room):
        super().__init__()
        self.events = history
        self.room = room

    def append(self, *made):
        self.room -= len(made)
        if self.room < 0:
            raise UnusableLog("full")
        super().append(*made)


@pytest.mark.parametrize("room", range(8))
def test_a_log_that_cannot_be_written_ends_a_resumed_run_and_what_was_held_is_given_back(room):
    world = killed_at_a_release()
    world.log = FullLog(world.history, room)
    with pytest.raises(UnusableLog, match="full"):
        world.resume(problem(), NARROW)
    assert world.released()
