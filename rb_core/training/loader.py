"""torch's DataLoader over `ShardedBatches`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader, Dataset, IterableDataset

from rb_core.errors import InvalidInput
from rb_core.training.gradients import Share
from rb_core.training.sharding import ShardedBatches

_OURS = ("batch_size", "batch_sampler", "sampler", "shuffle", "drop_last")


class ShardedLoader(DataLoader[Any]):
    """Yields this rank's part of each global batch and notes its share for the reduction of gradients.

    Args:
        dataset: a map-style data set.
        batches: which samples to take.
        share: where the share of the batch that was yielded last is noted.
        options: anything else that DataLoader takes.
    """

    def __init__(self, dataset: Dataset[Any], batches: ShardedBatches, share: Share, **options: Any) -> None:
        super().__init__(dataset, batch_sampler=batches, **options)
        self._batches = batches
        self._share = share

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        self._batches.next_pass()
        for step, batch in enumerate(super().__iter__()):
            self._share.fraction = self._batches.fraction(step)
            yield batch


def check_loadable(dataset: object, options: dict[str, Any]) -> None:
    """Raise `InvalidInput` for a data set or an option that sharding cannot work with."""
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
        raise InvalidInput(
            "trial.loader(dataset)",
            "must be a map-style data set (with __len__ and __getitem__), "
            f"got {type(dataset).__name__}; an iterable one has no global batches to share out",
        )
    for name in _OURS:
        if name in options:
            raise InvalidInput(
                f"trial.loader({name}=...)", "is set by the trial itself; give global_batch_size instead"
            )
