"""Runs as metrics in Prometheus' text format, in a file such as node_exporter's textfile collector reads."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rb_core.condition import Condition
from rb_core.errors import InvalidInput
from rb_core.events import EVENTS
from rb_core.state import TrialPhase
from rb_plugins import show
from rb_plugins.importable import require
from rb_plugins.watched import Watch, Watched

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

WRITE_EVERY_S = 15.0
"""How often a run writes its file; Prometheus looks about as often."""

_OPTION = "--metrics"

Figure = Callable[[Watched], float | None]

_GAUGES: Mapping[str, tuple[str, Figure]] = {
    "rubberband_driver_up": ("Whether a process is at work on the run.", lambda w: float(w.holder is not None)),
    "rubberband_cost_usd": ("Bill so far, had everything been given back now.", lambda w: w.bill.cost_usd),
    "rubberband_cost_forecast_usd": ("Bill that is expected at the end.", lambda w: w.forecast and w.forecast[1]),
    "rubberband_cost_budget_usd": ("Budget of the run.", lambda w: w.budget_usd),
    "rubberband_run_elapsed_seconds": ("Time since the first node request.", lambda w: w.elapsed_s),
    "rubberband_run_forecast_seconds": (
        "Time from the first node request to the end that is expected.", lambda w: w.forecast and w.forecast[0]
    ),
    "rubberband_run_deadline_seconds": ("Deadline, from the first node request on.", lambda w: w.deadline_s),
    "rubberband_run_stages": ("Stages of the run.", lambda w: float(sum(w.state.stage_counts))),
    "rubberband_run_stages_ended": ("Stages that have ended.", lambda w: float(w.stages_ended)),
    "rubberband_nodes_wanted": ("Nodes that the current stages are to have.", lambda w: float(w.wanted)),
    "rubberband_nodes_requested": ("Nodes that have been asked for and are not ready.", lambda w: float(w.requested)),
    "rubberband_nodes_ready": ("Nodes that are held and can hold trials.", lambda w: float(w.ready)),
    "rubberband_last_event_timestamp_seconds": (
        "When the last event was written, since the epoch.",
        lambda w: datetime.fromisoformat(w.last_utc).timestamp() if w.last_utc else None,
    ),
}  # fmt: skip
"""Metrics with the label ``run`` alone; one that has no figure is left out."""


def check_metrics_file(path: Path) -> None:
    """See to it that metrics can be written, before anything begins.

    Raises:
        InvalidInput: prometheus_client is not installed or broken, or the file cannot be written.
    """
    _registry(())
    if path.is_dir():
        raise InvalidInput(_OPTION, f"must be a file, and {path} is a folder; name one in it, such as rb-tune.prom")
    if not path.absolute().parent.is_dir():
        raise InvalidInput(_OPTION, f"must be in a folder that is there; make {path.absolute().parent}")
    if not os.access(path.absolute().parent, os.W_OK | os.X_OK):
        raise InvalidInput(_OPTION, f"must be in a folder that can be written to, got {path.absolute().parent}")


def write_metrics(runs: Sequence[Watched], path: Path) -> None:
    """Write the file whole, at once.

    Args:
        runs: what it tells of.
        path: the file.

    Raises:
        InvalidInput: prometheus_client is not installed or broken, or the file cannot be written.
    """
    registry = _registry(runs)
    from prometheus_client import write_to_textfile

    try:
        write_to_textfile(str(path), registry)
    except OSError as error:
        raise InvalidInput(_OPTION, f"{path} cannot be written: {error.strerror}; name another file") from None


@contextmanager
def metered(watch: Watch, path: Path | None) -> Iterator[None]:
    """Keep a metrics file of a run up to date while this lasts, by a thread that reads the run's log.

    A file that cannot be written is told of once, and costs the run nothing.

    Args:
        watch: of the run.
        path: the file; nothing is done when None.
    """
    if path is None:
        yield
        return
    over = threading.Event()
    told: list[str] = []

    def write() -> None:
        try:
            write_metrics([watch.look()], path)
        except Exception as error:
            if not told:
                told.append(str(error))
                show.note(f"warning: metrics are not written: {error}; the run goes on")

    def keep() -> None:
        while not over.wait(WRITE_EVERY_S):
            write()

    write()
    thread = threading.Thread(target=keep, name="metrics", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        write()


def families(runs: Sequence[Watched]) -> Iterator[Metric]:
    """The metrics of these runs, each with the label ``run``."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    info = GaugeMetricFamily(
        "rubberband_run_info", "What is run.", labels=["run", "name", "target", "metric", "mode"]
    )  # fmt: skip
    states = GaugeMetricFamily("rubberband_run_state", "1 for the state that the run is in.", labels=["run", "state"])
    trials = GaugeMetricFamily("rubberband_trials", "Trials by what became of them.", labels=["run", "state"])
    best = GaugeMetricFamily("rubberband_best_score", "Score of the best trial.", labels=["run", "metric"])
    events = CounterMetricFamily("rubberband_events", "Events in the run's log.", labels=["run", "event"])
    for watched in runs:
        run, state = watched.directory.run, watched.state
        target = "" if watched.started is None else watched.started.target
        info.add_metric([run, watched.name, target, state.metric, state.mode], 1)
        for condition in Condition:
            states.add_metric([run, condition.value], float(condition is watched.condition))
        for phase in TrialPhase:
            trials.add_metric([run, phase.value], sum(trial.phase is phase for trial in state.trials.values()))
        leader = state.best()
        if leader is not None and leader.score is not None:
            best.add_metric([run, state.metric], leader.score)
        for kind in EVENTS:
            events.add_metric([run, kind.__name__], watched.counts.get(kind.__name__, 0))
    yield from (info, states, trials, best, events)
    for name, (documentation, figure) in _GAUGES.items():
        gauge = GaugeMetricFamily(name, documentation, labels=["run"])
        for watched in runs:
            value = figure(watched)
            if value is not None:
                gauge.add_metric([watched.directory.run], value)
        yield gauge


def _registry(runs: Sequence[Watched]) -> CollectorRegistry:
    require("prometheus_client", key=_OPTION, extra="report")
    from prometheus_client import CollectorRegistry
    from prometheus_client.registry import Collector

    class Runs(Collector):
        def collect(self) -> Iterator[Metric]:
            return families(runs)

    registry = CollectorRegistry()
    registry.register(Runs())
    return registry
