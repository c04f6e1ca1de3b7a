"""Where stories come from: the log of a run, a rehearsal, or a plan at its means."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from importlib.metadata import version

import numpy as np
from numpy.typing import NDArray

from rb_core.breakdown import bound_table, parts_tables
from rb_core.events import Event, RunStarted
from rb_core.explain import explain, without_spread
from rb_core.ledger import ledger
from rb_core.plan import AllocationPlan, Problem
from rb_core.report import QUANTILES, bill_table, duration, missed, money, outcome_table, trials_table
from rb_core.sim.rehearsal import rehearsed_log
from rb_core.simulate import Estimate
from rb_core.state import RunState, fold
from rb_plugins.forecast import Forecast
from rb_plugins.page.notes import notes
from rb_plugins.page.spending import forecast_band, shares, spent
from rb_plugins.page.story import Source, Story
from rb_plugins.page.timeline import Timeline

Repeat = tuple[tuple[str, str], ...]
"""Names and values of what is needed for repeating something."""


class _InOrder:
    """Scores by which the first trials go on, as the model has it."""

    def score(self, trial: int, iterations: int) -> float:
        """The better, the lower the trial's number."""
        return -float(trial)


def story_of_log(
    history: Sequence[Event],
    *,
    problem: Problem,
    estimate: Estimate,
    source: Source = Source.RUN,
    state: RunState | None = None,
    name: str = "",
    repeat: Repeat = (),
) -> Story:
    """The story that a log tells.

    Args:
        history: the log.
        problem: what holds now, with its deadline in seconds.
        estimate: what was promised.
        source: a run or a rehearsal.
        state: the run after the log; folded from it by default.
        name: of the page; the run's by default.
        repeat: what is needed for repeating it, beside what the log says.
    """
    state = fold(history) if state is None else state
    line = Timeline(history, state)
    bill, nodes, objective = ledger(state, problem.cloud), line.nodes(), problem.objective
    parts = shares(state, nodes, problem.cloud, bill)
    ending = "not ended" if state.ending is None else state.ending.value
    late = missed(problem, state.jct_s, bill.cost_usd)
    end_s = max(line.end_s, 1e-9)
    return Story(
        source=source,
        name=name or state.run,
        state=f"{ending}, {late}" if late else ending,
        headline=_headline(state, estimate, bill.cost_usd, sum(part.usd for part in parts if part.name == "idle")),
        metric=state.metric or "score",
        mode=state.mode,
        end_s=end_s,
        limit_s=objective.deadline_s if objective else None,
        limit_usd=objective.budget_usd if objective else None,
        stages=line.stages(),
        nodes=nodes,
        trials=line.trials(),
        curves=line.curves(),
        spent=spent(history, problem.cloud, began_s=state.began_s, end_s=end_s),
        forecast=forecast_band(estimate, end_s=max(end_s, float(np.quantile(estimate.jct_s, QUANTILES["p95"])))),
        shares=parts,
        notes=notes(history, began_s=state.began_s),
        tables={
            "stages": (outcome_table(estimate, state, bill),),
            "bill": (bill_table(bill, problem.cloud.prices),) if bill.cost_usd else (),
            "trials": (trials_table(state, most=len(state.trials)),),
        },
        repeat=(*repeat, *_started(history)),
    )


def story_of_plan(planned: Forecast, *, name: str, repeat: Repeat = ()) -> Story:
    """The story of a plan: the engine on a simulated cloud where every duration is its mean and nothing is lost.

    Args:
        planned: the plan.
        name: of the page.
        repeat: what is needed for repeating it.
    """
    quiet = _undisturbed(without_spread(planned.problem))
    history = rehearsed_log(quiet, planned.plan, seed=0, curves=_InOrder())
    told = explain(planned.problem, planned.plan)
    story = story_of_log(history, problem=quiet, estimate=planned.estimate, source=Source.PLAN, name=name)
    time_s, cost_usd = planned.expected
    return dataclasses.replace(
        story,
        state="planned, nothing has run",
        headline=(
            ("expected time", duration(time_s), _span(planned.estimate.jct_s, duration)),
            ("expected cost", money(cost_usd), _span(planned.estimate.cost_usd, money)),
            ("no plan costs less than", money(planned.lower_bound_usd), "lower bound"),
            ("planner", planned.planner, ""),
        ),
        trials=tuple(dataclasses.replace(row, detail="as an example") for row in story.trials),
        curves=(),
        shares=(),
        tables={"stages": planned.tables, "bill": (*parts_tables(told), bound_table(told))},
        repeat=(
            *repeat,
            ("rubberband-tune", version("rubberband-tune")),
            ("problem's fingerprint", planned.fingerprint),
        ),
    )


def story_of_rehearsal(
    problem: Problem, plan: AllocationPlan, estimate: Estimate, history: Sequence[Event], *, name: str, repeat: Repeat
) -> Story:
    """The story of one rehearsed run.

    Args:
        problem: with its deadline in seconds.
        plan: what it began with.
        estimate: what was expected of that.
        history: the rehearsal's log.
        name: of the page.
        repeat: what is needed for repeating it.
    """
    plan.check_fits(problem.experiment)
    return story_of_log(
        history, problem=problem, estimate=estimate, source=Source.REHEARSAL, name=name,
        repeat=(*repeat, ("rubberband-tune", version("rubberband-tune"))),
    )  # fmt: skip


def _undisturbed(problem: Problem) -> Problem:
    kinds = tuple(dataclasses.replace(kind, interruptions_per_hour=0.0) for kind in problem.cloud.instance_types)
    return dataclasses.replace(problem, cloud=dataclasses.replace(problem.cloud, instance_types=kinds))


def _headline(
    state: RunState, estimate: Estimate, cost_usd: float, idle_usd: float
) -> tuple[tuple[str, str, str], ...]:
    best = state.best()
    figures = [
        ("time", duration(state.jct_s), f"forecast {_span(estimate.jct_s, duration)}"),
        ("cost", money(cost_usd), f"forecast {_span(estimate.cost_usd, money)}"),
        ("trials", str(len(state.trials)), f"in {len(state.stages)} stages on {len(state.nodes)} nodes"),
    ]
    if cost_usd > 0:
        figures.append(("paid for idling", f"{idle_usd / cost_usd:.1%}", money(idle_usd)))
    if best is not None and best.score is not None:
        figures.append((f"best {state.metric or 'score'}", f"{best.score:.5g}", f"trial {best.trial}"))
    return tuple(figures)


def _span(values: NDArray[np.float64], words: Callable[[float], str]) -> str:
    low, high = np.quantile(values, [QUANTILES["p05"], QUANTILES["p95"]])
    return f"{words(float(low))} .. {words(float(high))}"


def _started(history: Sequence[Event]) -> Repeat:
    started = history[0] if history else None
    if not isinstance(started, RunStarted):
        return ()
    return (
        ("run", started.run),
        ("began", started.utc),
        *((("trained", started.target),) if started.target else ()),
        ("seed", str(started.seed)),
        *started.environment.items(),
    )
