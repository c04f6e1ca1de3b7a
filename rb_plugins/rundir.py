"""The directory of one run: its log, what it was asked and promised, what came of it, and its output."""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from rb_core.errors import InvalidInput, UnusableLog

HOME_VARIABLE = "RB_HOME"


def home() -> Path:
    """Where runs are kept: RB_HOME, else ``rubberband`` in the user's state directory."""
    if chosen := os.environ.get(HOME_VARIABLE):
        return Path(chosen).absolute()
    state = os.environ.get("XDG_STATE_HOME", "")
    base = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    return base / "rubberband"


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """Paths within one run's directory, which its owner alone can enter."""

    path: Path

    @property
    def run(self) -> str:
        """The run's id."""
        return self.path.name

    @property
    def home(self) -> Path | None:
        """Where this run and others are kept; None for one that was moved elsewhere."""
        return self.path.parent.parent if self.path.parent.name == "runs" else None

    @property
    def events(self) -> Path:
        """The event log."""
        return self.path / "events.jsonl"

    @property
    def request(self) -> Path:
        """How the run was asked for, by which it is resumed."""
        return self.path / "request.json"

    @property
    def lease(self) -> Path:
        """Who is at work on the run; there while somebody is."""
        return self.path / "lease.json"

    @property
    def profile(self) -> Path:
        """The profile file that the plan rests on."""
        return self.path / "profile.json"

    @property
    def logs(self) -> Path:
        """Folder of the ranks' output."""
        return self.path / "logs"

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints, unless the run names another."""
        return self.path / "checkpoints"

    @property
    def profiling_usd(self) -> float:
        """What the nodes cost that the run was profiled on; 0 where its profile was known."""
        return float(self.read("profile.json").get("usd", 0.0))

    @property
    def began(self) -> bool:
        """Whether anything is in the event log; also one that is no file, of which its reader tells."""
        try:
            found = self.events.stat()
        except OSError:
            return False
        return found.st_size > 0 or not stat.S_ISREG(found.st_mode)

    @staticmethod
    def check_home(home: Path) -> None:
        """Raise `UnusableLog` when no run directory could be made there; makes none."""
        path = home / "runs"
        nearest = _nearest(path)
        if not nearest.is_dir():
            raise UnusableLog(_no_room(path, f"{nearest} is not a directory"))
        if not os.access(nearest, os.W_OK | os.X_OK):
            raise UnusableLog(_no_room(path, f"{nearest} cannot be written to"))

    @classmethod
    def create(cls, home: Path, name: str, utc: datetime) -> RunDirectory:
        """A new, empty one.

        Raises:
            UnusableLog: it cannot be made.
        """
        slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40] or "run"
        run = f"{slug}-{utc:%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"
        path = home / "runs" / run
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir(mode=0o700)
            (path / "logs").mkdir(mode=0o700)
        except OSError as error:
            raise UnusableLog(_no_room(path, error.strerror or str(error))) from None
        return cls(path)

    @classmethod
    def find(cls, home: Path, reference: str) -> RunDirectory:
        """The one of a run's id, the beginning of one, or a path.

        Raises:
            InvalidInput: there is none, or several begin like this.
        """
        for path in (home / "runs" / reference, Path(reference)):
            directory = cls(path.absolute())
            try:
                if _is_file(directory.events) or _is_file(directory.request):
                    return directory
            except OSError as error:
                raise InvalidInput(
                    "RUN", f"run directory {path} cannot be entered: {error.strerror}; do this as its owner"
                ) from None
        begin = [directory.run for directory in cls.all(home) if reference and directory.run.startswith(reference)]
        if len(begin) == 1:
            return cls(home / "runs" / begin[0])
        if begin:
            raise InvalidInput(
                "RUN",
                f"must be the beginning of one run's id, got {reference!r}, of {', '.join(begin)}; give more of it",
            )
        raise InvalidInput(
            "RUN",
            f"must be the id of a run in {home / 'runs'} or the path of one, got {reference!r}; `rb-tune status` lists "
            "them",
        )

    @classmethod
    def latest(cls, home: Path) -> list[RunDirectory]:
        """Those that have a log, the one that was written to last first. Raises as `all`."""

        def written_s(directory: RunDirectory) -> float:
            try:
                return directory.events.stat().st_mtime
            except OSError:
                return 0.0

        found = [directory for directory in cls.all(home) if os.path.lexists(directory.events)]
        return sorted(found, key=written_s, reverse=True)

    @classmethod
    def all(cls, home: Path) -> list[RunDirectory]:
        """Those of all runs and profilings that are kept there, by their ids; none where nothing is yet.

        Raises:
            InvalidInput: what is there is no folder.
        """
        nearest = _nearest(home / "runs")
        if not nearest.is_dir():
            raise InvalidInput(
                HOME_VARIABLE,
                f"must be a folder, for runs are kept in {home / 'runs'}, and {nearest} is none; set it to another",
            )
        found = {path.parent for name in ("events.jsonl", "request.json") for path in (home / "runs").glob(f"*/{name}")}
        return [cls(path) for path in sorted(found)]

    def write(self, name: str, table: Mapping[str, Any]) -> None:
        """Write a JSON file, readable by its owner alone.

        Raises:
            UnusableLog: it cannot be written.
        """
        try:
            write_json(self.path / name, table)
        except OSError as error:
            raise UnusableLog(
                f"{self.path / name} cannot be written: {error.strerror}; free some space, or let {HOME_VARIABLE} be "
                "on another disk"
            ) from None

    def read(self, name: str) -> dict[str, Any]:
        """What `write` wrote; empty when there is no such file."""
        try:
            table = json.loads((self.path / name).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return table if isinstance(table, dict) else {}


def _nearest(path: Path) -> Path:
    """The path, or the nearest of its parents that is there."""
    return next(parent for parent in (path, *path.absolute().parents) if os.path.lexists(parent))


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False


def make_folder(path: Path) -> None:
    """Make a folder with its parents. Raises `InvalidInput` when it cannot be made."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(
            "run.storage", f"{path} cannot be made: {error.strerror}; name a folder that can be"
        ) from None


def write_json(path: Path, table: Mapping[str, Any]) -> None:
    """Write a JSON file whole or not at all, readable by its owner alone."""
    text = json.dumps(table, indent=2) + "\n"
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _no_room(path: Path, problem: str) -> str:
    return f"run directory {path} cannot be made: {problem}; set {HOME_VARIABLE} to a folder that can be written to"
