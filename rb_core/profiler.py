"""Runs a training function for real, on several numbers of slots, until its scaling profile is known.

A size of w slots is measured as the run will use it: on a machine of S slots, S // w trials of different
configurations run side by side, since they share memory bandwidth, caches and clock rates. Every trial runs a few
iterations, and then some more from its checkpoint. All sizes are measured with the same configurations, batch by
batch, so that a machine that slows down for a while does not favour one size.
"""

from __future__ import annotations

import logging
import math
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np

from rb_core.check import non_negative, positive, positive_int
from rb_core.errors import InvalidInput, StoreFailure, TrialFailure, UnusableProfile
from rb_core.measurement import MeasuredProfile, Measurement, complete_configs, summarise
from rb_core.placement import divides
from rb_core.ports import Clock, Depot, Launcher, Slot
from rb_core.steadiness import steadiness_warnings
from rb_core.trial_timer import Progress, Surroundings, Timed, TrialTimer

logger = logging.getLogger(__name__)

BUDGET_S = 300.0
"""Default limit of the time that profiling takes."""

SYNC_S = 0.02
"""Default length of a barrier, in which the engine writes its log and starts the survivors: 4 to 25 ms were measured
between the last exit of one stage and the first start of the next, on 2 cores with a local disk (2026-12-02)."""

LEAST_ITERATIONS = 2
"""Iterations of a start that tells something: one to warm up and one to time."""

MOST_ITERATIONS = 12
"""Iterations of a start beyond which another start tells more."""

TIMED_S = 1.0
"""Seconds of steady iterations that a start should give, within the limits above."""

ENOUGH_CONFIGS = 4
"""Configurations that are worth having before any of them is timed for longer."""

ENOUGH_FAILURES = 2
"""Configurations that must fail on the smallest size, before any succeeds, for the function itself to be at fault."""

CAUTION = 1.1
"""Nothing is begun that would end in time only if it took less than this times its estimate."""


def profile(
    launcher: Launcher,
    clock: Clock,
    *,
    configs: Sequence[Mapping[str, Any]],
    slots: Sequence[Slot],
    sizes: Sequence[int],
    budget_s: float = BUDGET_S,
    folder: Path | None = None,
    seed: int = 0,
    max_iterations: int = 1,
    env: Mapping[str, str] | None = None,
    sync_s: float = SYNC_S,
    longest: int | None = None,
    depot: Depot | None = None,
) -> MeasuredProfile:
    """Measure how the launcher's training function scales.

    Ends as soon as every configuration was measured, and at the latest after `budget_s`; fewer configurations and
    fewer iterations are taken when an iteration is long. Nothing is left running, and no file is left behind.

    Args:
        launcher: entered already, so that no start pays for its warming up.
        clock: the clock that times everything.
        configs: configurations to try, most telling first; about eight are plenty.
        slots: every slot of the machine that is measured, in the order of its nodes.
        sizes: slots per trial to measure.
        budget_s: limit of the time that all of it may take.
        folder: where the storage of the run is, so that saving and restoring are measured on it; the system's
            temporary folder when None. What is written goes into a new folder in it, which is removed.
        seed: seed of the run.
        max_iterations: iterations of a trial that is never stopped, which a function may lay a schedule out for.
        env: variables for every rank.
        sync_s: length of a barrier, which is not measured here.
        longest: iterations after which the function ends by itself; None for one that goes on as long as it is asked.
        depot: what the run keeps its checkpoints in, if that is no folder, so that it is measured, too. It is emptied.

    Raises:
        InvalidInput: a number is out of its limits, or a size does not fit onto the slots.
        TrialFailure: the function fails on the smallest size.
        UnusableProfile: it hangs, takes too long for the budget, ignores its configuration, or gives no usable score.
        LaunchFailure: no process could be started.
        StoreFailure: the depot cannot be emptied.
    """
    positive("budget_s", budget_s)
    positive_int("max_iterations", max_iterations)
    non_negative("sync_s", sync_s)
    if not configs:
        raise InvalidInput("configs", "must hold at least one configuration, got none")
    if longest is not None and longest <= LEAST_ITERATIONS:
        raise InvalidInput(
            "longest",
            f"a function that ends by itself must have at least {LEAST_ITERATIONS + 1} iterations to be measured, got "
            f"{longest}",
        )
    places = {size: _places(slots, size) for size in sorted(set(sizes))}
    if not places:
        raise InvalidInput("slots", "must name at least one number of slots per trial to measure")
    with tempfile.TemporaryDirectory(prefix="rb-profile-", dir=folder) as own, _emptied(depot):
        around = Surroundings(folder=Path(own), seed=seed, max_iterations=max_iterations, env=env, depot=depot)
        timer = TrialTimer(launcher, clock, around, deadline_s=clock.now() + budget_s)
        survey = _Survey(
            clock=clock, timer=timer, configs=configs, places=places, budget_s=budget_s, longest=longest or math.inf
        )
        return survey.conduct(sync_s)


