"""What `rb-tune status` says: of all runs a row each, of one run everything, both for people and as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from rb_core.condition import Condition
from rb_core.events import SCHEMA
from rb_core.oneline import first_line
from rb_core.report import Table, duration, money, outcome_table
from rb_core.state import TrialState
from rb_plugins.watched import ALIVE, Watched

_MOST_TRIALS = 10


def how_to_go_on(watched: Watched) -> str:
    """The command that makes sense now; empty where there is none."""
    command = _next(watched)
    return f"rb-tune {command} {watched.directory.run}" if command else ""


def summary(watched: Watched) -> dict[str, Any]:
    """What a run is in the list of all runs."""
    best = watched.state.best()
    holder = watched.holder
    return {
        "run": watched.directory.run,
        "name": watched.name,
        "run_dir": str(watched.directory.path),
        "kind": "profiling" if watched.profiles else "run",
        "state": watched.condition.value,
        "reason": watched.reason,
        "driver": None if holder is None else {"host": holder.host, "pid": holder.pid, "renewed": holder.renewed},
        "began": None if watched.started is None else watched.started.utc,
        "last_event": watched.last_utc or None,
        "stages": {"ended": watched.stages_ended, "all": sum(watched.state.stage_counts)},
        "nodes": {"wanted": watched.wanted, "requested": watched.requested, "ready": watched.ready},
        "trials_alive": watched.alive,
        "best": None if best is None else {"trial": best.trial, "score": best.score, "iterations": _iterations(best)},
        "time": {
            "elapsed_s": watched.elapsed_s,
            "forecast_s": None if watched.forecast is None else watched.forecast[0],
            "expected_s": None if watched.expected is None else watched.expected[0],
            "deadline_s": watched.deadline_s,
            "deadline_kept": watched.deadline_kept,
        },
        "cost": {
            "cost_usd": watched.bill.cost_usd,
            "forecast_usd": None if watched.forecast is None else watched.forecast[1],
            "expected_usd": None if watched.expected is None else watched.expected[1],
            "budget_usd": watched.budget_usd,
            "budget_kept": watched.budget_kept,
        },
        "go_on": how_to_go_on(watched) or None,
    }


def runs_answer(runs: Sequence[Watched]) -> dict[str, Any]:
    """What `rb-tune status --json` prints without a run."""
    return {"schema": SCHEMA, "runs": [summary(watched) for watched in runs]}


def run_answer(watched: Watched) -> dict[str, Any]:
    """What `rb-tune status RUN --json` prints."""
    state = watched.state
    return {
        "schema": SCHEMA,
        **summary(watched),
        "metric": state.metric,
        "mode": state.mode,
        "stage": [
            {
                "chain": stage.chain,
                "stage": stage.stage,
                "trials": len(stage.trials),
                "instance_type": stage.instance_type,
                "nodes": stage.nodes,
                "slots_per_trial": stage.slots_per_trial,
                "start_s": stage.start_s,
            }
            for stage in state.stages
            if stage.end_s is None
        ],
        "trials": [
            {
                "trial": trial.trial,
                "state": trial.phase.value,
                "stage": trial.stage,
                "iterations": _iterations(trial),
                "score": trial.score if trial.score is not None and math.isfinite(trial.score) else None,
                "nodes": list(state.training[trial.trial].nodes) if trial.trial in state.training else [],
            }
            for trial in state.trials.values()
        ],
        "events": dict(watched.counts),
        "last_events": list(watched.recent),
        "warnings": list(state.warnings),
        "resumed": state.resumed,
    }


def runs_table(runs: Sequence[Watched]) -> Table:
    """A row for each run."""
    return Table(
        title=f"{len(runs)} run(s)",
        columns=("run", "state", "stage", "alive", "best", "time", "deadline", "cost", "at the end", "go on"),
        words=("state", "go on"),
        rows=tuple(_row(watched) for watched in runs),
    )


def run_tables(watched: Watched) -> Iterator[Table]:
    """Where one run stands."""
    yield _figures(watched)
    if watched.estimate is not None and watched.state.stages:
        yield outcome_table(watched.estimate, watched.state, watched.bill, watched.t_s)
    if watched.state.trials:
        yield _trials(watched)
    if watched.recent:
        yield Table(title="Last events", columns=("what",), rows=tuple((words,) for words in watched.recent))


def headline(watched: Watched) -> list[str]:
    """The sentences on one run."""
    kind = "profiling" if watched.profiles else "run"
    reason = f" ({first_line(watched.reason)})" if watched.reason else ""
    lines = [f"{kind} {watched.directory.run}: {watched.condition.value}{reason}"]
    if watched.condition is Condition.STARTING:
        what = "go on with it" if watched.last_utc else "begin it"
        lines.append(f"{watched.holder} is about to {what}")
    elif watched.holder is not None:
        lines.append(f"{watched.holder} is at work on it")
    elif watched.condition is Condition.KILLED:
        lines.append(f"no process is at work on it; the last it wrote was at {watched.last_utc}")
        if watched.state.held:
            lines.append(f"{len(watched.state.held)} node(s) were not given back: {', '.join(watched.state.held)}")
    elif watched.condition is Condition.UNBEGUN:
        lines.append("nothing has been written of it yet, and no process is at work on it")
    lines += [limit for limit in (_deadline(watched), _budget(watched)) if limit]
    command = how_to_go_on(watched)
    return [*lines, f"go on: {command}"] if command else lines


def _row(watched: Watched) -> tuple[str, ...]:
    best = watched.state.best()
    forecast = watched.forecast or (watched.expected if watched.condition.goes_on else None)
    unreadable = watched.condition is Condition.UNREADABLE
    return (
        watched.directory.run,
        watched.condition.value,
        "" if unreadable else f"{watched.stages_ended} of {sum(watched.state.stage_counts)}",
        "" if unreadable or watched.profiles else str(watched.alive),
        "" if best is None else f"{best.score:.4g}",
        "" if unreadable else duration(watched.elapsed_s),
        "" if watched.deadline_s is None else f"{duration(watched.deadline_s)}{_mark(watched.deadline_kept)}",
        "" if unreadable else money(watched.bill.cost_usd),
        "" if forecast is None else f"{duration(forecast[0])}, {money(forecast[1])}",
        watched.reason if unreadable else _next(watched),
    )


def _next(watched: Watched) -> str:
    if watched.resumable:
        return "run --resume"
    if watched.condition in (Condition.UNBEGUN, Condition.UNREADABLE):
        return ""
    return "stop" if watched.condition.lives else "report"


def _mark(kept: bool | None) -> str:
    return {None: "", True: ", kept", False: ", missed"}[kept]


def _figures(watched: Watched) -> Table:
    forecast, expected, state = watched.forecast, watched.expected, watched.state
    current = [stage for stage in state.stages if stage.end_s is None] if watched.condition is Condition.RUNNING else []
    where = ", ".join(f"{stage.chain}.{stage.stage}" if len(state.stage_counts) > 1 else f"{stage.stage}"
                      for stage in current)  # fmt: skip
    rows = [
        ("stage", where or "none", f"{watched.stages_ended} of {sum(state.stage_counts)} have ended", ""),
        ("nodes", f"{watched.ready} ready", f"{watched.requested} requested", f"{watched.wanted} wanted"),
        ("trials", f"{watched.alive} alive", f"{len(state.training)} run", f"{len(state.trials)} in all"),
        (
            "time",
            duration(watched.elapsed_s),
            "" if forecast is None else f"{duration(forecast[0])} at the end",
            "" if expected is None else f"{duration(expected[0])} planned",
        ),
        (
            "cost",
            money(watched.bill.cost_usd),
            "" if forecast is None else f"{money(forecast[1])} at the end",
            "" if expected is None else f"{money(expected[1])} planned",
        ),
    ]
    best = state.best()
    if best is not None:
        rows.append((state.metric or "score", f"{best.score:.5g}", f"trial {best.trial}", ""))
    return Table(title="Now", columns=("", "now", "", ""), rows=tuple(rows))


def _trials(watched: Watched) -> Table:
    """Those that are still in the contest, else those that are through; the best first."""
    state = watched.state
    alive = [trial for trial in state.trials.values() if trial.phase in ALIVE]
    shown = sorted(alive or state.trials.values(), key=lambda trial: _rank(trial, state.mode))
    rows = tuple(
        (
            str(trial.trial),
            trial.phase.value,
            str(trial.stage),
            str(_iterations(trial)),
            "" if trial.score is None else f"{trial.score:.5g}",
            ", ".join(name.removeprefix(f"{state.run}-") for name in state.training[trial.trial].nodes)
            if trial.trial in state.training
            else "",
        )
        for trial in shown[:_MOST_TRIALS]
    )
    less = f" (the best {len(rows)} of {len(shown)})" if len(shown) > len(rows) else ""
    return Table(
        title=("Trials that are alive" if alive else "Trials") + less,
        columns=("trial", "state", "stage", "iterations", state.metric or "score", "nodes"),
        rows=rows,
        words=("state", "nodes"),
    )


def _rank(trial: TrialState, mode: str) -> tuple[bool, float, int]:
    score = trial.score
    if score is None or math.isnan(score):
        return True, 0.0, trial.trial
    return False, -score if mode == "max" else score, trial.trial


def _iterations(trial: TrialState) -> int:
    return max([trial.iterations, *trial.scores])


def _deadline(watched: Watched) -> str:
    limit_s, kept = watched.deadline_s, watched.deadline_kept
    if limit_s is None:
        return ""
    at_s = watched.elapsed_s if watched.forecast is None else max(watched.elapsed_s, watched.forecast[0])
    return f"the deadline of {duration(limit_s)} {_outlook(watched, kept, duration(abs(limit_s - at_s)))}"


def _budget(watched: Watched) -> str:
    limit_usd, kept = watched.budget_usd, watched.budget_kept
    if limit_usd is None:
        return ""
    cost_usd = watched.bill.cost_usd
    at_usd = cost_usd if watched.forecast is None else max(cost_usd, watched.forecast[1])
    return f"the budget of {money(limit_usd)} {_outlook(watched, kept, money(abs(limit_usd - at_usd)))}"


def _outlook(watched: Watched, kept: bool | None, by: str) -> str:
    if kept is None:
        return "stays open, since the run has not come to its end"
    if watched.condition is Condition.RUNNING:
        return f"is expected to be {'kept' if kept else 'missed'} by {by}"
    if watched.condition is Condition.DEADLINE:
        return "came first"
    return f"was {'kept' if kept else 'missed'} by {by}"
