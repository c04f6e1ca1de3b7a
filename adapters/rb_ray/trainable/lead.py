"""Rank 0's side of a trial of several ranks: starts the others, watches them, ends them."""

from __future__ import annotations

import dataclasses
import queue
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from rb_core.errors import FailureKind, InvalidInput
from rb_core.training.peers import looks_like_lost_peer
from rb_ray.trainable.allocation import Allocation, trial_number
from rb_ray.trainable.ending import End, watch
from rb_ray.trainable.group import Gathering, leave
from rb_ray.trainable.ranks import Follower, Options, Start, run_rank


def gathering_of(allocation: Allocation, options: Options) -> Gathering:
    """How the ranks of a trial come together; the port is chosen once there are several.

    Raises:
        InvalidInput: the slots are not alike.
    """
    for index, bundle in enumerate(allocation.bundles):
        if bundle != allocation.bundles[0]:
            raise InvalidInput(
                "the trial's placement group",
                f"must have one bundle for each rank, all alike, but bundle 0 is {dict(allocation.bundles[0])} and "
                f"bundle {index} is {dict(bundle)}; use tune.PlacementGroupFactory([bundle] * ranks)",
            )
    together = len(set(allocation.node_ids)) <= 1
    return Gathering(
        world_size=allocation.slots,
        host="127.0.0.1" if together else _own_address(),
        port=0,
        backend=options.backend,
        gpus_per_rank=allocation.gpus_per_slot,
        timeout_s=options.timeout_s,
    )


def lead(start: Start) -> Any:
    """Run the trial's ranks to their end, rank 0 in this process; what its function returns.

    Raises:
        TrialFailure: a rank elsewhere failed; it names the one that failed first of itself.
        BaseException: whatever rank 0's function raised, if nothing else was the cause.
        SystemExit: Tune ends the trial.
    """
    if start.gathering.world_size == 1:
        try:
            return run_rank(start, 0)
        finally:
            leave()
    listener = socket.create_server((start.gathering.host, 0))
    gathering = dataclasses.replace(start.gathering, port=listener.getsockname()[1])
    start = dataclasses.replace(start, gathering=gathering)
    ends: queue.SimpleQueue[End] = queue.SimpleQueue()
    own = threading.Thread(target=_run_own, args=(start, listener, ends), name="rank-0", daemon=True)
    try:
        with _followers(start, ends):
            # Only now, since what the function imports would keep the others from starting.
            own.start()
            return watch(ends, gathering.world_size, gathering.timeout_s, trial=trial_number(start.allocation.trial_id))
    finally:
        own.join(0.5)
        # With rank 0 stuck in it the group cannot be left; the process ends with the trial.
        if not own.is_alive():
            leave()


def _own_address() -> str:
    untyped: Any = ray.util
    address: str = untyped.get_node_ip_address()
    return address


def _run_own(start: Start, listener: socket.socket, ends: queue.SimpleQueue[End]) -> None:
    try:
        value = run_rank(start, 0, listener)
    except BaseException as error:
        ends.put(End(rank=0, at_s=time.monotonic(), error=error, lost_peer=looks_like_lost_peer(error)))
    else:
        ends.put(End(rank=0, value=value))


@contextmanager
def _followers(start: Start, ends: queue.SimpleQueue[End]) -> Iterator[None]:
    """Ranks 1 and up, each in its own bundle; they are ended on leaving."""
    group: Any = ray.util.get_current_placement_group()
    follower: Any = ray.remote(Follower)
    actors: list[Any] = []
    common = ray.put(start)
    try:
        for rank in range(1, start.gathering.world_size):
            bundle = dict(start.allocation.bundles[rank])
            actor = follower.options(
                num_cpus=bundle.pop("CPU", 0),
                num_gpus=bundle.pop("GPU", 0),
                memory=bundle.pop("memory", None),
                resources=bundle,
                scheduling_strategy=PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=rank),
            ).remote()
            actors.append(actor)
            _tell_of_end(actor.run.remote(common, rank), rank, ends)
        yield
    finally:
        for actor in actors:
            ray.kill(actor)


def _tell_of_end(reference: ray.ObjectRef[End], rank: int, ends: queue.SimpleQueue[End]) -> None:
    def tell(future: Any) -> None:
        error = future.exception()
        if error is None:
            end = dataclasses.replace(future.result(), at_s=time.monotonic())
        else:
            end = End(
                rank=rank,
                at_s=time.monotonic(),
                cause=f"its process ended: {type(error).__name__}: {' '.join(str(error).split())}",
                kind=FailureKind.DIED,
            )
        ends.put(end)

    reference.future().add_done_callback(tell)
