"""What a run has measured so far, folded into the profile and the cloud that it was planned with.

The profile may be wrong as a whole: another machine, a larger data set, a slower cloud. So one common factor is learned
for the iterations of all widths, and one for each of the latencies. It may be wrong in how much wider trials gain, too:
that is learned once iterations on several widths are known, see `Learning.lag`. A factor is 1 before anything was
measured, and then the mean of 1 and what was measured, each weighted by how much it tells (the posterior mean under
normal errors):

    factor = (1 / PRIOR**2 + sum of ratio / variance) / (1 / PRIOR**2 + sum of 1 / variance)

A ratio is measured seconds over expected ones. Of iterations there is one for each trial, since what makes a trial fast
or slow is its own and stays (`trial_cv`): its variance is ``trial_cv**2 + step**2 / iterations``. So a trial that has
run a single iteration tells less than the profile does, which stands for about three such trials; one that has run
twenty tells more than the profile, unless trials differ much among themselves. The trials of a whole stage decide.
Of latencies each one is a ratio, and the profile stands for about three.

These variances are what is taken for granted before anything was seen. How far the trials' ratios in fact lie apart
scales them all, as `AGREEMENT` ratios of the expected spread would together with those seen: trials that agree to the
second settle the factor at once.

A single step that took far longer than the others (`OUTLIER` times their median) counts as that long and no longer.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import numpy as np

from rb_core.check import non_negative, positive, positive_int
from rb_core.errors import InvalidInput
from rb_core.hardware import Cloud, Latency
from rb_core.profile import ScalingProfile

PRIOR = 0.3
"""How far off a profile or a cloud is taken to be before anything was measured: relative standard deviation."""

LAG_PRIOR = 0.15
"""How far off a profile's scaling is taken to be: standard deviation of `Learning.lag`."""

LEAST_TRIAL_CV = 0.1
"""Trials are never taken to be more alike than this."""

LEAST_STEP_CV = 0.5
"""Neither are single iterations or latencies: a busy disk or a garbage collection doubles one now and then."""

OUTLIER = 3.0
"""A step or latency counts at most this many times their median."""

AGREEMENT = 1
"""So many ratios with the expected spread stand for what is known of it before anything was seen."""

_BEFORE = 3
"""So many of the expected length take part in the median, so that the first ones measured do not set it alone."""

_LEAST_RATIO = 0.01
"""What takes less than this share of its time is taken to take so much, where logarithms are compared."""

_FRESH = 1.05
"""So many times as many reports make it worth while to work the factor out anew."""

Steps = Sequence[tuple[int, int, float, float]]
"""(slots per trial, iterations, expected seconds, measured seconds) of a trial's reports."""

Ratios = Sequence[tuple[float, float]]
"""(ratio, variance) of what was measured."""


