"""Tables and words that say where a plan's time and money go, and what holds it back. Returned, never printed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from itertools import pairwise

from rb_core.explain import Explanation, Parts
from rb_core.plan import Problem
from rb_core.planners.candidate import Candidate
from rb_core.promise import Promise
from rb_core.report import Table, duration, money, plan_words, seconds
from rb_core.standing import Standing

_HEADINGS = {
    "training": "training",
    "trial_starts": "trial starts",
    "node_starts": "node starts",
    "idle": "idle",
    "barriers": "barriers",
    "rounding": "rounding",
    "data": "data",
    "interruptions": "interruptions",
    "variation": "variation",
    "early_release": "early release",
}
"""Parts by their names, in the order of their columns."""


def parts_tables(told: Explanation) -> list[Table]:
    """Where the time goes and where the money goes, stage by stage."""
    several = len({stage.chain for stage in told.stages}) > 1
    names = [f"{stage.chain}.{stage.stage}" if several else str(stage.stage) for stage in told.stages]
    decisive = [number for number, stage in enumerate(told.stages) if stage.decisive]
    title = "Where the time goes" + (" (the chain that ends last)" if len(decisive) < len(names) else "")
    return [
        _parts_table(title, [(names[n], told.stages[n].time_s) for n in decisive], told.time_s, seconds),
        _parts_table(
            "Where the money goes",
            [(name, stage.cost_usd) for name, stage in zip(names, told.stages, strict=True)],
            told.cost_usd,
            money,
        ),
    ]


def _parts_table(title: str, stages: list[tuple[str, Parts]], whole: Parts, words: Callable[[float], str]) -> Table:
    columns = [name for name in _HEADINGS if abs(getattr(whole, name)) > 1e-9 * whole.total]

    def row(name: str, parts: Parts) -> tuple[str, ...]:
        figures = (getattr(parts, column) for column in columns)
        cells = (_signed(figure, words) if abs(figure) > 1e-9 * whole.total else "" for figure in figures)
        return (name, *cells, words(parts.total))

    shares = tuple(f"{getattr(whole, column) / whole.total:.1%}" for column in columns) if whole.total else ()
    rows = [row(name, parts) for name, parts in stages]
    rows.append(row("all", whole))
    if shares:
        rows.append(("share", *shares, ""))
    return Table(title=title, columns=("stage", *(_HEADINGS[column] for column in columns), "all"), rows=tuple(rows))


def bound_table(told: Explanation) -> Table:
    """From the lower bound up to the expected cost, part by part."""
    steps = [("lower bound: bare iterations, packed perfectly", told.lower_bound_usd)]
    steps.append(("wider trials and dearer slots than the cheapest", told.scaling_usd))
    steps += [
        (_HEADINGS[field.name], getattr(told.cost_usd, field.name))
        for field in dataclasses.fields(Parts)
        if field.name != "training"
    ]
    reached = [0.0]
    for _, usd in steps:
        reached.append(reached[-1] + usd)
    rows = [
        (name, _signed(usd, money), money(after), f"{usd / told.lower_bound_usd:+.1%}" if number else "")
        for number, ((name, usd), (_, after)) in enumerate(zip(steps, pairwise(reached), strict=True))
        if abs(usd) > 1e-9 * reached[-1]
    ]
    return Table(title="Why it costs more than the lower bound", columns=("", "adds", "up to", ""), rows=tuple(rows))


def _signed(value: float, words: Callable[[float], str]) -> str:
    return words(value) if value >= 0 else f"-{words(-value)}"


def standing_lines(problem: Problem, told: Standing) -> list[str]:
    """Which limit binds, and the neighbours on the front, in sentences."""
    lines = []
    wanted = problem.objective
    if wanted is not None:
        limit = (
            f"deadline of {duration(wanted.deadline_s)}"
            if wanted.deadline_s is not None
            else f"budget of {money(wanted.budget_usd or 0.0)}"
        )
        better = "cheaper" if wanted.deadline_s is not None else "faster"
        lines.append(
            f"the {limit} binds: without it there is a {better} plan"
            if told.objective_binds
            else f"the {limit} does not bind: no plan is {better} at all"
        )
    lines.append(_nodes_line(told))
    lines.append(_neighbour_line(problem, "cheaper", told.cheaper, told))
    lines.append(_neighbour_line(problem, "faster", told.faster, told))
    return lines


def _nodes_line(told: Standing) -> str:
    at_most = f"at most {told.nodes} of max_nodes {told.max_nodes} nodes are held at one time"
    if told.nodes < told.max_nodes:
        return f"max_nodes does not bind: {at_most}"
    if told.relieved is None:
        return f"{at_most}; twice as many would bring nothing"
    time_s, cost_usd = told.relieved
    return f"max_nodes binds: {at_most}; {told.relieved_nodes} would bring {duration(time_s)} for {money(cost_usd)}"


def _neighbour_line(problem: Problem, better: str, candidate: Candidate | None, told: Standing) -> str:
    if candidate is None:
        return f"no plan is {better}"
    later_s, dearer_usd = candidate.jct_s - told.jct_s, candidate.cost_usd - told.cost_usd
    time = f"{seconds(abs(later_s))} {'more' if later_s >= 0 else 'less'}"
    cost = f"{'costs' if dearer_usd >= 0 else 'saves'} {money(abs(dearer_usd))}"
    return (
        f"the nearest {better} plan {cost} and takes {time}: {duration(candidate.jct_s)}, {money(candidate.cost_usd)} "
        f"({plan_words(problem, candidate.plan(problem))})"
    )


def promise_line(told: Promise) -> str:
    """How surely the limit is kept, in a sentence."""
    return (
        f"the limit is kept with probability {told.probability:.3f} +- {told.standard_error:.3f} (wanted "
        f"{told.wanted:g}), in {told.samples} samples that had no part in choosing the plan"
    )
