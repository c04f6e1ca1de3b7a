"""What happens to instances as time goes on. It is done when somebody looks, at the times at which it was due."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from faulty_ec2 import spot_requests
from faulty_ec2.instances import Record
from faulty_ec2.pools import give
from faulty_ec2.world import World

USER = "Client.UserInitiatedShutdown"
GUEST = "Client.InstanceInitiatedShutdown"
RECLAIMED = "Server.SpotInstanceTermination"


def tick(world: World) -> None:
    """Do everything that is due."""
    now_s = world.now()
    for record in world.records.values():
        if not record.shown and record.visible_s <= now_s:
            record.shown = True
    for reservation, (region, held) in list(world.hidden.items()):
        if world.records[held.instances[0].id].shown:
            world.backend(region).reservations[reservation] = held
            del world.hidden[reservation]
    for record in list(world.records.values()):
        _advance(world, record, now_s)


def _advance(world: World, record: Record, now_s: float) -> None:
    boots_s = None if record.id in world.stuck else record.boots_s
    ends_first = record.ends_s is not None and boots_s is not None and record.ends_s < boots_s
    if record.state == "pending" and boots_s is not None and boots_s <= now_s and not ends_first:
        if record.doom:
            end(world, record, boots_s, record.doom, shutdown_s=0.0)
        else:
            record.turn("running")
            record.runs.append((boots_s, None))
            world.tell("boot", record)
    if record.ends_s is not None and record.ends_s <= now_s:
        end(world, record, record.ends_s, record.ends_why)
    if record.state == "shutting-down" and record.gone_s is not None and record.gone_s <= now_s:
        _tear_down(world, record, record.gone_s)
    if record.vanishes_s is not None and record.vanishes_s <= now_s:
        record.vanishes_s = None
        record.vanished = True
        _vanish(world, record)


def end(world: World, record: Record, at_s: float, why: str, shutdown_s: float | None = None) -> None:
    """Begin the end of an instance; for one that is ending already, nothing."""
    record.ends_s = None
    if record.state in ("shutting-down", "terminated"):
        return
    was_held = record.state in ("pending", "running")
    record.stop_running(at_s)
    record.turn("shutting-down", why)
    record.gone_s = at_s + (world.shutdown_s if shutdown_s is None else shutdown_s)
    if was_held:
        give(world, record.pool)
        world.tell("end", record)
    spot_requests.close(world, record, why)
    if record.gone_s <= world.now():
        _tear_down(world, record, record.gone_s)


def halt(world: World, record: Record, at_s: float, why: str) -> None:
    """Stop an instance: it can be started again and its disks are paid for."""
    if record.state not in ("pending", "running"):
        return
    record.stop_running(at_s)
    record.ends_s = None
    record.boots_s = None
    record.turn("stopped", why)
    give(world, record.pool)
    world.tell("end", record)


def _tear_down(world: World, record: Record, at_s: float) -> None:
    reason, message = record.made.state_reason.code, record.made.state_reason.message
    with _listed(world, record):
        record.made.terminate()
    record.turn("terminated", reason, message)
    record.vanishes_s = at_s + world.vanish_s
    world.volumes.see(record.region, world.backend(record.region), at_s)


def _vanish(world: World, record: Record) -> None:
    reservations = world.backend(record.region).reservations
    for name, held in list(reservations.items()):
        if record.made in held.instances:
            held.instances.remove(record.made)
            if not held.instances:
                del reservations[name]


@contextmanager
def _listed(world: World, record: Record) -> Iterator[None]:
    """moto finds instances in its lists alone, also those that are hidden."""
    reservations = world.backend(record.region).reservations
    hidden = {name: held for name, (_, held) in world.hidden.items() if record.made in held.instances}
    reservations.update(hidden)
    try:
        yield
    finally:
        for name in hidden:
            reservations.pop(name)
