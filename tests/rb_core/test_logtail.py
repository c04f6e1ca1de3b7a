"""A log that is read while it is written."""

from __future__ import annotations

import pytest

from rb_core.errors import UnusableLog
from rb_core.eventlog import line
from rb_core.events import Warned
from rb_core.logtail import LogTail


def event(text: str) -> Warned:
    return Warned(t_s=1.0, utc="2026-01-01T00:00:00+00:00", text=text)


def test_each_event_is_told_once_and_a_torn_line_when_it_is_whole(tmp_path):
    path = tmp_path / "events.jsonl"
    tail = LogTail(path)
    assert list(tail.read().events) == []
    second = line(event("b"))
    path.write_text(line(event("a")) + second[:9])
    assert list(tail.read().events) == [event("a")]
    assert list(tail.read().events) == []
    path.write_text(line(event("a")) + second)
    assert list(tail.read().events) == [event("b")]


def test_what_was_taken_back_is_read_anew(tmp_path):
    path = tmp_path / "events.jsonl"
    tail = LogTail(path)
    path.write_text(line(event("a")) + line(event("b")))
    tail.read()
    path.write_text(line(event("a")) + line(event("c")) + line(event("d")))
    reading = tail.read()
    assert (reading.anew, list(reading.events)) == (True, [event("a"), event("c"), event("d")])


def test_a_newer_line_is_refused_by_its_number(tmp_path):
    path = tmp_path / "events.jsonl"
    tail = LogTail(path)
    path.write_text(line(event("a")))
    tail.read()
    with path.open("a") as log:
        log.write('{"schema":2,"event":"Danced"}\n')
    with pytest.raises(UnusableLog, match="line 2: has schema 2, and this version reads schema 1 only"):
        tail.read()
