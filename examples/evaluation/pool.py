"""Work that is shared out among the cores, its results in order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def each(function: Callable[[T], R], items: Sequence[T], *, chunk: int = 1) -> Iterator[R]:
    """What the function makes of each, in the order of the items, on all cores.

    Args:
        function: one that another process can find by its name, or a `partial` of such a one.
        items: what it is told.
        chunk: how many items a process takes at a time.
    """
    processes = min(os.cpu_count() or 1, len(items))
    if processes <= 1:
        yield from map(function, items)
        return
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(function, items, chunksize=chunk)
