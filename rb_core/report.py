"""Words and tables for people: a plan before it runs, a run against its plan. Returned, never printed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

import numpy as np
from numpy.typing import NDArray

from rb_core.hardware import PriceDate
from rb_core.ledger import Ledger
from rb_core.measurement import BETWEEN_RUNS_CV, MeasuredProfile
from rb_core.plan import AllocationPlan, Objective, Problem
from rb_core.profile import ScalingProfile
from rb_core.simulate import Estimate
from rb_core.sizing import Sizes
from rb_core.state import RunState, TrialPhase

QUANTILES = {"p05": 0.05, "p10": 0.10, "p50": 0.50, "p90": 0.90, "p95": 0.95}
"""The quantiles of every distribution that is written down."""

OLD_DAYS = 180
"""Prices that are older than this are warned of."""

Figures = tuple[float, float]
"""A time in seconds and a cost in usd."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of text under headings.

    Attributes:
        title: one line above it.
        columns: the headings.
        rows: each as long as `columns`.
        words: columns of words, which are set to the left beside the first one; the others hold figures.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: tuple[str, ...] = ()

    def is_left(self, number: int) -> bool:
        """Whether a column is set to the left."""
        return number == 0 or self.columns[number] in self.words

    def text(self) -> str:
        """The table in plain characters."""
        lines = [self.columns, *self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.columns))]

        def aligned(line: tuple[str, ...]) -> str:
            cells = (
                cell.ljust(width) if self.is_left(number) else cell.rjust(width)
                for number, (cell, width) in enumerate(zip(line, widths, strict=True))
            )
            return "  ".join(cells).rstrip()

        return "\n".join([self.title, aligned(self.columns), *map(aligned, self.rows)])


def summary(values: NDArray[np.float64]) -> dict[str, float]:
    """Mean, standard deviation and `QUANTILES` of samples; shape (samples,)."""
    quantiles = np.quantile(values, list(QUANTILES.values()))
    return {
        "mean": float(np.mean(values)),
        "std": float(np.std(values)),
        **{name: float(value) for name, value in zip(QUANTILES, quantiles, strict=True)},
    }


def duration(time_s: float) -> str:
    """A length of time for people: ``8.4 s``, ``12 min 05 s``, ``3 h 07 min``."""
    if time_s < 99.95:
        return f"{time_s:.1f} s"
    minutes, rest = divmod(round(time_s), 60)
    if minutes < 100:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(round(time_s / 60), 60)
    return f"{hours} h {minutes:02d} min"


def seconds(value: float) -> str:
    """A short time for people, to three digits: ``0.0312 s``."""
    return f"{value:.3g} s" if value < 99.95 else duration(value)


def money(usd: float) -> str:
    """An amount for people, never rounded to nothing: ``12.40 usd``, ``0.0031 usd``."""
    digits = 2 if usd >= 10 or usd == 0 else 3 if usd >= 1 else 4 if usd >= 0.01 else 6
    return f"{usd:.{digits}f} usd"


def profile_table(profile: ScalingProfile, *, measured: bool = False) -> Table:
    """How a training function scales.

    Args:
        profile: of it.
        measured: whether our profiler made it, so that it is known what its spread between runs is of.
    """
    first = next(iter(profile.iteration_s.values())).mean
    rows = tuple(
        (str(slots), seconds(latency.mean), seconds(latency.std), f"{first / latency.mean:.2f}x")
        for slots, latency in profile.iteration_s.items()
    )
    return Table(
        title=(
            f"Profile: a trial starts in {seconds(profile.start_s.mean)}, saves in {seconds(profile.save_s.mean)}; "
            f"speed differs by {profile.trial_cv:.1%} between configurations and by "
            f"{_between_runs(profile, measured=measured)} between runs"
        ),
        columns=("slots/trial", "iteration", "std", "speed"),
        rows=rows,
    )


def _between_runs(profile: ScalingProfile, *, measured: bool) -> str:
    """How far a run's iterations may be off the profile, all together, and what of it was assumed: ``5.4% (...)``."""
    said = f"{profile.run_cv:.1%}"
    if not measured or profile.run_cv < BETWEEN_RUNS_CV:
        return said
    own = math.sqrt(profile.run_cv**2 - BETWEEN_RUNS_CV**2)
    return f"{said} ({BETWEEN_RUNS_CV:.1%} assumed, {own:.1%} measured)"


