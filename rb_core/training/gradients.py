"""Data-parallel models whose averaged gradient is that of the whole global batch, also where it does not divide."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.parallel import DistributedDataParallel


class Share:
    """This rank's fraction of the current global batch, from 0 to 1: set by the loader, read at the reduction."""

    __slots__ = ("fraction",)

    def __init__(self, fraction: float) -> None:
        self.fraction = fraction


def data_parallel(model: torch.nn.Module, share: Share, **options: Any) -> DistributedDataParallel:
    """Wrap `model` so that ranks sum their gradients, each weighted by its share of the batch.

    With a loss that is a mean over the rank's samples the sum is exactly the gradient of the mean over the global
    batch. torch's own average weighs every rank the same, which is wrong when the batch does not divide.
    """
    parallel = DistributedDataParallel(model, **options)
    # A lambda, since torch reads a hook's annotations and takes no postponed ones.
    parallel.register_comm_hook(share, lambda share, bucket: _sum_of_shares(share, bucket))
    return parallel


def remarks_on(model: torch.nn.Module) -> Iterator[str]:
    """What cannot be equal at every world size in this model, with the remedy."""
    modules = list(model.modules())
    if any(isinstance(m, _BatchNorm) and not isinstance(m, torch.nn.SyncBatchNorm) for m in modules):
        yield (
            "the model holds BatchNorm layers, which see only each process's share of the batch: results change "
            "with the number of processes; use GroupNorm or LayerNorm, or on GPUs "
            "torch.nn.SyncBatchNorm.convert_sync_batchnorm(model) before trial.wrap(model)"
        )
    if any(isinstance(m, _DropoutNd) and m.p > 0 for m in modules):
        yield (
            "the model holds dropout layers, whose masks every process draws for itself: with another number of "
            "processes results are equally good but not the same numbers"
        )


def bare(model: torch.nn.Module) -> torch.nn.Module:
    """The model inside a data-parallel one, so that its state has the same names at any world size."""
    return model.module if isinstance(model, DistributedDataParallel) else model


def _sum_of_shares(share: Share, bucket: Any) -> Any:
    """A communication hook, see torch's DistributedDataParallel.register_comm_hook."""
    buffer = bucket.buffer()
    if share.fraction == 0:
        buffer.zero_()  # not mul_(0): a stand-in sample's gradient may be NaN
    else:
        buffer.mul_(share.fraction)
    reduction = dist.all_reduce(buffer, async_op=True)
    return reduction.get_future().then(lambda done: done.value()[0])