class Learning:
    """The profile and the cloud of a run in the light of what it has measured. The order of measurements is immaterial.

    Seconds that are handed in are measured ones, of at least 0.
    """

    def __init__(self, profile: ScalingProfile, cloud: Cloud) -> None:
        """Nothing measured yet.

        Args:
            profile: what the run was planned with.
            cloud: likewise.
        """
        self._profile, self._cloud = profile, cloud
        self._steps: defaultdict[int, list[tuple[int, int, float, float]]] = defaultdict(list)
        self._starts_s: list[float] = []
        self._saves_s: list[float] = []
        self._launches_s: list[float] = []
        self._inits_s: list[float] = []
        self._reports = 0
        self._latencies = 0
        self._lag = (0, 0.0)
        self._drift = (0, 1.0)
        self._known = (0, profile)
        self._known_cloud = (0, cloud)

    def iterated(self, trial: int, slots_per_trial: int, slow: float, *, iterations: int, seconds: float) -> None:
        """A trial has run iterations.

        Args:
            trial: its number.
            slots_per_trial: its width.
            slow: what slows it down against the profile: `ScalingProfile.slowdown` of where it runs.
            iterations: how many since it was last told of.
            seconds: how long they took.

        Raises:
            InvalidInput: a number is out of its limits, or the profile does not know the width.
        """
        if slots_per_trial not in self._profile.iteration_s:
            known = ", ".join(str(slots) for slots in self._profile.slots)
            raise InvalidInput("slots_per_trial", f"must be in the profile ({known}), got {slots_per_trial}")
        expected_s = self._profile.iteration_s[slots_per_trial].mean * positive("slow", slow)
        expected_s *= positive_int("iterations", iterations)
        self._steps[trial].append((slots_per_trial, iterations, expected_s, non_negative("seconds", seconds)))
        self._reports += 1

    def started(self, seconds: float) -> None:
        """A trial took so long from the launch of its processes to its first iteration."""
        self._starts_s.append(non_negative("seconds", seconds))
        self._latencies += 1

    def saved(self, seconds: float) -> None:
        """A trial took so long from its last iteration to the end of its processes."""
        self._saves_s.append(non_negative("seconds", seconds))
        self._latencies += 1

    def node_running(self, seconds: float) -> None:
        """A node ran so long after it was first asked for."""
        self._launches_s.append(non_negative("seconds", seconds))
        self._latencies += 1

    def node_ready(self, seconds: float) -> None:
        """A node was usable so long after it ran."""
        self._inits_s.append(non_negative("seconds", seconds))
        self._latencies += 1

    @property
    def drift(self) -> float:
        """How many times as long as in the profile that the run was planned with an iteration on one slot takes.

        It is worked out anew once there are a twentieth more reports of iterations than the last time.
        """
        reports, drift = self._drift
        if self._reports > reports * _FRESH:
            trials = self._trials()
            most = _most_of(trials.values())
            drift = _shrunk([self._of_trial(steps, most) for steps in trials.values()])
            self._drift = self._reports, drift
        return drift

    @property
    def lag(self) -> float:
        """How far wider trials stay behind the profile: on w slots an iteration takes ``w**lag`` times as long again.

        Posterior mean of the slope in ``log(ratio) = level + trial + lag * log(w)``, with nothing known of the level,
        and `LAG_PRIOR` of the slope; 0 while all iterations were on one width. What makes a trial slow is its own at
        every width, so one that ran on several tells most. Worked out anew as `drift` is.
        """
        reports, lag = self._lag
        if self._reports > reports * _FRESH:
            most = _most_of(self._steps.values())
            trials = [_by_width(steps, most) for _, steps in sorted(self._steps.items())]
            lag = _slope(trials, self._usual_trial_variance, self._usual_step_variance)
            self._lag = self._reports, lag
        return lag

    @property
    def profile(self) -> ScalingProfile:
        """The profile as it is known now; worked out anew as `drift` is."""
        measured, known = self._known
        if self._reports + self._latencies > measured * _FRESH:
            known = replace(
                self._profile,
                iteration_s=self._iteration_s(self.drift),
                start_s=_learned(self._profile.start_s, self._starts_s),
                save_s=_learned(self._profile.save_s, self._saves_s),
            )
            self._known = self._reports + self._latencies, known
        return known

    def factor_of(self, trials: Collection[int], slots_per_trial: int = 1) -> float:
        """As `drift`, of these trials alone, and on so many slots; for none in particular it is that of all.

        What makes a trial fast or slow is its own and stays, so of those that go on it is known by now: as far as its
        iterations tell, which is the more the less they differ among themselves.
        """
        return self.factors_of(trials, (slots_per_trial,))[slots_per_trial]

    def factors_of(self, trials: Collection[int], widths: Iterable[int]) -> dict[int, float]:
        """As `factor_of`, on each of these widths."""
        factor, _ = self._of(trials)
        return {slots: factor * self._stretch(slots) for slots in widths}

    def profile_of(self, trials: Collection[int]) -> ScalingProfile:
        """The profile as it is known now for these trials alone; for none in particular it is `profile`.

        What stays unknown of each of them, and how they differ from each other, makes up its `trial_cv`, where the
        profile that the run was planned with has one.
        """
        known, (factor, trial_cv) = self.profile, self._of(trials)
        return replace(
            known,
            iteration_s=self._iteration_s(factor),
            trial_cv=trial_cv if known.trial_cv > 0 else 0.0,
        )

    @property
    def cloud(self) -> Cloud:
        """The cloud as it is known now; worked out anew as `drift` is."""
        measured, known = self._known_cloud
        if self._latencies > measured * _FRESH:
            known = replace(
                self._cloud,
                launch_s=_learned(self._cloud.launch_s, self._launches_s),
                init_s=_learned(self._cloud.init_s, self._inits_s),
            )
            self._known_cloud = self._latencies, known
        return known

    def _of(self, trials: Collection[int]) -> tuple[float, float]:
        """Mean factor of these trials, and their coefficient of variation."""
        drift = self.drift
        if not trials or not self._steps:
            return drift, self._profile.trial_cv
        known = self._trials()
        most = _most_of(known.values())
        step_variance = self._step_variance(known.values(), most)
        usual = self._usual_trial_variance
        factors, doubts = [], []
        for trial in trials:
            steps = known.get(trial)
            ratio, iterations = _ratio(steps, most) if steps else (drift, 0)
            sure = usual * iterations / (usual * iterations + step_variance)
            factors.append(drift + sure * (ratio - drift))
            doubts.append(usual * (1.0 - sure) * drift**2)
        factor = float(np.mean(factors))
        apart = float(np.var(factors, ddof=1)) if len(factors) > 1 else 0.0
        return factor, math.sqrt(apart + float(np.mean(doubts))) / factor

    def _trials(self) -> dict[int, Steps]:
        """The reports by trial, against what is expected in the light of `lag`."""
        stretch = {slots: self._stretch(slots) for slots in self._profile.slots}
        return {
            trial: [(slots, count, expected_s * stretch[slots], taken_s) for slots, count, expected_s, taken_s in steps]
            for trial, steps in self._steps.items()
        }

    def _iteration_s(self, factor: float) -> dict[int, Latency]:
        """Those of the profile, so many times as long on one slot."""
        latencies = self._profile.iteration_s
        return {slots: _times(latency, factor * self._stretch(slots)) for slots, latency in latencies.items()}

    def _stretch(self, slots: int) -> float:
        """How many times as long again an iteration takes on so many slots, against one slot; see `lag`."""
        return math.pow(slots, self.lag)

    def _of_trial(self, steps: Steps, most: float) -> tuple[float, float]:
        """A trial's ratio and the variance that is taken for granted of it."""
        ratio, iterations = _ratio(steps, most)
        return ratio, self._usual_trial_variance + self._usual_step_variance / iterations

    @property
    def _usual_trial_variance(self) -> float:
        return max(LEAST_TRIAL_CV, self._profile.trial_cv) ** 2

    @property
    def _usual_step_variance(self) -> float:
        latencies = self._profile.iteration_s.values()
        return max(LEAST_STEP_CV, *(latency.std / latency.mean for latency in latencies)) ** 2

    def _step_variance(self, trials: Iterable[Steps], most: float) -> float:
        """Relative variance of a single iteration of one trial, by how far its reports in fact lie apart."""
        apart, free = 0.0, 0
        for steps in trials:
            ratio, _ = _ratio(steps, most)
            if ratio > 0:
                apart += math.fsum(
                    iterations * (min(taken_s / expected_s, most) / ratio - 1.0) ** 2
                    for _, iterations, expected_s, taken_s in steps
                )
                free += len(steps) - 1
        return (AGREEMENT * self._usual_step_variance + apart) / (AGREEMENT + free)


