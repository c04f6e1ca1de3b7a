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


class _Interrupt:
    def __init__(self, words: str) -> None:
        self._words = words
        self._heeded = 0

    def __call__(self, number: int, frame: object) -> None:
        self._heeded += 1
        if self._heeded == 1 and self._words:
            # Past Python's buffers, amid the filling of which the signal may have come.
            with suppress(OSError):
                os.write(_STANDARD_ERROR, f"\n{self._words}\n".encode())
        if self._heeded <= _HEEDED:
            raise KeyboardInterrupt
