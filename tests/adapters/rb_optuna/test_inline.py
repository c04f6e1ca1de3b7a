"""Objectives in this very process and thread, taking turns."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from rb_optuna.inline import InlineLauncher

from rb_core.clock import ManualClock
from rb_core.errors import FailureKind, LaunchFailure
from rb_core.ports import Slot, TrialExit, TrialNotice, TrialRun
from rb_core.trial import Remark


def a_run(trial=0, ranks=1):
    return TrialRun(
        trial=trial,
        stage=0,
        config={},
        slots=tuple(Slot(node="n", index=index) for index in range(ranks)),
        from_iteration=0,
        to_iteration=1,
        max_iterations=1,
        checkpoint=None,
        storage=Path(),
        logs=Path(),
    )


def remark(text):
    return Remark(text=text)


class Around:
    """A launcher of a body, with its clock and inbox."""

    def __init__(self, body):
        self.clock = ManualClock()
        self.inbox = self.clock.inbox()
        self.launcher = InlineLauncher(body, self.clock)

    def start(self, trial=0):
        return self.launcher.start(a_run(trial), self.inbox)

    def listen(self):
        """Texts that were sent, and exits."""
        heard = []
        while (notice := self.inbox.get(self.clock.now())) is not None:
            if isinstance(notice, TrialNotice):
                assert notice.rank == 0
                heard.append((notice.trial, notice.message.text))
            else:
                assert isinstance(notice, TrialExit)
                heard.append((notice.trial, notice.failure and notice.failure.kind))
        return heard


def test_a_trial_begins_when_the_engine_waits_and_says_how_it_ended_before_it_is_gone():
    around = Around(lambda run, line: remark("over"))
    with around.launcher:
        handle = around.start(3)
        assert handle.trial == 3
        assert around.listen() == [(3, "over"), (3, None)]


def test_it_runs_in_the_thread_of_the_engine():
    threads = []
    around = Around(lambda run, line: (threads.append(threading.current_thread()), remark("over"))[1])
    around.start()
    around.listen()
    assert threads == [threading.current_thread()]


def test_whoever_waits_for_an_answer_lets_the_others_go_on():
    def body(run, line):
        for turn in range(2):
            line.ask(remark(f"asks {turn}"))
        return remark("over")

    around = Around(body)
    handles = [around.start(trial) for trial in range(2)]
    assert around.listen() == [(0, "asks 0"), (1, "asks 0")]
    handles[1].send(0, remark("answer"))
    assert around.listen() == [(1, "asks 1")]
    for handle in handles:
        handle.send(0, remark("answer"))
    assert around.listen() == [(0, "asks 1"), (1, "over"), (1, None)]


def test_an_answer_is_what_was_sent():
    answers = []
    around = Around(lambda run, line: (answers.append(line.ask(remark("?")).text), remark("over"))[1])
    handle = around.start()
    around.listen()
    handle.send(0, remark("42"))
    around.listen()
    assert answers == ["42"]


def test_what_is_sent_needs_no_answer():
    def body(run, line):
        line.send(remark("one"))
        line.send(remark("two"))
        return remark("over")

    around = Around(body)
    around.start()
    assert around.listen() == [(0, "one"), (0, "two"), (0, "over"), (0, None)]


def test_a_stop_is_seen_by_the_objective():
    seen = []

    def body(run, line):
        seen.append(line.stop_requested())
        line.ask(remark("?"))
        seen.append(line.stop_requested())
        return remark("over")

    around = Around(body)
    handle = around.start()
    around.listen()
    handle.stop()
    handle.send(0, remark("go on"))
    around.listen()
    assert seen == [False, True]


def test_one_that_is_killed_is_unwound_and_its_finally_blocks_run():
    ended = []

    def body(run, line):
        try:
            line.ask(remark("?"))
        except Exception:
            ended.append("caught")
        finally:
            ended.append("finally")
        return remark("over")

    around = Around(body)
    handle = around.start()
    around.listen()
    handle.kill()
    handle.kill()
    handle.send(0, remark("too late"))
    assert around.listen() == [(0, FailureKind.DIED)]
    assert ended == ["finally"]


def test_one_that_is_killed_before_it_begins_never_does():
    begun = []
    around = Around(lambda run, line: begun.append(run))
    around.start().kill()
    assert around.listen() == [(0, FailureKind.DIED)]
    assert begun == []


def test_one_that_is_over_cannot_be_killed():
    around = Around(lambda run, line: remark("over"))
    handle = around.start()
    around.listen()
    handle.kill()
    assert around.listen() == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ZeroDivisionError])
def test_what_a_body_raises_reaches_the_engine_and_the_trial_is_gone(error):
    def body(run, line):
        raise error

    around = Around(body)
    handle = around.start()
    with pytest.raises(error):
        around.listen()
    handle.kill()
    assert around.listen() == [(0, None)]


def test_a_trial_cannot_be_used_from_another_stack():
    lines = {}

    def body(run, line):
        lines[run.trial] = line
        if run.trial:
            with pytest.raises(RuntimeError, match="by its own objective alone"):
                lines[0].ask(remark("not mine"))
        else:
            line.ask(remark("?"))
        return remark("over")

    around = Around(body)
    around.start(0)
    around.listen()
    around.start(1)
    assert around.listen()[-2:] == [(1, "over"), (1, None)]


def test_a_trial_cannot_be_used_from_another_thread():
    refused = []

    def body(run, line):
        def other():
            try:
                line.ask(remark("?"))
            except RuntimeError as error:
                refused.append(str(error))

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        return remark("over")

    around = Around(body)
    around.start()
    around.listen()
    assert refused == ["a trial can be used by its own objective alone, in the thread that runs it"]


def test_several_ranks_are_refused():
    around = Around(lambda run, line: remark("over"))
    with pytest.raises(LaunchFailure, match="one rank a trial, got 2"):
        around.launcher.start(a_run(ranks=2), around.inbox)
