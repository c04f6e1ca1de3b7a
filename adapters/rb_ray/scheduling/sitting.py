"""One sitting of a run, from its first trial or `Tuner.restore` to the end of the driver."""

from __future__ import annotations

import logging
import math
import uuid
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from ray.tune.experiment import Trial
from ray.tune.utils import flatten_dict

from rb_core.bracket import Verdict
from rb_core.errors import UnusableLog
from rb_core.plan import StageAllocation
from rb_core.ports import Clock
from rb_ray import _compat
from rb_ray.scheduling.chronicle import Chronicle
from rb_ray.scheduling.hosting import TuneTrials, divisible, slot
from rb_ray.scheduling.memory import Memory, read_memory
from rb_ray.scheduling.parts import allotter_for, fleet_for
from rb_ray.scheduling.remarks import Remarks
from rb_ray.scheduling.results import Results
from rb_ray.scheduling.results import number as as_number
from rb_ray.scheduling.rungs import Rungs
from rb_ray.scheduling.seen import Seen
from rb_ray.scheduling.stages import Phase, Stages, Standing
from rb_ray.scheduling.stopwatch import Stopwatch
from rb_ray.scheduling.terms import ITERATIONS, Terms

_logger = logging.getLogger(__name__)

STOPPED, FAILED, ENDED = "stopped", "failed", "ended"
"""Why a trial is out: dropped at a rung, failed for good, or ended by itself or by Tune."""


