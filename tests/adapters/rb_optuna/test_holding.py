"""Trials that stay in their processes at a rung: the launcher, between an engine and processes that the test plays."""

from __future__ import annotations

import logging
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState
from rb_optuna._compat import ProgressBar
from rb_optuna.desk import Desk, Wishes
from rb_optuna.heartbeat import Heartbeat
from rb_optuna.holding import GRACE_S, HoldingLauncher
from rb_optuna.messages import (
    Answer,
    AtRung,
    Attach,
    CanResume,
    End,
    Finished,
    Follow,
    Order,
    Passed,
    Report,
    Verdict,
)

from rb_core.clock import ManualClock
from rb_core.errors import FailureKind, TrialFailure
from rb_core.ports import Errand, Slot, TrialExit, TrialNotice, TrialRun
from rb_core.trial import Iterated, Ready, Reported, Saved

SLOTS = [Slot(node=f"n{number}", index=0) for number in range(4)]
TO = (1, 3, 9)
"""Where the stages end."""


class Processes:
    """What the launcher believes to be the processes of one start."""

    def __init__(self, run, inbox):
        self.trial, self.run, self.inbox = run.trial, run, inbox
        self.sent, self.alive, self.stops = [], True, []

    def send(self, rank, message):
        self.sent.append((rank, message))

    def stop(self, grace_s=10.0):
        self.stops.append(grace_s)

    def kill(self):
        self.exit("killed by SIGKILL")

    def exit(self, cause=""):
        if self.alive:
            self.alive = False
            failure = TrialFailure(trial=self.trial, rank=0, cause=cause, kind=FailureKind.DIED) if cause else None
            self.inbox.put(TrialExit(trial=self.trial, failure=failure))

    def say(self, *messages, rank=0):
        for message in messages:
            self.inbox.put(TrialNotice(trial=self.trial, rank=rank, message=message))

    def come_to(self, iterations, *, score=0.5, resumable=False, since=0):
        """Train from one rung to the next, and ask there."""
        if resumable:
            self.say(CanResume())
        self.say(Ready(restore_s=0.0))
        for done in range(since + 1, iterations + 1):
            self.say(Iterated(iterations=done, seconds=1.0))
            self.say(Report(value=score, step=done, iterations=done, stored=False))
        self.say(AtRung(iterations=iterations))

    @property
    def orders(self):
        return [message.order for rank, message in self.sent if rank == 0 and isinstance(message, Verdict)]


class Inner:
    """Starts nothing, and lets the test speak for what it started."""

    name = "played"

    def __init__(self):
        self.started = []
        self.entered = 0

    def __enter__(self):
        self.entered += 1
        return self

    def __exit__(self, *exc):
        raise AssertionError("the launcher within stays warm")

    def start(self, run, inbox):
        self.started.append(Processes(run, inbox))
        return self.started[-1]

    @property
    def alive(self):
        return [started.trial for started in self.started if started.alive]


class Stage:
    """A launcher with everything around it."""

    def __init__(self, **options):
        self.clock = ManualClock()
        self.study = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=0))
        wishes = options.pop("wishes", Wishes())
        self.desk = Desk(self.study, wishes, Heartbeat(self.study), ProgressBar(False))
        self.inner = Inner()
        self.inbox = self.clock.inbox()
        self.launcher = HoldingLauncher(self.inner, self.desk, self.clock, **options)
        self.heard = []

    def start(self, trial, stage, *slots, ranks=None):
        """As the engine starts a trial's stage; what it holds of it."""
        return self.launcher.start(
            TrialRun(
                trial=trial,
                stage=stage,
                config={},
                slots=tuple(SLOTS[number] for number in slots),
                from_iteration=0,
                to_iteration=TO[stage],
                max_iterations=TO[-1],
                checkpoint=None,
                storage=Path("store"),
                logs=Path("logs"),
            ),
            self.inbox,
        )

    def listen(self, seconds=0.0):
        """What the engine hears until then; it runs errands as the engine does."""
        until_s, heard = self.clock.now() + seconds, []
        while (notice := self.inbox.get(until_s)) is not None:
            if isinstance(notice, Errand):
                notice.action()
            else:
                heard.append(notice)
        self.heard += heard
        return heard

    def at_rung(self, trial, stage, *slots, resumable=False):
        """Start a trial and let it come to the end of its stage."""
        self.start(trial, stage, *slots)
        self.inner.started[-1].come_to(TO[stage], resumable=resumable)
        assert exits(self.listen()) == [(trial, None, "")]
        return self.inner.started[-1]

    def states(self):
        return [trial.state for trial in self.study.trials]


