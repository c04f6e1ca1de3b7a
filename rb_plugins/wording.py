"""Events of a run in words for people: those that matter to them."""

from __future__ import annotations

from rb_core.events import (
    Event,
    NodeLeaving,
    NodeLost,
    NodeReleased,
    Replanned,
    RunEnded,
    RunResumed,
    StageEnded,
    StageStarted,
    Warned,
)
from rb_core.oneline import first_line
from rb_core.reckoning import Reckoning
from rb_core.report import duration, money
from rb_core.spec import ExperimentSpec

TOLD = (
    StageStarted, StageEnded, NodeReleased, NodeLeaving, Replanned, RunResumed, NodeLost, Warned, RunEnded
)  # fmt: skip
"""The kinds of events that have words."""


def said(event: Event, words: str) -> str:
    """The words with the time of their event before them."""
    return f"[{duration(event.t_s):>10}] {words}"


def words(event: Event, reckoning: Reckoning, experiment: ExperimentSpec | None) -> str:
    """What an event says; empty for one that tells people nothing.

    Args:
        event: the event.
        reckoning: the run, which has just been told of it.
        experiment: what is run; None where that is not known.
    """
    state = reckoning.state
    match event:
        case StageStarted():
            iterations = "" if experiment is None else _iterations(event, experiment)
            return (
                f"{_stage(event.chain, event.stage, reckoning)}: {len(event.trials)} trials{iterations} on "
                f"{event.nodes} {event.instance_type}, {event.slots_per_trial} slots each"
            )
        case StageEnded():
            best = state.best()
            score = "" if best is None else f"; best {state.metric} {best.score:.4g} (trial {best.trial})"
            last = event.stage + 1 == state.stage_counts[event.chain]
            going = f"{len(event.survivors)} {'are through' if last else 'go on'}"
            return f"{_stage(event.chain, event.stage, reckoning)} ended: {going}{score}"
        case NodeReleased():
            usd = reckoning.bill().cost_usd
            expected = "" if reckoning.expected is None else f", {money(reckoning.expected[1])} expected in all"
            return (
                f"{_node(event.node, reckoning)} given back ({event.reason}), {len(state.held)} held; "
                f"{money(usd)} so far{expected}"
            )
        case NodeLeaving():
            return f"{_node(event.node, reckoning)} will be taken away in {duration(event.in_s)}: {event.reason}"
        case Replanned():
            stages = [stage for part in event.plan.get("chains", [event.plan]) for stage in part["stages"]]
            rest = " > ".join(f"{s['nodes']} {s['instance_type']}/{s['slots_per_trial']}" for s in stages)
            return (
                f"planned anew ({event.reason}): {duration(event.jct_s)} and {money(event.cost_usd)} expected in "
                f"all, instead of {duration(event.before_jct_s)} and {money(event.before_cost_usd)}; from "
                f"{_stage(event.chain, event.stage, reckoning)} on {rest} (nodes/slots per trial)"
            )
        case RunResumed():
            ended = sum(stage.end_s is not None for stage in state.stages)
            return f"run {state.run} goes on: {ended} of {sum(state.stage_counts)} stages are done"
        case NodeLost():
            return f"{_node(event.node, reckoning)} lost: {event.reason}"
        case Warned():
            return f"warning: {event.text}"
        case RunEnded():
            return f"run {event.ending.value}" + (f": {first_line(event.reason)}" if event.reason else "")
    return ""


def _iterations(event: StageStarted, experiment: ExperimentSpec) -> str:
    return f" x {experiment.chains[event.chain][event.stage].iterations} iterations"


def _stage(chain: int, stage: int, reckoning: Reckoning) -> str:
    return f"chain {chain}, stage {stage}" if len(reckoning.state.stage_counts) > 1 else f"stage {stage}"


def _node(name: str, reckoning: Reckoning) -> str:
    return f"node {name.removeprefix(reckoning.state.run + '-')}"