def speeds_table(measured: MeasuredProfile) -> Table:
    """How fast instance types were found to be, the profiled one first."""
    rows = [(measured.instance_type, "1", "", "the profiled one")]
    for name, speed in measured.speeds.items():
        by_slots = ", ".join(f"{ratio:.3g} on {slots}" for slots, ratio in speed.by_slots.items())
        rows.append((name, f"{speed.mean:.3g}", f"{speed.std:.2g}", by_slots))
    return Table(
        title="Speed of instance types",
        columns=("instance type", "speed", "std", "by slots/trial"),
        words=("by slots/trial",),
        rows=tuple(rows),
    )


def plan_table(problem: Problem, plan: AllocationPlan, estimate: Estimate) -> Table:
    """A plan stage by stage, with the 5th and 95th percentile of every stage's time and cost."""
    several = len(plan.chains) > 1
    rows = []
    for part in estimate.stages:
        stage = problem.experiment.chains[part.chain][part.stage]
        allocation = plan.chains[part.chain][part.stage]
        rows.append(
            (
                f"{part.chain}.{part.stage}" if several else str(part.stage),
                f"{stage.trials} x {stage.iterations}",
                f"{allocation.nodes} {allocation.instance_type}",
                str(allocation.slots_per_trial),
                _span(part.end_s - part.start_s, duration),
                _span(part.cost_usd, money),
                f"{max(0.0, float(np.mean(part.idle_fraction))):.0%}",
            )
        )
    rows.append(("all", "", "", "", _span(estimate.jct_s, duration), _span(estimate.cost_usd, money), ""))
    return Table(
        title=f"Plan ({plan.order})" if several else "Plan",
        columns=("stage", "trials x iterations", "nodes", "slots/trial", "time p05..p95", "cost p05..p95", "idle"),
        rows=tuple(rows),
    )


def front_table(problem: Problem, front: Sequence[tuple[float, float, AllocationPlan]]) -> Table:
    """A cost-time front, the fastest plan first: what each next one saves, and what each stage runs on.

    Args:
        problem: what is planned.
        front: (time in seconds, cost in usd, plan), by ascending time.
    """
    rows = tuple(
        (
            duration(time_s),
            money(cost_usd),
            money(front[number - 1][1] - cost_usd) if number else "",
            plan_words(problem, plan),
        )
        for number, (time_s, cost_usd, plan) in enumerate(front)
    )
    nodes = "nodes" if len(problem.cloud.instance_types) == 1 else "nodes x type"
    return Table(
        title=f"The cheapest plan for every time ({nodes} / slots per trial, stage by stage)",
        columns=("time", "cost", "saves", "plan"),
        rows=rows,
        words=("plan",),
    )


def plan_words(problem: Problem, plan: AllocationPlan) -> str:
    """A plan in one line: nodes (x type, where there are several) / slots per trial, stage by stage."""
    one_type = len(problem.cloud.instance_types) == 1
    chains = [
        " ".join(f"{a.nodes}{'' if one_type else 'x' + a.instance_type}/{a.slots_per_trial}" for a in chain)
        for chain in plan.chains
    ]
    order = f"{plan.order}: " if len(chains) > 1 else ""
    return order + " | ".join(chains)


def sizes_table(told: Sizes) -> Table:
    """What every size that was tried would cost and take."""
    purse, letter = told.purse, told.family.letter
    surely = "" if purse.confidence is None else f", each size with probability {purse.confidence:g}"
    rows = tuple(
        (
            str(row.size),
            str(row.experiment.trials),
            "the largest" if row is told.largest else "yes" if row.both else "no",
            money(row.in_time.cost_usd) if row.in_time else "too late",
            duration(row.in_budget.jct_s) if row.in_budget else "too dear",
        )
        for row in told.tried
    )
    return Table(
        title=f"What fits into {duration(purse.deadline_s)} and {money(purse.budget_usd)}{surely}",
        columns=(letter, "trials", "fits", "cheapest by the deadline", "fastest within the budget"),
        rows=rows,
        words=("fits",),
    )


def size_line(problem: Problem, told: Sizes) -> str:
    """The largest size and the plan for it, in a sentence."""
    largest, plan = told.largest, told.largest.both
    if plan is None:
        return "nothing fits"
    planned = replace(problem, experiment=largest.experiment)
    return (
        f"{told.family.letter} = {largest.size} fits: {duration(plan.jct_s)}, {money(plan.cost_usd)} "
        f"({plan_words(planned, plan.plan(planned))})"
    )


