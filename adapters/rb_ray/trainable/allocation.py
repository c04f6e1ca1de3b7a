"""What a trial holds, as its own processes see it."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ray import tune
    from ray.util.placement_group import PlacementGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """The slots of one start of a trial.

    Attributes:
        trial_id: Tune's id of the trial; empty outside of Tune.
        bundles: what each slot holds, as Ray names it, such as ``{"CPU": 2.0, "GPU": 1.0}``; the first one is the
            trainable's own, and may be empty.
        node_ids: the Ray node of each slot; empty outside of Tune.
        stage: which stage of a `RubberBandScheduler` this is, from 0; None with any other scheduler.
        until: iterations done in total when that stage ends, where the scheduler counts in them.
        max_iterations: the same of its last stage.
    """

    trial_id: str
    bundles: tuple[Mapping[str, float], ...]
    node_ids: tuple[str, ...]
    stage: int | None = None
    until: int | None = None
    max_iterations: int | None = None

    @property
    def slots(self) -> int:
        """How many slots there are: the world size of a data-parallel trial."""
        return len(self.bundles)

    @property
    def cpus_per_slot(self) -> float:
        """CPUs of the trainable's own slot; `rb_ray.distributed` sees to it that all are alike."""
        return self.bundles[0].get("CPU", 0.0)

    @property
    def gpus_per_slot(self) -> float:
        """GPUs of the trainable's own slot; a fraction where several trials share one."""
        return self.bundles[0].get("GPU", 0.0)


def trial_number(trial_id: str) -> int:
    """The number that Tune's own ids end with (``4f1d2_00012``); of ids that a search algorithm made up, a hash."""
    tail = trial_id.rpartition("_")[2]
    return int(tail) if tail.isdecimal() else zlib.crc32(trial_id.encode())


_held: Allocation | None = None


def hold(allocation: Allocation) -> None:
    """Let `get_allocation` answer with this one: in processes of a trial that Tune knows nothing of."""
    global _held
    _held = allocation


def get_allocation(trainable: tune.Trainable | None = None) -> Allocation:
    """What the trial of this process holds at present. It changes only between two starts of the trial.

    Works with any scheduler, in every rank of `rb_ray.distributed` and in class trainables. Outside of a trial, such
    as in a script that calls its training function to try it out, there is one slot of one CPU.

    Args:
        trainable: a class trainable's ``self``, by which the trial's id and stage are known there, too.
    """
    if _held is not None:
        return _held
    resources, trial_id = _told_by_tune(trainable)
    group = _placement_group()
    node_ids = () if group is None else _node_ids(group)
    if resources is not None:
        bundles = resources.bundles
    elif group is not None:
        bundles = group.bundle_specs
    else:
        bundles = [{"CPU": 1.0}]
    if resources is not None and resources.head_bundle_is_empty:
        # Tune leaves such a bundle out and puts the trainable beside the next one.
        bundles, node_ids = [{}, *bundles], node_ids[:1] + node_ids
    return Allocation(
        trial_id=trial_id,
        bundles=tuple(bundles),
        node_ids=node_ids,
        stage=getattr(resources, "stage", None),
        until=getattr(resources, "until", None),
        max_iterations=getattr(resources, "max_iterations", None),
    )


def _told_by_tune(trainable: tune.Trainable | None) -> tuple[Any, str]:
    """The trial's `PlacementGroupFactory`, or None, and its id."""
    if trainable is not None:
        return trainable.trial_resources, trainable.trial_id
    if "ray.tune" not in sys.modules:
        return None, ""
    from ray import tune

    from rb_ray import _compat

    if not _compat.in_session():
        return None, ""
    context = tune.get_context()
    return context.get_trial_resources(), context.get_trial_id()


def _placement_group() -> PlacementGroup | None:
    ray = sys.modules.get("ray")
    # Ray would start a cluster to answer a process that belongs to none.
    if ray is None or not ray.is_initialized():
        return None
    group: PlacementGroup | None = ray.util.get_current_placement_group()
    return group


def _node_ids(group: PlacementGroup) -> tuple[str, ...]:
    import ray

    placed = ray.util.placement_group_table(group)["bundles_to_node_id"]
    return tuple(placed[index] for index in sorted(placed))
