"""Where stories come from: the log of a run, a rehearsal, or a plan at its means."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from rb_core.breakdown import bound_table, parts_tables, promise_line
from rb_core.events import Event, RunEnding
from rb_core.explain import explain, without_spread
from rb_core.ledger import ledger
from rb_core.plan import AllocationPlan, Problem
from rb_core.report import QUANTILES, Table, bill_table, duration, missed, money, trials_table
from rb_core.sim.rehearsal import rehearsed_log
from rb_core.simulate import Estimate
from rb_core.state import RunState, fold
from rb_plugins.forecast import Forecast
from rb_plugins.page.comparing import compared_table, side
from rb_plugins.page.notes import notes
from rb_plugins.page.repeating import Repeating, of_problem
from rb_plugins.page.scaling import Scaling
from rb_plugins.page.spending import forecast_band, shares, spent
from rb_plugins.page.story import Source, Story
from rb_plugins.page.timeline import Timeline
from rb_plugins.requested import environment


class _InOrder:
    """Scores by which the first trials go on, as the model has it."""

    def score(self, trial: int, iterations: int) -> float:
        """The better, the lower the trial's number."""
        return -float(trial)


def story_of_log(
    history: Sequence[Event],
    *,
    problem: Problem,
    plan: AllocationPlan,
    estimate: Estimate,
    repeating: Repeating,
    source: Source = Source.RUN,
    name: str = "",
    standing: str = "",
    notice: str = "",
    profile: Scaling | None = None,
) -> Story:
    """The story that a log tells.

    Args:
        history: the log.
        problem: what holds now, with its deadline in seconds.
        plan: what it began with.
        estimate: what was promised of that.
        repeating: what is needed for repeating it.
        source: a run or a rehearsal.
        name: of the page; the run's by default.
        standing: how it ended or where it stands; by default as the log has it.
        notice: see `Story`.
        profile: what the problem's rests on; only the problem's own by default.
    """
    state = fold(history)
    line = Timeline(history, state)
    bill, nodes, objective = ledger(state, problem.cloud), line.nodes(), problem.objective
    parts = shares(state, nodes, problem.cloud, bill)
    ending = standing or ("not ended" if state.ending is None else state.ending.value)
    late = missed(problem, state.jct_s, bill.cost_usd)
    end_s = max(line.end_s, 1e-9)
    return Story(
        source=source,
        name=name or state.run,
        state=f"{ending}, {late}" if late else ending,
        notice=notice,
        headline=_headline(
            problem, state, estimate, bill.cost_usd, sum(part.usd for part in parts if part.name == "idle")
        ),
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
            "stages": (compared_table(problem, plan, estimate, state, bill),),
            "bill": (bill_table(bill, problem.cloud.prices),) if bill.cost_usd else (),
            "best": _best(state),
            "trials": (trials_table(state, most=len(state.trials)),),
        },
        repeat=repeating.facts,
        texts=repeating.texts,
        profile=profile or Scaling.given(problem.profile),
    )


def story_of_plan(planned: Forecast, *, name: str, repeating: Repeating) -> Story:
    """The story of a plan: the engine on a simulated cloud where every duration is its mean and nothing is lost.

    Args:
        planned: the plan.
        name: of the page.
        repeating: what is needed for repeating it.
    """
    quiet = _undisturbed(without_spread(planned.problem))
    history = rehearsed_log(quiet, planned.plan, seed=0, curves=_InOrder())
    told = explain(planned.problem, planned.plan)
    story = story_of_log(
        history, problem=quiet, plan=planned.plan, estimate=planned.estimate, repeating=repeating, source=Source.PLAN,
        name=name,
    )  # fmt: skip
    time_s, cost_usd = planned.expected
    return dataclasses.replace(
        story,
        profile=Scaling.given(planned.problem.profile),
        state="planned, nothing has run",
        notice="" if planned.promise is None else f"How sure it is: {promise_line(planned.promise)}.",
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
            *repeating.facts,
            *of_problem(planned.problem),
            ("problem's fingerprint", planned.fingerprint),
            *environment().items(),
        ),
    )