@pytest.fixture
def stage():
    return Stage()


@pytest.fixture
def warned():
    """What the user is warned of."""

    class Texts(logging.Handler):
        def emit(self, record):
            texts.append(record.getMessage())

    texts, handler = [], Texts(logging.WARNING)
    logger = logging.getLogger("optuna.rubberband")
    logger.addHandler(handler)
    yield texts
    logger.removeHandler(handler)


def exits(heard):
    return [
        (notice.trial, notice.failure and notice.failure.cause, notice.left)
        for notice in heard
        if isinstance(notice, TrialExit)
    ]


def told(heard, kind):
    return [n.message for n in heard if isinstance(n, TrialNotice) and isinstance(n.message, kind)]


# Waiting at a rung


def test_at_a_rung_the_stage_is_over_for_the_engine_and_the_process_waits(stage):
    processes = stage.at_rung(0, 0, 0)
    assert processes.alive
    assert processes.orders == []
    assert [(m.iterations, m.score) for m in told(stage.heard, Reported)] == [(1, 0.5)]
    assert stage.states() == [TrialState.RUNNING]


def test_who_is_started_again_where_it_waits_just_goes_on(stage):
    processes = stage.at_rung(0, 0, 0)
    stage.start(0, 1, 0)
    assert processes.orders == [Order.CONTINUE]
    assert processes.sent[-1] == (0, Verdict(order=Order.CONTINUE, to_iteration=3))
    heard = stage.listen()
    assert (len(told(heard, Ready)), exits(heard)) == (1, [])
    processes.come_to(3, since=1)
    heard = stage.listen()
    assert exits(heard) == [(0, None, "")]
    assert [m.iterations for m in told(heard, Iterated)] == [2, 3]
    assert len(stage.inner.started) == 1


def test_places_without_a_device_are_alike_and_whoever_waits_there_takes_the_other(stage):
    first, second = stage.at_rung(0, 0, 0), stage.at_rung(1, 0, 1)
    stage.start(1, 1, 0)
    assert second.orders == [Order.CONTINUE]
    assert first.alive
    # Trial 0 waits on slot 1 now, so that a start there crowds it out, and one on slot 0 does not.
    stage.start(2, 0, 1)
    stage.listen()
    assert not first.alive


def test_a_device_is_a_place_of_its_own(stage, monkeypatch):
    monkeypatch.setitem(globals(), "SLOTS", [Slot(node="n", index=n, device=str(n)) for n in range(2)])
    processes = stage.at_rung(0, 0, 0)
    stage.start(0, 1, 1)
    stage.listen()
    assert not processes.alive
    assert [started.run.slots[0].device for started in stage.inner.started] == ["0", "1"]


def test_where_places_are_fixed_a_trial_moves_to_another_node():
    stage = Stage(fixed=True)
    processes = stage.at_rung(0, 0, 0, resumable=True)
    stage.start(0, 1, 1)
    assert processes.orders == [Order.SUSPEND]


# Making room


def test_one_that_can_resume_is_suspended_and_the_next_begins_once_it_is_gone(stage):
    waiting = stage.at_rung(0, 0, 0, resumable=True)
    stage.start(1, 0, 0)
    assert waiting.orders == [Order.SUSPEND]
    stage.listen()
    assert len(stage.inner.started) == 1
    waiting.say(Finished(end=End.SUSPENDED))
    assert stage.listen() == []
    assert len(stage.inner.started) == 1
    waiting.exit()
    assert stage.listen() == []
    assert [started.trial for started in stage.inner.started] == [0, 1]
    assert stage.states() == [TrialState.RUNNING] * 2


def test_a_wider_start_of_a_trial_waits_for_its_own_process_and_all_on_its_slots(stage):
    own, other = stage.at_rung(0, 0, 0, resumable=True), stage.at_rung(1, 0, 1, resumable=True)
    apart = stage.at_rung(2, 0, 2, resumable=True)
    stage.start(0, 1, 0, 1)
    assert (own.orders, other.orders, apart.orders) == ([Order.SUSPEND], [Order.SUSPEND], [])
    own.exit()
    stage.listen()
    assert len(stage.inner.started) == 3
    other.exit()
    stage.listen()
    assert len(stage.inner.started[-1].run.slots) == 2
    assert apart.alive


