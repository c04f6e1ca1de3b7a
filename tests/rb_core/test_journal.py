import pytest

from rb_core.clock import ManualClock
from rb_core.errors import UnusableLog
from rb_core.eventlog import MemoryLog
from rb_core.events import NodeReady, TrialCreated, Warned
from rb_core.journal import Journal


class ClosedLog:
    def append(self, *events):
        raise UnusableLog("closed")

    def close(self):
        pass


def test_times_count_from_the_start_of_the_run():
    clock = ManualClock(start_s=100.0)
    log = MemoryLog()
    journal = Journal(log, clock)
    clock.advance(130.5)
    journal.warn("careful")
    assert log.events == [Warned(t_s=30.5, utc="2000-01-01T00:02:10.500000+00:00", text="careful")]
    assert journal.at(30.5) == 130.5
    assert journal.state.warnings == ["careful"]


def test_a_journal_that_goes_on_counts_on_and_repeats_no_warning():
    before = Journal(MemoryLog(), ManualClock())
    before.warn("careful")
    clock, log = ManualClock(start_s=7.0), MemoryLog()
    journal = Journal(log, clock, state=before.state, t_s=500.0)
    assert journal.t_s == 500.0
    clock.advance(17.0)
    journal.warn("careful")
    journal.warn("more careful")
    assert [event.t_s for event in log.events] == [510.0]
    assert journal.at(510.0) == 17.0
    assert journal.state.warnings == ["careful", "more careful"]


def test_equal_warnings_are_written_once():
    journal = Journal(MemoryLog(), ManualClock())
    for text in ("a", "b", "a"):
        journal.warn(text)
    assert journal.state.warnings == ["a", "b"]


def test_what_cannot_be_written_has_not_happened():
    told = []
    journal = Journal(ClosedLog(), ManualClock(), [told.append])
    with pytest.raises(UnusableLog):
        journal.write(Warned, text="careful")
    assert not journal.state.warnings
    assert not told


def test_an_attempt_counts_even_if_it_cannot_be_written():
    told = []
    journal = Journal(ClosedLog(), ManualClock(), [told.append])
    journal.attempt(Warned, text="careful")
    assert journal.state.warnings == ["careful"]
    assert [type(event) for event in told] == [Warned]


def test_an_attempt_that_does_not_fit_the_state_is_no_error():
    log = MemoryLog()
    Journal(log, ManualClock()).attempt(NodeReady, node="nobody")
    assert [type(event) for event in log.events] == [NodeReady]


def test_a_broken_observer_is_reported_once_after_all_have_been_told():
    told = []

    def broken(event):
        told.append(("broken", type(event)))
        raise OSError("gone")

    journal = Journal(MemoryLog(), ManualClock(), [broken, lambda event: told.append(("sound", type(event)))])
    journal.write_all(TrialCreated, [{"trial": n, "chain": 0, "config": {}} for n in range(2)])
    created, warned = TrialCreated, Warned
    assert told == [
        ("broken", created),
        ("sound", created),
        ("broken", created),
        ("sound", created),
        ("broken", warned),
        ("sound", warned),
    ]
    assert len(journal.state.warnings) == 1
    assert journal.state.warnings[0].endswith("raised OSError: gone; the run goes on")
