"""A log that another process is writing, read bit by bit; nothing of it is locked or changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from rb_core.errors import UnusableLog
from rb_core.eventlog import open_log, parse_log
from rb_core.events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one look at a log brought.

    Attributes:
        events: the new ones; a line that is not complete yet is left for later.
        anew: whether they are all events of the log, since what was read before is no longer in it.
    """

    events: Sequence[Event]
    anew: bool


class LogTail:
    """The events of a log file that have not been read yet."""

    def __init__(self, path: Path) -> None:
        """Nothing has been read. The file need not be there yet.

        Args:
            path: the log.
        """
        self._path = path
        self._forget()

    def read(self) -> Reading:
        """What was written since the last call.

        Raises:
            UnusableLog: the file cannot be read, or a complete line is no event of this version.
        """
        anew = False
        try:
            with open_log(self._path) as file:
                if not self._goes_on(file):
                    self._forget()
                    anew = True
                file.seek(self._size)
                text = file.read()
        except FileNotFoundError:
            return Reading(events=(), anew=False)
        except OSError as error:
            raise UnusableLog(
                f"event log {self._path} cannot be read: {error.strerror}; do this as the user whose run it is"
            ) from None
        whole = text[: text.rfind(b"\n") + 1]
        events = parse_log(whole, str(self._path), first=self._lines + 1).events
        if whole:
            self._size += len(whole)
            self._lines += len(events)
            self._last = whole[whole.rfind(b"\n", 0, -1) + 1 :]
        return Reading(events=events, anew=anew)

    def _forget(self) -> None:
        self._size = 0
        self._lines = 0
        self._last = b""

    def _goes_on(self, file: BinaryIO) -> bool:
        """Whether the last line that was read still stands: one that could not be written whole is taken back."""
        file.seek(self._size - len(self._last))
        return file.read(len(self._last)) == self._last
