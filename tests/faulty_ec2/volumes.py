"""Volumes: from when to when each was there, for the bill, and which are left over."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True, kw_only=True)
class VolumeSpan:
    """One volume's life; `end_s` is None while it is there."""

    id: str
    region: str
    instance: str
    size_gib: int
    begin_s: float
    end_s: float | None = None


class Volumes:
    """Compares, after each call, what moto holds with what is in the book."""

    def __init__(self) -> None:
        self.spans: dict[str, VolumeSpan] = {}

    def see(self, region: str, backend: Any, at_s: float) -> None:
        """Note what came and what went since the last look."""
        for name, volume in backend.volumes.items():
            if name not in self.spans:
                instance = volume.attachment.instance.id if volume.attachment else ""
                self.spans[name] = VolumeSpan(
                    id=name, region=region, instance=instance, size_gib=int(volume.size), begin_s=at_s
                )
        for name, span in self.spans.items():
            if span.region == region and span.end_s is None and name not in backend.volumes:
                span.end_s = at_s


@contextmanager
def without(backend: Any, instances: Collection[str]) -> Iterator[None]:
    """Let moto know nothing of the volumes of these instances: they are as invisible as those are."""
    every = dict(backend.volumes)
    for name, volume in every.items():
        if volume.attachment and volume.attachment.instance.id in instances:
            del backend.volumes[name]
    try:
        yield
    finally:
        backend.volumes.clear()
        backend.volumes.update(every)