def test_one_that_cannot_resume_is_ended_and_run_again_from_its_beginning(stage, warned):
    waiting = stage.at_rung(0, 0, 0)
    stage.start(1, 0, 0)
    stage.listen()
    assert not waiting.alive
    stage.inner.started[1].come_to(1)
    stage.listen()
    stage.start(0, 1, 0)
    stage.listen()
    assert [started.trial for started in stage.inner.started] == [0, 1, 0]
    assert [text.partition(":")[0] for text in warned] == ["There are fewer slots than trials"]
    again = stage.inner.started[2]
    again.come_to(3, score=0.9)
    heard = stage.listen()
    # What was reported before counts, and is not reported to the study a second time.
    assert [m.score for m in told(heard, Reported)] == [0.5, 0.9, 0.9]
    assert stage.study.trials[0].intermediate_values == {1: 0.5, 2: 0.9, 3: 0.9}


def test_one_that_cannot_resume_ends_the_study_where_that_is_wanted():
    stage = Stage(restart=False)
    stage.at_rung(0, 0, 0)
    with pytest.raises(RuntimeError, match=r"fewer slots than trials.*rb_optuna\.session"):
        stage.start(1, 0, 0)


def test_the_cost_of_running_again_is_named(warned):
    stage = Stage(cost_factor=1.4567)
    stage.at_rung(0, 0, 0)
    stage.start(1, 0, 0)
    assert "up to 1.5 times the training" in warned[0]
    assert "for epoch in run.steps(n):" in warned[0]


def test_where_it_may_be_crowded_all_stay():
    stage = Stage(crowded=True)
    waiting = [stage.at_rung(number, 0, 0) for number in range(3)]
    stage.start(2, 1, 0)
    assert [processes.orders for processes in waiting] == [[], [], [Order.CONTINUE]]
    assert stage.inner.alive == [0, 1, 2]


def test_one_that_runs_is_not_in_the_way_of_other_slots(stage):
    stage.start(0, 0, 0)
    stage.start(1, 0, 1)
    assert [started.trial for started in stage.inner.started] == [0, 1]


# Dropped


def test_one_that_waits_is_told_that_it_was_dropped_and_the_study_by_its_end(stage):
    processes = stage.at_rung(0, 0, 0)
    stage.launcher.dropped(0)
    assert processes.orders == [Order.PRUNE]
    assert stage.states() == [TrialState.RUNNING]
    processes.say(Finished(end=End.PRUNED))
    assert stage.listen() == []
    assert stage.states() == [TrialState.PRUNED]
    processes.exit()
    assert stage.listen() == []


def test_one_that_returns_although_it_was_dropped_is_complete(stage):
    processes = stage.at_rung(0, 0, 0)
    stage.launcher.dropped(0)
    processes.say(Finished(end=End.VALUE, value=0.75))
    stage.listen()
    assert (stage.states(), stage.study.best_value) == ([TrialState.COMPLETE], 0.75)


@pytest.mark.parametrize("cause", ["", "killed by SIGKILL"])
def test_one_that_was_dropped_and_vanished_without_a_word_is_pruned(stage, cause):
    processes = stage.at_rung(0, 0, 0)
    stage.launcher.dropped(0)
    processes.exit(cause)
    assert exits(stage.listen()) == []
    assert stage.states() == [TrialState.PRUNED]


def test_one_that_is_suspended_is_pruned_when_it_is_dropped(stage):
    waiting = stage.at_rung(0, 0, 0, resumable=True)
    stage.start(1, 0, 0)
    waiting.say(Finished(end=End.SUSPENDED))
    waiting.exit()
    stage.listen()
    stage.launcher.dropped(0)
    assert stage.states()[0] is TrialState.RUNNING
    stage.listen()
    assert stage.states()[0] is TrialState.PRUNED
    assert stage.study.trials[0].value == 0.5


