"""Times the starts of trials as the driver sees them."""

from __future__ import annotations

from dataclasses import dataclass, field

from rb_core.ports import Clock
from rb_ray.scheduling.seen import MOST_REPORTS, Stint


@dataclass(slots=True, kw_only=True)
class _UnderWay:
    stage: int
    slots: int
    from_iteration: int
    holds_s: float | None = None
    iterations: int = 0
    first_s: float | None = None
    first: tuple[int, float] | None = None
    last_s: float = 0.0
    part_s: float = 0.0
    reports: list[tuple[int, float]] = field(default_factory=list)


class Stopwatch:
    """One start of every trial at a time."""

    def __init__(self, clock: Clock) -> None:
        """Nothing runs yet."""
        self._clock = clock
        self._under_way: dict[int, _UnderWay] = {}

    def released(self, trial: int, *, stage: int, slots: int, from_iteration: int) -> None:
        """A trial may run as soon as it gets its slots."""
        self._under_way[trial] = _UnderWay(
            stage=stage, slots=slots, from_iteration=from_iteration, iterations=from_iteration
        )

    def waiting(self) -> list[int]:
        """Trials that have not been seen to hold their slots."""
        return [trial for trial, one in self._under_way.items() if one.holds_s is None]

    def under_way(self) -> list[int]:
        """Trials that were released and have not ended."""
        return list(self._under_way)

    def holds(self, trial: int) -> None:
        """A trial has got its slots."""
        one = self._under_way.get(trial)
        if one is not None and one.holds_s is None:
            one.holds_s = self._clock.now()

    def reported(self, trial: int, iterations: int, took_s: float | None) -> None:
        """A trial has reported.

        Args:
            trial: its number.
            iterations: in total.
            took_s: how long what it reports took, as its own process measured it; None where that is not known.
        """
        one = self._under_way.get(trial)
        if one is None:
            return
        now_s, done = self._clock.now(), iterations - one.iterations
        if took_s is None and one.first_s is not None:
            took_s = now_s - one.last_s
        one.last_s = now_s
        if done == 0 and took_s is not None:
            # A part of an iteration, where rungs are measured in something that several reports make up.
            one.part_s += took_s
            return
        if one.first_s is None:
            one.first_s = now_s
            if took_s is not None and done > 0:
                one.first = done, one.part_s + took_s
        elif done > 0:
            _append(one.reports, (done, one.part_s + (took_s or 0.0)))
        one.iterations, one.part_s = max(iterations, one.iterations), 0.0

    def paused(self, trial: int) -> Stint | None:
        """A trial is paused and saved; None for one that was not under way."""
        one = self._under_way.pop(trial, None)
        if one is None:
            return None
        save_s = None if one.first_s is None else self._clock.now() - one.last_s
        return Stint(
            trial=trial,
            stage=one.stage,
            slots=one.slots,
            from_iteration=one.from_iteration,
            start_s=_start_s(one),
            first=one.first,
            reports=tuple(one.reports),
            save_s=save_s,
        )

    def forget(self, trial: int) -> None:
        """A trial ended otherwise: nothing is learned of it."""
        self._under_way.pop(trial, None)


def _start_s(one: _UnderWay) -> float | None:
    """What passed before the first report, less what its iterations take without the warm-up."""
    if one.first_s is None or one.holds_s is None or one.first is None:
        return None
    count, seconds = one.first
    if one.reports:
        seconds = count * sum(took_s for _, took_s in one.reports) / sum(count for count, _ in one.reports)
    return max(0.0, one.first_s - one.holds_s - seconds)


def _append(reports: list[tuple[int, float]], report: tuple[int, float]) -> None:
    reports.append(report)
    if len(reports) > MOST_REPORTS:
        pairs = zip(reports[::2], [*reports[1::2], (0, 0.0)], strict=False)
        reports[:] = [(a + b, s + t) for (a, s), (b, t) in pairs]
