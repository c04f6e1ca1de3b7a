"""The state machine of a run: from the trials' coming to the last rung, without Ray and without ever blocking.

A stage goes through the phases below in order. What trials report is only noted when they report it; all that follows
is done in `Stages.advance`, which the host calls several times a second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Protocol

from rb_core.bracket import Verdict
from rb_core.errors import InvalidInput
from rb_core.plan import StageAllocation
from rb_core.ports import Clock
from rb_ray.scheduling.allotting import Allotter
from rb_ray.scheduling.fleet import Fleet
from rb_ray.scheduling.rungs import Rungs
from rb_ray.scheduling.seen import Seen

SEARCHING_S = 300.0
"""How long a searcher may suggest nothing while all trials that it has suggested wait for the others."""

CLEARING_S = 60.0
"""How long the slots of paused trials and the saving of Tune's state are waited for; the fleet sees to the rest."""


class Phase(StrEnum):
    """What the run is at."""

    GATHERING = "gathering"
    """Trials are coming; none runs yet."""
    ALLOTTING = "allotting"
    """It is to be said what the next stage runs on."""
    CLEARING = "clearing"
    """Everybody is paused or stopped; their slots are on the way back, and what was decided is being saved."""
    RESIZING = "resizing"
    """Surplus nodes are going, missing ones coming."""
    TRAINING = "training"
    """The trials of the stage run, or wait at its rung."""
    SETTLING = "settling"
    """Everybody is paused at the rung; before it is decided their state is being saved, so that none has to return."""
    OVER = "over"
    """Nothing is left to run."""


class Standing(StrEnum):
    """How a trial stands with the host."""

    ACTIVE = "active"
    """It runs, waits for its slots, or is saving."""
    RESTING = "resting"
    """It is paused and saved."""
    ENDED = "ended"
    """It has ended, well or badly."""


class Host(Protocol):
    """What the machine needs of the program that runs the trials. No call blocks."""

    @property
    def gathered(self) -> bool:
        """Whether no further trial will come."""

    @property
    def stalled(self) -> bool:
        """Whether none has come for long, because the next ones depend on what these report."""

    @property
    def cleared(self) -> bool:
        """Whether no trial holds a slot, or is about to."""

    @property
    def saved(self) -> bool:
        """Whether what `save` began is done."""

    def standing(self, trial: int) -> Standing:
        """How a trial stands."""

    def stop(self, trial: int) -> None:
        """End a trial for good."""

    def save(self) -> None:
        """Begin to put the state of all trials where it outlives the host."""

    def give(self, trial: int, allocation: StageAllocation, stage: int) -> None:
        """Set what a resting trial asks for when it runs next: it is about to."""