def test_a_start_on_the_slots_of_one_that_was_dropped_waits_until_it_is_gone(stage):
    processes = stage.at_rung(0, 0, 0)
    stage.launcher.dropped(0)
    stage.start(1, 0, 0)
    assert len(stage.inner.started) == 1
    processes.say(Finished(end=End.PRUNED))
    processes.exit()
    stage.listen()
    assert len(stage.inner.started) == 2


def test_a_trial_whose_processes_were_lost_too_often_fails(stage):
    stage.at_rung(0, 0, 0)
    stage.launcher.lost(0, "killed twice")
    stage.listen()
    assert stage.states() == [TrialState.FAIL]


# The ends of objectives


def test_an_objective_that_runs_to_its_end_ends_its_last_stage(stage):
    stage.start(0, 2, 0)
    (processes,) = stage.inner.started
    processes.come_to(9)
    stage.listen()
    processes = stage.inner.started[0]
    processes.say(Finished(end=End.VALUE, value=1.0))
    stage.listen()
    assert stage.states() == [TrialState.COMPLETE]


@pytest.mark.parametrize(
    ("finished", "state", "left"),
    [
        (Finished(end=End.VALUE, value=1.0), TrialState.COMPLETE, "its objective returned"),
        (Finished(end=End.VALUE, value=None), TrialState.FAIL, "its objective returned"),
        (Finished(end=End.PRUNED), TrialState.PRUNED, "its objective pruned itself"),
    ],
)
def test_an_objective_that_ends_early_leaves_the_run(stage, finished, state, left):
    stage.start(0, 0, 0)
    (processes,) = stage.inner.started
    processes.say(finished)
    assert exits(stage.listen()) == []
    # The study is told at once, the engine when the slots are free.
    assert stage.states() == [state]
    processes.exit()
    assert exits(stage.listen()) == [(0, None, left)]


def test_reports_up_to_the_end_count_from_step_0_or_1():
    for first in (0, 1):
        stage = Stage()
        stage.start(0, 2, 0)
        (processes,) = stage.inner.started
        for done in range(1, 10):
            processes.say(Report(value=0.5, step=done - 1 + first, iterations=done, stored=False))
        processes.say(Finished(end=End.VALUE, value=1.0))
        processes.exit()
        assert exits(stage.listen()) == [(0, None, "")]


def test_an_error_that_is_not_caught_is_raised_in_the_engine_s_thread(stage):
    stage.start(0, 0, 0)
    stage.inner.started[0].say(Finished(end=End.FAILED, error=ZeroDivisionError("x"), words="ZeroDivisionError('x')"))
    with pytest.raises(ZeroDivisionError):
        stage.listen()
    assert stage.states() == [TrialState.FAIL]


def test_an_error_that_is_caught_leaves_the_run():
    stage = Stage(wishes=Wishes(catch=(ZeroDivisionError,)))
    stage.start(0, 0, 0)
    (processes,) = stage.inner.started
    processes.say(Finished(end=End.FAILED, error=ZeroDivisionError("x"), words="ZeroDivisionError('x')"))
    processes.exit("exit code 1")
    assert exits(stage.listen()) == [(0, None, "its objective failed")]
    assert stage.states() == [TrialState.FAIL]


def test_processes_that_vanish_are_the_engine_s_to_start_again(stage):
    stage.start(0, 0, 0)
    stage.inner.started[0].exit("killed by SIGKILL")
    assert exits(stage.listen()) == [(0, "killed by SIGKILL", "")]
    assert stage.states() == [TrialState.RUNNING]


def test_one_that_vanishes_while_it_waits_is_started_anew_for_its_next_stage(stage):
    processes = stage.at_rung(0, 0, 0)
    processes.exit("killed by SIGKILL")
    assert exits(stage.listen()) == []
    stage.start(0, 1, 0)
    assert [started.run.stage for started in stage.inner.started] == [0, 1]


def test_a_trial_that_another_process_ended_is_ended_here(stage):
    stage.start(0, 0, 0)
    (processes,) = stage.inner.started
    stage.study.tell(0, state=TrialState.FAIL)
    processes.come_to(1)
    heard = stage.listen()
    assert not processes.alive
    assert told(heard, Reported) == []
    assert exits(heard)[-1:] == [(0, None, "ended by another process")]


# Before a trial begins


