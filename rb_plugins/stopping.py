"""Ending a run from outside the process that is at work on it."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from rb_core.clock import pause
from rb_core.errors import InvalidInput, UnstoppedRun
from rb_core.lease import Holder, living_holder
from rb_core.ports import Clock
from rb_core.report import duration
from rb_plugins.rundir import RunDirectory

_LOOK_EVERY_S = 0.1


def stop(directory: RunDirectory, clock: Clock, *, timeout_s: float) -> Holder | None:
    """End a run as its first Ctrl-C does, and wait until everything has been given back.

    Args:
        directory: of the run.
        clock: the time.
        timeout_s: how long to wait.

    Returns:
        The process that was at work on it; None when there was none, and so nothing to do.

    Raises:
        InvalidInput: it runs on another machine, or belongs to another user.
        UnstoppedRun: it has not ended within that time.
    """
    holder = living_holder(directory.lease, clock)
    if holder is None:
        return None
    if not holder.is_here:
        raise InvalidInput(
            "RUN",
            f"run {directory.run} is at work on another machine, as {holder}; stop it there",
        )
    _interrupt(holder, directory, clock)
    until_s = clock.now() + timeout_s
    while (now := living_holder(directory.lease, clock)) is not None and now.same_process(holder):
        if clock.now() >= until_s:
            raise UnstoppedRun(
                f"run {directory.run} was told to end and has not within {duration(timeout_s)}; {holder} still gives "
                "back what it holds: wait longer (--timeout), or stop it once more to hurry it",
            )
        pause(clock, _LOOK_EVERY_S)
    return holder


def _interrupt(holder: Holder, directory: RunDirectory, clock: Clock) -> None:
    try:
        descriptor = os.pidfd_open(holder.pid)
    except ProcessLookupError:
        return
    try:
        # The descriptor is of one process for good: if it is that one now, no other gets the signal.
        if holder.is_alive(clock.utc()):
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, signal.SIGINT)
    except PermissionError:
        raise InvalidInput(
            "RUN", f"run {directory.run} belongs to another user, as {holder}; stop it as that user"
        ) from None
    finally:
        os.close(descriptor)
