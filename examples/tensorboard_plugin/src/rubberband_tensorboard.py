"""Scores, configurations and nodes of a run, as TensorBoard reads them."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from rb_core.events import (
    Event,
    NodeLost,
    NodeReady,
    NodeReleased,
    Replanned,
    RunEnded,
    RunResumed,
    RunStarted,
    StageEnded,
    TrialCreated,
    TrialReported,
    Warned,
)
from rb_plugins import hookimpl
from rb_plugins.rundir import home

LOGDIR = "RB_TENSORBOARD_DIR"
"""Names the folder; ``tensorboard`` beside the folder of the runs where it is not set."""


class TensorBoard:
    """One folder for each run, and in it one for each trial."""

    def __init__(self) -> None:
        self._writers: dict[str, Any] = {}
        self._close()

    def _close(self) -> None:
        """End what was written, and know of no run."""
        for writer in self._writers.values():
            writer.close()
        self._run = self._metric = ""
        self._configs: dict[int, Mapping[str, Any]] = {}
        self._scores: dict[int, float] = {}
        self._ready: set[str] = set()
        self._writers = {}

    @hookimpl
    def rubberband_event(self, event: Event) -> None:
        """Write what there is to see of an event; files are complete when a stage has ended."""
        match event:
            case RunStarted() | RunResumed():
                self._close()
                self._run, self._metric = event.run, event.metric
            case TrialCreated():
                self._configs[event.trial] = event.config
            case TrialReported():
                self._scores[event.trial] = event.score
                self._writer(_name(event.trial)).add_scalar(
                    self._metric, event.score, event.iterations, walltime=_seconds(event)
                )
            case NodeReady():
                self._nodes(event, self._ready | {event.node})
            case NodeReleased() | NodeLost():
                self._nodes(event, self._ready - {event.node})
            case StageEnded():
                for trial in event.stopped:
                    self._configuration(trial)
                self._flush()
            case Warned():
                self._writer("").add_text("warning", event.text, int(event.t_s), walltime=_seconds(event))
            case Replanned():
                self._writer("").add_text("planned anew", event.reason, int(event.t_s), walltime=_seconds(event))
            case RunEnded():
                for trial in list(self._scores):
                    self._configuration(trial)
                self._close()

    def _nodes(self, event: Event, ready: set[str]) -> None:
        if ready != self._ready:
            self._ready = ready
            self._writer("").add_scalar("nodes", len(ready), int(event.t_s), walltime=_seconds(event))

    def _configuration(self, trial: int) -> None:
        """What the tab HPARAMS shows: once a trial has come to its end."""
        config, score = self._configs.get(trial), self._scores.pop(trial, None)
        if config is not None and score is not None and math.isfinite(score):
            plain = {key: v if isinstance(v, bool | int | float | str) else repr(v) for key, v in config.items()}
            self._writer(_name(trial)).add_hparams(plain, {f"best/{self._metric}": score}, name="configuration")

    def _writer(self, name: str) -> Any:
        from tensorboardX import SummaryWriter

        if name not in self._writers:
            folder = Path(os.environ.get(LOGDIR) or home() / "tensorboard") / self._run / name
            self._writers[name] = SummaryWriter(str(folder))
        return self._writers[name]

    def _flush(self) -> None:
        for writer in self._writers.values():
            writer.flush()


def _name(trial: int) -> str:
    return f"trial-{trial:04d}"


def _seconds(event: Event) -> float:
    return datetime.fromisoformat(event.utc).timestamp()


PLUGIN = TensorBoard()