def story_of_rehearsal(
    problem: Problem,
    plan: AllocationPlan,
    estimate: Estimate,
    history: Sequence[Event],
    *,
    name: str,
    repeating: Repeating,
) -> Story:
    """The story of one rehearsed run.

    Args:
        problem: with its deadline in seconds.
        plan: what it began with.
        estimate: what was expected of that.
        history: the rehearsal's log.
        name: of the page.
        repeating: what is needed for repeating it.
    """
    plan.check_fits(problem.experiment)
    facts = (*repeating.facts, *of_problem(problem), *environment().items())
    return story_of_log(
        history, problem=problem, plan=plan, estimate=estimate, source=Source.REHEARSAL, name=name,
        repeating=dataclasses.replace(repeating, facts=facts),
    )  # fmt: skip


def _undisturbed(problem: Problem) -> Problem:
    kinds = tuple(dataclasses.replace(kind, interruptions_per_hour=0.0) for kind in problem.cloud.instance_types)
    return dataclasses.replace(problem, cloud=dataclasses.replace(problem.cloud, instance_types=kinds))


def _headline(
    problem: Problem, state: RunState, estimate: Estimate, cost_usd: float, idle_usd: float
) -> tuple[tuple[str, str, str], ...]:
    done = state.ending is RunEnding.DONE
    took_s = state.jct_s if done else max(0.0, state.t_s - state.began_s)
    so_far = "" if done else " so far"
    figures = [
        (f"time{so_far}", duration(took_s), _beside(took_s, estimate.jct_s, duration, done=done)),
        (f"cost{so_far}", money(cost_usd), _beside(cost_usd, estimate.cost_usd, money, done=done)),
        *_limit(problem, took_s, cost_usd, done=done),
        ("trials", str(len(state.trials)), f"in {len(state.stages)} stages on {len(state.nodes)} nodes"),
    ]
    if cost_usd > 0:
        figures.append(("paid for idling", f"{idle_usd / cost_usd:.1%}", money(idle_usd)))
    best = state.best()
    if best is not None and best.score is not None:
        figures.append((f"best {state.metric or 'score'}", f"{best.score:.5g}", f"trial {best.trial}"))
    return tuple(figures)


def _best(state: RunState) -> tuple[Table, ...]:
    """The best trial's configuration and last checkpoint, where it has any."""
    best = state.best()
    if best is None or not best.config:
        return ()
    rows = [(name, repr(value)) for name, value in best.config.items()]
    if best.last_checkpoint is not None:
        rows.append((f"its last checkpoint, of iteration {best.last_checkpoint.iterations}", best.last_checkpoint.path))
    columns = ("what", "value")
    return (Table(title=f"The best: trial {best.trial}", columns=columns, words=columns, rows=tuple(rows)),)


def _limit(problem: Problem, took_s: float, cost_usd: float, *, done: bool) -> list[tuple[str, str, str]]:
    objective = problem.objective
    if objective is None:
        return []
    met = "" if missed(problem, took_s, cost_usd) else "met"
    if objective.deadline_s is not None:
        return [("deadline", duration(objective.deadline_s), (met if done else "not yet") if met else "missed")]
    return [("budget", money(objective.budget_usd or 0.0), (met if done else "kept so far") if met else "exceeded")]


def _beside(value: float, values: NDArray[np.float64], words: Callable[[float], str], *, done: bool) -> str:
    where = side(value, values) if done else ""
    told = f"forecast {_span(values, words)}"
    return f"{told}: {where} it" if where else told


def _span(values: NDArray[np.float64], words: Callable[[float], str]) -> str:
    low, high = np.quantile(values, [QUANTILES["p05"], QUANTILES["p95"]])
    return f"{words(float(low))} .. {words(float(high))}"
