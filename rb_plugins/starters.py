"""Small experiments to start from, one for each kind, as files of this package."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from rb_core.errors import InvalidInput
from rb_plugins.installed import install_command, missing

MOST_NODES = 4
"""Nodes that a small experiment asks for on a machine that has more slots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Starter:
    """What one kind of experiment is made of.

    Attributes:
        kind: its name.
        needs: packages that it cannot run without.
        install: what installs them, as `install_command` takes it.
        files: names of its files; the first is the one that is run.
    """

    kind: str
    needs: tuple[str, ...]
    install: tuple[str, ...]
    files: tuple[str, ...]

    @property
    def lacks(self) -> tuple[str, ...]:
        """Packages that it needs and that are not installed."""
        return missing(*self.needs)

    def text(self, name: str) -> str:
        """One of its files."""
        file = resources.files("rb_plugins") / "templates" / self.kind / name
        return file.read_text(encoding="utf-8")


STARTERS: Mapping[str, Starter] = {
    starter.kind: starter
    for starter in (
        Starter(
            kind="pytorch",
            needs=("torch",),
            install=("[torch]",),
            files=("experiment.toml", "train.py", "README.md"),
        ),
        Starter(
            kind="sklearn",
            needs=("scikit-learn",),
            install=("scikit-learn",),
            files=("experiment.toml", "train.py", "README.md"),
        ),
        Starter(kind="optuna", needs=("optuna", "greenlet"), install=("[optuna]",), files=("tune.py", "README.md")),
        Starter(kind="ray", needs=("ray", "pyarrow"), install=("[ray]",), files=("tune.py", "README.md")),
    )
}
"""The kinds, the one to prefer first."""


def usual_kind() -> str:
    """The first kind that could run as things are; the first of all where none could."""
    return next((kind for kind, starter in STARTERS.items() if not starter.lacks), next(iter(STARTERS)))


def write_starter(starter: Starter, folder: Path, *, slots: int, force: bool = False) -> dict[Path, Path | None]:
    """Write the files of a starter. What stands there already is never lost.

    Args:
        starter: which one.
        folder: where; made if need be.
        slots: what the machine offers, which bounds the nodes that an experiment file asks for.
        force: rename files that are in the way, instead of refusing.

    Returns:
        The paths that were written, each with the path that holds what stood there before, if anything did.

    Raises:
        InvalidInput: a file is in the way, or the folder cannot be written to. Nothing was written.
    """
    texts = {folder / name: _fitted(starter.text(name), slots) for name in starter.files}
    there = [path for path in texts if os.path.lexists(path)]
    if there and not force:
        raise InvalidInput(
            "FOLDER",
            f"{', '.join(map(str, there))} would be overwritten, and nothing was written; name another folder, or let "
            "--force rename what is there",
        )
    kept: dict[Path, Path | None] = dict.fromkeys(texts)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in there:
            kept[path] = _set_aside(path)
        for path, text in texts.items():
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        problem = f"{error.filename or folder} cannot be written: {error.strerror}; name a folder that can be"
        raise InvalidInput("FOLDER", problem) from None
    return kept


def next_commands(starter: Starter, folder: Path) -> tuple[str, ...]:
    """What to type next in the shell that the files were written from, one line each."""
    commands = [] if folder.resolve() == Path.cwd() else [shlex.join(["cd", str(folder)])]
    if starter.lacks:
        commands.append(install_command(*starter.install))
    first = starter.files[0]
    if first.endswith(".toml"):
        return (*commands, f"{_program('rb-tune')} run {first}", f"{_program('rb-tune')} report --html report.html")
    return (*commands, f"{_program('python')} {first}")


def _program(name: str) -> str:
    """How the shell calls a program of this environment: by its name where that finds it, else by its path."""
    own = Path(sys.executable).parent / name
    found = shutil.which(name)
    if found is not None and Path(found).parent == own.parent:
        return name
    if own.exists():
        return shlex.quote(str(own))
    return shlex.join([sys.executable, "-m", "rb_plugins"] if name == "rb-tune" else [sys.executable])


def _fitted(text: str, slots: int) -> str:
    return re.sub(r"^max_nodes = \d+", f"max_nodes = {min(max(1, slots), MOST_NODES)}", text, flags=re.MULTILINE)


def _set_aside(path: Path) -> Path:
    number = 1
    while os.path.lexists(aside := path.with_name(f"{path.name}.old{number}")):
        number += 1
    path.rename(aside)
    return aside