@contextmanager
def _emptied(depot: Depot | None) -> Iterator[None]:
    """A depot that is empty afterwards; where it cannot be emptied, an error that came before is the one to know of."""
    try:
        yield
    except BaseException:
        with suppress(StoreFailure):
            _empty(depot)
        raise
    _empty(depot)


def _empty(depot: Depot | None) -> None:
    if depot is not None:
        for reference in depot.references():
            depot.delete(reference)


@dataclass(frozen=True, slots=True)
class _Pace:
    """Mean parts of a start on one size so far, in seconds."""

    start_s: float
    iteration_s: float
    save_s: float

    def start_takes_s(self, iterations: int) -> float:
        return self.start_s + iterations * self.iteration_s + self.save_s


@dataclass(slots=True, kw_only=True)
class _Survey:
    """One profiling: what is asked, and what is known so far.

    Attributes:
        places: for each size that is still in, ascending, the groups of slots that hold one trial each.
    """

    clock: Clock
    timer: TrialTimer
    configs: Sequence[Mapping[str, Any]]
    places: dict[int, list[tuple[Slot, ...]]]
    budget_s: float
    longest: float
    began_s: float = field(init=False)
    measurements: list[Measurement] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    failures: dict[int, TrialFailure] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.began_s = self.clock.now()

    def conduct(self, sync_s: float) -> MeasuredProfile:
        self._look_at_the_smallest()
        self._check_use()
        self._look_at_the_others()
        self._measure()
        sizes = tuple(self.places)
        self._check_scores()
        scaling, fit = summarise(self.measurements, sizes, sync_s=sync_s)
        self.warnings += [*self._unread(), *steadiness_warnings(self.measurements)]
        if len(self.configs) > 1 and len(complete_configs(self.measurements, sizes)) < 2:
            self.warnings.append(
                f"only one configuration could be measured within the budget of {self.budget_s:g} s, so how much "
                "configurations differ in speed is unknown and taken for nothing; raise budget_s to learn it"
            )
        return MeasuredProfile(
            profile=scaling,
            configs=tuple(dict(config) for config in self.configs),
            measurements=tuple(self.measurements),
            fit=fit,
            warnings=tuple(dict.fromkeys([*self.timer.findings.remarks, *self.warnings])),
            seconds=self.clock.now() - self.began_s,
        )

    # The look: the least that is needed of every size

    def _look_at_the_smallest(self) -> None:
        size = self._smallest
        came_through = False
        while not came_through:
            group = self._usable()[: len(self.places[size])]
            if len(self.failures) >= ENOUGH_FAILURES or not group:
                number, failure = next(iter(self.failures.items()))
                raise _with_config(failure, size, self.configs[number])
            timed = self._time(size, group, (LEAST_ITERATIONS, 1))
            self._leave_out(size, timed.failures)
            if timed.unfinished and not timed.measurements:
                raise self._too_slow(size, timed.unfinished)
            came_through = bool(timed.unfinished) or any(m.from_iteration for m in timed.measurements)
        pace = self._pace(size)
        least_s = sum(pace.start_takes_s(LEAST_ITERATIONS) * size / other for other in self.places if other != size)
        if least_s > self._left_s():
            total_s = self.budget_s - self._left_s() + least_s
            raise UnusableProfile(
                f"one iteration takes {pace.iteration_s:.3g} s on {_slots(size)}, so that measuring "
                f"{_and(self.places)} slots takes at least {total_s:.3g} s, but the budget is "
                f"{self.budget_s:g} s; raise budget_s, measure fewer numbers of slots, or let an iteration do less"
            )

    def _look_at_the_others(self) -> None:
        for size in [size for size in self.places if size != self._smallest]:
            timed = self._time(size, self._usable()[: len(self.places[size])], (LEAST_ITERATIONS,))
            if timed.measurements:
                self._leave_out(size, timed.failures)
            else:
                cause = next((f.cause for f in timed.failures.values()), "two iterations took longer than was left")
                self.warnings.append(f"{_slots(size)} per trial will not be planned with: {cause}")
                del self.places[size]

    # The measurement proper: batches of configurations, each on all sizes

    def _measure(self) -> None:
        width = len(self.places[self._smallest])
        waiting = self._usable()
        while waiting:
            batch, waiting = waiting[:width], waiting[width:]
            iterations = self._iterations(len(batch), len(waiting))
            if iterations is None:
                return
            for size, places in self.places.items():
                for first in range(0, len(batch), len(places)):
                    group = [c for c in batch[first : first + len(places)] if c not in self.failures]
                    self._leave_out(size, self._time(size, group, self._starts(iterations)).failures)

    def _starts(self, iterations: int) -> tuple[int, ...]:
        """Two starts of so many iterations, as far as the function goes on that long."""
        if 2 * iterations <= self.longest:
            return (iterations, iterations)
        return (int(min(iterations, self.longest)),)

    def _iterations(self, batch: int, waiting: int) -> int | None:
        """Iterations for each start of the next batch; None when not even the least fits into the time left."""
        smallest_s = self._pace(self._smallest).iteration_s
        wanted = min(MOST_ITERATIONS, max(LEAST_ITERATIONS + 1, 1 + math.ceil(TIMED_S / smallest_s)))
        missing = ENOUGH_CONFIGS - len(complete_configs(self.measurements, self.places))
        batches = max(1, math.ceil(min(missing, batch + waiting) / batch))
        for iterations in range(wanted, LEAST_ITERATIONS, -1):
            if batches * self._batch_takes_s(batch, iterations) <= self._left_s():
                return iterations
        for iterations in range(wanted, LEAST_ITERATIONS - 1, -1):
            if self._batch_takes_s(batch, iterations) <= self._left_s():
                return iterations
        return None

    def _batch_takes_s(self, batch: int, iterations: int) -> float:
        return CAUTION * sum(
            math.ceil(batch / len(places)) * 2 * self._pace(size).start_takes_s(iterations)
            for size, places in self.places.items()
        )

    def _time(self, size: int, group: Sequence[int], starts: tuple[int, ...]) -> Timed:
        """Time a group on one size; where it is too small to fill the machine, some of it twice."""
        if not group:
            return Timed()
        places = self.places[size]
        logger.info("timing %s per trial, configurations %s", _slots(size), _and(group))
        filled = [(number, self.configs[number]) for number in islice(cycle(group), len(places))]
        timed = self.timer.time(filled, places, starts)
        self.measurements += timed.measurements
        return timed

    def _leave_out(self, size: int, failures: Mapping[int, TrialFailure]) -> None:
        for number, failure in failures.items():
            self.failures.setdefault(number, failure)
            self.warnings.append(
                f"configuration {dict(self.configs[number])} failed on {_slots(size)} and is left out here: "
                f"{failure.cause}"
            )

    # What is known so far

    @property
    def _smallest(self) -> int:
        return min(self.places)

    def _usable(self) -> list[int]:
        return [number for number in range(len(self.configs)) if number not in self.failures]

    def _left_s(self) -> float:
        return self.began_s + self.budget_s - self.clock.now()

    def _pace(self, size: int) -> _Pace:
        here = [m for m in self.measurements if m.slots == size]
        return _Pace(
            start_s=float(np.mean([m.start_s + m.iterations_s[0] for m in here])),
            iteration_s=float(np.mean([seconds for m in here for seconds in m.steady_s])),
            save_s=float(np.mean([m.save_s for m in here])),
        )

    # What cannot be planned with

    def _too_slow(self, size: int, unfinished: Mapping[int, Progress]) -> UnusableProfile:
        progress = max(unfinished.values(), key=lambda p: (p.begun, p.iterations_s))
        if not progress.begun:
            fact = f"the function did not reach its first iteration on {_slots(size)}"
        elif not progress.iterations_s:
            fact = f"no iteration ended on {_slots(size)}"
        else:
            return UnusableProfile(
                f"one iteration takes {progress.iterations_s[0]:.3g} s on {_slots(size)}, and the least is "
                f"{LEAST_ITERATIONS} of them, but the budget is {self.budget_s:g} s; raise budget_s or let an "
                "iteration do less"
            )
        return UnusableProfile(
            f"{fact} within the budget of {self.budget_s:g} s; if it does not hang, raise budget_s or let an "
            "iteration do less"
        )

    def _check_use(self) -> None:
        if not self.timer.findings.scores:
            raise UnusableProfile("the function ended without a score; call trial.report(score) in every iteration")
        if any(self.configs) and not self.timer.findings.keys_read:
            keys = _and(sorted({key for config in self.configs for key in config}))
            raise UnusableProfile(
                f"the function reads nothing of its configuration ({keys}), so that all trials would be the same; "
                "use config[...] in it"
            )

    def _check_scores(self) -> None:
        if all(math.isnan(score) for score in self.timer.findings.scores):
            raise UnusableProfile(
                f"every score that the function reported is NaN, with each of "
                f"{len({m.config for m in self.measurements})} configuration(s); report a number, or narrow the "
                "search space to configurations that train"
            )

    def _unread(self) -> list[str]:
        unread = sorted({key for config in self.configs for key in config} - self.timer.findings.keys_read)
        if not unread:
            return []
        return [f"the function never read {_and(unread)} of its configuration: use it, or leave it out of the space"]


