"""Refusals of AWS as troubles of an estate, each with what a person can do."""

from __future__ import annotations

from rb_core.errors import InvalidInput, NoAnswer, RubberBandError
from rb_core.estate import Belonging, Kind, Trouble
from rb_core.providers.ec2.refusals import CallRefused, RefusalKind

ANSWERS = (CallRefused, NoAnswer, InvalidInput)
"""What is raised in the place of an answer."""

NAMES = {
    Kind.NODE: "instances",
    Kind.DISK: "volumes",
    Kind.REQUEST: "spot requests",
    Kind.SECRET: "parameters",
    Kind.GROUP: "security groups",
}
"""What AWS calls each kind of things."""

IN_USE = frozenset({"DependencyViolation", "VolumeInUse", "InvalidGroup.InUse"})
"""Something else has to go first."""


def trouble(belonging: Belonging, error: RubberBandError) -> Trouble:
    """What an error means for one thing that was to be ended; when it ends by itself is part of the remedy."""
    remedy, passing = _remedy(error)
    if belonging.expires is not None:
        remedy += f"; it ends by itself at {belonging.expires:%Y-%m-%d %H:%M} UTC"
    said = str(error).partition("\n")[0]
    return Trouble(region=belonging.region, subject=belonging.ident, problem=said, remedy=remedy, passing=passing)


def unseen(region: str, kind: Kind, error: RubberBandError) -> Trouble:
    """What an error means for a kind of things that cannot be listed."""
    remedy, passing = _remedy(error)
    if isinstance(error, CallRefused) and error.kind in (RefusalKind.EXPIRED, RefusalKind.CREDENTIALS):
        # The same words for all kinds of things, whose services have codes of their own for it.
        error = CallRefused(error.action, error.kind, code="refused" if error.code else "", said=error.said).as_input()
    said = str(error).partition("\n")[0]
    if isinstance(error, InvalidInput) and "; " in said:
        said, _, remedy = said.partition("; ")
    return Trouble(region=region, subject=NAMES[kind], problem=said, remedy=remedy, passing=passing, unseen=kind)


def _remedy(error: RubberBandError) -> tuple[str, bool]:
    if isinstance(error, NoAnswer):
        return "run `rb-tune gc` again", True
    if not isinstance(error, CallRefused):
        return "put that right, and run `rb-tune gc` again", False
    if error.code in IN_USE:
        return "end what uses it, and run `rb-tune gc` again", True
    match error.kind:
        case RefusalKind.RIGHTS:
            return f"grant {error.right}, which `rb-tune policy driver` holds, and run `rb-tune gc` again", False
        case RefusalKind.EXPIRED | RefusalKind.CREDENTIALS:
            return "log in again (AWS_PROFILE, `aws sso login`), and run `rb-tune gc` again", False
    return "put that right, and run `rb-tune gc` again", False
