"""The two clocks. `time.sleep` and `time.time` stand in this module alone."""

from __future__ import annotations

import heapq
import itertools
import queue
import time
import uuid
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rb_core.ports import Clock, Inbox, Notice

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NUMBERS = itertools.count()


def pause(clock: Clock, seconds: float) -> None:
    """Let time pass, and timers run."""
    clock.inbox().get(clock.now() + seconds)


class _Arranged:
    """A timer: cancelled ones stay in the heap and are passed over."""

    __slots__ = ("action", "cancelled")

    def __init__(self, action: Callable[[], None]) -> None:
        self.action = action
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class _Timers:
    """A heap of (time, order of arrangement, timer)."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, _Arranged]] = []
        self._order = itertools.count()

    def add(self, when_s: float, action: Callable[[], None]) -> _Arranged:
        timer = _Arranged(action)
        heapq.heappush(self._heap, (when_s, next(self._order), timer))
        return timer

    def next_s(self) -> float | None:
        while self._heap and self._heap[0][2].cancelled:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def run_next(self) -> None:
        heapq.heappop(self._heap)[2].action()


class SystemClock:
    """Real time. Arrange timers and wait in one thread; other threads only put notices."""

    def __init__(self) -> None:
        self._timers = _Timers()
        self._name = uuid.uuid4().hex

    @property
    def origin(self) -> str:
        """The machine's boot, which the monotonic clock counts from; where that has no name, this object alone."""
        try:
            return _BOOT.read_text(encoding="ascii").strip()
        except OSError:
            return self._name

    def now(self) -> float:
        """Seconds of the monotonic clock."""
        return time.monotonic()

    def utc(self) -> datetime:
        """The wall clock."""
        return datetime.fromtimestamp(time.time(), UTC)

    def call_at(self, when_s: float, action: Callable[[], None]) -> _Arranged:
        """Arrange `action`; it runs while somebody waits on an inbox of this clock."""
        return self._timers.add(when_s, action)

    def inbox(self) -> Inbox:
        """A new inbox that blocks its reader for real."""
        return _SystemInbox(self, self._timers)


class _SystemInbox:
    def __init__(self, clock: SystemClock, timers: _Timers) -> None:
        self._clock = clock
        self._timers = timers
        self._queue: queue.SimpleQueue[Notice] = queue.SimpleQueue()

    def put(self, notice: Notice) -> None:
        self._queue.put(notice)

    def get(self, until_s: float | None = None) -> Notice | None:
        while True:
            due_s = self._timers.next_s()
            now_s = self._clock.now()
            if due_s is not None and due_s <= now_s:
                self._timers.run_next()
                continue
            limits = [limit for limit in (due_s, until_s) if limit is not None]
            try:
                # A bounded wait keeps Ctrl-C prompt on every platform.
                wait_s = min([*limits, now_s + 60.0]) - now_s
                return self._queue.get(timeout=max(0.0, wait_s))
            except queue.Empty:
                if until_s is not None and self._clock.now() >= until_s:
                    return None


class ManualClock:
    """Time that passes only when somebody waits: to the next timer at once. Single-threaded."""

    def __init__(self, start_s: float = 0.0, epoch: datetime = datetime(2000, 1, 1, tzinfo=UTC)) -> None:
        self._now_s = start_s
        self._epoch = epoch
        self._timers = _Timers()
        self._name = f"manual-{next(_NUMBERS)}"

    @property
    def origin(self) -> str:
        """A name of this clock's own."""
        return self._name

    def now(self) -> float:
        """The manual time."""
        return self._now_s

    def utc(self) -> datetime:
        """The epoch plus the manual time."""
        return self._epoch + timedelta(seconds=self._now_s)

    def step(self, seconds: float) -> None:
        """Let the wall clock jump, as when it is set; `now` does not notice."""
        self._epoch += timedelta(seconds=seconds)

    def call_at(self, when_s: float, action: Callable[[], None]) -> _Arranged:
        """Arrange `action`; a time in the past runs at the next wait."""
        return self._timers.add(when_s, action)

    def inbox(self) -> Inbox:
        """A new inbox whose reader lets time pass."""
        return _ManualInbox(self)

    def advance(self, until_s: float) -> bool:
        """Go to the next timer, at most to `until_s`, and run it; False when `until_s` came first."""
        due_s = self._timers.next_s()
        if due_s is None or due_s > until_s:
            self._now_s = max(self._now_s, until_s) if until_s != float("inf") else self._now_s
            return False
        self._now_s = max(self._now_s, due_s)
        self._timers.run_next()
        return True


class _ManualInbox:
    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._notices: deque[Notice] = deque()

    def put(self, notice: Notice) -> None:
        self._notices.append(notice)

    def get(self, until_s: float | None = None) -> Notice | None:
        limit_s = float("inf") if until_s is None else until_s
        while not self._notices:
            if not self._clock.advance(limit_s):
                return None
        return self._notices.popleft()
