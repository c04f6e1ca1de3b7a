"""What EC2 shows of the instances that carry our tags. Every list is read to its last page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from rb_core.providers.ec2 import tags as tag
from rb_core.providers.ec2.paging import rows

PAGE = 500
"""Instances asked for at a time."""

FILTER_VALUES = 200
"""Values that one filter of EC2 takes."""

RECLAIMED = frozenset({"Server.SpotInstanceTermination", "Server.SpotInstanceShutdown"})
"""Reasons by which EC2 says that it took a spot instance back."""


class InstanceState(StrEnum):
    """Where an instance is in its life."""

    PENDING = "pending"
    """It starts; not billed."""
    RUNNING = "running"
    """Billed."""
    STOPPING = "stopping"
    """On its way to `STOPPED`."""
    STOPPED = "stopped"
    """Its machine is given up and its disk is kept, and billed."""
    SHUTTING_DOWN = "shutting-down"
    """On its way to `TERMINATED`; not billed, and nothing brings it back."""
    TERMINATED = "terminated"
    """Gone. Shown for about an hour."""

    @property
    def over(self) -> bool:
        """Whether it is gone, or surely will be."""
        return self in (InstanceState.SHUTTING_DOWN, InstanceState.TERMINATED)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenInstance:
    """One instance as EC2 shows it.

    Attributes:
        instance: its id.
        state: where it is in its life.
        run: the run that its tag names; empty where it has no such tag.
        attempt: token of the renting call that its tag names.
        index: its position among what that call granted.
        instance_type: name of its type.
        zone: where it stands.
        spot: whether it is bought on spot.
        expires: when it ends itself at the latest, as its tag says.
        reason: why it is in this state, in EC2's words; empty where that is not said.
        reclaimed: whether EC2 took it back, as it may on spot.
        address: its private address; empty while it has none.
        launched: when it was asked for; None where that is not said.
        tags: all its tags.
    """

    instance: str
    state: InstanceState
    run: str = ""
    attempt: str = ""
    index: int = 0
    instance_type: str = ""
    zone: str = ""
    spot: bool = False
    expires: str = ""
    reason: str = ""
    reclaimed: bool = False
    address: str = ""
    launched: datetime | None = None
    tags: Mapping[str, str]

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> SeenInstance:
        """What an instance's row of an answer says."""
        tags = {each["Key"]: each["Value"] for each in row.get("Tags", ())}
        why = row.get("StateReason") or {}
        code, said = why.get("Code", ""), why.get("Message", "")
        return cls(
            instance=row["InstanceId"],
            state=InstanceState(row["State"]["Name"]),
            run=tags.get(tag.RUN, ""),
            attempt=tags.get(tag.ATTEMPT, ""),
            index=int(row.get("AmiLaunchIndex", 0)),
            instance_type=row.get("InstanceType", ""),
            zone=row.get("Placement", {}).get("AvailabilityZone", ""),
            spot=row.get("InstanceLifecycle") == "spot",
            expires=tags.get(tag.EXPIRES, ""),
            # EC2's sentence repeats the code; other servers may leave it out.
            reason=said if code and code in said else ": ".join(part for part in (code, said) if part),
            reclaimed=code in RECLAIMED,
            address=row.get("PrivateIpAddress", ""),
            launched=row.get("LaunchTime"),
            tags=tags,
        )


def of_run(ec2: Any, run: str) -> tuple[SeenInstance, ...]:
    """Every instance that is tagged as the run's and still shown, ended ones included.

    Args:
        ec2: a client that repeats its calls.
        run: id of the run.

    Raises:
        NoAnswer: EC2 did not answer.
        CallRefused: it may not be asked.
    """
    return tuple(each for each in _found(ec2, tag.filters(run)) if each.run == run)


def of_anyone(ec2: Any) -> tuple[SeenInstance, ...]:
    """Every instance of the region with a tag of ours, whichever. Raises as `of_run`."""
    return _found(ec2, tag.filters(None))


def by_ids(ec2: Any, ids: Iterable[str]) -> tuple[SeenInstance, ...]:
    """Those of the instances that EC2 shows, whatever their tags are. Raises as `of_run`."""
    wanted = list(dict.fromkeys(ids))
    parts = (wanted[start : start + FILTER_VALUES] for start in range(0, len(wanted), FILTER_VALUES))
    return tuple(seen for part in parts for seen in _found(ec2, [{"Name": "instance-id", "Values": part}]))


def _found(ec2: Any, filters: Sequence[Mapping[str, Any]]) -> tuple[SeenInstance, ...]:
    reservations = rows(
        ec2,
        "ec2:DescribeInstances",
        "describe_instances",
        "Reservations",
        Filters=list(filters),
        PaginationConfig={"PageSize": PAGE},
    )
    return tuple(SeenInstance.of(row) for reservation in reservations for row in reservation.get("Instances", ()))
