"""OpenCLIP models of many shapes, each epoch recorded with its loss and its time: the table of scan-bench.

How long a trial takes on other numbers of GPUs than its own is inferred: configurations of the same GPU type that were
recorded on 1, 2, 4 and 8 say how samples a second grow. Where these had other batches per GPU, they had those.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, pairwise
from statistics import median
from typing import TextIO

from known import known

from curves.fetch import SCAN_BENCH
from curves.recordings import Pool, Recording
from rb_core.hardware import Cloud, Latency
from rb_core.spec import ExperimentSpec
from rb_plugins.ec2_prices import price_book

H100, A100 = "NVIDIA H100", "NVIDIA A100-SXM4-40GB"

START_S = Latency(mean=30.0, std=5.0)
SAVE_S = Latency(mean=5.0, std=1.0)
SYNC_S = 5.0
"""Assumed: loading a model of at most 100 million parameters, its data loaders and its checkpoint."""

MAX_NODES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """One row.

    Attributes:
        config: number of the configuration.
        epoch: from 1 on.
        epochs: as many were planned.
        gpu: name of the GPU type.
        gpus: the world size.
        samples: seen in this epoch.
        seconds: how long it took; None where that was not recorded.
        val_loss: on validation data; NaN where it diverged or was not recorded.
        test_loss: on test data; likewise.
    """

    config: int
    epoch: int
    epochs: int
    gpu: str
    gpus: int
    samples: float
    seconds: float | None
    val_loss: float
    test_loss: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """The configurations that are drawn from together.

    Attributes:
        name: of the pool.
        gpu: name of the GPU type.
        gpus: how many they were recorded on.
        epochs: of a whole training.
        eta: one trial in so many goes on.
        instance_type: with the same GPUs.
    """

    name: str
    gpu: str
    gpus: int
    epochs: int
    eta: int
    instance_type: str


SLICES = (
    Slice(name="OpenCLIP 8 epochs", gpu=H100, gpus=8, epochs=8, eta=2, instance_type="p5.48xlarge"),
    Slice(name="OpenCLIP 9 epochs", gpu=H100, gpus=8, epochs=9, eta=3, instance_type="p5.48xlarge"),
    Slice(name="OpenCLIP 4 epochs", gpu=A100, gpus=4, epochs=4, eta=2, instance_type="p4d.24xlarge"),
)


def read(table: TextIO) -> list[Epoch]:
    """The rows of the table, by configuration and epoch."""
    rows = sorted(csv.DictReader(table), key=lambda row: (_whole(row["config_id"]), _whole(row["epoch"])))
    return [epoch for _, own in groupby(rows, key=lambda row: row["config_id"]) for epoch in _epochs(list(own))]


def _epochs(rows: Sequence[Mapping[str, str]]) -> Iterator[Epoch]:
    seen = 0.0
    for row in rows:
        diverged, samples = row["epoch_diverged"] == "True", float(row["samples_seen"])
        yield Epoch(
            config=_whole(row["config_id"]),
            epoch=_whole(row["epoch"]),
            epochs=_whole(row["total_epochs"]),
            gpu=row["train_gpu_name"],
            gpus=_whole(row["world_size"]),
            samples=samples - seen,
            seconds=float(row["train_duration(s)"]) if row["train_duration(s)"] else None,
            val_loss=math.nan if diverged or not row["val_loss"] else float(row["val_loss"]),
            test_loss=math.nan if diverged or not row["test_loss"] else float(row["test_loss"]),
        )
        seen = samples


def _whole(text: str) -> int:
    return round(float(text))


def throughput(epochs: Sequence[Epoch]) -> dict[tuple[str, int], float]:
    """Samples a second by GPU type and number of GPUs: the median over the configurations."""
    rates: dict[tuple[str, int], list[float]] = {}
    for (_, gpu, gpus), own in groupby(epochs, key=lambda epoch: (epoch.config, epoch.gpu, epoch.gpus)):
        timed = [epoch for epoch in own if epoch.seconds]
        if timed:
            rate = sum(epoch.samples for epoch in timed) / sum(known(epoch.seconds) for epoch in timed)
            rates.setdefault((gpu, gpus), []).append(rate)
    return {key: median(own) for key, own in rates.items()}


def speedups(rates: Mapping[tuple[str, int], float]) -> dict[int, float]:
    """How many times as fast 2, 4 and 8 GPUs are as one: to 4 as recorded on A100s, from there as on H100s."""
    steps = {(1, 2): A100, (2, 4): A100, (4, 8): H100}
    gains = {1: 1.0}
    for (few, many), gpu in steps.items():
        gains[many] = gains[few] * rates[gpu, many] / rates[gpu, few]
    return gains


def pools(table: TextIO, slices: Sequence[Slice] = SLICES) -> list[Pool]:
    """A pool for every slice."""
    epochs = read(table)
    gains = speedups(throughput(epochs))
    return [pool_of(one, epochs, gains) for one in slices]


def pool_of(one: Slice, epochs: Sequence[Epoch], gains: Mapping[int, float]) -> Pool:
    """The configurations of a slice.

    Args:
        one: the slice.
        epochs: all rows, by configuration and epoch.
        gains: how many times as fast more GPUs are as one; numbers beyond those of the slice are left out.
    """
    wanted = [e for e in epochs if (e.gpu, e.gpus, e.epochs) == (one.gpu, one.gpus, one.epochs)]
    grouped = [list(own) for _, own in groupby(wanted, key=lambda epoch: epoch.config)]
    usual_s = median(epoch.seconds for own in grouped for epoch in own if epoch.seconds)
    widths = {gpus: gains[one.gpus] / gain for gpus, gain in gains.items() if gpus <= one.gpus}
    book = price_book()
    chain = ExperimentSpec.successive_halving(n=one.eta**9, r=1, R=one.epochs, eta=one.eta).chains[0]
    return Pool(
        name=one.name,
        source=SCAN_BENCH,
        mode="min",
        recordings=tuple(_recording(own, one.epochs, widths, usual_s) for own in grouped),
        rungs=tuple(sum(stage.iterations for stage in chain[: k + 1]) for k in range(len(chain))),
        eta=one.eta,
        experiment=partial(_halving, epochs=one.epochs, eta=one.eta),
        cloud=Cloud(
            instance_types=(book.offering(one.instance_type, region="us-east-1").instance_type,),
            max_nodes=MAX_NODES,
            launch_s=book.launch_s,
            init_s=book.init_s,
            billing=book.billing,
        ),
        start_s=START_S,
        save_s=SAVE_S,
        sync_s=SYNC_S,
    )


def _halving(trials: int, *, epochs: int, eta: int) -> ExperimentSpec:
    return ExperimentSpec.successive_halving(n=trials, r=1, R=epochs, eta=eta)


def _recording(own: Sequence[Epoch], epochs: int, widths: Mapping[int, float], usual_s: float) -> Recording:
    """A configuration; where it diverged it goes on at its pace, and its scores are NaN."""
    if any(after.epoch != before.epoch + 1 for before, after in pairwise(own)):
        raise ValueError(f"configuration {own[0].config} lacks an epoch in between")
    # The epoch in which it diverged was not trained to its end.
    whole = [epoch for epoch in own if not math.isnan(epoch.val_loss) and epoch.seconds]
    pace_s = sum(known(epoch.seconds) for epoch in whole) / len(whole) if whole else usual_s
    seconds = [known(epoch.seconds) for epoch in whole] + [pace_s] * (epochs - len(whole))
    scores = [epoch.val_loss for epoch in whole] + [math.nan] * (epochs - len(whole))
    tests = [epoch.test_loss for epoch in whole] + [math.nan] * (epochs - len(whole))
    return Recording(
        name=str(own[0].config),
        scores=tuple(scores),
        tests=tuple(tests),
        seconds={gpus: tuple(slow * own_s for own_s in seconds) for gpus, slow in widths.items()},
    )
