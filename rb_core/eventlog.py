"""The log of a run: one event a line as JSON, on disk before the event is acted on."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterable
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from rb_core import plainjson
from rb_core.errors import UnusableLog
from rb_core.events import EVENTS, SCHEMA, Event

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_KINDS = {kind.__name__: kind for kind in EVENTS}
_FIELDS = {kind.__name__: tuple(field.name for field in fields(kind)) for kind in EVENTS}
_REQUIRED = {kind.__name__: {field.name for field in fields(kind) if field.default is MISSING} for kind in EVENTS}
_FIGURES = {
    name: tuple(field for field in names if field in ("t_s", "since_s", "until_s", "clock_s", "usd_per_hour"))
    for name, names in _FIELDS.items()
}
_LARGEST = 1e12
"""Times and prices are below this: in seconds it is 30,000 years."""

_adapters: dict[str, TypeAdapter[Event]] = {}


class Log(Protocol):
    """Where the engine writes its events before it acts on them."""

    def append(self, *events: Event) -> None:
        """Write the events, in order; they are safe when this returns.

        Raises:
            UnusableLog: they could not be written; the log holds none of them.
        """

    def close(self) -> None:
        """Let go of the log. Idempotent."""


class MemoryLog:
    """A log that ends with the process, for rehearsals and tests."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def append(self, *events: Event) -> None:
        """Keep the events."""
        self.events.extend(events)

    def close(self) -> None:
        """Nothing to let go of."""


class EventLog:
    """A log file, readable by its owner alone. One process at a time writes to it.

    A torn last line, left by a crash, is cut off when the log is opened: what it spoke of was never acted on.
    """

    def __init__(self, path: Path) -> None:
        """Open for appending, making the file and its folder when they are missing.

        Raises:
            UnusableLog: it cannot be opened, or another process writes to it.
        """
        self.path = path
        self._descriptor: int | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self._descriptor = os.open(path, flags, 0o600)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._is_file = stat.S_ISREG(os.fstat(self._descriptor).st_mode)
            if self._is_file:
                os.fchmod(self._descriptor, 0o600)
                os.ftruncate(self._descriptor, _whole_lines(self._descriptor))
                _sync_folder(path.parent)
        except BlockingIOError:
            self.close()
            raise UnusableLog(
                f"event log {path} is being written by another process; wait for that run to end, or start "
                "this one in a run directory of its own"
            ) from None
        except OSError as error:
            self.close()
            raise UnusableLog(
                f"event log {path} cannot be opened: {error.strerror}; choose a folder that can be written to"
            ) from error

    def append(self, *events: Event) -> None:
        """Write the events as lines and flush them to disk.

        Raises:
            UnusableLog: the log is closed, or the disk is full or broken; the log then holds none of them.
        """
        if self._descriptor is None:
            raise UnusableLog(f"event log {self.path} is closed; open it again to write to it")
        whole = os.fstat(self._descriptor).st_size
        try:
            _write(self._descriptor, "".join(line(event) for event in events).encode())
            if self._is_file:
                os.fsync(self._descriptor)
        except OSError as error:
            self._cut(whole)
            raise UnusableLog(
                f"event log {self.path} cannot be written: {error.strerror}; free some space, or let the run "
                "directory (RB_HOME) be on another disk"
            ) from error

    def close(self) -> None:
        """Close the file and let other processes write to it. Idempotent."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> EventLog:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _cut(self, size: int) -> None:
        if self._descriptor is not None and self._is_file:
            try:
                os.ftruncate(self._descriptor, size)
            except OSError:
                # A torn line then ends the log, which readers pass over; nothing may follow it.
                self.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogContents:
    """What a log holds.

    Attributes:
        events: all complete ones.
        torn: whether a crash left an incomplete line behind them.
    """

    events: tuple[Event, ...]
    torn: bool


def read_log(path: Path) -> LogContents:
    """Read a log back; it may be written to meanwhile.

    Raises:
        UnusableLog: it cannot be read, or a line that is not the torn last one is no event of this version.
    """
    try:
        with open_log(path) as file:
            text = file.read()
    except OSError as error:
        raise UnusableLog(f"event log {path} cannot be read: {error.strerror}; name a run's events file") from error
    return parse_log(text, str(path))


def open_log(path: Path) -> BinaryIO:
    """Open a log for reading. Of what is no file, such as a pipe, nothing is read, and nobody is waited for.

    Raises:
        OSError: it is not there, or cannot be opened.
        UnusableLog: it is no file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UnusableLog(f"event log {path} is no file; restore it as rb-tune wrote it")
    return os.fdopen(descriptor, "rb")


def parse_log(text: bytes, name: str, *, first: int = 1) -> LogContents:
    """The events in the text of a log.

    Args:
        text: all of it, or all from the beginning of a line on.
        name: what errors call it.
        first: number of its first line.

    Raises:
        UnusableLog: a line that is not the torn last one is no event of this version.
    """
    *lines, tail = text.split(b"\n")
    return LogContents(events=tuple(_parsed(name, lines, first)), torn=bool(tail))


def line(event: Event) -> str:
    """The event as one line of the log, its end included."""
    name = type(event).__name__
    record = {"schema": SCHEMA, "event": name}
    record.update((field, getattr(event, field)) for field in _FIELDS[name])
    return plainjson.dumps(record) + "\n"


def _parsed(name: str, lines: Iterable[bytes], first: int) -> Iterable[Event]:
    for number, text in enumerate(lines, start=first):
        try:
            yield _event(text)
        except ValueError as error:
            raise UnusableLog(
                f"event log {name}, line {number}: {error}; restore the file as rb-tune wrote it, "
                "or read it with the version that did"
            ) from None


def _event(text: bytes) -> Event:
    from pydantic import ValidationError

    try:
        record: Any = plainjson.loads(text)
    except ValueError:
        raise ValueError("is not JSON") from None
    if not isinstance(record, dict):
        raise ValueError("is not a JSON object")
    if record.get("schema") != SCHEMA:
        raise ValueError(f"has schema {record.get('schema')!r}, and this version reads schema {SCHEMA} only")
    name = record.pop("event", None)
    if not isinstance(name, str) or name not in _KINDS:
        raise ValueError(f"has an unknown event {name!r}")
    names = _FIELDS[name]
    if "schema" not in names:
        del record["schema"]
    # What was added to an event since has a default, so that older logs can still be read.
    odd = sorted((record.keys() - set(names)) | (_REQUIRED[name] - record.keys()))
    if odd:
        raise ValueError(f"is no complete {name}: {', '.join(odd)} missing or unknown")
    try:
        event = _adapter(name).validate_python(record)
    except ValidationError as invalid:
        first = invalid.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ValueError(f"is no {name}: {where}: {first['msg']}") from None
    for field in _FIGURES[name]:
        value = getattr(event, field)
        if value is not None and not -_LARGEST < value < _LARGEST:
            raise ValueError(f"is no {name}: {field}: must be a number within {_LARGEST:g}, got {value}")
    return event


def _adapter(name: str) -> TypeAdapter[Event]:
    from pydantic import TypeAdapter

    if name not in _adapters:
        _adapters[name] = TypeAdapter(_KINDS[name])
    return _adapters[name]


def _write(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def _whole_lines(descriptor: int) -> int:
    """Size of the file up to the end of its last complete line."""
    end = os.fstat(descriptor).st_size
    while end > 0:
        start = max(0, end - 65536)
        found = os.pread(descriptor, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
