"""The command `doctor`: what is installed, what is missing, and whether runs can work here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rb_plugins.command import command

if TYPE_CHECKING:
    from rb_core.inspection import Finding
    from rb_plugins.installed import Extra


@command
@click.option("--aws", is_flag=True, help="Also ask AWS whose the credentials are.")
def doctor(aws: bool, as_json: bool) -> None:
    """Say what is installed, what each missing extra would give, and what keeps runs from working here.

    Contacts nobody without --aws. Exit status 1 when something keeps rb-tune from working, 0 otherwise.
    """
    from rb_core.events import SCHEMA
    from rb_core.inspection import Verdict
    from rb_plugins import show
    from rb_plugins.health import UnsoundSetup, examine
    from rb_plugins.installed import extras

    known = extras()
    needed = known.pop("")
    found = list(examine(needed, ask_aws=aws))
    problems = [finding for finding in found if finding.verdict is Verdict.PROBLEM]
    if as_json:
        show.answer(
            {
                "schema": SCHEMA,
                "works": not problems,
                "findings": [_finding(finding) for finding in found],
                "extras": [_extra(extra) for extra in known.values()],
            }
        )
    else:
        for finding in found:
            show.line(f"{finding.verdict.value:8}{finding.subject:20}{finding.said}")
            if finding.remedy:
                show.line(f"{'':28}-> {finding.remedy}")
        show.line("\nExtras")
        for extra in known.values():
            for line in _extra_lines(extra):
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


def _extra(extra: Extra) -> dict[str, Any]:
    from rb_plugins.installed import install_command

    return {
        "extra": extra.name,
        "state": _state(extra),
        "gives": extra.gives,
        "install": None if extra.is_fit else install_command(f"[{extra.name}]"),
        "packages": [
            {
                "name": package.name,
                "installed": package.found or None,
                "lowest": package.lowest or None,
                "supported": package.is_fit,
            }
            for package in extra.packages
        ],
    }


def _extra_lines(extra: Extra) -> list[str]:
    from rb_plugins.installed import install_command

    lines = [f"{_state(extra):12}[{extra.name}]".ljust(22) + f"  {extra.gives}: {', '.join(map(str, extra.packages))}"]
    if not extra.is_fit:
        lines.append(f"{'':24}-> {install_command(f'[{extra.name}]')}")
    return lines


def _state(extra: Extra) -> str:
    if extra.is_fit:
        return "installed"
    return "unsupported" if all(package.found for package in extra.packages) else "missing"
