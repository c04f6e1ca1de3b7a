"""Ends instances: many at a time, and no bad one among them keeps the others alive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rb_core.providers.ec2.refusals import CallRefused, RefusalKind, answering

BATCH = 500
"""Instances that one call is given; EC2 takes up to 1000."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What became of instances that were to end.

    Attributes:
        ended: EC2 ends them.
        missing: EC2 knows none of that id, or does not yet.
        unprotected: those of `ended` whose protection had to be lifted.
    """

    ended: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    unprotected: tuple[str, ...] = ()

    def __add__(self, other: Ended) -> Ended:
        return Ended(
            ended=self.ended + other.ended,
            missing=self.missing + other.missing,
            unprotected=self.unprotected + other.unprotected,
        )


def end(ec2: Any, ids: Sequence[str]) -> Ended:
    """End instances. Idempotent; those that have ended already count as ended.

    EC2 ends none of a call's instances when one is unknown or protected, so such a call is split until that one stands
    alone. Protection is lifted then.

    Args:
        ec2: a client that repeats its calls.
        ids: instances that are known to be ours: nobody looks at their tags here.

    Raises:
        NoAnswer: EC2 did not answer; some may have ended.
        CallRefused: they may not be ended from here; some may have ended.
    """
    done = Ended()
    for start in range(0, len(ids), BATCH):
        done += _end(ec2, tuple(ids[start : start + BATCH]))
    return done


def _end(ec2: Any, ids: tuple[str, ...]) -> Ended:
    try:
        _terminate(ec2, ids)
    except CallRefused as refused:
        if refused.kind not in (RefusalKind.MISSING, RefusalKind.PROTECTED):
            raise
        if len(ids) > 1:
            middle = len(ids) // 2
            return _end(ec2, ids[:middle]) + _end(ec2, ids[middle:])
        if refused.kind is RefusalKind.MISSING:
            return Ended(missing=ids)
        with answering("ec2:ModifyInstanceAttribute"):
            ec2.modify_instance_attribute(InstanceId=ids[0], DisableApiTermination={"Value": False})
        _terminate(ec2, ids)
        return Ended(ended=ids, unprotected=ids)
    return Ended(ended=ids)


def _terminate(ec2: Any, ids: tuple[str, ...]) -> None:
    with answering("ec2:TerminateInstances"):
        ec2.terminate_instances(InstanceIds=list(ids))
