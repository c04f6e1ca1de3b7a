"""What a run has cost so far, in all and stage by stage: the live side of the one bill."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from rb_core.billing import bill, due_usd_per_s
from rb_core.hardware import BillingMode, Cloud, Market
from rb_core.state import NodeState, RunState, StageState


@dataclass(frozen=True, slots=True, kw_only=True)
class StageCost:
    """One stage in the ledger.

    Attributes:
        chain: its chain.
        stage: which stage of it.
        start_s: barrier at which it began.
        end_s: barrier at which it ended, None while it lasts.
        cost_usd: what accrued in it unrounded, the data of nodes that began to run in it, and what rounding and
            minimum add for the nodes released at its end.
        idle_fraction: share of the billed slot-seconds between its barriers in which nothing trained.
    """

    chain: int
    stage: int
    start_s: float
    end_s: float | None
    cost_usd: float
    idle_fraction: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """A bill by what is paid for.

    Attributes:
        on_demand_usd: nodes bought on demand, by the time that they ran, or trained where that alone is paid for.
        spot_usd: nodes bought on spot, without those that were taken back so early that they are free.
        disk_usd: their disks.
        address_usd: their public addresses.
        data_usd: downloads of the data set.
        rounding_usd: what rounding up and the minimum of a start add to all that is paid by the time.
    """

    on_demand_usd: float = 0.0
    spot_usd: float = 0.0
    disk_usd: float = 0.0
    address_usd: float = 0.0
    data_usd: float = 0.0
    rounding_usd: float = 0.0

    def table(self) -> dict[str, float]:
        """All of them by their names."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The bill of a run at one time.

    Attributes:
        cost_usd: all of it.
        stages: its parts, in the order in which the stages began.
        items: its parts by what is paid for.
    """

    cost_usd: float
    stages: tuple[StageCost, ...]
    items: Items = Items()


def cost_usd(state: RunState, cloud: Cloud, at_s: float | None = None, *, committed: bool = False) -> float:
    """The bill if every node were given back at `at_s`.

    Args:
        state: the run.
        cloud: its billing rule and data price.
        at_s: a time not before the state's last event; None for that one.
        committed: count nodes that are requested as if they began to run now, for they can no longer be had for
            nothing.
    """
    if not state.nodes:
        return 0.0
    return float(_Nodes(state, cloud, state.t_s if at_s is None else at_s, committed).billed_usd.sum())


def released_usd(state: RunState, cloud: Cloud, *, lane: int) -> float:
    """What a lane's bill is already settled for: nodes that were given back, and training that is billed by itself."""
    if not state.nodes:
        return 0.0
    nodes = _Nodes(state, cloud, state.t_s, committed=False)
    per_function = cloud.billing.mode is BillingMode.PER_FUNCTION
    settled = [n.lane == lane and (per_function or n.released_s is not None) for n in state.nodes.values()]
    return float(nodes.billed_usd[np.array(settled)].sum())


def ledger(state: RunState, cloud: Cloud, at_s: float | None = None) -> Ledger:
    """The bill if every node were given back at `at_s`, and how it falls to the stages.

    Args:
        state: the run.
        cloud: its billing rule and data price.
        at_s: a time not before the state's last event; None for that one.
    """
    now_s = state.t_s if at_s is None else at_s
    if not state.nodes:
        empty = [_stage_cost(stage, 0.0, 0.0) for stage in state.stages]
        return Ledger(cost_usd=0.0, stages=tuple(empty), items=Items())
    nodes = _Nodes(state, cloud, now_s, committed=False)
    stages = tuple(nodes.share(index, stage) for index, stage in enumerate(state.stages))
    return Ledger(cost_usd=float(nodes.billed_usd.sum()), stages=stages, items=nodes.items())


