"""Runs that are killed, stopped and resumed by the command, in processes of their own."""

from __future__ import annotations

import signal

import pytest
from slow_run import SlowRun

from rb_core.events import (
    NodeReleased,
    NodeRequested,
    RunEnded,
    RunEnding,
    RunResumed,
    RunStarted,
    StageEnded,
    StageStarted,
    TrialSaved,
    TrialStarted,
)

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def slow(tmp_path) -> SlowRun:
    return SlowRun(tmp_path)


def of(kind, events):
    return [event for event in events if isinstance(event, kind)]


def until_saved_within_a_stage(slow: SlowRun) -> None:
    while not any(saved.iterations not in (2, 4002, 4004) for saved in of(TrialSaved, slow.events)):
        pass


def check_nothing_is_repeated(events) -> None:
    """Every start goes on from the last checkpoint of its trial, and every stage is decided once."""
    saved: dict[int, int] = {}
    for event in events:
        if isinstance(event, TrialSaved):
            saved[event.trial] = event.iterations
        elif isinstance(event, TrialStarted):
            assert event.from_iteration == saved.get(event.trial, 0)
    assert [(e.stage) for e in of(StageStarted, events)] == [e.stage for e in of(StageEnded, events)] == [0, 1, 2]


def test_a_run_that_was_killed_twice_goes_on_to_its_end(slow):
    slow.kill(slow.begin(until="stage 1:"))
    first = slow.events
    assert not of(RunEnded, first)

    process = slow.begin("run", "--resume", slow.run, until="goes on: 1 of 3 stages are done")
    until_saved_within_a_stage(slow)
    slow.kill(process)
    second = slow.events
    assert second[: len(first)] == first

    told = slow.command("report")
    assert f"run {slow.run}: unfinished\ngo on with it: rb-tune run --resume {slow.run}\n" in told.stdout
    states = [trial["state"] for trial in slow.answer("report")["trials"]]
    assert sorted(states) == ["stopped", "waiting", "waiting"]
    assert slow.answer("stop", slow.run) == {"schema": 1, "run": slow.run, "stopped": False, "state": "unfinished"}
    assert slow.events == second

    slow.hurry()
    outcome = slow.answer("run", "--resume", slow.directory)
    events = slow.events
    assert events[: len(second)] == second
    assert (outcome["state"], outcome["resumed"], outcome["objective_met"]) == ("done", 2, True)
    best = max(outcome["trials"], key=lambda trial: trial["config"]["x"])
    assert (outcome["best"]["trial"], outcome["best"]["iterations"]) == (best["trial"], 4004)
    assert [kind for kind in events if isinstance(kind, RunStarted | RunResumed)][1:] == of(RunResumed, events)
    check_nothing_is_repeated(events)
    ended = {event.trial: event for event in of(TrialStarted, events)}
    assert max(event.from_iteration for event in ended.values()) > 4000
    assert slow.answer("report") == outcome


def test_a_run_that_is_alive_is_left_to_its_process_and_can_be_stopped(slow):
    process = slow.begin(until="stage 1:")
    before = (slow.directory / "problem.json").read_bytes(), (slow.directory / "lease.json").read_bytes()
    refused = slow.command("run", "--resume", slow.run)
    assert refused.exit_code == 2
    assert f"is alive: process {process.pid} on " in refused.stderr
    assert f"(`rb-tune stop {slow.run}`)" in refused.stderr
    assert f"process {process.pid} on " in slow.command("report").stdout
    assert before == ((slow.directory / "problem.json").read_bytes(), (slow.directory / "lease.json").read_bytes())

    stopped = slow.command("stop")
    assert stopped.stdout.startswith(f"run {slow.run} has ended: interrupted; everything has been given back\n")
    status, errors = slow.end(process)
    assert status == 130
    assert "stopping: trials save and everything is given back" in errors
    assert f"  go on with it: rb-tune run --resume {slow.run}\n" in errors
    assert not (slow.directory / "lease.json").exists()
    events = slow.events
    assert {e.node for e in of(NodeRequested, events)} == {e.node for e in of(NodeReleased, events)}
    assert events[-1].ending is RunEnding.INTERRUPTED
    assert slow.answer("stop")["state"] == "interrupted"

    slow.hurry()
    assert slow.answer("run", "--resume", slow.run)["state"] == "done"
    check_nothing_is_repeated(slow.events)


def test_a_second_interrupt_only_hurries(slow):
    process = slow.begin(until="stage 1:")
    process.send_signal(signal.SIGINT)
    for line in process.stderr:
        if "stopping:" in line:
            break
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    status, errors = slow.end(process)
    assert (status, "Traceback" in errors) == (130, False)
    assert slow.events[-1].ending is RunEnding.INTERRUPTED


def test_at_its_deadline_a_run_stops_when_told_to_and_goes_on_with_more(slow):
    stopped = slow.command("run", slow.file, "--deadline", "2s", "--on-deadline", "stop")
    assert stopped.exit_code == 0
    assert "the deadline of 2.0 s came after 1 of 3 stages, and 0 of 2 trials of the one" in stopped.stdout
    assert "run --resume" in stopped.stdout
    outcome = slow.answer("report")
    assert (outcome["state"], outcome["objective_met"]) == ("deadline", False)
    refused = slow.command("run", "--resume", slow.run)
    assert refused.exit_code == 2
    assert "error: --deadline: of 2.0 s is over: since the run began " in refused.stderr
    slow.hurry()
    late = slow.command("run", "--resume", slow.run, "--on-deadline", "finish", "--json")
    assert late.exit_code == 0
    assert "warning: the deadline of 2.0 s has passed: " in late.stderr
    assert "warning: the deadline of 2.0 s was missed by " in late.stderr
    assert '"objective_met": false' in late.stdout
    check_nothing_is_repeated(slow.events)


def test_a_resumed_run_is_measured_against_its_new_deadline(slow):
    slow.command("run", slow.file, "--deadline", "2s", "--on-deadline", "stop")
    predicted = slow.answer("report")["predicted"]
    slow.hurry()
    outcome = slow.answer("run", "--resume", slow.run, "--deadline", "3h")
    assert (outcome["state"], outcome["objective_met"], outcome["predicted"]) == ("done", True, predicted)
    (resumed,) = of(RunResumed, slow.events)
    assert resumed.problem["objective"] == {"deadline_s": 10800.0}
