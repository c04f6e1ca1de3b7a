"""Trials in the log of a run with rented nodes: what the scheduler knows of them, as the core's events."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any

import ray

from rb_core.events import (
    StageEnded,
    StageStarted,
    TrialCreated,
    TrialFailed,
    TrialInterrupted,
    TrialLeft,
    TrialPaused,
    TrialReported,
    TrialStarted,
)
from rb_core.plainjson import plain
from rb_core.plan import StageAllocation
from rb_core.state import RunState, TrialPhase
from rb_ray.scheduling.elastic import ElasticFleet
from rb_ray.scheduling.fleet import Fleet
from rb_ray.scheduling.rungs import Rungs

STOPPED = "stopped"
"""What `Rungs.gone` says of trials that were stopped at a rung."""

_OUT = (TrialPhase.STOPPED, TrialPhase.FAILED, TrialPhase.LEFT)


def names(label: str) -> Mapping[str, str]:
    """The run's nodes by Ray's ids of them.

    Args:
        label: the fleet's.
    """
    prefix = f"{label}:"
    return {
        row["NodeID"]: resource.removeprefix(prefix)
        for row in ray.nodes()
        for resource in row["Resources"]
        if resource.startswith(prefix)
    }


class Chronicle:
    """Keeps the log of a fleet that has one up with the trials; of no effect where there is none.

    Every call may be repeated: what is in the log already, also of an earlier sitting, is not written again. Any of
    them raises `UnusableLog` when the log cannot be written.
    """

    def __init__(self, fleet: Fleet, rungs: Rungs, *, names: Callable[[str], Mapping[str, str]] = names) -> None:
        """Nothing is written yet.

        Args:
            fleet: whose log it is.
            rungs: who stands where.
            names: tells the run's nodes by Ray's ids of them, by the fleet's label.
        """
        self._names = names
        self._fleet = fleet if isinstance(fleet, ElasticFleet) else None
        self._rungs = rungs

    def keep_up(
        self, configs: Mapping[int, Mapping[str, Any]], allotments: Mapping[int, StageAllocation], failed: str
    ) -> None:
        """Write which trials there are, who is out, and which stages have begun and ended.

        Args:
            configs: of the trials, by number.
            allotments: what each stage runs on.
            failed: what `Rungs.gone` says of trials that failed for good; all others that left did so by themselves.
        """
        fleet, state = self._fleet, self._state
        if fleet is None or state is None:
            return
        for trial, config in configs.items():
            if trial not in state.trials and not state.stages:
                fleet.note(TrialCreated, trial=trial, chain=0, config=plain(dict(config)))
        decided = [tuple(entry[1]) for entry in self._rungs.log if entry[0] == "decided"]
        for stage, allocation in sorted(allotments.items()):
            if stage == len(state.stages):
                trials = decided[stage - 1] if stage else self._rungs.alive
                fleet.note(
                    StageStarted,
                    chain=0,
                    stage=stage,
                    trials=trials,
                    instance_type=allocation.instance_type,
                    nodes=allocation.nodes,
                    slots_per_trial=allocation.slots_per_trial,
                )
            self._take_out(fleet, state, failed)
            if stage < len(decided) and state.stages[stage].end_s is None:
                self._end(fleet, state, stage, decided[stage])

    def started(self, trial: int, *, slots: int, from_iteration: int, node_ids: Sequence[str]) -> None:
        """A trial holds its slots.

        Args:
            trial: its number.
            slots: how many.
            from_iteration: iterations that it has done.
            node_ids: Ray's ids of the nodes that they are on.
        """
        fleet, state = self._fleet, self._state
        if fleet is None or state is None or not state.stages or trial in state.training:
            return
        names = self._names(fleet.label)
        nodes = tuple(dict.fromkeys(names[node_id] for node_id in node_ids if names.get(node_id) in state.held))
        if trial in state.trials and nodes:
            fleet.note(
                TrialStarted,
                trial=trial,
                chain=0,
                stage=state.stages[-1].stage,
                nodes=nodes,
                slots=slots,
                from_iteration=from_iteration,
            )

    def stopped(self, trial: int, cause: str) -> None:
        """A trial's process is gone.

        Args:
            trial: its number.
            cause: why, where it does not stand at its rung.
        """
        fleet, state = self._fleet, self._state
        if fleet is None or state is None or trial not in state.training:
            return
        stage = state.stages[state.training[trial].stage].stage
        score = self._rungs.scores(stage).get(trial)
        if score is None:
            fleet.note(TrialInterrupted, trial=trial, stage=stage, cause=cause)
            return
        end = list(accumulate(each.iterations for each in self._rungs.experiment.chains[0]))[stage]
        fleet.note(TrialReported, trial=trial, iterations=end, score=score)
        fleet.note(TrialPaused, trial=trial, stage=stage, iterations=end)

    @property
    def _state(self) -> RunState | None:
        return None if self._fleet is None else self._fleet.state

    def _take_out(self, fleet: ElasticFleet, state: RunState, failed: str) -> None:
        """Write who has left the stage that is on."""
        stage = state.stages[-1]
        for trial in stage.trials if stage.end_s is None else ():
            why = self._rungs.gone(trial)
            if not why or why == STOPPED or state.trials[trial].phase in _OUT:
                continue
            if why == failed:
                fleet.note(TrialFailed, trial=trial, stage=stage.stage, rank=0, cause="it failed; Tune has the cause")
            else:
                fleet.note(TrialLeft, trial=trial, stage=stage.stage, cause="it ended before its stages were over")

    def _end(self, fleet: ElasticFleet, state: RunState, stage: int, survivors: Sequence[int]) -> None:
        going = set(survivors)
        stopped = [t for t in state.stages[stage].trials if t not in going and state.trials[t].phase not in _OUT]
        fleet.note(StageEnded, chain=0, stage=stage, survivors=tuple(survivors), stopped=tuple(stopped))
