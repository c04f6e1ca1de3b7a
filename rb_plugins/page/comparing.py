"""What was promised beside what happened, stage by stage."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rb_core.ledger import Ledger
from rb_core.plan import AllocationPlan, Problem
from rb_core.report import QUANTILES, Table, duration, money
from rb_core.simulate import Estimate
from rb_core.state import RunState, StageState

_ENDS = [QUANTILES["p05"], QUANTILES["p95"]]


def compared_table(problem: Problem, plan: AllocationPlan, estimate: Estimate, state: RunState, bill: Ledger) -> Table:
    """Every stage of the plan against the run, those that have not begun too.

    Args:
        problem: its stages.
        plan: what the run began with.
        estimate: samples of that plan.
        state: the run.
        bill: of the run.
    """
    several = len(plan.chains) > 1
    begun = {
        (stage.chain, stage.stage): (stage, cost.cost_usd)
        for stage, cost in zip(state.stages, bill.stages, strict=True)
    }
    rows = []
    for part in estimate.stages:
        spec, allocation = problem.experiment.chains[part.chain][part.stage], plan.chains[part.chain][part.stage]
        stage, cost_usd = begun.get((part.chain, part.stage), (None, 0.0))
        took_s = part.end_s - part.start_s
        rows.append(
            (
                f"{part.chain}.{part.stage}" if several else str(part.stage),
                promised(took_s, duration),
                _took(state, stage, took_s),
                promised(part.cost_usd, money),
                "" if stage is None else _against(cost_usd, part.cost_usd, money, over=stage.end_s is not None),
                f"{spec.trials if stage is None else len(stage.trials)} x {spec.iterations}",
                _held(allocation.nodes, allocation.instance_type, allocation.slots_per_trial),
                "" if stage is None else _held(stage.nodes, stage.instance_type, stage.slots_per_trial),
            )
        )
    done = len(begun) == len(rows) and all(stage.end_s is not None for stage, _ in begun.values())
    so_far_s = state.jct_s if done else max(0.0, state.t_s - state.began_s)
    rows.append(
        (
            "all",
            promised(estimate.jct_s, duration),
            _against(so_far_s, estimate.jct_s, duration, over=done),
            promised(estimate.cost_usd, money),
            _against(bill.cost_usd, estimate.cost_usd, money, over=done),
            "",
            "",
            "",
        )
    )
    return Table(
        title="By stage: the forecast's mean and its p05 .. p95, and what came (nodes / slots a trial)",
        columns=(
            "stage", "time forecast", "time", "cost forecast", "cost", "trials x iterations", "planned on", "ran on",
        ),
        rows=tuple(rows),
    )  # fmt: skip


def promised(values: NDArray[np.float64], words: Callable[[float], str]) -> str:
    """Mean, and on a line of its own the 5th to 95th percentile where they differ; `values` has shape (samples,)."""
    mean = words(float(np.mean(values)))
    low, high = (words(float(value)) for value in np.quantile(values, _ENDS))
    return mean if low == high else f"{mean}\n{low} .. {high}"


def side(value: float, values: NDArray[np.float64]) -> str:
    """Where a value lies beside the 5th to 95th percentile of `values`, in a word; empty for between them."""
    low, high = np.quantile(values, _ENDS)
    slack = 1e-9 * max(abs(low), abs(high))
    return "below" if value < low - slack else "above" if value > high + slack else ""


def _held(nodes: int, instance_type: str, slots: int) -> str:
    return f"{nodes} {instance_type} / {slots}"


def _took(state: RunState, stage: StageState | None, forecast_s: NDArray[np.float64]) -> str:
    if stage is None:
        return "not begun"
    until_s = state.t_s if stage.end_s is None else stage.end_s
    return _against(until_s - stage.start_s, forecast_s, duration, over=stage.end_s is not None)


def _against(value: float, forecast: NDArray[np.float64], words: Callable[[float], str], *, over: bool) -> str:
    if not over:
        return f"{words(value)}\nso far"
    where = side(value, forecast)
    return f"{words(value)}\n{where} the forecast" if where else words(value)
