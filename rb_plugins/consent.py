"""Asking before money is spent."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rb_core.hardware import Cloud


def ask(cloud: Cloud, expected_usd: float, yes: bool, *, purpose: str = "") -> None:
    """Have the user agree to spend about so much, unless that was said before, or nothing is rented.

    Args:
        cloud: where.
        expected_usd: what it is expected to cost.
        yes: whether the user has agreed.
        purpose: what for, where that does not go without saying.

    Raises:
        InvalidInput: nobody can be asked.
        PlanVeto: the user answered no.
    """
    from rb_core.errors import InvalidInput, PlanVeto
    from rb_core.report import money

    if yes or cloud.provider == "local":
        return
    if not sys.stdin.isatty():
        raise InvalidInput("--yes", "is required where nobody can be asked, because this costs money")
    if not click.confirm(f"Spend about {money(expected_usd)}{purpose}?", err=True):
        raise PlanVeto("none", "you answered no")
