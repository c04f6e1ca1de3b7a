import threading
from datetime import UTC, datetime, timedelta

from rb_core.clock import ManualClock, SystemClock, pause
from rb_core.ports import NodeNotice


def notice(name="n"):
    return NodeNotice(node=name, kind="running")


def test_manual_time_passes_only_to_the_next_timer():
    clock, seen = ManualClock(), []
    clock.call_at(30, lambda: seen.append(clock.now()))
    clock.call_at(10, lambda: seen.append(clock.now()))
    assert clock.now() == 0
    assert clock.inbox().get(until_s=20) is None
    assert (seen, clock.now()) == ([10], 20)
    assert clock.inbox().get() is None
    assert (seen, clock.now()) == ([10, 30], 30)


def test_equal_times_run_in_the_order_of_their_arrangement():
    clock, seen = ManualClock(), []
    for number in range(5):
        clock.call_at(7, lambda number=number: seen.append(number))
    clock.inbox().get()
    assert seen == [0, 1, 2, 3, 4]


def test_a_cancelled_timer_never_runs_and_holds_nothing_up():
    clock, seen = ManualClock(), []
    timer = clock.call_at(5, lambda: seen.append("no"))
    clock.call_at(6, lambda: seen.append("yes"))
    timer.cancel()
    timer.cancel()
    assert clock.inbox().get() is None
    assert (seen, clock.now()) == (["yes"], 6)


def test_a_timer_may_put_a_notice_and_arrange_another():
    clock = ManualClock(start_s=100)
    inbox = clock.inbox()

    def later():
        inbox.put(notice("first"))
        clock.call_at(clock.now() + 1, lambda: inbox.put(notice("second")))

    clock.call_at(101, later)
    assert inbox.get().node == "first"
    assert clock.now() == 101
    assert inbox.get().node == "second"
    assert clock.now() == 102


def test_what_waits_is_taken_before_time_passes():
    clock = ManualClock()
    inbox = clock.inbox()
    clock.call_at(1, lambda: inbox.put(notice("late")))
    inbox.put(notice("a"))
    inbox.put(notice("b"))
    assert [inbox.get(until_s=50).node for _ in range(3)] == ["a", "b", "late"]
    assert clock.now() == 1


def test_what_comes_exactly_at_the_limit_is_not_missed():
    clock = ManualClock()
    inbox = clock.inbox()
    clock.call_at(20, lambda: inbox.put(notice("just in time")))
    assert inbox.get(until_s=20).node == "just in time"


def test_a_timer_in_the_past_runs_at_the_next_wait_without_turning_time_back():
    clock, seen = ManualClock(start_s=50), []
    clock.call_at(10, lambda: seen.append(clock.now()))
    assert clock.inbox().get(until_s=60) is None
    assert (seen, clock.now()) == ([50], 60)
    assert clock.inbox().get(until_s=55) is None
    assert clock.now() == 60


def test_the_manual_wall_clock_follows():
    clock = ManualClock(epoch=datetime(2026, 1, 1, tzinfo=UTC))
    clock.inbox().get(until_s=90)
    assert clock.utc() == datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=90)


def test_a_step_of_the_wall_clock_leaves_the_time_alone():
    clock = ManualClock(start_s=10)
    before = clock.utc()
    clock.step(-3600)
    assert clock.utc() == before - timedelta(hours=1)
    assert clock.now() == 10


def test_a_pause_lets_time_pass_and_timers_run():
    clock, seen = ManualClock(), []
    clock.call_at(5, lambda: seen.append(clock.now()))
    pause(clock, 8.0)
    assert (seen, clock.now()) == ([5], 8.0)


def test_readings_compare_where_the_origins_are_equal():
    first, second = ManualClock(), ManualClock()
    assert first.origin == first.origin != second.origin
    assert SystemClock().origin == SystemClock().origin


def test_without_a_boot_to_name_a_system_clock_compares_with_itself_alone(monkeypatch, tmp_path):
    monkeypatch.setattr("rb_core.clock._BOOT", tmp_path / "none")
    first, second = SystemClock(), SystemClock()
    assert first.origin == first.origin != second.origin


def test_the_system_clock_waits_for_notices_of_other_threads():
    clock = SystemClock()
    inbox = clock.inbox()
    thread = threading.Thread(target=lambda: inbox.put(notice("from afar")))
    thread.start()
    assert inbox.get().node == "from afar"
    thread.join()


def test_the_system_clock_runs_its_timers_in_the_waiting_thread():
    clock = SystemClock()
    inbox, seen = clock.inbox(), []
    clock.call_at(clock.now(), lambda: seen.append(threading.current_thread()))
    clock.call_at(clock.now(), lambda: inbox.put(notice("timed")))
    assert inbox.get().node == "timed"
    assert seen == [threading.current_thread()]


def test_the_system_clock_gives_up_in_time():
    clock = SystemClock()
    before = clock.now()
    assert clock.inbox().get(until_s=before) is None
    assert clock.now() >= before
    assert clock.utc().tzinfo is UTC
