"""What a run has seen of its trials: how long their starts, iterations and saves took."""

from __future__ import annotations

from dataclasses import dataclass, field

MOST_REPORTS = 64
"""A stint keeps so many reports at most; neighbours are added up where there are more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stint:
    """One start of a trial's process, up to the rung or to where it ended.

    Attributes:
        trial: number of the trial.
        stage: stage that it ran.
        slots: its width.
        from_iteration: iterations done before.
        start_s: from the moment its slots were its own to its first iteration; None where that was not seen.
        first: (iterations, seconds) of the first report; the seconds hold the warm-up.
        reports: the same of each one after it.
        save_s: from its last report until it was paused; None where it was not paused.
    """

    trial: int
    stage: int
    slots: int
    from_iteration: int
    start_s: float | None = None
    first: tuple[int, float] | None = None
    reports: tuple[tuple[int, float], ...] = ()
    save_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """All that a run has seen so far.

    Attributes:
        elapsed_s: since its first trial came, the time between two sittings included.
        stints: in the order in which they ended; those under way are not among them.
    """

    elapsed_s: float = 0.0
    stints: tuple[Stint, ...] = field(default=())

    def iteration_s(self, slots: int | None = None) -> float | None:
        """Mean seconds of an iteration, at one width or at all; None where none was seen.

        First reports, whose seconds hold the warm-up, count only where there are no others.
        """
        stints = [stint for stint in self.stints if slots in (None, stint.slots)]
        told = [report for stint in stints for report in stint.reports]
        told = told or [stint.first for stint in stints if stint.first is not None]
        iterations = sum(count for count, _ in told)
        return sum(seconds for _, seconds in told) / iterations if iterations else None
