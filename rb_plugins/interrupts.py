"""Signals that end a run cleanly: the first stops it, a second one only hurries, and no third does harm."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_HEEDED = 2
"""Later signals are passed over: what is given back by then must not be cut short."""

_STANDARD_ERROR = 2


@contextmanager
def interruptible(words: str = "") -> Iterator[None]:
    """Raise `KeyboardInterrupt` on SIGINT, SIGTERM and SIGHUP alike, also in the background of a shell.

    Within another such block, and outside the main thread, where Python takes no signals, nothing changes.

    Args:
        words: said on standard error at the first signal; nothing when empty.
    """
    nested = isinstance(signal.getsignal(signal.SIGINT), _Interrupt)
    if nested or threading.current_thread() is not threading.main_thread():
        yield
        return
    interrupt = _Interrupt(words)
    before = {number: signal.signal(number, interrupt) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def held() -> Iterator[None]:
    """Within `interruptible`, let its signals wait until the block is left: what was begun in it is not cut short."""
    interrupt = _current()
    if interrupt is None:
        yield
        return
    interrupt.holds += 1
    try:
        yield
    finally:
        interrupt.holds -= 1
    interrupt.catch_up()


@contextmanager
def heeded() -> Iterator[None]:
    """Within `held`, let signals end this block at once, for code that may take any time."""
    interrupt = _current()
    if interrupt is None:
        yield
        return
    holds, interrupt.holds = interrupt.holds, 0
    try:
        interrupt.catch_up()
        yield
    finally:
        interrupt.holds = holds


def _current() -> _Interrupt | None:
    handler = signal.getsignal(signal.SIGINT)
    main = threading.current_thread() is threading.main_thread()
    return handler if main and isinstance(handler, _Interrupt) else None


class _Interrupt:
    def __init__(self, words: str) -> None:
        self.holds = 0
        self._words = words
        self._heeded = 0
        self._waiting = False

    def __call__(self, number: int, frame: object) -> None:
        self._heeded += 1
        if self._heeded == 1 and self._words:
            # Past Python's buffers, amid the filling of which the signal may have come.
            with suppress(OSError):
                os.write(_STANDARD_ERROR, f"\n{self._words}\n".encode())
        if self._heeded <= _HEEDED:
            self._waiting = True
            self.catch_up()

    def catch_up(self) -> None:
        """Raise for a signal that has waited, unless it is still to wait."""
        if self._waiting and not self.holds:
            self._waiting = False
            raise KeyboardInterrupt
