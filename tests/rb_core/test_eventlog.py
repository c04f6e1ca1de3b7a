import dataclasses
import json
import math
import os
import resource
import stat

import pytest

from rb_core.errors import UnusableLog
from rb_core.eventlog import EventLog, MemoryLog, line, read_log
from rb_core.events import (
    EVENTS,
    CheckpointLost,
    NodeLeaving,
    NodeLost,
    NodeReady,
    NodeRunning,
    Replanned,
    RunEnded,
    RunEnding,
    RunResumed,
    RunStarted,
    StageStarted,
    TrialCreated,
    TrialInterrupted,
    TrialReported,
)
from rb_core.logtail import LogTail

WHEN = {"t_s": 1.5, "utc": "2000-01-01T00:00:01.500000+00:00"}
STARTED = RunStarted(
    **WHEN,
    run="r",
    problem={"profile": {"iteration_s": {"1": {"mean": 1.0}}}},
    plan={"stages": []},
    metric="accuracy",
    mode="max",
    seed=3,
    target="train.py:train",
    environment={"python": "3.11"},
)
READY = NodeReady(**WHEN, node="r-0")
SAMPLES = (
    STARTED,
    TrialCreated(**WHEN, trial=0, chain=0, config={"lr": 0.1, "clip": math.inf, "name": "größe", "on": True}),
    StageStarted(**WHEN, chain=0, stage=0, trials=(0, 1), instance_type="a", nodes=1, slots_per_trial=1),
    READY,
    *(TrialReported(**WHEN, trial=0, iterations=3, score=s) for s in (0.1, math.nan, math.inf, -math.inf)),
    RunResumed(**WHEN, problem={"deadline_s": 60.0}, environment={}, clock="boot", clock_s=17.25),
    Replanned(
        **WHEN,
        chain=0,
        stage=1,
        plan={"stages": [{"nodes": 2}]},
        reason="a node was lost",
        jct_s=10.0,
        cost_usd=1.5,
        before_jct_s=math.inf,
        before_cost_usd=2.0,
    ),
    NodeRunning(**WHEN, node="r-0", since_s=0.5),
    NodeLeaving(**WHEN, node="r-0", reason="reclaimed", in_s=120.0),
    NodeLost(**WHEN, node="r-0", reason="reclaimed", until_s=1.0),
    *(TrialInterrupted(**WHEN, trial=0, stage=1, cause="its node was lost", iteration_s=s) for s in (None, 0.25)),
    CheckpointLost(**WHEN, trial=0, checkpoint="store/1", cause="digest differs"),
    *(RunEnded(**WHEN, ending=ending) for ending in RunEnding),
    RunEnded(**WHEN, ending=RunEnding.FAILED, reason="a\nlonger\nreason"),
)


def test_events_come_back_as_they_went_in(tmp_path):
    path = tmp_path / "run" / "events.jsonl"
    with EventLog(path) as log:
        log.append(*SAMPLES[:2])
        for event in SAMPLES[2:]:
            log.append(event)
    contents = read_log(path)
    assert repr(contents.events) == repr(SAMPLES)
    assert not contents.torn


def test_an_event_is_in_the_file_when_append_returns(tmp_path):
    with EventLog(tmp_path / "log") as log:
        for number, event in enumerate(SAMPLES, start=1):
            log.append(event)
            assert len((tmp_path / "log").read_bytes().splitlines()) == number


def test_every_line_is_json_for_everybody_and_says_what_it_is():
    for event in SAMPLES:
        record = json.loads(line(event), parse_constant=lambda c: pytest.fail(f"{c} is no JSON"))
        assert record["schema"] == 1
        assert record["event"] == type(event).__name__
    assert json.loads(line(SAMPLES[5]))["score"] == {"$float": "NaN"}


