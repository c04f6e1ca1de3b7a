"""Measuring a training function on nodes of the cloud that it is to run on, and the file that tells of it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rb_core.errors import InvalidInput, RubberBandError
from rb_core.eventlog import EventLog
from rb_core.events import SCHEMA
from rb_core.hardware import Cloud
from rb_core.journal import Journal
from rb_core.lease import Lease
from rb_core.measurement import MeasuredProfile, MeasuredSpeed, Measurement
from rb_core.placement import divides
from rb_core.ports import Clock, Depot, Inbox, Launcher, Provider, Slot
from rb_core.profiler import profile
from rb_core.survey import Bench, Survey
from rb_core.target import Target
from rb_plugins.config.cloud import cloud_table
from rb_plugins.config.profile import profile_table
from rb_plugins.factories import DepotFactory
from rb_plugins.latencies import remember
from rb_plugins.requested import environment
from rb_plugins.rundir import RunDirectory, make_folder
from rb_plugins.storing import below, depot_at
from rb_plugins.tuning import Measuring, Tuning

MOST_CONFIGS = 8
"""Configurations that are offered to the profiler; more tell little about the spread between them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRequest:
    """What is to be measured.

    Attributes:
        target: the training function.
        launcher: name of the launcher.
        cloud: where; the profile is that of its first instance type.
        configs: configurations to try, most telling first.
        measuring: on how many slots, and for how long.
        seed: seed of the training.
        max_iterations: iterations of a trial that is never stopped.
        env: variables for every rank.
        storage: folder that the checkpoints of the run will be in; the system's temporary one when None.
        depot: what will keep them, where that is no folder; nothing else may be in it.
        longest: iterations after which the function ends by itself; None for one that does not.
        others: names of the types whose speed is measured beside.
        name: for people, in the name of the directory that tells of it.
        max_usd: hard limit of what it may cost; None for no limit.
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
    others: tuple[str, ...] = ()
    name: str = ""
    max_usd: float | None = None


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
        others=other_types(tuning, measuring),
        name=tuning.name,
        max_usd=tuning.max_usd,
    )


def other_types(tuning: Tuning, measuring: Measuring) -> tuple[str, ...]:
    """The types beside the first whose speed is to be measured: those of which it was not given by hand."""
    if measuring.types == "first":
        return ()
    _, *others = tuning.cloud.instance_types
    return tuple(other.name for other in others if other.name not in tuning.by_hand.speeds)


def sizes(measuring: Measuring, cloud: Cloud) -> tuple[int, ...]:
    """Numbers of slots to measure: those asked for, else 1, 2, 4, ... as far as the nodes of the first bench reach."""
    if measuring.slots:
        return measuring.slots
    node_slots = cloud.instance_types[0].slots
    most = node_slots * (cloud.max_nodes if cloud.provider == "local" else 1)
    powers = (2**exponent for exponent in range(most.bit_length()))
    return tuple(size for size in powers if size <= most and divides(size, node_slots))


def benches(request: ProfileRequest) -> tuple[Bench, ...]:
    """What each type is measured on: the first on all sizes, the others on those of them that they can hold.

    A node of each is rented, and as many more as the smallest of its sizes takes. Nodes of one machine share its memory
    and caches, so there it is as many as the run may use.

    Raises:
        InvalidInput: the cloud has too few slots, or a type and the first one can hold none of the sizes alike.
    """
    cloud, widths = request.cloud, sizes(request.measuring, request.cloud)
    first, *_ = cloud.instance_types
    count = -(-max(widths) // first.slots)
    if count > cloud.max_nodes:
        raise InvalidInput(
            "profile.slots",
            f"must be at most the {cloud.max_nodes * first.slots} slots of {cloud.max_nodes} node(s) of type "
            f"{first.name}, got {max(widths)}",
        )
    shared = cloud.provider == "local"
    found = [Bench(instance_type=first, nodes=cloud.max_nodes if shared else count, sizes=widths)]
    for name in request.others:
        other = cloud.instance_type(name)
        fits = [width for width in widths if divides(width, other.slots) and width <= other.slots * cloud.max_nodes]
        if not fits:
            raise InvalidInput(
                "profile.slots",
                f"must hold a number that {other.name} can be compared on, with its {other.slots} slots a node; add 1, "
                "or give the type's speed",
            )
        nodes = cloud.max_nodes if shared else max(1, min(fits) // other.slots)
        own = tuple(width for width in fits if width <= nodes * other.slots)
        found.append(Bench(instance_type=other, nodes=nodes, sizes=own))
    return tuple(found)


def measure(
    request: ProfileRequest, launcher: Launcher, clock: Clock, rent: Callable[[Inbox], Provider], *, home: Path
) -> MeasuredProfile:
    """Measure how a training function scales, in a run directory of its own that tells of every node.

    Args:
        request: what and where.
        launcher: of that function, entered.
        clock: the time.
        rent: makes the provider, which puts its notices into the inbox.
        home: where runs are kept.

    Raises:
        RubberBandError: as `rb_plugins.session.Session.measure`.
    """
    inbox = clock.inbox()
    tables = benches(request)
    if request.storage is not None:
        make_folder(request.storage)

    def on(slots: Sequence[Slot], widths: Sequence[int], budget_s: float) -> MeasuredProfile:
        return profile(
            launcher,
            clock,
            configs=request.configs,
            slots=slots,
            sizes=widths,
            budget_s=budget_s,
            folder=request.storage,
            seed=request.seed,
            max_iterations=request.max_iterations,
            env=request.env,
            longest=request.longest,
            depot=request.depot,
        )

    with closing(rent(inbox)) as provider:
        directory = RunDirectory.create(home, f"profile {request.name}", clock.utc())

        def keep(measured: MeasuredProfile) -> None:
            made = clock.utc().isoformat(timespec="seconds")
            table = measured_table(measured, target=request.target.name, made=made, cloud=request.cloud)
            directory.write("profile.json", table)

        try:
            with EventLog(directory.events) as log, Lease(directory.lease, clock):
                survey = Survey(
                    run=directory.run,
                    target=request.target.name,
                    cloud=request.cloud,
                    record=cloud_table(request.cloud),
                    provider=provider,
                    journal=Journal(log, clock),
                    clock=clock,
                    inbox=inbox,
                    max_usd=request.max_usd,
                    environment=environment(),
                    seed=request.seed,
                )
                return survey.conduct(tables, on, request.measuring.budget_s, keep)
        except InvalidInput as error:
            raise (error.under("profile") if error.key == "slots" else error) from None
        except RubberBandError as error:
            if directory.profile.exists():
                error.add_note(f"what had been measured before is in {directory.profile}")
            raise
        finally:
            remember(directory, request.cloud.provider, clock)


def measured_table(measured: MeasuredProfile, *, target: str, made: str, cloud: Cloud | None = None) -> dict[str, Any]:
    """What a profile file holds.

    Args:
        measured: the profile and what it rests on.
        target: what was measured.
        made: when, in UTC.
        cloud: where; None where nobody said.
    """
    where = {} if cloud is None else {"provider": cloud.provider, **({"region": cloud.region} if cloud.region else {})}
    return {
        "schema": SCHEMA,
        **profile_table(measured.profile),
        "target": target,
        "made": made,
        "seconds": measured.seconds,
        "warnings": list(measured.warnings),
        **(_survey_table(measured) if measured.instance_type else {}),
        **where,
        "measurements": _rows(measured.measurements, measured),
        "fit": _fit_table(measured),
    }


def _survey_table(measured: MeasuredProfile) -> Mapping[str, Any]:
    return {
        "instance_type": measured.instance_type,
        "usd": measured.usd,
        "speeds": {name: _speed_table(speed, measured) for name, speed in measured.speeds.items()},
    }


def _speed_table(speed: MeasuredSpeed, measured: MeasuredProfile) -> Mapping[str, Any]:
    return {
        "mean": speed.mean,
        "std": speed.std,
        "by_slots": {str(slots): ratio for slots, ratio in speed.by_slots.items()},
        "measurements": _rows(speed.measurements, measured),
    }


def _rows(measurements: Sequence[Measurement], measured: MeasuredProfile) -> list[Mapping[str, Any]]:
    return [
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
        for start in measurements
    ]


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