def _ratio(steps: Steps, most: float) -> tuple[float, int]:
    """A trial's measured seconds by expected ones, no report counting more than `most`, and its iterations."""
    taken_s = math.fsum(min(taken_s, most * expected_s) for *_, expected_s, taken_s in steps)
    return taken_s / math.fsum(expected_s for *_, expected_s, _ in steps), sum(count for _, count, *_ in steps)


def _by_width(steps: Steps, most: float) -> list[tuple[float, float, int]]:
    """(logarithm of the width, logarithm of the ratio, iterations) of one trial, for each width that it ran on."""
    found = []
    for width in sorted({slots for slots, *_ in steps}):
        ratio, iterations = _ratio([step for step in steps if step[0] == width], most)
        found.append((math.log(width), math.log(max(ratio, _LEAST_RATIO)), iterations))
    return found


def _slope(trials: Sequence[Sequence[tuple[float, float, int]]], trial_variance: float, step_variance: float) -> float:
    """See `Learning.lag`: generalised least squares with an effect of each trial, and the spread as it is in fact seen.

    Args:
        trials: see `_by_width`.
        trial_variance: of the logarithms, between trials; taken for granted.
        step_variance: likewise, of one iteration.
    """
    if len({width for rows in trials for width, *_ in rows}) < 2:
        return 0.0
    # Each trial's inverse covariance: that of its iterations less what the common effect takes (Sherman-Morrison).
    products = np.zeros((3, 3))  # of 1, log w and log ratio
    for rows in trials:
        table = np.array([(1.0, width, ratio) for width, ratio, _ in rows])
        weights = np.array([iterations / step_variance for *_, iterations in rows])
        common = weights @ table
        products += (table.T * weights) @ table
        products -= np.outer(common, common) * trial_variance / (1.0 + trial_variance * weights.sum())
    about = products[1:, 1:] - np.outer(products[1:, 0], products[0, 1:]) / products[0, 0]
    (sure, score), (_, whole) = about
    if sure <= 0.0:
        return 0.0
    apart = max(0.0, whole - score**2 / sure)
    trust = (AGREEMENT + sum(map(len, trials)) - 2) / (AGREEMENT + apart)
    return float(trust * score / (trust * sure + LAG_PRIOR**-2))