def comparison_table(
    planner: str, figures: Figures, baselines: Mapping[str, Figures | None], lower_bound_usd: float
) -> Table:
    """A plan's expected time and cost beside those of other planners and the lower bound.

    Args:
        planner: who made the plan.
        figures: what it is expected to take.
        baselines: the same of the others; None for one that cannot meet the objective.
        lower_bound_usd: what no plan can cost less than.
    """
    rows = [(f"this plan ({planner})", duration(figures[0]), money(figures[1]), "")]
    for name, other in baselines.items():
        if name == planner:
            continue
        if other is None:
            rows.append((name, "misses the objective", "", ""))
        else:
            rows.append((name, duration(other[0]), money(other[1]), _difference(figures[1], other[1])))
    rows.append(("lower bound", "", money(lower_bound_usd), _difference(figures[1], lower_bound_usd)))
    return Table(
        title="Expected, beside other ways to run it",
        columns=("", "time", "cost", "this plan costs"),
        rows=tuple(rows),
    )


def outcome_table(estimate: Estimate, state: RunState, bill: Ledger, t_s: float | None = None) -> Table:
    """What happened against what was promised, stage by stage; the promise as mean and 5th to 95th percentile.

    Args:
        estimate: what was promised.
        state: of the run.
        bill: of the run.
        t_s: now, in seconds of the run, for what has not ended; the time of its last event when None.
    """
    now_s = state.t_s if t_s is None else t_s

    def took(start_s: float, end_s: float | None) -> str:
        return duration(end_s - start_s) if end_s is not None else f"{duration(now_s - start_s)} (not ended)"

    promised = {(part.chain, part.stage): part for part in estimate.stages}
    several = len(state.stage_counts) > 1
    rows = []
    for stage, cost in zip(state.stages, bill.stages, strict=True):
        part = promised[stage.chain, stage.stage]
        rows.append(
            (
                f"{stage.chain}.{stage.stage}" if several else str(stage.stage),
                str(len(stage.trials)),
                f"{stage.nodes} {stage.instance_type}",
                str(stage.slots_per_trial),
                _mean(part.end_s - part.start_s, duration),
                took(stage.start_s, stage.end_s),
                _mean(part.cost_usd, money),
                money(cost.cost_usd),
            )
        )
    goes_on = any(stage.end_s is None for stage in state.stages)
    rows.append(
        (
            "all", "", "", "",
            f"{_mean(estimate.jct_s, duration)} ({_span(estimate.jct_s, duration)})",
            took(state.began_s, None) if goes_on else duration(state.jct_s),
            f"{_mean(estimate.cost_usd, money)} ({_span(estimate.cost_usd, money)})", money(bill.cost_usd),
        )
    )  # fmt: skip
    return Table(
        title="Predicted and actual",
        columns=("stage", "trials", "nodes", "slots/trial", "time predicted", "actual", "cost predicted", "actual"),
        rows=tuple(rows),
    )


def bill_table(bill: Ledger, prices: PriceDate | None) -> Table:
    """What was paid for, item by item; what costs nothing is left out.

    Args:
        bill: of the run.
        prices: where its prices came from; None where that is not known.
    """
    rows = [
        (_ITEMS[name], money(usd), f"{usd / bill.cost_usd:.1%}" if bill.cost_usd else "")
        for name, usd in bill.items.table().items()
        if abs(usd) > 1e-9 * bill.cost_usd
    ]
    rows.append(("all", money(bill.cost_usd), ""))
    source = "" if prices is None else f" (prices of {prices.dated}, price book {prices.book})"
    return Table(title=f"Bill{source}", columns=("", "cost", "share"), rows=tuple(rows))


_ITEMS = {
    "on_demand_usd": "nodes on demand",
    "spot_usd": "nodes on spot",
    "disk_usd": "disks",
    "address_usd": "public addresses",
    "data_usd": "data transfer",
    "rounding_usd": "rounding and minimum",
}
"""Items of a bill by their names."""


def age_days(prices: PriceDate, today: date) -> int:
    """How old prices are."""
    year, month, day = map(int, prices.dated.split("-"))
    return (today - date(year, month, 1)).days + 1 - day


def aged(prices: PriceDate, today: date) -> str:
    """That prices are old and what to do about it, in words; empty where they are not."""
    days = age_days(prices, today)
    if days <= OLD_DAYS:
        return ""
    return (
        f"the prices of the price book {prices.book!r} are of {prices.dated}, {days} days ago, and may have changed; "
        'take those of today (catalog = "aws" for EC2), a newer version of the book, or give usd_per_hour yourself'
    )