def test_nothing_begins_once_the_study_is_stopped(stage):
    stage.desk.open(0)
    stage.study._stop_flag = True
    stage.start(1, 0, 0)
    assert exits(stage.listen()) == [(1, None, "no further trial was to begin")]
    assert stage.inner.started == []
    assert len(stage.study.trials) == 1


def test_what_had_ended_does_not_begin_again(stage):
    stage.desk.open(0)
    stage.desk.end(0, Finished(end=End.VALUE, value=1.0))
    handle = stage.start(0, 1, 0)
    assert exits(stage.listen()) == [(0, None, "it had ended")]
    handle.kill()
    assert stage.listen() == []


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_a_start_that_waits_for_its_slots_can_be_called_off(stage, end):
    waiting = stage.at_rung(0, 0, 0, resumable=True)
    handle = stage.start(1, 0, 0)
    getattr(handle, end)()
    assert exits(stage.listen()) == [(1, "ended before it began", "")]
    waiting.exit()
    stage.listen()
    assert len(stage.inner.started) == 1


def test_one_that_waits_is_not_ended_by_the_handle_of_its_last_stage(stage):
    handle = stage.start(0, 0, 0)
    stage.inner.started[0].come_to(1)
    stage.listen()
    handle.kill()
    handle.stop()
    assert stage.inner.alive == [0]


def test_one_that_runs_is_stopped_and_killed_by_its_handle(stage):
    handle = stage.start(0, 0, 0)
    handle.stop(7.0)
    assert stage.inner.started[0].stops == [7.0]
    handle.kill()
    assert exits(stage.listen()) == [(0, "killed by SIGKILL", "")]


def test_one_that_was_asked_to_stop_and_saved_has_ended_without_a_failure(stage):
    handle = stage.start(0, 0, 0)
    handle.stop()
    (processes,) = stage.inner.started
    processes.say(Saved(iterations=1, checkpoint="c", size_bytes=1, save_s=0.0), Finished(end=End.SUSPENDED))
    processes.exit()
    heard = stage.listen()
    assert exits(heard) == [(0, None, "")]
    assert len(told(heard, Saved)) == 1
    assert stage.states() == [TrialState.RUNNING]


# Several ranks


def test_other_ranks_get_the_answers_of_rank_0_whoever_asks_first(stage):
    stage.start(0, 0, 0, 1)
    (processes,) = stage.inner.started
    processes.say(Follow(call=0), Follow(call=1), rank=1)
    stage.listen()
    assert processes.sent == []
    processes.say(Passed())
    stage.listen()
    assert [(rank, message.order) for rank, message in processes.sent] == [(1, Order.CONTINUE)]
    processes.come_to(1)
    stage.listen()
    stage.start(0, 1, 0, 1)
    assert [(rank, message.order) for rank, message in processes.sent[1:]] == [(0, Order.CONTINUE), (1, Order.CONTINUE)]
    processes.say(AtRung(iterations=3))
    stage.listen()
    stage.launcher.dropped(0)
    processes.say(Follow(call=2), rank=1)
    stage.listen()
    assert [(rank, message.order) for rank, message in processes.sent[3:]] == [(0, Order.PRUNE), (1, Order.PRUNE)]


def test_other_ranks_are_suspended_with_rank_0_also_when_it_was_asked_to_stop(stage):
    stage.start(0, 0, 0, 1)
    (processes,) = stage.inner.started
    processes.say(Follow(call=0), rank=1)
    processes.say(Finished(end=End.SUSPENDED))
    stage.listen()
    assert processes.sent == [(1, Verdict(order=Order.SUSPEND, to_iteration=1))]


@pytest.mark.parametrize("end", [Finished(end=End.VALUE, value=1.0), Finished(end=End.PRUNED)])
def test_other_ranks_that_hang_are_ended_after_a_grace(stage, end):
    stage.start(0, 0, 0, 1)
    (processes,) = stage.inner.started
    processes.say(end)
    assert exits(stage.listen(GRACE_S - 0.1)) == []
    assert processes.alive
    heard = stage.listen(0.2)
    assert not processes.alive
    assert [left for _, _, left in exits(heard)] != [""]


def test_a_rank_that_ends_in_time_is_not_reaped(stage):
    stage.start(0, 0, 0, 1)
    (processes,) = stage.inner.started
    processes.say(Finished(end=End.VALUE, value=1.0))
    processes.exit()
    assert len(exits(stage.listen())) == 1
    assert stage.listen(2 * GRACE_S) == []