def _places(slots: Sequence[Slot], size: int) -> list[tuple[Slot, ...]]:
    """Groups of slots that hold one trial each: within a node, or whole nodes where a trial is wider than one."""
    positive_int("slots", size)
    if size > len(slots):
        raise InvalidInput("slots", f"must be at most the {len(slots)} slots that there are, got {size}")
    nodes: dict[str, list[Slot]] = {}
    for slot in slots:
        nodes.setdefault(slot.node, []).append(slot)
    widest = max(len(node) for node in nodes.values())
    if not divides(size, widest):
        raise InvalidInput("slots", f"must be at most a node's {widest} slots or a multiple of them, got {size}")
    pools = [list(slots)] if size > widest else list(nodes.values())
    return [tuple(pool[first : first + size]) for pool in pools for first in range(0, len(pool) - size + 1, size)]


def _with_config(failure: TrialFailure, size: int, config: Mapping[str, Any]) -> TrialFailure:
    which = f" with configuration {dict(config)}" if config else ""
    return TrialFailure(
        trial=failure.trial,
        rank=failure.rank,
        cause=f"{failure.cause} (while profiling on {_slots(size)}{which})",
        traceback=failure.traceback,
        output_tail=failure.output_tail,
    )


def _slots(size: int) -> str:
    return f"{size} slot{'s' if size > 1 else ''}"


def _and(items: Collection[object]) -> str:
    *most, last = (str(item) for item in items)
    return f"{', '.join(most)} and {last}" if most else last
