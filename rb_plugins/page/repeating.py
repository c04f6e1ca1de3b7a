"""What is needed for repeating what a page tells: command, seeds, environment, prices, and the files' own text."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rb_core.events import Event, RunResumed, RunStarted
from rb_core.plan import Problem
from rb_core.report import duration, money
from rb_plugins.forecast import DEFAULT_SAMPLES
from rb_plugins.rundir import RunDirectory

Pairs = tuple[tuple[str, str], ...]
"""Names and values, or names of files and what they hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeating:
    """What a page says of how it is repeated.

    Attributes:
        facts: names and values.
        texts: names and whole texts.
    """

    facts: Pairs = ()
    texts: Pairs = ()


def of_run(directory: RunDirectory, history: Sequence[Event], problem: Problem) -> Repeating:
    """Of a run, by its log and by how it was asked for.

    Args:
        directory: of the run.
        history: its log.
        problem: what holds now.
    """
    started = history[0]
    if not isinstance(started, RunStarted):
        return Repeating()
    asked = directory.read(directory.request.name)
    file = str(asked.get("experiment_file", ""))
    planner = str(directory.read("plan.json").get("planner", ""))
    resumed = sum(isinstance(event, RunResumed) for event in history)
    facts = [
        *_command(asked, file),
        ("run", started.run),
        ("began", started.utc),
        *((("resumed", f"{'once' if resumed == 1 else f'{resumed} times'}, as its marks tell"),) if resumed else ()),
        *((("trained", _trained(started.target, asked)),) if started.target else ()),
        ("seed", f"{started.seed}, of the configurations, the training, the plan and the forecast"),
        *((("planner", planner),) if planner else ()),
        *of_problem(problem),
        ("forecast", f"{DEFAULT_SAMPLES} samples"),
        *started.environment.items(),
    ]
    texts = [
        *(
            [(f"{Path(file).name}, as the run read it", text)]
            if (text := str(asked.get("experiment_text", "")))
            else []
        ),
        ("the problem as it was planned, for `rb-tune plan`", as_json(started.problem)),
        ("the plan that it began with, for `rb-tune rehearse --plan`", as_json(started.plan)),
    ]
    return Repeating(facts=tuple(facts), texts=tuple(texts))


def of_survey(directory: RunDirectory, history: Sequence[Event]) -> Repeating:
    """Of a profiling, by its log and its profile file."""
    started = history[0]
    facts = (
        (("profiling", started.run), ("began", started.utc), ("measured", started.target), ("seed", str(started.seed)),
         *started.environment.items())
        if isinstance(started, RunStarted)
        else ()
    )  # fmt: skip
    return Repeating(facts=facts, texts=of_files(directory.profile))


def of_problem(problem: Problem) -> Pairs:
    """What is wanted, and the prices that hold."""
    objective, prices = problem.objective, problem.cloud.prices
    wanted: list[tuple[str, str]] = []
    if objective is not None:
        surely = "" if objective.confidence is None else f", with probability {objective.confidence:g}"
        limit = (
            f"a deadline of {duration(objective.deadline_s)}"
            if objective.deadline_s is not None
            else f"a budget of {money(objective.budget_usd or 0.0)}"
        )
        wanted.append(("wanted", f"{limit}{surely}"))
    if prices is not None:
        wanted.append(("prices", f"price book {prices.book}, of {prices.dated}"))
    kinds = [
        f"{kind.name} {kind.usd_per_hour:g} usd/h ({kind.market.value.replace('_', ' ')})"
        for kind in problem.cloud.instance_types
    ]
    wanted.append(("paid by the hour", ", ".join(kinds)))
    return tuple(wanted)


def of_files(*paths: Path | None) -> Pairs:
    """The texts of files; those that are not there are left out."""
    texts = []
    for path in paths:
        if path is not None:
            with suppress(OSError, UnicodeDecodeError):
                texts.append((str(path), path.read_text(encoding="utf-8")))
    return tuple(texts)


def as_json(table: Mapping[str, Any]) -> str:
    """A file's text."""
    return json.dumps(table, indent=2) + "\n"


def asked_words(command: str, argument: str, options: Mapping[str, Any]) -> str:
    """The line that asks for a command again.

    Args:
        command: its name.
        argument: its one argument.
        options: values by their names in Python; empty ones were not given, and of a tuple each was.
    """
    words = ["rb-tune", command, argument]
    for name, value in options.items():
        option = f"--{_RENAMED.get(name, name).replace('_', '-')}"
        for each in value if isinstance(value, tuple) else (value,):
            words += [] if each in (None, "") else [option, str(each)]
    return shlex.join(words)


_RENAMED = {"configs": "config", "cloud_file": "cloud"}
"""Options that have another name in Python."""


def _command(asked: Mapping[str, Any], file: str) -> Pairs:
    if file:
        words = ["rb-tune", "run", file, *map(str, asked.get("options", ()))]
        return (("command", shlex.join(words)),)
    if asked:
        return (("command", "none: it was begun from Python, by `Session.tune`"),)
    return (("command", "none: it was begun by the script of its host"),)


def _trained(target: str, asked: Mapping[str, Any]) -> str:
    function = asked.get("function") or {}
    digest = function.get("sha256", "")
    return f"{target}, in {function.get('source', '')} with SHA-256 {digest}" if digest else target