class Sitting:
    """Everything that a scheduler remembers of the experiment that it serves."""

    def __init__(
        self,
        terms: Terms,
        *,
        metric: str,
        mode: str,
        first: Trial,
        clock: Clock,
        memory: Memory | None = None,
    ) -> None:
        """The first trial has come, a new one or one of an earlier sitting.

        Args:
            terms: what the scheduler was made with.
            metric: what trials are ranked by.
            mode: ``max`` or ``min``.
            first: that trial; it tells the folder and what a slot is, and is still to be added.
            clock: of everything.
            memory: what an earlier sitting left; None looks for it in the experiment's folder.
        """
        self._terms, self._clock = terms, clock
        self._folder = None if first.storage is None else Path(first.storage.experiment_driver_staging_path)
        if memory is None and self._folder is not None:
            memory = read_memory(self._folder)
            restoring = any(self._folder.glob("experiment_state-*.json"))
            if memory and first.trial_id not in memory.numbers and not restoring:
                # Tune names the folder by the second, so another experiment that has just ended may have used it.
                # Without Tune's own state in it nothing is being restored.
                memory = None
        self.restored = memory is not None
        asked = {
            "r": terms.r,
            "R": terms.R,
            "eta": terms.eta,
            "mode": mode,
            "metric": metric,
            "time_attr": terms.time_attr,
        }
        if memory is None:
            memory = Memory(run=uuid.uuid4().hex[:12], began_utc=clock.utc().isoformat(), terms=asked)
        elif memory.terms != asked:
            raise ValueError(f"The experiment was begun with {dict(memory.terms)}, and cannot go on with {asked}.")
        self.memory = memory
        self.rungs = Rungs(r=terms.r, R=terms.R, eta=terms.eta, mode=mode, log=memory.log)
        memory.log = self.rungs.log
        own = first.placement_group_factory
        if own is not None and not divisible(own) and (terms.widths != (1,) or terms.nodes is not None):
            raise ValueError(
                "The trainable asks for several bundles, so its trials cannot be given more or fewer slots. Let "
                "`tune.with_resources` ask for one bundle, the share of one process, or leave out "
                "`max_slots_per_trial`, `profile` and `nodes`."
            )
        self._fleet = fleet_for(terms, clock, metric=metric, mode=mode, target=first.trainable_name)
        self._fleet.open(memory.run, bundle=slot(own), restored=self.restored)
        self._chronicle = Chronicle(self._fleet, self.rungs)
        self._stopwatch = Stopwatch(clock)
        self._done: dict[int, int] = {}
        self._erring: set[int] = set()
        self._remarks = Remarks()
        self._results = Results(terms, metric, self.rungs, self._remarks)
        self._priced: list[int] = []
        self._written: tuple[int, ...] = ()
        self._began = datetime.fromisoformat(memory.began_utc)
        self.trials = TuneTrials(self._fleet, clock, ends=self._ends, given=self._given)
        self._allotter = allotter_for(terms, self._fleet, clock, folder=self._folder, target=first.trainable_name)
        self.stages = Stages(
            self.rungs,
            self.trials,
            self._fleet,
            self._allotter,
            clock,
            allotments=memory.allotments,
            seen=self.seen,
            note=self.note,
        )

    # --- what Tune tells, which is only noted ---

    def came(self, trial: Trial, controller: Any) -> None:
        """A trial was added: a new one, one that is tried again after a failure, or one of an earlier sitting."""
        number = self.memory.numbers.get(trial.trial_id)
        if number is not None and self.trials.by_number.get(number) is trial:
            self._came_again(number, trial, controller)
            return
        if number is None:
            if self.rungs.decided:
                self._late(trial)
                return
            number = self.memory.numbers[trial.trial_id] = len(self.memory.numbers)
        self.trials.add(number, trial)
        if number not in self.rungs:
            self.rungs.come(number)
        if trial.is_finished():
            self.rungs.leave(number, FAILED if trial.status == Trial.ERROR else ENDED)
            return
        if self.restored:
            self._recall(number, trial)
        if not trial.is_finished() and trial.status == Trial.PENDING:
            # Tune starts whatever is pending without asking; it files the trial by this status afterwards.
            trial.set_status(Trial.PAUSED)

    def reported(self, trial: Trial, result: Mapping[str, Any]) -> Verdict:
        """A result came in; says what the trial is to do."""
        number = self.number(trial)
        if number is None:
            return Verdict.CONTINUE
        self._erring.discard(number)
        iterations = self._results.reached(result)
        if self._results.missed(number, reached=iterations is not None):
            self.rungs.leave(number, ENDED)
        if iterations is None:
            return Verdict.STOP if self.rungs.gone(number) else Verdict.CONTINUE
        before = self._done.get(number, 0)
        back = iterations < before or (iterations == before and self._terms.time_attr == ITERATIONS)
        if back and self.rungs.verdict(number, gathered=self.trials.gathered) is Verdict.CONTINUE:
            self._remarks.once(
                "back",
                f"{self._terms.time_attr} went back from {before} to {iterations} in trial {trial}, which went on from "
                "an older checkpoint or none. No rung is repeated, but what it did meanwhile is done again; report "
                "a checkpoint at every rung.",
            )
        self._done[number] = max(before, iterations)
        self._stopwatch.reported(number, iterations, as_number(result.get("time_this_iter_s")))
        self._results.score(number, iterations, result)
        verdict = self.rungs.verdict(number, gathered=self.trials.gathered)
        if self.rungs.finished(number):
            return Verdict.STOP if self._terms.stop_last_trials else Verdict.CONTINUE
        if verdict is not Verdict.CONTINUE:
            self.stages.rests(number)
        return verdict

    def erred(self, trial: Trial, *, for_good: bool) -> None:
        """A trial failed. Where it is tried again it comes again at once; what follows is settled later."""
        number = self.number(trial)
        if number is not None:
            self._stopwatch.forget(number)
            self._chronicle.stopped(number, "it failed")
            self._erring.add(number)
            if for_good:
                self._settle()

    def ended(self, trial: Trial, result: Mapping[str, Any] | None = None) -> None:
        """A trial is over: stopped by us or by Tune, or by itself."""
        number = self.number(trial)
        if number is None:
            return
        iterations = None if result is None else self._results.reached(result)
        if result is not None and iterations is not None and iterations >= self._terms.R and self.rungs.last:
            self._results.score(number, iterations, result)
        stint = self._stopwatch.paused(number)
        if stint is not None:
            self.memory.stints.append(stint)
        self._chronicle.stopped(number, "it ended")
        self.rungs.leave(number, ENDED)
        self.stages.rests(number)

    # --- what is done about it ---

    def choose(self, controller: Any) -> Trial | None:
        """Do all that can be done now, and name the trial that Tune is to start.

        Raises:
            RubberBandError: the run cannot go on; everything has been given back.
        """
        self.trials.controller = controller
        self._settle()
        self._time()
        try:
            if self._terms.on_deadline == "stop" and self._late_s > 0 and self.stages.phase is not Phase.OVER:
                _logger.warning("The deadline has come: all trials are stopped.")
                self.stages.end()
            self.stages.advance()
        except BaseException:
            self.close()
            raise
        again = {number: self._done[number] - self._kept(number) for number in self._priced}
        self._priced.clear()
        unit_s = self.seen().iteration_s() if again else None
        self._remarks.price(again, unit=self._terms.time_attr, unit_s=unit_s, next_rung=self.rungs.rung)
        self.note()
        return self.trials.next(self.stages.released)

    def note(self) -> None:
        """Write down what has happened, if anything has.

        Raises:
            UnusableLog: it cannot be written.
        """
        self._chronicle.keep_up(
            {number: trial.config for number, trial in self.trials.by_number.items()}, self.memory.allotments, FAILED
        )
        if self._folder is None:
            return
        memory = self.memory
        now = self.rungs.changes, len(memory.numbers), len(memory.stints), len(memory.allotments)
        if now != self._written:
            memory.write(self._folder)
            self._written = now

    def close(self) -> None:
        """Give everything back. Idempotent."""
        try:
            self.note()
        except UnusableLog as error:
            _logger.warning("%s", error)
        finally:
            self._fleet.close()

    def settle(self) -> None:
        """Give everything back and wait until it is gone, for the end of the experiment.

        Raises:
            LeakedNodes: nodes are left.
        """
        if self.stages.phase is Phase.TRAINING and self.rungs.last and self.rungs.complete:
            # Tune does not ask again once the last trial has ended.
            self.rungs.decide()
        self.close()
        self._fleet.settle()

    def number(self, trial: Trial) -> int | None:
        """The number of a trial; None for one that never came, or too late."""
        number = self.memory.numbers.get(trial.trial_id)
        return number if number in self.trials.by_number else None

    def seen(self) -> Seen:
        """What has been measured so far."""
        return Seen(elapsed_s=self._elapsed_s, stints=tuple(self.memory.stints))

    def words(self) -> str:
        """Where the run stands, for people."""
        rungs, alive = self.rungs, self.rungs.alive
        out = [rungs.gone(number) for number in self.memory.numbers.values()]
        away = ", ".join(f"{out.count(why)} {why}" for why in (STOPPED, FAILED, ENDED) if why in out)
        allocation = self.stages.allocation
        width = "" if allocation is None else f", {allocation.slots_per_trial} slot(s) each"
        return (
            f"stage {min(rungs.stage + 1, rungs.stages)} of {rungs.stages}, up to {rungs.rung} "
            f"{self._terms.time_attr}, {self.stages.phase}: {len(alive)} trial(s) in{width}"
            + (f"; {away}" if away else "")
        )

    @property
    def _elapsed_s(self) -> float:
        return (self._clock.utc() - self._began).total_seconds()

    @property
    def _late_s(self) -> float:
        deadline_s = self._allotter.deadline_s
        return -math.inf if deadline_s is None else self._elapsed_s - deadline_s

    def _ends(self, stage: int) -> tuple[int | None, int | None]:
        counted = self._terms.time_attr == ITERATIONS
        return (self.rungs.ends[stage], self._terms.R) if counted else (None, None)

    def _came_again(self, number: int, trial: Trial, controller: Any) -> None:
        """It failed and is tried again: in its stage, or, where its rung has its score already, in the next one."""
        self._erring.discard(number)
        verdict = self.rungs.verdict(number, gathered=self.trials.gathered)
        if verdict is Verdict.WAIT and trial.status == Trial.PENDING:
            _compat.set_status(controller, trial, Trial.PAUSED)
        elif self.stages.allocation is not None:
            self._watch(number, self.stages.allocation, self.rungs.stage)

    def _late(self, trial: Trial) -> None:
        self._remarks.once(
            "late",
            f"Trial {trial} came after the first rung was decided, and is not run; all trials have to be suggested "
            "before that. Start another experiment for it.",
        )
        if not trial.is_finished():
            trial.set_status(Trial.TERMINATED)

    def _recall(self, number: int, trial: Trial) -> None:
        """Set a trial of an earlier sitting right, which Tune may have in an older state."""
        if self.rungs.gone(number) == FAILED:
            self.rungs.come(number)
        if self.rungs.gone(number) or self.rungs.finished(number):
            trial.set_status(Trial.TERMINATED)
            return
        result = flatten_dict(trial.run_metadata.last_result)
        iterations = self._results.reached(result)
        if iterations is not None and iterations >= 1:
            self._done[number] = iterations
            self._results.score(number, iterations, result)
        if self.rungs.finished(number) and self._terms.stop_last_trials:
            trial.set_status(Trial.TERMINATED)

    def _settle(self) -> None:
        """Those that failed and did not come again are out; so are those that Tune's restored state lacks."""
        for number in self._erring:
            self.rungs.leave(number, FAILED)
            self.stages.rests(number)
        self._erring.clear()
        if self.restored and self.trials.gathered:
            for number in self.rungs.alive:
                if number not in self.trials.by_number:
                    self.rungs.leave(number, ENDED)

    def _time(self) -> None:
        """Take note of who has got slots, and of who is paused."""
        for number in self._stopwatch.waiting():
            if _compat.holds_slots(self.trials.controller, self.trials.by_number[number]):
                self._stopwatch.holds(number)
                self._begun(number)
        for number in self._stopwatch.under_way():
            waits = self.rungs.verdict(number, gathered=self.trials.gathered) is Verdict.WAIT
            if waits and self.trials.standing(number) is Standing.RESTING:
                stint = self._stopwatch.paused(number)
                if stint is not None:
                    self.memory.stints.append(stint)
                self._chronicle.stopped(number, "it was paused before its rung")

    def _begun(self, number: int) -> None:
        allocation = self.stages.allocation
        if allocation is not None:
            self._chronicle.started(
                number,
                slots=allocation.slots_per_trial,
                from_iteration=self._kept(number),
                node_ids=_compat.node_ids(self.trials.controller, self.trials.by_number[number]),
            )

    def _given(self, number: int, allocation: StageAllocation, stage: int) -> None:
        self._watch(number, allocation, stage)
        if stage > 0 and self._folder is not None and self._kept(number) < self._done.get(number, 0):
            self._priced.append(number)

    def _watch(self, number: int, allocation: StageAllocation, stage: int) -> None:
        done = self._kept(number) if self._folder is not None else self._done.get(number, 0)
        self._stopwatch.released(number, stage=stage, slots=allocation.slots_per_trial, from_iteration=done)

    def _kept(self, number: int) -> int:
        """How far a trial's last checkpoint is."""
        checkpoint = self.trials.by_number[number].latest_checkpoint_result
        if checkpoint is None or checkpoint.checkpoint is None:
            return 0
        return self._results.reached(checkpoint.metrics or {}) or 0