def trials_table(state: RunState, *, most: int = 10) -> Table:
    """The best trials first; those without a score, and failed ones, last."""
    sign = -1.0 if state.mode == "max" else 1.0

    def rank(number: int) -> tuple[bool, bool, float, int]:
        trial = state.trials[number]
        score = trial.score
        usable = score is not None and score == score
        return (
            trial.phase in (TrialPhase.FAILED, TrialPhase.LEFT),
            not usable,
            sign * score if score is not None and usable else 0.0,
            number,
        )

    rows = []
    for number in sorted(state.trials, key=rank)[:most]:
        trial = state.trials[number]
        score = "" if trial.score is None else f"{trial.score:.5g}"
        config = ", ".join(f"{name}={_plain(value)}" for name, value in trial.config.items())
        rows.append((str(number), trial.phase.value, str(trial.iterations), score, config))
    hidden = len(state.trials) - len(rows)
    return Table(
        title="Trials" + (f" (the best {len(rows)} of {len(state.trials)})" if hidden > 0 else ""),
        columns=("trial", "state", "iterations", state.metric or "score", "configuration"),
        rows=tuple(rows),
        words=("state", "configuration"),
    )


def missed(problem: Problem, jct_s: float, cost_usd: float) -> str:
    """By how much a run misses its objective, in words; empty when it meets it.

    Args:
        problem: with its deadline in seconds.
        jct_s: the time that it took.
        cost_usd: what it cost.
    """
    objective = problem.objective
    if objective is None:
        return ""
    if objective.deadline_s is not None and jct_s > objective.deadline_s:
        late = f"{duration(jct_s - objective.deadline_s)} ({jct_s / objective.deadline_s - 1:.0%})"
        return f"the deadline of {duration(objective.deadline_s)} was missed by {late}"
    if objective.budget_usd is not None and cost_usd > objective.budget_usd:
        over = f"{money(cost_usd - objective.budget_usd)} ({cost_usd / objective.budget_usd - 1:.0%})"
        return f"the budget of {money(objective.budget_usd)} was exceeded by {over}"
    return ""


def kept(problem: Problem, jct_s: float, cost_usd: float) -> str:
    """That a run which is done kept its objective, and with how much to spare; empty when it did not, or had none.

    Args: as of `missed`.
    """
    objective = problem.objective
    if objective is None or missed(problem, jct_s, cost_usd):
        return ""
    if objective.deadline_s is not None:
        spare = f"{duration(objective.deadline_s - jct_s)} ({1 - jct_s / objective.deadline_s:.0%})"
        return f"the deadline of {duration(objective.deadline_s)} was kept, with {spare} to spare"
    if objective.budget_usd is not None:
        spare = f"{money(objective.budget_usd - cost_usd)} ({1 - cost_usd / objective.budget_usd:.0%})"
        return f"the budget of {money(objective.budget_usd)} was kept, with {spare} to spare"
    return ""


def limit_line(objective: Objective, figures: Figures, *, factor: float | None = None) -> str:
    """The limit of a plan, and how far from it the plan is expected to stay.

    Args:
        objective: with its deadline in seconds.
        figures: what the plan is expected to take.
        factor: the deadline as a multiple of the fastest plan's time, where it was given so.
    """
    if objective.deadline_s is not None:
        limit_s = objective.deadline_s
        given = "" if factor is None else f", {factor:g} times the fastest plan's {duration(limit_s / factor)}"
        exactly = f" ({limit_s:.0f} s)" if factor is not None and limit_s >= 99.95 else ""
        away_s = limit_s - figures[0]
        side = "before" if away_s >= 0 else "after"
        end = f"this plan is expected to end {duration(abs(away_s))} {side} it"
        return f"deadline: {duration(limit_s)}{exactly}{given}; {end}"
    limit_usd = objective.budget_usd or 0.0
    away_usd = limit_usd - figures[1]
    cost = f"this plan is expected to cost {money(abs(away_usd))} {'less' if away_usd >= 0 else 'more'}"
    return f"budget: {money(limit_usd)}; {cost}"


def _span(values: NDArray[np.float64], words: Callable[[float], str]) -> str:
    low, high = np.quantile(values, [QUANTILES["p05"], QUANTILES["p95"]])
    first, last = words(float(low)), words(float(high))
    return first if first == last else f"{first} .. {last}"


def _mean(values: NDArray[np.float64], words: Callable[[float], str]) -> str:
    return words(float(np.mean(values)))


def _difference(usd: float, other_usd: float) -> str:
    if other_usd <= 0:
        return ""
    change = usd / other_usd - 1
    return "the same" if abs(change) < 0.0005 else f"{change:+.1%}"


def _plain(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
