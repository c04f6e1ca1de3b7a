"""Classifiers of scikit-learn on ever larger parts of a data set, each fit recorded with its time: the table of lcdb.

A trial is a classifier, and a stage trains it anew, on twice the data of the stage before, once for each of 25 splits;
its score is the mean accuracy. With more slots it trains on several splits at once, which is how it scales here.
"""

from __future__ import annotations

import csv
import dataclasses
import heapq
from collections.abc import Iterable, Sequence
from functools import partial
from statistics import fmean
from typing import TextIO

from curves.fetch import LCDB
from curves.recordings import Pool, Recording
from rb_core.hardware import Cloud, Latency
from rb_core.spec import ExperimentSpec
from rb_plugins.ec2_prices import price_book

SPLITS = 25
STAGES = 4
"""Trials are compared on an eighth, a quarter and half of the largest part, and on it."""

ETA = 2
LEAST_LEARNERS = 16
LEAST_S = 2500.0
"""A data set is taken where all fits on its largest part took so long together: others are no job for a cloud."""

WIDTHS = (1, 2, 4, 8)
INSTANCE_TYPE, SLOTS = "c5.4xlarge", 8
"""16 virtual CPUs, two for each slot."""

MAX_NODES = 8
START_S, SAVE_S, SYNC_S = Latency(mean=2.0, std=0.3), Latency(mean=0.1), 1.0
"""Assumed: an import of scikit-learn and reading the data."""

Fits = dict[int, list[tuple[float, float, float]]]
"""Of one classifier on one data set, by training samples: seconds, validation and test accuracy of each split."""


def read(table: TextIO) -> dict[int, dict[str, Fits]]:
    """The fits of the table, by data set and classifier."""
    rows = csv.reader(table)
    columns = next(rows)
    places = [columns.index(name) for name in ("openmlid", "learner", "size_train", "traintime")]
    data_set_at, learner_at, size_at, seconds_at = places
    valid_at, test_at = columns.index("score_valid"), columns.index("score_test")
    found: dict[int, dict[str, Fits]] = {}
    for row in rows:
        fits = found.setdefault(int(row[data_set_at]), {}).setdefault(row[learner_at], {})
        scored = (float(row[seconds_at]), float(row[valid_at]), float(row[test_at]))
        fits.setdefault(int(row[size_at]), []).append(scored)
    return found


def pools(table: TextIO) -> list[Pool]:
    """A pool for every data set that has enough classifiers and takes long enough; the longest first."""
    made = [pool for data_set, learners in sorted(read(table).items()) if (pool := pool_of(data_set, learners))]
    return sorted(made, key=whole_s, reverse=True)


def whole_s(pool: Pool) -> float:
    """How long all fits of the last stage take together."""
    begin = pool.rungs[-2]
    return sum(sum(recording.seconds[1][begin:]) for recording in pool.recordings)


def pool_of(data_set: int, learners: dict[str, Fits], *, least_learners: int = LEAST_LEARNERS) -> Pool | None:
    """The pool of a data set; None where too few classifiers were recorded on all parts, or all are quick."""
    largest = max((size for fits in learners.values() for size in fits if size & (size - 1) == 0), default=0)
    sizes = [largest >> (STAGES - 1 - stage) for stage in range(STAGES)]
    complete = {
        name: fits
        for name, fits in sorted(learners.items())
        if all(len(fits.get(size, ())) >= SPLITS for size in sizes)
    }
    slow = sum(seconds for fits in complete.values() for seconds, _, _ in fits[largest][:SPLITS]) >= LEAST_S
    if len(complete) < least_learners or not slow:
        return None
    lengths = [2**stage for stage in range(STAGES)]
    offer = price_book().offering(INSTANCE_TYPE, region="us-east-1").instance_type
    book = price_book()
    return Pool(
        name=f"lcdb {data_set}",
        source=LCDB,
        mode="max",
        recordings=tuple(_recording(name, [fits[size] for size in sizes], lengths) for name, fits in complete.items()),
        rungs=tuple(sum(lengths[: stage + 1]) for stage in range(STAGES)),
        eta=ETA,
        experiment=partial(_halving, lengths=lengths),
        cloud=Cloud(
            instance_types=(dataclasses.replace(offer, slots=SLOTS),),
            max_nodes=MAX_NODES,
            launch_s=book.launch_s,
            init_s=book.init_s,
            billing=book.billing,
        ),
        start_s=START_S,
        save_s=SAVE_S,
        sync_s=SYNC_S,
        resumes=False,
        beginning=3,
    )


def _halving(trials: int, *, lengths: Sequence[int]) -> ExperimentSpec:
    return ExperimentSpec.from_stages([(max(1, trials // ETA**stage), length) for stage, length in enumerate(lengths)])


def _recording(name: str, stages: Sequence[Sequence[tuple[float, float, float]]], lengths: Sequence[int]) -> Recording:
    """A classifier; an iteration is a share of its stage, and between the ends of two the earlier score holds."""
    scores: list[float] = []
    tests: list[float] = []
    seconds: dict[int, list[float]] = {width: [] for width in WIDTHS}
    for fits, length in zip(stages, lengths, strict=True):
        splits = fits[:SPLITS]
        before = (scores[-1], tests[-1]) if scores else (float("nan"),) * 2
        scores += [before[0]] * (length - 1) + [fmean(valid for _, valid, _ in splits)]
        tests += [before[1]] * (length - 1) + [fmean(test for _, _, test in splits)]
        for width, own in seconds.items():
            own += [makespan_s((took_s for took_s, _, _ in splits), width) / length] * length
    return Recording(
        name=name.rpartition(".")[2],
        scores=tuple(scores),
        tests=tuple(tests),
        seconds={width: tuple(own) for width, own in seconds.items()},
    )


def makespan_s(seconds: Iterable[float], width: int) -> float:
    """When all are done if each, in turn, takes the place that is free first, of so many."""
    free = [0.0] * width
    for took_s in seconds:
        heapq.heapreplace(free, free[0] + took_s)
    return max(free)