def _shrunk(ratios: Ratios) -> float:
    """The factor that follows from what was measured."""
    weight = math.fsum(1 / variance for _, variance in ratios)
    mean = math.fsum(ratio / variance for ratio, variance in ratios) / weight
    spread = math.fsum((ratio - mean) ** 2 / variance for ratio, variance in ratios)
    weight *= (AGREEMENT + len(ratios) - 1) / (AGREEMENT + spread)
    sure = PRIOR**-2
    return (sure + weight * mean) / (sure + weight)


def _most_of(trials: Iterable[Steps]) -> float:
    """The largest ratio of a report that counts."""
    return _most(taken_s / expected_s for steps in trials for *_, expected_s, taken_s in steps)


def _most(ratios: Iterable[float]) -> float:
    """The largest ratio that counts."""
    return OUTLIER * float(np.median([*ratios, *[1.0] * _BEFORE]))


def _learned(latency: Latency, measured_s: Sequence[float]) -> Latency:
    """The latency in the light of what was measured. One that was expected to be 0 has its mean shrunk towards 0."""
    if not measured_s:
        return latency
    if latency.mean == 0:
        most_s = OUTLIER * float(np.median(measured_s))
        weight = (PRIOR / LEAST_STEP_CV) ** 2
        total_s = math.fsum(min(seconds, most_s) for seconds in measured_s)
        return replace(latency, mean=weight * total_s / (1 + weight * len(measured_s)))
    variance = max(LEAST_STEP_CV, latency.std / latency.mean) ** 2
    ratios = [seconds / latency.mean for seconds in measured_s]
    most = _most(ratios)
    return _times(latency, _shrunk([(min(ratio, most), variance) for ratio in ratios]))


def _times(latency: Latency, factor: float) -> Latency:
    return Latency(mean=latency.mean * factor, std=latency.std * factor)
