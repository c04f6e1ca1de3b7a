"""Recorded configurations of one training, and what a run that tunes it needs besides."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from curves.fetch import Source
from rb_core.hardware import Cloud, Latency
from rb_core.sim.durations import RecordedDurations
from rb_core.sim.recorded import RecordedCurves
from rb_core.spec import ExperimentSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One configuration that was trained to its end, or until it diverged.

    Attributes:
        name: of the configuration.
        scores: on validation data after each iteration; NaN from where it diverged on.
        tests: the same on test data, which nothing is chosen by.
        seconds: of each iteration, by number of slots.
    """

    name: str
    scores: tuple[float, ...]
    tests: tuple[float, ...]
    seconds: Mapping[int, tuple[float, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Configurations to draw from.

    Attributes:
        name: of the training.
        source: where it was recorded.
        mode: ``max`` or ``min``, which scores are better.
        recordings: all of them.
        rungs: iterations in total at which trials may be compared; the last is a whole training.
        eta: one trial in so many goes on.
        experiment: successive halving for a number of trials.
        cloud: where it is tuned.
        start_s: start of a trial's processes.
        save_s: end of a trial's stage.
        sync_s: a barrier.
        resumes: whether a trial goes on from its checkpoint; if not, a stage's iterations are a training from nothing.
        beginning: iterations that profiling runs of a configuration.
    """

    name: str
    source: Source
    mode: str
    recordings: tuple[Recording, ...]
    rungs: tuple[int, ...]
    eta: int
    cloud: Cloud
    start_s: Latency
    save_s: Latency
    sync_s: float
    resumes: bool = True
    beginning: int = 2
    experiment: Callable[[int], ExperimentSpec] = field(repr=False)

    @property
    def widths(self) -> tuple[int, ...]:
        """Slots per trial that durations are known for."""
        return tuple(sorted(self.recordings[0].seconds))

    @property
    def best(self) -> float:
        """The best score after a whole training that was recorded."""
        finals = [recording.scores[-1] for recording in self.recordings]
        return float(np.nanmax(finals) if self.mode == "max" else np.nanmin(finals))

    @property
    def best_test(self) -> float:
        """The best test score after a whole training that was recorded."""
        finals = [recording.tests[-1] for recording in self.recordings]
        return float(np.nanmax(finals) if self.mode == "max" else np.nanmin(finals))

    def drawn(self, seed: int) -> tuple[Recording, ...]:
        """All configurations in the random order of a seed: an experiment takes the first ones."""
        order = np.random.default_rng(seed).permutation(len(self.recordings))
        return tuple(self.recordings[number] for number in order)

    def better(self, one: float, other: float) -> bool:
        """Whether a score is better than another; anything is better than NaN, and NaN than nothing."""
        if np.isnan(one) or np.isnan(other):
            return not np.isnan(one)
        return one > other if self.mode == "max" else one < other

    def loss(self, score: float, reference: float) -> float:
        """How much worse a score is than another."""
        return reference - score if self.mode == "max" else score - reference


def curves_of(recordings: Sequence[Recording]) -> RecordedCurves:
    """The scores of trials that are these recordings, in their order."""
    return RecordedCurves(
        {trial: tuple(enumerate(recording.scores, start=1)) for trial, recording in enumerate(recordings)}
    )


def durations_of(recordings: Sequence[Recording]) -> RecordedDurations:
    """The durations of trials that are these recordings, in their order."""
    return RecordedDurations({trial: recording.seconds for trial, recording in enumerate(recordings)})
