"""How a run of the command tells others of itself: its answer, its events as they come, its metrics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rb_core.journal import Observer
    from rb_core.ports import Clock
    from rb_plugins.rundir import RunDirectory


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """What is told.

    Attributes:
        as_json: the run's answer as a JSON object.
        events: each event as a line of JSON, and the answer as the last line.
        metrics: the file of the metrics; None for none.
    """

    as_json: bool
    events: bool = False
    metrics: Path | None = None

    @property
    def machine(self) -> bool:
        """Whether standard output is for a machine."""
        return self.as_json or self.events

    def check(self) -> None:
        """See to it that all can be told, before anything begins. Raises `InvalidInput`."""
        if self.metrics is not None:
            from rb_plugins.metrics import check_metrics_file

            check_metrics_file(self.metrics)

    @contextmanager
    def told(self, directory: RunDirectory, clock: Clock) -> Iterator[Sequence[Observer]]:
        """Tell while this lasts, with these observers; the answer also when the run fails.

        Args:
            directory: of the run.
            clock: the time.
        """
        from rb_core.errors import RubberBandError
        from rb_plugins import show
        from rb_plugins.outcome import read_outcome
        from rb_plugins.streaming import EventStream

        with EventStream() if self.events else nullcontext() as stream, self._metered(directory, clock):
            try:
                yield [] if stream is None else [stream]
            except RubberBandError:
                if stream is None and self.as_json and directory.began:
                    show.answer(read_outcome(directory).table())
                raise
            finally:
                if stream is not None and directory.began:
                    stream.answer(read_outcome(directory).table())

    @contextmanager
    def _metered(self, directory: RunDirectory, clock: Clock) -> Iterator[None]:
        if self.metrics is None:
            yield
            return
        from rb_plugins.metrics import metered
        from rb_plugins.watched import Watch

        with metered(Watch(directory, clock), self.metrics):
            yield