class Stages:
    """Takes a run from stage to stage."""

    def __init__(
        self,
        rungs: Rungs,
        host: Host,
        fleet: Fleet,
        allotter: Allotter,
        clock: Clock,
        *,
        allotments: dict[int, StageAllocation],
        seen: Callable[[], Seen],
        note: Callable[[], None],
    ) -> None:
        """A run that begins, or goes on.

        Args:
            rungs: who stands where.
            host: who runs the trials.
            fleet: open.
            allotter: asked once for each stage.
            clock: for bounded waits.
            allotments: what was allotted in an earlier sitting; added to.
            seen: what has been measured.
            note: writes down what was decided; called before it is acted on.
        """
        self._rungs = rungs
        self._host = host
        self._fleet = fleet
        self._allotter = allotter
        self._clock = clock
        self._allotments = allotments
        self._seen = seen
        self._note = note
        self._released: set[int] = set()
        self._saving_s = 0.0
        self._searching_s = clock.now()
        self.phase = Phase.GATHERING

    @property
    def allocation(self) -> StageAllocation | None:
        """What the current stage runs on, once that is known."""
        return self._allotments.get(self._rungs.stage)

    @property
    def released(self) -> Sequence[int]:
        """Trials that may run now, in order."""
        return [trial for trial in self._rungs.alive if trial in self._released]

    def advance(self) -> None:
        """Do all that can be done now.

        Raises:
            RubberBandError: the run cannot go on; see `Allotter.allot` and `Fleet.poll`.
        """
        step = {
            Phase.GATHERING: self._gathering,
            Phase.ALLOTTING: self._allotting,
            Phase.CLEARING: self._clearing,
            Phase.RESIZING: self._resizing,
            Phase.TRAINING: self._training,
            Phase.SETTLING: self._settling,
        }
        while self.phase in step and (following := step[self.phase]()) is not self.phase:
            self.phase = following

    def rests(self, trial: int) -> None:
        """A trial is to stay where it is: at a rung, or out."""
        self._released.discard(trial)

    def end(self) -> None:
        """Stop whatever has not ended, and give everything back."""
        self.phase = Phase.OVER
        self._released.clear()
        for trial in self._rungs.alive:
            if self._host.standing(trial) is not Standing.ENDED:
                self._host.stop(trial)
        self._fleet.close()

    def _gathering(self) -> Phase:
        if not (self._host.gathered or self._host.stalled):
            return Phase.GATHERING
        if not self._rungs.alive:
            return self._ended() if self._host.gathered else Phase.GATHERING
        if self._rungs.over:
            return self._ended()
        self._note()
        return Phase.ALLOTTING

    def _allotting(self) -> Phase:
        stage = self._rungs.stage
        if stage not in self._allotments:
            self._allotments[stage] = self._allotter.allot(
                self._rungs.experiment, stage, self._rungs.alive, self._seen()
            )
        self._save()
        return Phase.CLEARING

    def _clearing(self) -> Phase:
        if not (self._saved and (self._host.cleared or self._late)):
            return Phase.CLEARING
        stage = self._rungs.stage
        self._fleet.resize(self._allotments[stage], stage)
        return Phase.RESIZING

    def _resizing(self) -> Phase:
        self._fleet.poll()
        if not self._fleet.ready:
            return Phase.RESIZING
        return Phase.TRAINING

    def _training(self) -> Phase:
        self._fleet.poll()
        rungs, host = self._rungs, self._host
        self._release()
        if not host.gathered and rungs.stage == 0:
            self._search()
            return Phase.TRAINING
        standings = {trial: host.standing(trial) for trial in rungs.alive}
        if rungs.last:
            # The last trials are not paused at their rung but end there, or go on for as long as they like.
            pausing = [t for t in standings if rungs.finished(t) and standings[t] is Standing.RESTING]
            for trial in pausing:
                host.stop(trial)
            ended = all(standing is Standing.ENDED or trial in pausing for trial, standing in standings.items())
            if not (ended and rungs.complete):
                return Phase.TRAINING
            rungs.decide()
            return self._ended()
        if not rungs.complete or any(standing is not Standing.RESTING for standing in standings.values()):
            return Phase.TRAINING
        self._save()
        return Phase.SETTLING

    def _settling(self) -> Phase:
        if not self._saved:
            return Phase.SETTLING
        decision = self._rungs.decide()
        self._note()
        for trial in decision.stopped:
            self._host.stop(trial)
        return self._ended() if self._rungs.over else Phase.ALLOTTING

    def _search(self) -> None:
        """Give a searcher up that suggests nothing before trials have ended, which none does before all have come."""
        waits = all(self._host.standing(trial) is not Standing.ACTIVE for trial in self._rungs.alive)
        if not (waits and self._rungs.complete):
            self._searching_s = self._clock.now()
        elif self._clock.now() - self._searching_s > SEARCHING_S:
            alive = len(self._rungs.alive)
            raise InvalidInput(
                "search_alg",
                f"has suggested no further trial for {SEARCHING_S:.0f} s, while all {alive} that it has suggested wait "
                "for the others at the first rung: it must not wait for trials to end. Lift its own limit of "
                f"concurrent trials, or set `num_samples` to {alive}",
            )

    def _save(self) -> None:
        self._note()
        self._saving_s = self._clock.now()
        self._host.save()

    @property
    def _late(self) -> bool:
        return self._clock.now() - self._saving_s > CLEARING_S

    @property
    def _saved(self) -> bool:
        return self._host.saved or self._late

    def _release(self) -> None:
        """Let everybody run whose rung lies ahead and who has not been let go in this stage."""
        stage, allocation = self._rungs.stage, self.allocation
        if allocation is None:
            return
        for trial in self._rungs.alive:
            ahead = self._rungs.verdict(trial, gathered=self._host.gathered) is Verdict.CONTINUE
            if ahead and trial not in self._released and self._host.standing(trial) is Standing.RESTING:
                self._host.give(trial, allocation, stage)
                self._released.add(trial)

    def _ended(self) -> Phase:
        self._note()
        self._fleet.close()
        return Phase.OVER