def test_the_log_is_readable_by_its_owner_alone_even_if_it_was_not(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"")
    path.chmod(0o644)
    EventLog(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_second_writer_is_refused_until_the_first_has_closed(tmp_path):
    with EventLog(tmp_path / "log"), pytest.raises(UnusableLog, match="being written by another process"):
        EventLog(tmp_path / "log")
    EventLog(tmp_path / "log").close()


def test_a_torn_last_line_is_passed_over_and_said(tmp_path):
    path = tmp_path / "log"
    path.write_text(line(READY) + line(READY)[:-9])
    contents = read_log(path)
    assert contents.events == (READY,)
    assert contents.torn


@pytest.mark.parametrize("before", [0, 1, 2000])
def test_opening_for_appending_cuts_a_torn_last_line_off(tmp_path, before):
    path = tmp_path / "log"
    path.write_text(line(READY) * before + '{"schema":1,"event":"NodeRea' + " " * 100_000)
    with EventLog(path) as log:
        log.append(STARTED)
    contents = read_log(path)
    assert contents.events == (READY,) * before + (STARTED,)
    assert not contents.torn


GARBAGE = {
    "not json": ("{nonsense", "is not JSON"),
    "a list": ("[1]", "is not a JSON object"),
    "nothing": ("", "is not JSON"),
    "python's NaN": ('{"schema":1,"event":"NodeReady","node":NaN}', "is not JSON"),
    "another schema": (line(READY).replace('"schema":1', '"schema":2').strip(), "has schema 2"),
    "no schema": ('{"event":"NodeReady"}', "has schema None"),
    "unknown event": (line(READY).replace("NodeReady", "NodeBorn").strip(), "unknown event 'NodeBorn'"),
    "no event": ('{"schema":1}', "unknown event None"),
    "key missing": (line(READY).replace('"node":"r-0"', '"nod":"r-0"').strip(), "nod, node missing or unknown"),
    "wrong type": (line(READY).replace('"r-0"', "[]").strip(), "node: Input should be a valid string"),
    "no time": (line(READY).replace("1.5,", '"soon",').strip(), "t_s: Input should be a valid number"),
    **{
        f"time {time}": (line(READY).replace("1.5,", f"{time},").strip(), "is no NodeReady: t_s: ")
        for time in ("1e400", "-1e400", '{"$float":"NaN"}', "1e300", "1" + 400 * "0", '"1e400"')
    },
    "lost never": (
        line(NodeLost(**WHEN, node="r-0", reason="reclaimed", until_s=math.inf)).strip(),
        "is no NodeLost: until_s: must be a number within 1e+12, got inf",
    ),
}


@pytest.mark.parametrize(("text", "problem"), GARBAGE.values(), ids=GARBAGE.keys())
def test_an_edited_line_is_refused_by_number_with_a_remedy(tmp_path, text, problem):
    path = tmp_path / "log"
    path.write_text(line(STARTED) + text + "\n" + line(READY))
    with pytest.raises(UnusableLog) as caught:
        read_log(path)
    assert f"{path}, line 2:" in str(caught.value)
    assert problem in str(caught.value)
    assert "restore the file" in str(caught.value)


def test_a_missing_log_is_named(tmp_path):
    with pytest.raises(UnusableLog, match="cannot be read: No such file"):
        read_log(tmp_path / "none")


@pytest.mark.parametrize("read", [read_log, lambda path: LogTail(path).read()], ids=["whole", "bit by bit"])
@pytest.mark.parametrize("odd", ["pipe", "device", "folder"])
def test_what_is_no_file_is_refused_and_never_waited_for(tmp_path, read, odd):
    path = tmp_path / "log"
    match odd:
        case "pipe":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")
        case "folder":
            path.mkdir()
    with pytest.raises(UnusableLog, match=r"is no file; restore it as rb-tune wrote it$"):
        read(path)


def test_a_place_where_no_log_can_be_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UnusableLog, match="cannot be opened"):
        EventLog(tmp_path / "file" / "log")


def test_a_full_disk_is_an_unusable_log_with_a_remedy(tmp_path):
    (tmp_path / "log").symlink_to("/dev/full")
    with EventLog(tmp_path / "log") as log, pytest.raises(UnusableLog, match=r"No space left.*free some space"):
        log.append(READY)


def test_what_was_half_written_when_the_disk_filled_up_is_taken_back(tmp_path):
    path = tmp_path / "log"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with EventLog(path) as log:
        log.append(READY)
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 100, hard))
            with pytest.raises(UnusableLog, match="cannot be written"):
                log.append(STARTED)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert path.read_text() == line(READY)
        log.append(STARTED)
    assert read_log(path).events == (READY, STARTED)


def test_a_closed_log_takes_nothing_more(tmp_path):
    log = EventLog(tmp_path / "log")
    log.close()
    log.close()
    with pytest.raises(UnusableLog, match="is closed"):
        log.append(READY)


def test_every_kind_of_event_can_be_read_back():
    from rb_core import eventlog

    assert {kind.__name__ for kind in EVENTS} == set(eventlog._FIELDS)
    for kind in EVENTS:
        assert eventlog._adapter(kind.__name__) is not None


def test_a_memory_log_keeps_what_it_is_given():
    log = MemoryLog()
    log.append(READY, STARTED)
    log.close()
    assert log.events == [READY, STARTED]


def test_a_line_from_before_something_was_added_is_read(tmp_path):
    resumed = RunResumed(**WHEN, problem={}, environment={}, clock="boot", clock_s=1.0, run="r", metric="m")
    record = json.loads(line(resumed))
    del record["run"], record["metric"]
    (tmp_path / "log").write_text(json.dumps(record) + "\n")
    assert read_log(tmp_path / "log").events == (dataclasses.replace(resumed, run="", metric=""),)