class _Nodes:
    """All nodes of a run as arrays of shape (nodes,)."""

    def __init__(self, state: RunState, cloud: Cloud, at_s: float, committed: bool) -> None:
        self._state = state
        self._cloud = cloud
        self._at_s = at_s
        nodes = list(state.nodes.values())
        self._slots = _array(node.slots for node in nodes)
        self._running_s = _array(self._running(node, committed) for node in nodes)
        self._released_s = _array(at_s if node.released_s is None else node.released_s for node in nodes)
        self._lanes = np.array([node.lane for node in nodes])
        self._running_in = np.array([-1 if node.running_in is None else node.running_in for node in nodes])
        self._released_in = np.array([self._last_stage(node) for node in nodes])
        trained = {node.node: node.trained_s for node in nodes}
        for training in state.training.values():
            slot_s = max(0.0, at_s - training.start_s) * training.slots / len(training.nodes)
            for name in training.nodes:
                trained[name] += slot_s / state.nodes[name].slots
        types = {instance_type.name: instance_type for instance_type in cloud.instance_types}
        kinds = [types.get(node.instance_type) for node in nodes]
        self._disk_usd_per_s = _array(0.0 if kind is None else kind.disk_usd_per_hour / 3600.0 for kind in kinds)
        self._address_usd_per_s = _array(0.0 if kind is None else kind.address_usd_per_hour / 3600.0 for kind in kinds)
        self._spot = np.array([node.market == Market.SPOT for node in nodes])
        usd_per_s = _array(node.usd_per_hour / 3600.0 for node in nodes)
        beside_usd_per_s = self._disk_usd_per_s + self._address_usd_per_s
        reclaimed = self._spot & np.array([node.reclaimed for node in nodes])
        self.billed_usd = bill(
            cloud.billing,
            usd_per_s=usd_per_s,
            running_s=self._running_s,
            released_s=self._released_s,
            trained_s=_array(trained.values()),
            data_usd=cloud.data_usd,
            beside_usd_per_s=beside_usd_per_s,
            reclaimed=reclaimed,
        )
        ran = self._running_s <= self._released_s
        self._data_usd = np.where(ran, cloud.data_usd, 0.0)
        held_s = np.where(ran, self._released_s - np.where(ran, self._running_s, 0.0), 0.0)
        if cloud.billing.mode is BillingMode.PER_FUNCTION:
            self._paid_s, self._usd_per_s = np.where(ran, _array(trained.values()), 0.0), usd_per_s
        else:
            self._paid_s = held_s
            self._usd_per_s = due_usd_per_s(
                usd_per_s=usd_per_s, beside_usd_per_s=beside_usd_per_s, held_s=held_s, reclaimed=reclaimed
            )
        self._extra_usd = self.billed_usd - self._data_usd - self._paid_s * self._usd_per_s

    def items(self) -> Items:
        """The bill by what is paid for."""
        beside_usd_per_s = self._disk_usd_per_s + self._address_usd_per_s
        nodes_usd = self._paid_s * (self._usd_per_s - beside_usd_per_s)
        return Items(
            on_demand_usd=float(nodes_usd[~self._spot].sum()),
            spot_usd=float(nodes_usd[self._spot].sum()),
            disk_usd=float((self._paid_s * self._disk_usd_per_s).sum()),
            address_usd=float((self._paid_s * self._address_usd_per_s).sum()),
            data_usd=float(self._data_usd.sum()),
            rounding_usd=float(self._extra_usd.sum()),
        )

    def share(self, index: int, stage: StageState) -> StageCost:
        """One stage's part of the bill."""
        mine = self._lanes == stage.lane
        begins_s, ends_s = self._span(index, stage)
        data_usd = float(self._data_usd[self._running_in == index].sum())
        trained_slot_s = stage.trained_slot_s + sum(
            max(0.0, self._at_s - t.start_s) * t.slots for t in self._state.training.values() if t.stage == index
        )
        if self._cloud.billing.mode is BillingMode.PER_FUNCTION:
            instance_type = self._cloud.instance_type(stage.instance_type)
            usd = trained_slot_s / instance_type.slots * instance_type.usd_per_s
            return _stage_cost(stage, usd + data_usd, 0.0)
        held_s = np.minimum(self._released_s, ends_s) - np.maximum(self._running_s, begins_s)
        held_s = np.where(mine, np.maximum(0.0, held_s), 0.0)
        extra_usd = float(self._extra_usd[mine & (self._released_in == index)].sum())
        billed_slot_s = float((held_s * self._slots).sum())
        idle_fraction = 1.0 - trained_slot_s / billed_slot_s if billed_slot_s > 0 else 0.0
        return _stage_cost(stage, float((held_s * self._usd_per_s).sum()) + extra_usd + data_usd, idle_fraction)

    def _span(self, index: int, stage: StageState) -> tuple[float, float]:
        """The stage's time: what lies between two stages of a lane belongs to the earlier one."""
        later = (s.start_s for s in self._state.stages[index + 1 :] if s.lane == stage.lane)
        return stage.start_s, next(later, np.inf)

    def _running(self, node: NodeState, committed: bool) -> float:
        if node.running_s is not None:
            return node.running_s
        return self._state.t_s if committed and node.released_s is None else np.inf

    def _last_stage(self, node: NodeState) -> int:
        return self._state.current.get(node.lane, -1) if node.released_in is None else node.released_in


def _stage_cost(stage: StageState, usd: float, idle_fraction: float) -> StageCost:
    return StageCost(
        chain=stage.chain,
        stage=stage.stage,
        start_s=stage.start_s,
        end_s=stage.end_s,
        cost_usd=usd,
        idle_fraction=idle_fraction,
    )


def _array(values: Iterable[float]) -> NDArray[np.float64]:
    return np.array(list(values), dtype=np.float64)
