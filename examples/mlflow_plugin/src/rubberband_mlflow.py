"""A run in MLflow for each run, and in it one for each trial, with its configuration and its scores."""

from __future__ import annotations

import logging
import os
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from typing import Any

from rb_core.events import (
    Event,
    RunEnded,
    RunEnding,
    RunResumed,
    RunStarted,
    StageEnded,
    TrialCreated,
    TrialFailed,
    TrialLeft,
    TrialReported,
)
from rb_plugins import hookimpl
from rb_plugins.rundir import home

EXPERIMENT = "rubberband"
RUN, TRIAL = "rubberband.run", "rubberband.trial"
"""Tags by which a resumed run finds what it began."""
CAUSE = "rubberband.cause"
"""Tag of a trial that failed or was left out: why."""

_STATUS = {RunEnding.DONE: "FINISHED", RunEnding.FAILED: "FAILED"}
_logger = logging.getLogger("rb_plugins.mlflow")


class MLflow:
    """Follows one run at a time, in a thread of its own: a tracking server may take its time, a run may not."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="mlflow")
        self._client: Any = None
        self._run = self._metric = self._experiment = ""
        self._runs: dict[str, str] = {}

    @hookimpl
    def rubberband_event(self, event: Event) -> None:
        """Pass the event on; the interpreter waits for what is left of them when it ends."""
        self._thread.submit(self._keep, event).add_done_callback(_complain)

    def _keep(self, event: Event) -> None:
        at_ms = int(datetime.fromisoformat(event.utc).timestamp() * 1000)
        match event:
            case RunStarted() | RunResumed():
                self._open(event)
            case TrialCreated():
                from mlflow.entities import Param

                params = [Param(key, str(value)) for key, value in event.config.items()]
                self._client.log_batch(self._trial(event.trial), params=params)
            case TrialReported():
                self._client.log_metric(
                    self._trial(event.trial), self._metric, event.score, timestamp=at_ms, step=event.iterations
                )
            case StageEnded():
                for trial in event.stopped:
                    self._client.set_terminated(self._trial(trial), "FINISHED", at_ms)
            case TrialFailed() | TrialLeft():
                status = "FAILED" if isinstance(event, TrialFailed) else "KILLED"
                self._client.set_tag(self._trial(event.trial), CAUSE, event.cause)
                self._client.set_terminated(self._trial(event.trial), status, at_ms)
            case RunEnded():
                for run in self._of_the_run("RUNNING"):
                    self._client.set_terminated(run.info.run_id, _STATUS.get(event.ending, "KILLED"), at_ms)

    def _open(self, event: RunStarted | RunResumed) -> None:
        from mlflow import MlflowClient

        uri = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{home() / 'mlflow.db'}"
        self._client = MlflowClient(tracking_uri=uri)
        known = self._client.get_experiment_by_name(EXPERIMENT)
        self._experiment = self._client.create_experiment(EXPERIMENT) if known is None else known.experiment_id
        self._run, self._metric, self._runs = event.run, event.metric, {}
        for run in (*self._of_the_run("KILLED"), *self._of_the_run("FAILED")):
            if CAUSE not in run.data.tags:
                self._client.update_run(run.info.run_id, status="RUNNING")
        self._client.update_run(self._found(""), status="RUNNING")

    def _of_the_run(self, status: str) -> list[Any]:
        """What MLflow has of the run with a status: trials, and the run itself."""
        wanted = f"tags.`{RUN}` = '{self._run}' and attributes.status = '{status}'"
        found: list[Any] = []
        token: str | None = ""
        while token is not None:
            page = self._client.search_runs([self._experiment], wanted, page_token=token or None)
            found += page
            token = page.token
        return found

    def _trial(self, trial: int) -> str:
        return self._found(str(trial))

    def _found(self, trial: str) -> str:
        """MLflow's id of a trial, or of the run itself; made when there is none."""
        if trial not in self._runs:
            wanted = f"tags.`{RUN}` = '{self._run}' and tags.`{TRIAL}` = '{trial or 'all'}'"
            known = self._client.search_runs([self._experiment], wanted)
            self._runs[trial] = known[0].info.run_id if known else self._made(trial)
        return self._runs[trial]

    def _made(self, trial: str) -> str:
        tags = {RUN: self._run, TRIAL: trial or "all"}
        if trial:
            tags["mlflow.parentRunId"] = self._found("")
        name = f"trial {trial}" if trial else self._run
        run_id: str = self._client.create_run(self._experiment, tags=tags, run_name=name).info.run_id
        return run_id


def _complain(done: Future[None]) -> None:
    error = done.exception()
    if error is not None:
        _logger.warning("MLflow does not have an event of the run: %s", str(error).partition("\n")[0])


PLUGIN = MLflow()
