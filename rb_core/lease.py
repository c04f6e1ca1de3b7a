"""Who writes to a run: a file beside its log that a living process keeps renewing, readable from other machines too."""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rb_core.errors import UnusableLog
from rb_core.events import SCHEMA
from rb_core.ports import Clock

TTL_S = 60.0
"""A holder on another machine that has not renewed its lease for so long is taken to be gone."""

_RENEWALS = 4
"""How often a lease is renewed within its time."""

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A process that holds a lease.

    Attributes:
        host: name of its machine.
        boot: that machine's boot; processes of an earlier one are gone.
        pid: its pid there.
        began: when it began, in the kernel's ticks since the boot: a pid may be given again.
        renewed: wall clock of its last sign of life, ISO 8601.
        ttl_s: how long that is good for where the process itself cannot be looked at.
        since: wall clock at which it took the lease; empty where nobody told.
    """

    host: str
    boot: str
    pid: int
    began: int
    renewed: str
    ttl_s: float = TTL_S
    since: str = ""

    @classmethod
    def here(cls, utc: datetime) -> Holder:
        """This process."""
        pid = os.getpid()
        return cls(
            host=socket.gethostname(), boot=_boot(), pid=pid, began=process_began(pid) or 0, renewed=utc.isoformat()
        )  # fmt: skip

    @property
    def is_here(self) -> bool:
        """Whether it is, or was, a process of this machine since its last boot."""
        return (self.host, self.boot) == (socket.gethostname(), _boot())

    @property
    def until(self) -> datetime:
        """When its last sign of life is no longer good."""
        return datetime.fromisoformat(self.renewed).astimezone(UTC) + timedelta(seconds=self.ttl_s)

    def is_alive(self, utc: datetime) -> bool:
        """Whether it goes on: on this machine by looking at the process, else by the time of its last sign of life."""
        return process_began(self.pid) == self.began if self.is_here else utc < self.until

    def came_after(self, utc: str) -> bool:
        """Whether it took the lease after a time, ISO 8601; False where that cannot be told."""
        try:
            return datetime.fromisoformat(self.since) > datetime.fromisoformat(utc)
        except (TypeError, ValueError):
            return False

    def same_process(self, other: Holder) -> bool:
        """Whether both are one process."""
        return (self.host, self.boot, self.pid, self.began) == (other.host, other.boot, other.pid, other.began)

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


class Lease:
    """The right to write to a run, held and renewed within a ``with`` block.

    It tells other machines, which need not see the lock on the log, that somebody is at work. Between processes of one
    machine the lock decides. Two other machines that take a stale lease over at the same instant are not kept apart.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        """A lease that is not held.

        Args:
            path: its file.
            clock: where the wall clock is read.
        """
        self._path = path
        self._clock = clock
        self._since = ""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="lease", daemon=True)

    def __enter__(self) -> Lease:
        """Take the lease; one whose holder is gone is taken over.

        Raises:
            UnusableLog: another process holds it, or the file cannot be written.
        """
        check_free(self._path, self._clock)
        self._since = self._clock.utc().isoformat()
        try:
            self._write()
        except OSError as error:
            raise UnusableLog(
                f"lease {self._path} cannot be written: {error.strerror}; choose a folder that can be written to"
            ) from error
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join()
        if self._is_ours():
            self._path.unlink(missing_ok=True)

    def _renew(self) -> None:
        failed = False
        while not self._over.wait(TTL_S / _RENEWALS):
            if not self._is_ours():
                _logger.error("lease %s was taken by another process while this one did not answer", self._path)
                return
            try:
                self._write()
                failed = False
            except OSError as error:
                if not failed:
                    _logger.warning("lease %s cannot be renewed: %s", self._path, error.strerror)
                failed = True

    def _is_ours(self) -> bool:
        found = read_holder(self._path)
        return found is None or found.same_process(Holder.here(self._clock.utc()))

    def _write(self) -> None:
        holder = replace(Holder.here(self._clock.utc()), since=self._since)
        text = json.dumps({"schema": SCHEMA, **asdict(holder)}) + "\n"
        draft = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(draft, self._path)
        except BaseException:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            raise


def read_holder(path: Path) -> Holder | None:
    """Who holds, or held, the lease in a file; None where nobody does, or nothing can be made of the file."""
    try:
        if not path.is_file():
            return None
        table = json.loads(path.read_text(encoding="utf-8"))
        del table["schema"]
        holder = Holder(**table)
        return holder if holder.until else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None


def living_holder(path: Path, clock: Clock) -> Holder | None:
    """Who holds the lease in a file and goes on; None where nobody does."""
    holder = read_holder(path)
    return holder if holder is not None and holder.is_alive(clock.utc()) else None


def check_free(path: Path, clock: Clock) -> None:
    """Raise `UnusableLog` when another process holds the lease in a file and goes on."""
    holder = living_holder(path, clock)
    if holder is None or holder.same_process(Holder.here(clock.utc())):
        return
    wait = (
        "wait for it to end, or stop it"
        if holder.is_here
        else f"wait for it to end, or stop it there; if it is gone, this is over at {holder.until:%H:%M:%S} UTC"
    )
    raise UnusableLog(f"the run in {path.parent} is alive: {holder} is at work on it; {wait}")


def _boot() -> str:
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def process_began(pid: int) -> int | None:
    """When a process began, in ticks since the boot; None for one that has ended, collected by its parent or not."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    # Fields 3 and 22 of proc(5); the first two are before the closing parenthesis.
    return None if fields[0] in "ZX" else int(fields[19])
