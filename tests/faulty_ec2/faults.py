"""Faults: rules that the next matching calls meet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from faulty_ec2.wire import Call


class Kind(StrEnum):
    """What a fault does to a call."""

    ERROR = "error"
    """Answer with an error code; nothing is done."""
    DELAY = "delay"
    """Answer late, by real seconds."""
    DROP_BEFORE = "drop_before"
    """Close the connection; nothing is done."""
    DROP_AFTER = "drop_after"
    """Do it and close the connection: the answer is lost."""
    HANG = "hang"
    """Do it and never answer: the client waits out its read timeout."""


@dataclass(slots=True, kw_only=True)
class Fault:
    """One rule.

    Attributes:
        action: the API's name, `*` for any call of AWS's, `imds` for any of an instance's metadata.
        kind: what it does.
        code: error code, for `error`.
        seconds: for `delay`.
        times: how often it still applies; None is always.
        after: matching calls that it lets pass first.
        when: further condition on the call.
        hits: how often it did apply.
    """

    action: str
    kind: Kind
    code: str = ""
    seconds: float = 0.0
    times: int | None = 1
    after: int = 0
    when: Callable[[Call], bool] | None = None
    hits: int = 0

    def cancel(self) -> None:
        """Apply no more."""
        self.times = 0

    def meets(self, call: Call) -> bool:
        """Whether this call meets it; counts."""
        name = "imds" if call.service == "imds" else call.action
        wanted = self.action == name or (self.action == "*" and call.service != "imds")
        if self.times == 0 or not wanted or not (self.when is None or self.when(call)):
            return False
        if self.after > 0:
            self.after -= 1
            return False
        self.hits += 1
        if self.times is not None:
            self.times -= 1
        return True


def first_met(faults: list[Fault], call: Call) -> Fault | None:
    """The first rule, in the order in which they were given, that applies to a call."""
    return next((fault for fault in faults if fault.meets(call)), None)
