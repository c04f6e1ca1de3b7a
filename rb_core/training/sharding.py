"""Which samples each rank takes, so that every global batch is the same at any world size."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from rb_core.check import positive_int
from rb_core.errors import InvalidInput

_DOMAIN = 0x6461_7461
"""Keeps the permutations' stream apart from every other one drawn from the run's seed ("data" in ASCII)."""


class ShardedBatches:
    """The batches of one rank, as lists of indices: step k of a pass takes ``permutation[k*B:(k+1)*B]``, and of it
    rank r takes ``[r::w]``.

    A pass begins with `next_pass`. Its permutation follows from the seed, the iteration of the trial in which the pass
    begins, and how many passes began in that iteration before; so it is the same on every rank, at any world size,
    and after a resumption. A rank whose share of a batch is empty gets the batch's first sample as a stand-in.

    Args:
        size: samples in the data set.
        global_batch_size: samples in one batch, over all ranks.
        rank: which rank this is.
        world_size: number of ranks.
        shuffle: permute; otherwise the data set's own order.
        drop_last: leave out the last batch of a pass when it is not full.
        seed: seed of the run.
        iteration: tells the trial's current iteration.

    Raises:
        InvalidInput: a size is not a positive integer, or `drop_last` leaves no batch at all.
    """  # noqa: D205

    def __init__(
        self,
        *,
        size: int,
        global_batch_size: int,
        rank: int,
        world_size: int,
        shuffle: bool,
        drop_last: bool,
        seed: int,
        iteration: Callable[[], int],
    ) -> None:
        self._size = positive_int("dataset size", size)
        self._batch = positive_int("global_batch_size", global_batch_size)
        self._rank = rank
        self._world_size = world_size
        self._shuffle = shuffle
        self._drop_last = drop_last
        self._seed = seed
        self._iteration = iteration
        self._pass: tuple[int, int] | None = None
        if drop_last and size < global_batch_size:
            raise InvalidInput(
                "global_batch_size",
                f"must not exceed the {size} samples of the data set when drop_last is set, got {global_batch_size}",
            )

    def __len__(self) -> int:
        """Steps in one pass: the same on every rank and at any world size."""
        full = self._size // self._batch
        return full if self._drop_last or self._size % self._batch == 0 else full + 1

    def next_pass(self) -> None:
        """Begin a pass. Apart from `iter()`, which torch's DataLoader calls twice when it has processes."""
        iteration = self._iteration()
        before = self._pass
        passes = before[1] + 1 if before is not None and before[0] == iteration else 0
        self._pass = (iteration, passes)

    def __iter__(self) -> Iterator[list[int]]:
        return self._one_pass(*(self._pass or (self._iteration(), 0)))

    def fraction(self, step: int) -> float:
        """This rank's share of the step's global batch, from 0 to 1."""
        batch = min(self._batch, self._size - step * self._batch)
        return len(range(self._rank, batch, self._world_size)) / batch

    def _one_pass(self, iteration: int, passes: int) -> Iterator[list[int]]:
        if self._shuffle:
            rng = np.random.default_rng([_DOMAIN, self._seed % 2**64, iteration, passes])
            order = rng.permutation(self._size)
        else:
            order = np.arange(self._size)
        for step in range(len(self)):
            batch = order[step * self._batch : (step + 1) * self._batch]
            share = batch[self._rank :: self._world_size]
            yield (share if len(share) else batch[:1]).tolist()
