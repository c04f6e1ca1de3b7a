"""The launcher `process`: ranks as plain processes, without torch unless the function itself imports it."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import cloudpickle

from rb_core.check import positive, positive_int
from rb_core.errors import LaunchFailure
from rb_core.launchers.group import apart
from rb_core.launchers.order import Group, Order
from rb_core.launchers.server import ForkServer, warm
from rb_core.launchers.watch import WatchedTrial
from rb_core.ports import Inbox, TrialNotice, TrialRun
from rb_core.target import Target
from rb_core.trial import Remark

MODULES = ("rb_core.launchers.rank", "rb_core.launchers.group", "cloudpickle")
"""What is imported once for all ranks."""


class ProcessLauncher:
    """Starts ranks as forks of a process that has imported the training function already.

    Ranks get no process group; a function with one of its own framework makes it itself. Output goes to
    ``<logs>/stage-S-rank-R.log``. Functions registered with `atexit` do not run in ranks.

    Args:
        target: the training function.
        modules: what to import beside it, once for all ranks.
        group: how ranks come together, see `rb_core.launchers.order.Group`.
        threads_per_rank: threads for each rank's arithmetic; ``OMP_NUM_THREADS`` of a run's `env` or of this
            process comes first.
        timeout_s: longest wait for another rank in a collective operation.
    """

    name = "process"

    def __init__(
        self,
        target: Target,
        *,
        modules: tuple[str, ...] = (),
        group: Group = apart,
        threads_per_rank: int = 1,
        timeout_s: float = 1800.0,
    ) -> None:
        self._target = target
        self._modules = MODULES + modules
        self._group = group
        self._threads = wanted_threads(positive_int("threads_per_rank", threads_per_rank))
        self._timeout_s = positive("timeout_s", timeout_s)
        self._server: ForkServer | None = None
        self._remark = ""
        self._trials: list[WatchedTrial] = []

    def __enter__(self) -> Self:
        """Start the fork-server.

        Raises:
            InvalidInput: the training function cannot be imported or called.
            LaunchFailure: no process could be started.
        """
        self._warm()
        return self

    def __exit__(self, *exc: object) -> None:
        """End every process."""
        for trial in self._trials:
            trial.kill()
        for trial in self._trials:
            trial.join()
        self._trials.clear()
        if self._server is not None:
            self._server.close()
            self._server = None

    @property
    def server_pid(self) -> int | None:
        """The fork-server's process, while it runs."""
        return None if self._server is None else self._server.pid

    def start(self, run: TrialRun, inbox: Inbox) -> WatchedTrial:
        """Start the ranks. A fork-server that was killed is started anew."""
        self._trials = [trial for trial in self._trials if not trial.is_over()]
        server = self._warm()
        order = make_order(
            run, ranks=range(len(run.slots)), group=self._group, threads=self._threads, timeout_s=self._timeout_s
        )
        with ExitStack() as theirs:
            pairs = [socket.socketpair() for _ in range(1 + order.world_size)]
            for _, far in pairs:
                theirs.enter_context(far)
            try:
                server.order(order, [far for _, far in pairs])
            except LaunchFailure:
                for near, _ in pairs:
                    near.close()
                raise
        if self._remark:
            inbox.put(TrialNotice(trial=run.trial, rank=0, message=Remark(text=self._remark)))
        control, *channels = (near for near, _ in pairs)
        trial = WatchedTrial(run.trial, control, channels, inbox)
        self._trials.append(trial)
        return trial

    def _warm(self) -> ForkServer:
        if self._server is not None and self._server.is_alive():
            return self._server
        if self._server is not None:
            self._server.close()
            self._server = None
        self._server, self._remark = warm(self._target, self._modules, remark=self._remark)
        return self._server


def make_order(run: TrialRun, *, ranks: Sequence[int], group: Group, threads: int, timeout_s: float) -> Order:
    """What starts those ranks of a trial; its folders are made.

    Raises:
        LaunchFailure: a folder cannot be made, or the configuration cannot be sent to another process.
    """
    for folder in (run.logs,) if run.depot is not None else (run.storage, run.logs):
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LaunchFailure(f"folder {folder} could not be made: {error.strerror}") from error
    try:
        pickled = cloudpickle.dumps(run)
    except Exception as error:
        raise LaunchFailure(
            f"the configuration of trial {run.trial} cannot be sent to another process: {error}"
        ) from error
    return Order(
        world_size=len(run.slots),
        ranks=tuple(ranks),
        stage=run.stage,
        run=pickled,
        logs=run.logs,
        group=group,
        threads=threads,
        timeout_s=timeout_s,
        scratch=run.depot is not None,
    )


def wanted_threads(default: int) -> int:
    """Threads for each rank: ``OMP_NUM_THREADS`` of this process, else the default."""
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return int(wanted) if wanted.isdigit() and int(wanted) else default