def test_what_another_rank_raised_is_told_in_the_place_of_the_lost_peer(stage):
    stage.start(0, 0, 0, 1)
    (processes,) = stage.inner.started
    processes.say(Finished(end=End.FAILED, error=KeyError("why"), words="KeyError('why')"), rank=1)
    processes.say(Finished(end=End.FAILED, error=RuntimeError("gone"), words="gone", lost_peer=True))
    with pytest.raises(KeyError, match="why"):
        stage.listen()


def test_the_loss_of_another_rank_is_no_failure_of_the_objective(stage):
    stage.start(0, 0, 0, 1)
    (processes,) = stage.inner.started
    processes.say(Finished(end=End.FAILED, error=RuntimeError("gone"), words="gone", lost_peer=True))
    processes.exit("rank 1 was killed by SIGKILL")
    assert exits(stage.listen()) == [(0, "rank 1 was killed by SIGKILL", "")]
    assert stage.states() == [TrialState.RUNNING]


def test_other_ranks_alone_end_nothing(stage):
    stage.start(0, 0, 0, 1)
    (processes,) = stage.inner.started
    processes.say(Finished(end=End.VALUE, value=5.0), rank=1)
    assert stage.listen(2 * GRACE_S) == []
    assert stage.states() == [TrialState.RUNNING]


def test_what_a_rank_asks_of_the_study_is_answered_to_it(stage):
    stage.start(0, 0, 0, 1)
    (processes,) = stage.inner.started
    processes.say(Attach(), rank=1)
    stage.listen()
    ((rank, answer),) = processes.sent
    assert (rank, type(answer), answer.value.number) == (1, Answer, 0)


# Profiling


def test_where_nothing_is_held_one_that_can_resume_leaves_at_its_rung():
    stage = Stage(holds=False)
    stage.start(0, 0, 0)
    (processes,) = stage.inner.started
    processes.come_to(1, resumable=True)
    stage.listen()
    assert processes.orders == [Order.SUSPEND]
    processes.say(Finished(end=End.SUSPENDED))
    processes.exit()
    assert exits(stage.listen()) == [(0, None, "")]
    assert stage.launcher.can_resume


def test_where_nothing_is_held_one_that_cannot_resume_is_started_again_without_a_warning(warned):
    stage = Stage(holds=False)
    stage.at_rung(0, 0, 0)
    stage.start(0, 1, 1, 2)
    stage.listen()
    assert [len(started.run.slots) for started in stage.inner.started] == [1, 2]
    assert warned == []
    assert not stage.launcher.can_resume


# The end


def test_what_waits_is_ended_at_the_end_and_what_is_within_stays_warm(stage):
    with stage.launcher:
        waiting = stage.at_rung(0, 0, 0)
        stage.start(1, 0, 1)
    assert not waiting.alive
    assert stage.inner.alive == []
    assert stage.inner.entered == 1


def test_those_that_were_dropped_come_to_their_own_end(stage):
    with stage.launcher:
        processes = stage.at_rung(0, 0, 0)
        stage.launcher.dropped(0)

        def late():
            processes.say(Finished(end=End.PRUNED))
            processes.exit()

        stage.clock.call_at(100.0, late)
    assert stage.clock.now() == 100.0
    assert stage.states() == [TrialState.PRUNED]


def test_after_an_error_nobody_is_waited_for(stage):
    stage.launcher.__enter__()
    processes = stage.at_rung(0, 0, 0)
    stage.launcher.dropped(0)
    stage.launcher.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert not processes.alive
    assert stage.clock.now() == 0.0
    assert stage.states() == [TrialState.RUNNING]


def test_what_is_said_after_the_end_changes_nothing(stage):
    stage.launcher.__enter__()
    processes = stage.at_rung(0, 0, 0)
    stage.launcher.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    processes.say(Report(value=9.0, step=5, iterations=5, stored=False), Finished(end=End.VALUE, value=1.0))
    assert stage.listen() == []
    assert stage.states() == [TrialState.RUNNING]
    assert stage.study.trials[0].intermediate_values == {1: 0.5}


def test_an_end_without_a_start_waits_for_nothing(stage):
    with stage.launcher:
        pass
    assert stage.clock.now() == 0.0
