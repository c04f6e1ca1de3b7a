"""How long a stage takes to start: from `start()` until all ranks are past their first all-reduce.

    python examples/benchmarks/launch.py [ranks] [repeats]

Prints one line of JSON; times in milliseconds.
"""

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from rb_core.clock import SystemClock
from rb_core.launchers.ddp import DdpLauncher
from rb_core.ports import Slot, TrialExit, TrialNotice, TrialRun
from rb_core.target import Target
from rb_core.trial import Remark, Trial

PAST = Remark(text="past the first all-reduce")


def train(config: dict, trial: Trial) -> None:
    """One all-reduce, then the shortest stage that is complete."""
    import torch
    import torch.distributed as dist

    dist.all_reduce(torch.ones(1))
    trial.channel.send(PAST)
    trial.restore()
    for _ in trial.iterations():
        trial.report(0.0)


def measure(ranks: int, repeats: int) -> dict:
    """Start a stage `repeats` times on one fork-server."""
    inbox = SystemClock().inbox()
    started_ms, ended_ms = [], []
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, DdpLauncher(Target.of(train)) as launcher:
        warm_ms = (time.perf_counter() - began) * 1e3
        for trial in range(repeats + 1):
            run = TrialRun(
                trial=trial,
                stage=0,
                config={},
                slots=tuple(Slot(node="here", index=index) for index in range(ranks)),
                from_iteration=0,
                to_iteration=1,
                max_iterations=1,
                checkpoint=None,
                storage=Path(folder) / "checkpoints",
                logs=Path(folder) / "logs" / str(trial),
            )
            began = time.perf_counter()
            launcher.start(run, inbox)
            past = 0
            while not isinstance(notice := inbox.get(), TrialExit):
                if isinstance(notice, TrialNotice) and notice.message == PAST:
                    past += 1
                    if past == ranks:
                        started_ms.append((time.perf_counter() - began) * 1e3)
            if notice.failure is not None:
                raise notice.failure
            ended_ms.append((time.perf_counter() - began) * 1e3)
    return {
        "benchmark": "launch",
        "ranks": ranks,
        "repeats": repeats,
        "server_ms": round(warm_ms, 1),
        "first_ms": round(started_ms[0], 1),
        "started_ms": {
            "min": round(min(started_ms[1:]), 1),
            "median": round(statistics.median(started_ms[1:]), 1),
            "max": round(max(started_ms[1:]), 1),
        },
        "ended_ms": {"median": round(statistics.median(ended_ms[1:]), 1)},
    }


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:]]
    print(json.dumps(measure(*(numbers + [2, 20][len(numbers) :]))))
