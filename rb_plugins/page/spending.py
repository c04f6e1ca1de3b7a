"""Money in a page: what a run had cost over time, what was expected of that, and what the money did."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rb_core.billing import due_usd_per_s
from rb_core.events import Event
from rb_core.hardware import BillingMode, Cloud, Market
from rb_core.ledger import Ledger, cost_usd
from rb_core.report import QUANTILES
from rb_core.simulate import Estimate
from rb_core.state import NodeState, RunState, apply
from rb_plugins.page.story import Band, Doing, Line, Row, Share

POINTS = 160
"""Times at which the money is looked at."""

_LEVELS = [QUANTILES["p05"], QUANTILES["p50"], QUANTILES["p95"]]


def spent(history: Sequence[Event], cloud: Cloud, *, began_s: float, end_s: float) -> tuple[Line, ...]:
    """What the run would have cost, had everything been given back at a time, for times from first to last.

    Args:
        history: the log.
        cloud: its billing rule and data price.
        began_s: of the first node request, on the run's clock.
        end_s: the last of the times, since then.
    """
    lines, state, position = [], RunState(), 0
    for t_s in np.linspace(0.0, end_s, POINTS).tolist():
        while position < len(history) and history[position].t_s <= began_s + t_s + 1e-9:
            apply(state, history[position])
            position += 1
        lines.append(Line(t_s=t_s, usd=cost_usd(state, cloud, max(state.t_s, began_s + t_s))))
    return tuple(lines)


def forecast_band(estimate: Estimate, *, end_s: float) -> tuple[Band, ...]:
    """Percentiles of the bill over time; within a stage, a sample's money is spread evenly.

    Args:
        estimate: samples of the plan.
        end_s: the last of the times, since the first request.
    """
    times_s = np.linspace(0.0, end_s, POINTS)
    usd = np.zeros((len(estimate.jct_s), POINTS))
    for stage in estimate.stages:
        start_s, lasted_s = stage.start_s[:, None], np.maximum(1e-9, stage.end_s - stage.start_s)[:, None]
        usd += stage.cost_usd[:, None] * np.clip((times_s - start_s) / lasted_s, 0.0, 1.0)
    low, middle, high = np.quantile(usd, _LEVELS, axis=0).tolist()
    return tuple(
        Band(t_s=t_s, low=a, middle=b, high=c) for t_s, a, b, c in zip(times_s.tolist(), low, middle, high, strict=True)
    )


def shares(state: RunState, rows: Sequence[Row], cloud: Cloud, bill: Ledger) -> tuple[Share, ...]:
    """The bill by what the money did; sums to the bill.

    Args:
        state: the run.
        rows: its nodes, in the order of their requests.
        cloud: its billing rule.
        bill: of the run.
    """
    usd = {"training": 0.0, "starting trials": 0.0, "saving": 0.0, "starting nodes": 0.0, "idle": 0.0}
    for node, row in zip(state.nodes.values(), rows, strict=True):
        if node.running_s is None:
            continue
        usd_per_s = _due_usd_per_s(state, node, cloud)
        usd["training"] += row.total_s(Doing.TRAINING) * usd_per_s
        usd["saving"] += row.total_s(Doing.SAVING) * usd_per_s
        starting_s = _starting_s(state, node)
        usd["starting trials"] += max(0.0, row.total_s(Doing.STARTING) - starting_s) * usd_per_s
        if cloud.billing.mode is BillingMode.PER_INSTANCE:
            usd["starting nodes"] += starting_s * usd_per_s
    usd["data transfer"], usd["rounding and minimum"] = bill.items.data_usd, bill.items.rounding_usd
    usd["idle"] = max(0.0, bill.cost_usd - sum(usd.values()))
    return tuple(Share(name=name, usd=amount) for name, amount in usd.items())


def _starting_s(state: RunState, node: NodeState) -> float:
    """How long a node that runs started up, or has so far."""
    if node.running_s is None:
        return 0.0
    until_s = state.t_s if node.released_s is None else node.released_s
    return max(0.0, min(until_s, until_s if node.ready_s is None else node.ready_s) - node.running_s)


def _due_usd_per_s(state: RunState, node: NodeState, cloud: Cloud) -> float:
    kind = next((t for t in cloud.instance_types if t.name == node.instance_type), None)
    beside_usd = 0.0 if kind is None else kind.disk_usd_per_hour + kind.address_usd_per_hour
    until_s = state.t_s if node.released_s is None else node.released_s
    return float(
        due_usd_per_s(
            usd_per_s=node.usd_per_hour / 3600.0,
            beside_usd_per_s=beside_usd / 3600.0,
            held_s=max(0.0, until_s - (node.running_s or 0.0)),
            reclaimed=node.market == Market.SPOT and node.reclaimed,
        )
    )
