"""Who asks, for how long, and by which rights: looked at without changing anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rb_core.inspection import Finding, Intent, ok, problem, warning
from rb_core.providers.ec2 import listing
from rb_core.providers.ec2.clients import Clients
from rb_core.providers.ec2.refusals import CallRefused, RefusalKind, answering
from rb_core.providers.ec2.settings import Ec2Settings
from rb_core.report import duration

NOBODY = "i-00000000000000000"
"""An instance that nobody has."""

DRY = "DryRunOperation"
"""What AWS answers to a dry run of a call that it would obey."""

_RENEWED = frozenset({"iam-role", "container-role"})
"""Ways to get credentials that need nobody to log in."""

_POLICY = "grant it: `rb-tune policy driver` has every right that is needed, and what for"


def inspect_credentials(clients: Clients, settings: Ec2Settings, intent: Intent) -> Finding:
    """Whether the credentials outlive the run. Raises as `answering`."""
    with answering("credentials"):
        credentials = clients.session.get_credentials()
        method = str(getattr(credentials, "method", ""))
        renewable = getattr(credentials, "refresh_needed", None)
        token = bool(getattr(credentials.get_frozen_credentials(), "token", None)) if credentials else False
        length_s = intent.length_s or 0.0
        outlived = renewable is not None and method not in _RENEWED and renewable(refresh_in=length_s)
    if not token:
        return ok("credentials", f"from {method}; they do not expire")
    if method in _RENEWED:
        return ok("credentials", f"from {method}; renewed by AWS")
    length = f"the run's {duration(length_s)}" if length_s else "the run, whose length is not known yet,"
    then = f"nodes then end by themselves, {duration(settings.lifetime_s)} after their launch at the latest"
    remedy = f"log in again right before the run, or use a role of this machine; {then}"
    if renewable is None:
        return warning("credentials", f"from {method}; temporary, and when they end is not known", remedy)
    if outlived:
        said = f"from {method}; they end before {length} is over, and are renewed only while the log-in lasts"
        return (problem if method == "env" else warning)("credentials", said, remedy)
    return ok("credentials", f"from {method}; they outlive {length}")


def inspect_renting(clients: Clients, order: Mapping[str, Any]) -> Finding:
    """Whether the run's own renting call would be obeyed, its tags and its instance profile included.

    Args:
        clients: of the region.
        order: what the call is given.

    Raises:
        NoAnswer: AWS did not answer.
    """
    refused = _dry(clients, "ec2:RunInstances", "run_instances", order)
    if refused is None:
        return ok("right to rent", "RunInstances would be obeyed, with our tags and this instance profile")
    if refused.kind is RefusalKind.RIGHTS:
        return problem("right to rent", f"this identity may not do {refused.right}", _POLICY)
    return problem("renting", f"RunInstances would be refused: {refused.code} ({refused.said})", "change what it names")


def inspect_ending(clients: Clients) -> Finding:
    """Whether instances of ours could be ended. Raises as `answering`."""
    alive = [seen.instance for seen in listing.of_anyone(clients.control) if not seen.state.over]
    asked = {"InstanceIds": alive[:1] or [NOBODY]}
    refused = _dry(clients, "ec2:TerminateInstances", "terminate_instances", asked)
    if refused is None or refused.kind is RefusalKind.MISSING:
        return ok("right to end", "TerminateInstances would be obeyed")
    if refused.kind is RefusalKind.RIGHTS and not alive:
        return warning(
            "right to end",
            "not proven: this identity may not do ec2:TerminateInstances on an instance without our tags, and there "
            "is none with them to ask about",
            "nothing, if its policy is that of `rb-tune policy driver`; otherwise " + _POLICY,
        )
    if refused.kind is RefusalKind.RIGHTS:
        return problem("right to end", f"this identity may not do {refused.right}", _POLICY)
    return problem("ending", f"TerminateInstances would be refused: {refused.code} ({refused.said})", "look into it")


def _dry(clients: Clients, action: str, method: str, arguments: Mapping[str, Any]) -> CallRefused | None:
    try:
        with answering(action):
            getattr(clients.control, method)(DryRun=True, **arguments)
    except CallRefused as refused:
        return None if refused.code == DRY else refused
    return None
