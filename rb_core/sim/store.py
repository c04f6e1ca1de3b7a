"""The simulated storage: which checkpoints exist, and which of them cannot be read back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rb_core.errors import DamagedCheckpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCheckpoint:
    """One checkpoint.

    Attributes:
        trial: whose it is.
        iterations: iterations in total that it stands for.
        torn: whether it cannot be read back.
    """

    trial: int
    iterations: int
    torn: bool


class SimStore:
    """Checkpoints by path; outlives every process.

    Attributes:
        kept: those that exist.
    """

    def __init__(self, *, torn: float, rng: np.random.Generator) -> None:
        """An empty store.

        Args:
            torn: probability that a checkpoint cannot be read back.
            rng: what that is drawn with.
        """
        self.kept: dict[str, StoredCheckpoint] = {}
        self._torn = torn
        self._rng = rng

    def save(self, path: str, trial: int, iterations: int) -> None:
        """Keep a checkpoint; one under the same path is replaced."""
        torn = self._torn > 0 and float(self._rng.random()) < self._torn
        self.kept[path] = StoredCheckpoint(trial=trial, iterations=iterations, torn=torn)

    def read(self, path: str) -> StoredCheckpoint:
        """The checkpoint at a path.

        Raises:
            DamagedCheckpoint: it is missing, or torn.
        """
        stored = self.kept.get(path)
        if stored is None or stored.torn:
            how = "does not exist" if stored is None else "is not what was saved"
            raise DamagedCheckpoint(f"checkpoint {path} {how}; go on from an earlier one")
        return stored

    def remove(self, path: str) -> None:
        """Remove a checkpoint. Idempotent."""
        self.kept.pop(path, None)
