"""The command `doctor`: what is installed, what is missing, and whether runs can work here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from rb_plugins.command import command

if TYPE_CHECKING:
    from rb_core.inspection import Finding
    from rb_plugins.importable import Attempt
    from rb_plugins.installed import Extra


@command
@click.option("--aws", is_flag=True, help="Also ask AWS whose the credentials are.")
def doctor(aws: bool, as_json: bool) -> None:
    """Say what is installed, what each missing extra would give, and what keeps runs from working here.

    Imports what is installed of the extras, in processes of their own, and contacts nobody without --aws. Exit status 1
    when something keeps rb-tune from working, 0 otherwise.
    """
    from rb_core.events import SCHEMA
    from rb_core.inspection import Verdict
    from rb_plugins import show
    from rb_plugins.health import UnsoundSetup, examine
    from rb_plugins.importable import Attempts
    from rb_plugins.installed import extras

    known = extras()
    needed = known.pop("")
    with Attempts(package.name for extra in known.values() for package in extra.packages if package.found) as attempts:
        found = list(examine(needed, ask_aws=aws))
        tried = attempts.results()
    problems = [finding for finding in found if finding.verdict is Verdict.PROBLEM]
    if as_json:
        show.answer(
            {
                "schema": SCHEMA,
                "works": not problems,
                "findings": [_finding(finding) for finding in found],
                "extras": [_extra(extra, tried) for extra in known.values()],
            }
        )
    else:
        for finding in found:
            show.line(f"{finding.verdict.value:8}{finding.subject:20}{finding.said}")
            if finding.remedy:
                show.line(f"{'':28}-> {finding.remedy}")
        show.line("\nExtras")
        for extra in known.values():
            for line in _extra_lines(extra, tried):
                show.line(line)
    if problems:
        raise UnsoundSetup(problems)


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "verdict": finding.verdict.value,
        "subject": finding.subject,
        "said": finding.said,
        "remedy": finding.remedy or None,
    }


def _extra(extra: Extra, tried: Mapping[str, Attempt]) -> dict[str, Any]:
    return {
        "extra": extra.name,
        "state": _state(extra, tried),
        "gives": extra.gives,
        "install": _remedy(extra, tried) or None,
        "packages": [
            {
                "name": package.name,
                "installed": package.found or None,
                "lowest": package.lowest or None,
                "supported": package.is_fit,
                "problem": _problem(package.name, tried) or None,
            }
            for package in extra.packages
        ],
    }


def _extra_lines(extra: Extra, tried: Mapping[str, Attempt]) -> list[str]:
    packages = ", ".join(map(str, extra.packages))
    lines = [f"{_state(extra, tried):12}[{extra.name}]".ljust(22) + f"  {extra.gives}: {packages}"]
    for package in extra.packages:
        problem = _problem(package.name, tried)
        if problem:
            lines.append(f"{'':24}{package.name} {problem}")
    remedy = _remedy(extra, tried)
    if remedy:
        lines.append(f"{'':24}-> {remedy}")
    return lines


def _problem(name: str, tried: Mapping[str, Attempt]) -> str:
    """What is wrong with importing a package, in words; empty where nothing is."""
    if name not in tried or not tried[name].problem:
        return ""
    return f"cannot be imported: {tried[name].problem}" if tried[name].is_broken else f"was {tried[name].problem}"


def _remedy(extra: Extra, tried: Mapping[str, Attempt]) -> str:
    """The commands that make an extra whole; empty where it is."""
    from rb_plugins.installed import install_command, reinstall_command

    broken = _broken(extra, tried)
    commands = [] if extra.is_fit else [install_command(f"[{extra.name}]")]
    if broken:
        commands.append(reinstall_command(*broken))
    return " && ".join(commands)


def _broken(extra: Extra, tried: Mapping[str, Attempt]) -> list[str]:
    return [package.name for package in extra.packages if package.name in tried and tried[package.name].is_broken]


def _state(extra: Extra, tried: Mapping[str, Attempt]) -> str:
    if extra.is_fit and _broken(extra, tried):
        return "broken"
    if extra.is_fit:
        return "installed"
    return "unsupported" if all(package.found for package in extra.packages) else "missing"
