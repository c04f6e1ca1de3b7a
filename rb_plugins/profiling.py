"""Measuring a training function on nodes of the cloud that it is to run on, and the file that tells of it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rb_core.clock import pause
from rb_core.cluster import LEAST_READY_S, READY_PATIENCE
from rb_core.errors import InvalidInput, LaunchFailure, LeakedNodes
from rb_core.events import SCHEMA
from rb_core.hardware import Cloud
from rb_core.measurement import MeasuredProfile
from rb_core.placement import divides
from rb_core.ports import Clock, Depot, Inbox, Launcher, NodeNews, NodeNotice, Provider, Slot
from rb_core.profiler import profile
from rb_core.target import Target
from rb_plugins.config.profile import profile_table
from rb_plugins.factories import DepotFactory
from rb_plugins.rundir import make_folder
from rb_plugins.storing import below, depot_at
from rb_plugins.tuning import Measuring, Tuning

MOST_CONFIGS = 8
"""Configurations that are offered to the profiler; more tell little about the spread between them."""

PARTING_S = 15.0
"""Nodes that were measured on must be gone within this time once they are given back."""

_LOOK_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRequest:
    """What is to be measured.

    Attributes:
        target: the training function.
        launcher: name of the launcher.
        cloud: where; its first instance type is measured.
        configs: configurations to try, most telling first.
        measuring: on how many slots, and for how long.
        seed: seed of the training.
        max_iterations: iterations of a trial that is never stopped.
        env: variables for every rank.
        storage: folder that the checkpoints of the run will be in; the system's temporary one when None.
        depot: what will keep them, where that is no folder; nothing else may be in it.
        longest: iterations after which the function ends by itself; None for one that does not.
    """

    target: Target
    launcher: str
    cloud: Cloud
    configs: tuple[Mapping[str, Any], ...]
    measuring: Measuring
    seed: int = 0
    max_iterations: int = 1
    env: Mapping[str, str] = field(default_factory=dict)
    storage: Path | None = None
    depot: Depot | None = None
    longest: int | None = None


def profile_request(
    tuning: Tuning,
    measuring: Measuring,
    configs: tuple[Mapping[str, Any], ...],
    depots: Mapping[str, DepotFactory],
) -> ProfileRequest:
    """What is to be measured before a run.

    Args:
        tuning: the run.
        measuring: on how many slots, and for how long.
        configs: the run's own; some of them are measured.
        depots: stores of checkpoints by the scheme of their addresses.

    Raises:
        InvalidInput: the run names a store that there is not.
    """
    kept = tuning.storage
    storage = below(kept, f"profile-{secrets.token_hex(4)}") if isinstance(kept, str) else kept
    return ProfileRequest(
        target=tuning.target,
        launcher=tuning.launcher,
        cloud=tuning.cloud,
        configs=configs[:MOST_CONFIGS],
        measuring=measuring,
        seed=tuning.seed,
        max_iterations=max(sum(stage.iterations for stage in chain) for chain in tuning.experiment.chains),
        env=tuning.env,
        storage=tuning.storage if isinstance(tuning.storage, Path) else None,
        depot=depot_at(storage, depots),
    )


def sizes(measuring: Measuring, cloud: Cloud) -> tuple[int, ...]:
    """Numbers of slots to measure: those asked for, else 1, 2, 4, ... as far as the nodes of `rented` reach."""
    if measuring.slots:
        return measuring.slots
    node_slots = cloud.instance_types[0].slots
    most = node_slots * (cloud.max_nodes if cloud.provider == "local" else 1)
    powers = (2**exponent for exponent in range(most.bit_length()))
    return tuple(size for size in powers if size <= most and divides(size, node_slots))


@contextmanager
def rented(
    provider: Provider, cloud: Cloud, clock: Clock, inbox: Inbox, *, run: str, largest: int
) -> Iterator[Sequence[Slot]]:
    """Slots to measure on, of the first instance type; given back in any case.

    Args:
        provider: puts its notices into `inbox`.
        cloud: the cloud.
        clock: the time.
        inbox: where notices arrive; nothing else may be using it.
        run: id that the nodes are tagged with.
        largest: slots of the widest trial.

    Raises:
        InvalidInput: the cloud has too few slots.
        LaunchFailure: a node was lost, or never came.
        LeakedNodes: a node could not be given back.
    """
    node = cloud.instance_types[0]
    count = -(-largest // node.slots)
    if count > cloud.max_nodes:
        raise InvalidInput(
            "profile.slots",
            f"must be at most the {cloud.max_nodes * node.slots} slots of {cloud.max_nodes} node(s) of type "
            f"{node.name}, got {largest}",
        )
    if cloud.provider == "local":
        # Nodes of one machine share its memory and caches: measure on as many as the run may use.
        count = cloud.max_nodes
    names = [f"{run}-profile-{number}" for number in range(count)]
    try:
        provider.launch(names, node, run=run)
        missing = set(names)
        limit_s = LEAST_READY_S + READY_PATIENCE * (cloud.launch_s.mean + cloud.init_s.mean)
        until_s = clock.now() + limit_s
        while missing:
            notice = inbox.get(until_s)
            if notice is None:
                raise LaunchFailure(
                    f"{len(missing)} node(s) to profile on were not ready within {limit_s:.0f} s; raise the cloud's "
                    "launch_s and init_s if they need longer"
                )
            if isinstance(notice, NodeNotice) and notice.kind == NodeNews.LOST:
                raise LaunchFailure(f"node {notice.node} was lost while profiling: {notice.reason}")
            if isinstance(notice, NodeNotice) and notice.kind == NodeNews.READY:
                missing.discard(notice.node)
        yield [slot for name in names for slot in provider.slots(name)]
    finally:
        _give_back(provider, names, clock, run=run)


def _give_back(provider: Provider, names: Sequence[str], clock: Clock, *, run: str) -> None:
    """Give nodes back, and wait for those that take their time. Raises `LeakedNodes`."""
    provider.release(names)
    limit_s = clock.now() + PARTING_S
    while left := provider.owned(run):
        if clock.now() >= limit_s:
            raise LeakedNodes(left, "give them back by hand")
        pause(clock, _LOOK_S)


def measure(
    request: ProfileRequest, launcher: Launcher, clock: Clock, rent: Callable[[Inbox], Provider]
) -> MeasuredProfile:
    """Measure how a training function scales.

    Args:
        request: what and where.
        launcher: of that function, entered.
        clock: the time.
        rent: makes the provider, which puts its notices into the inbox.

    Raises:
        RubberBandError: as `rb_plugins.session.Session.measure`.
    """
    inbox = clock.inbox()
    widths = sizes(request.measuring, request.cloud)
    if request.storage is not None:
        make_folder(request.storage)
    with (
        closing(rent(inbox)) as provider,
        rented(provider, request.cloud, clock, inbox, run=f"profile-{os.getpid()}", largest=max(widths)) as slots,
    ):
        try:
            return profile(
                launcher,
                clock,
                configs=request.configs,
                slots=slots,
                sizes=widths,
                budget_s=request.measuring.budget_s,
                folder=request.storage,
                seed=request.seed,
                max_iterations=request.max_iterations,
                env=request.env,
                longest=request.longest,
                depot=request.depot,
            )
        except InvalidInput as error:
            raise (error.under("profile") if error.key == "slots" else error) from None


def measured_table(measured: MeasuredProfile, *, target: str, made: str) -> dict[str, Any]:
    """What a profile file holds.

    Args:
        measured: the profile and what it rests on.
        target: what was measured.
        made: when, in UTC.
    """
    return {
        "schema": SCHEMA,
        **profile_table(measured.profile),
        "target": target,
        "made": made,
        "seconds": measured.seconds,
        "warnings": list(measured.warnings),
        "measurements": [
            {
                "slots": start.slots,
                "config": dict(measured.configs[start.config]),
                "from_iteration": start.from_iteration,
                "start_s": start.start_s,
                "restore_s": start.restore_s,
                "iterations_s": list(start.iterations_s),
                "save_s": start.save_s,
                "checkpoint_bytes": start.checkpoint_bytes,
            }
            for start in measured.measurements
        ],
        "fit": _fit_table(measured),
    }


def _fit_table(measured: MeasuredProfile) -> Mapping[str, Any] | None:
    fit = measured.fit
    if fit is None:
        return None
    return {
        "form": "a + b/w + c*log2(w) + d*w",
        "coefficients": list(fit.coefficients),
        "residuals": {str(slots): residual for slots, residual in fit.residuals.items()},
        "largest_slots": fit.largest_slots,
    }
