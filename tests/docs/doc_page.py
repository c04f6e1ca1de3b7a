"""Doing what a page says: every block in turn, in a folder of the page's own."""

from __future__ import annotations

import difflib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from doc_blocks import Block, blocks_of
from doc_console import Command, commands, matches
from doc_files import check, merged, parsed
from doc_processes import Python, Shell
from source_tree import ROOT

from rb_core.errors import InvalidInput

TOOLS = Path(__file__).parent / "tools"
"""Commands that stand in for those that a page shows and this machine lacks."""

FOREIGN = ("AWS_", "RAY_", "RB_", "TUNE_", "PYTHON", "OMP_")
"""Beginnings of the variables that pages do not inherit."""


class Played:
    """A page that is being played."""

    def __init__(self, page: Path, folder: Path) -> None:
        """Nothing has run yet. `folder` is the page's own; `examples` of the repository is copied there."""
        self._page, self._folder = page, folder
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
        variables = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        variables |= {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), str(TOOLS), os.environ["PATH"]]),
            "HOME": str(folder / ".home"),
            "RB_HOME": str(folder / ".runs"),
            "RAY_USAGE_STATS_ENABLED": "0",
            "PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), str(folder)]),
            "OMP_NUM_THREADS": "1",  # as other pages may be played at the same time
        }
        (folder / ".home").mkdir()
        self._shell = Shell(folder / ".shell-output", folder, variables)
        self._python = Python(folder / ".python-output", folder, variables)
        self._said = ""

    def close(self) -> None:
        """End its processes."""
        self._python.close()
        self._shell.close()

    def play(self, block: Block) -> None:
        """Do what one block says.

        Raises:
            PageError: it does not work, or not as the page says.
        """
        text = block.text
        for old, new in block.told("read"):
            if old not in text:
                raise block.wrong(f"there is no {old!r} to be read as {new!r}")
            text = text.replace(old, new)
        if block.language in ("toml", "json"):
            self._file(block, text)
        elif block.name:
            self._write(block, text)
        elif block.language == "python":
            status, self._said = self._python.run(text, block.page, block.line)
            if status:
                raise block.wrong(f"it raises, or takes too long\n{self._said}")
        elif block.language == "console":
            self._session(block, text)
        elif block.language == "diff":
            self._differences(block, text)
        elif block.told("output") and not matches(text.rstrip("\n"), self._said):
            raise block.wrong(difference(text, self._said))

    def _write(self, block: Block, text: str) -> None:
        if block.language == "python":
            compile(text, block.name, "exec")
        file = self._folder / block.name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def _file(self, block: Block, text: str) -> None:
        """Write it, or put it into the file that the page says, and read that as the product does."""
        into = [words[0] for words in block.told("into")]
        name = block.name or (into[0] if into else f"fragment-{block.line}.{block.language}")
        file = self._folder / name
        try:
            if into:
                base = parsed(file.read_text(encoding="utf-8"), file.suffix.removeprefix("."))
                file = file.with_suffix(".json")
                text = json.dumps(merged(base, parsed(text, block.language)))
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            check(file)
        except (InvalidInput, OSError, tomllib.TOMLDecodeError, json.JSONDecodeError) as error:
            raise block.wrong(f"{name}: {error}") from None

    def _session(self, block: Block, text: str) -> None:
        wanted = {int(words[0]) for words in block.told("status")} or {0}
        for command in commands(text):
            checked = not_run(command)
            if checked is not None:
                if checked:
                    raise block.wrong(f"{command.words}: {checked}")
                continue
            status, printed = self._shell.run(command.words)
            if status not in wanted:
                raise block.wrong(f"{command.words}: the status is {status}\n{printed}")
            if command.output and not matches(command.output, printed):
                raise block.wrong(f"{command.words}\n{difference(command.output, printed)}")

    def _differences(self, block: Block, text: str) -> None:
        """Lines with a minus are in the first of the two files that the page names, those with a plus in the second."""
        ((before, after),) = block.told("between")
        for sign, name in (("-", before), ("+", after)):
            lines = {line.strip() for line in (ROOT / name).read_text(encoding="utf-8").splitlines()}
            lost = [line for line in text.splitlines() if line.startswith(sign) and line[1:].strip() not in lines]
            if lost:
                raise block.wrong(f"{name} does not hold {lost[0][1:].strip()!r}")


def difference(expected: str, printed: str) -> str:
    """What is shown, and what was printed."""
    lines = difflib.unified_diff(
        expected.strip("\n").split("\n"), printed.strip("\n").split("\n"), "shown", "printed", lineterm="", n=100
    )
    return "\n".join(lines)


def not_run(command: Command) -> str | None:
    """What is wrong with a command that is looked at and not run; empty for nothing, None for one that is to be run.

    These make environments, or run what is running, or cost money: installing is what CI does first.
    """
    words = shlex.split(command.words, comments=True)
    for head, look in NOT_RUN.items():
        beginning = head.split()
        if words[: len(beginning)] == beginning:
            return look(words[len(beginning) :])
    return None


def _known_to_dev(words: list[str]) -> str:
    usage = subprocess.run([ROOT / "dev"], capture_output=True, text=True, check=True).stdout
    return "" if words and re.search(rf"^\./dev {re.escape(words[0])}\b", usage, re.MULTILINE) else "no such command"


def _installable(words: list[str]) -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for word in words:
        name, _, rest = word.partition("[")
        extras = [extra for extra in rest.rstrip("]").split(",") if extra]
        if unknown := set(extras) - set(project["optional-dependencies"]):
            return f"no such extra: {', '.join(sorted(unknown))}"
        if name.startswith(("./", ".")) and not (ROOT / name / "pyproject.toml").exists():
            return f"there is no project in {name}"
        if extras and not name.startswith(".") and name != project["name"]:
            return f"the extras are of {project['name']}, not of {name}"
    return ""


def _tests(words: list[str]) -> str:
    return "" if list((ROOT / words[-1]).glob("test_*.py")) else f"there are no tests in {words[-1]}"


NOT_RUN: dict[str, Callable[[list[str]], str]] = {
    "./dev": _known_to_dev,
    "pip install": _installable,
    ".venv/bin/pip install": _installable,
    "python3 -m venv": lambda words: "",
    "RB_AWS=1": _tests,
}


@contextmanager
def played(page: Path, folder: Path) -> Iterator[Played]:
    """A page whose blocks can be played in `folder`."""
    playing = Played(page, folder)
    try:
        yield playing
    finally:
        playing.close()


def play(page: Path, folder: Path, *, long: bool = False) -> int:
    """Do all that a page says; how many blocks that were. Blocks that are said to be long are left out unless `long`.

    Raises:
        PageError: the first thing that does not work, or not as the page says.
    """
    blocks = [block for block in blocks_of(page) if long or not block.told("long")]
    with played(page, folder) as playing:
        for block in blocks:
            playing.play(block)
    return len(blocks)
