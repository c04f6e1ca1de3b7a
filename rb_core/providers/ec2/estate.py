"""The estate of an AWS account: what it holds of ours in any region, and how that is ended."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any

from rb_core.collecting import PATIENCE_S, Collected, collect
from rb_core.estate import SETTLING_S, Belonging, Inventory, Kind, Known, Life, Trouble
from rb_core.ports import Clock, Record
from rb_core.providers.ec2 import ending
from rb_core.providers.ec2.clients import Clients
from rb_core.providers.ec2.possessions import inventory
from rb_core.providers.ec2.refusals import CallRefused, answering
from rb_core.providers.ec2.trouble import ANSWERS, trouble, unseen

ANY_REGION = "us-east-1"
"""Whom to ask which regions there are, where no region is set up."""

_GONE = frozenset(
    {"InvalidVolume.NotFound", "InvalidGroup.NotFound", "InvalidSpotInstanceRequestID.NotFound", "ParameterNotFound"}
)


class Ec2Estate:
    """Everything of ours in one AWS account. Contacts nobody before it is asked."""

    name = "ec2"

    def __init__(self, *clients: Clients) -> None:
        """An estate of the account that boto3's own chain of credentials leads to.

        Args:
            *clients: clients to use in their regions; those of other regions are made when they are needed.
        """
        self._clients = {each.region: each for each in clients}

    def regions(self) -> Sequence[str]:
        """All regions that the account has enabled, sorted. Raises `InvalidInput` or `NoAnswer`."""
        try:
            with answering("ec2:DescribeRegions"):
                told = self._of(self.usual_region() or ANY_REGION).control.describe_regions()
        except CallRefused as refused:
            raise refused.as_input() from refused
        return sorted(str(row["RegionName"]) for row in told["Regions"])

    def usual_region(self) -> str:
        """What the environment or the profile says; empty where they say nothing."""
        return os.environ.get("AWS_REGION", "") or str(self._of(ANY_REGION).session.region_name or "")

    def look(self, region: str, *, run: str | None = None, also: Collection[str] = ()) -> Inventory:
        """Everything of ours in a region."""
        try:
            clients = self._of(region)
            clients.check()
        except ANSWERS as error:
            return Inventory(troubles=tuple(unseen(region, kind, error) for kind in Kind))
        return inventory(clients, run=run, also=also)

    def end(self, region: str, belongings: Sequence[Belonging]) -> Sequence[Trouble]:
        """End these, machines first, for all else may be in use by them; what is in use is a passing trouble."""
        clients = self._of(region)
        troubles = self._end_machines(clients, [b for b in belongings if b.kind is Kind.NODE])
        for belonging in belongings:
            if belonging.kind is not Kind.NODE:
                troubles += _attempt(clients, belonging)
        return troubles

    def close(self) -> None:
        """Let go of connections. Idempotent."""
        for clients in self._clients.values():
            clients.close()

    def _of(self, region: str) -> Clients:
        if region not in self._clients:
            session = next((each.session for each in self._clients.values()), None)
            self._clients[region] = Clients(region, session=session)
        return self._clients[region]

    def _end_machines(self, clients: Clients, machines: Sequence[Belonging]) -> list[Trouble]:
        """Run by run: rights may be bound to the tag of a run, and a call is refused as a whole."""
        troubles: list[Trouble] = []
        for run in dict.fromkeys(machine.run for machine in machines):
            those = [machine for machine in machines if machine.run == run]
            try:
                ending.end(clients.control, [machine.ident for machine in those])
            except ANSWERS as error:
                troubles += [trouble(machine, error) for machine in those]
        return troubles


def _attempt(clients: Clients, belonging: Belonging) -> list[Trouble]:
    action, call = _CALLS[belonging.kind]
    try:
        with answering(action):
            call(clients, belonging.ident)
    except ANSWERS as error:
        if isinstance(error, CallRefused) and error.code in _GONE:
            return []
        return [trouble(belonging, error)]
    return []


def _delete_volume(clients: Clients, ident: str) -> Any:
    return clients.control.delete_volume(VolumeId=ident)


def _cancel_request(clients: Clients, ident: str) -> Any:
    return clients.control.cancel_spot_instance_requests(SpotInstanceRequestIds=[ident])


def _delete_parameter(clients: Clients, ident: str) -> Any:
    return clients.service("ssm").delete_parameter(Name=ident)


def _delete_group(clients: Clients, ident: str) -> Any:
    return clients.control.delete_security_group(GroupId=ident)


_CALLS: Mapping[Kind, tuple[str, Callable[[Clients, str], Any]]] = {
    Kind.DISK: ("ec2:DeleteVolume", _delete_volume),
    Kind.REQUEST: ("ec2:CancelSpotInstanceRequests", _cancel_request),
    Kind.SECRET: ("ssm:DeleteParameter", _delete_parameter),
    Kind.GROUP: ("ec2:DeleteSecurityGroup", _delete_group),
}


def collect_run(
    clients: Clients, clock: Clock, record: Record, *, run: str, patience_s: float = PATIENCE_S
) -> Collected:
    """End all that one run left in the clients' region; for after its process is dead, by its log alone.

    Looks until nothing is left and the last renting call in the log is `SETTLING_S` old: what it brought is visible by
    then. Nothing of any other run is touched.

    Args:
        clients: of the run's account and region.
        clock: the time.
        record: the run's log.
        run: its id.
        patience_s: how long to wait for the last to be gone.
    """
    launches = record.launches.values()
    rented = {
        instance: node
        for launch in launches
        for instance, node in zip(launch.instances or (), launch.nodes, strict=False)
    }
    last_s = max((launch.t_s for launch in launches), default=None)
    settled = None if last_s is None else clock.utc() + timedelta(seconds=last_s + SETTLING_S - record.t_s)
    known = Known(life=Life.ABANDONED, settled=settled, rented=rented)
    return collect(Ec2Estate(clients), [clients.region], lambda: {run: known}, clock, run=run, patience_s=patience_s)
