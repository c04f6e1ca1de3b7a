"""The launcher `ddp`: ranks in one torch process group, for data-parallel training."""

from __future__ import annotations

from typing import Self

from rb_core.launchers.group import torch_group
from rb_core.launchers.process import ProcessLauncher
from rb_core.launchers.watch import WatchedTrial
from rb_core.ports import Inbox, TrialRun
from rb_core.target import Target

MODULES = ("torch", "torch.distributed", "torch._dynamo", "rb_core.training.gradients", "rb_core.training.loader")
"""What is imported once for all ranks of a torch process group; the first optimizer that a process makes imports
torch._dynamo, which takes most of a second."""


class DdpLauncher:
    """As `ProcessLauncher`, with torch preloaded and a process group made: nccl between GPUs, else gloo.

    Args:
        target: the training function.
        threads_per_rank: threads for each rank's arithmetic; ``OMP_NUM_THREADS`` of a run's `env` or of this
            process comes first.
        timeout_s: longest wait for another rank in a collective operation.
    """

    name = "ddp"

    def __init__(self, target: Target, *, threads_per_rank: int = 1, timeout_s: float = 1800.0) -> None:
        self._processes = ProcessLauncher(
            target,
            modules=MODULES,
            group=torch_group,
            threads_per_rank=threads_per_rank,
            timeout_s=timeout_s,
        )

    def __enter__(self) -> Self:
        """Start the fork-server; see `ProcessLauncher`."""
        self._processes.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        """End every process."""
        self._processes.__exit__(*exc)

    @property
    def server_pid(self) -> int | None:
        """The fork-server's process, while it runs."""
        return self._processes.server_pid

    def start(self, run: TrialRun, inbox: Inbox) -> WatchedTrial:
        """Start the ranks; see `ProcessLauncher`."""
        return self._processes.start(run, inbox)
