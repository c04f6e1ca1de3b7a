"""The objects whose state a trial keeps over its stages, and the checkpoint that holds them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rb_core.errors import TrialMisuse, UnusableCheckpoint
from rb_core.training import checkpoint, randomness

if TYPE_CHECKING:
    from rb_core.training.peers import Peers


class KeptState:
    """Named objects with ``state_dict`` and ``load_state_dict``, and the random generators of every rank.

    Args:
        restore_from: the checkpoint to load from; None at a trial's first start. It is read once, when the first
            object is added.

    Attributes:
        restore_s: seconds spent in reading and loading so far.
    """

    def __init__(self, restore_from: Path | None) -> None:
        self._path = restore_from
        self._saved: dict[str, Any] | None = None
        self._objects: dict[str, Any] = {}
        self._verified = False
        self.restore_s = 0.0

    def add(self, objects: dict[str, Any]) -> None:
        """Keep these objects, and load them if there is a checkpoint.

        Raises:
            TrialMisuse: a name used twice, or an object without the two methods.
            DamagedCheckpoint: the checkpoint is missing or damaged.
            UnusableCheckpoint: it cannot be read for another reason, lacks a name, or does not fit an object.
        """
        began_s = time.perf_counter()
        if self._saved is None and self._path is not None:
            self._saved = checkpoint.read_state(self._path)
        for name, thing in objects.items():
            self._add(name, thing)
        self.restore_s += time.perf_counter() - began_s

    def begin(self, *, rank: int, world_size: int, key: tuple[int, ...]) -> int | None:
        """Give the random generators of this rank their state for the first iteration of a start.

        With the world size of the checkpoint they go on where they stood; otherwise they are seeded anew.

        Args:
            rank: which rank this is.
            world_size: number of ranks now.
            key: what new seeds follow from.

        Returns:
            The stage in which the checkpoint was written if a score had been reported in it before, else None.

        Raises:
            TrialMisuse: the checkpoint holds objects that were not added.
        """
        saved, self._saved = self._saved, None
        if saved is None:
            randomness.seed_all(*key, rank)
            return None
        forgotten = sorted(set(saved["state"]) - set(self._objects))
        if forgotten:
            raise TrialMisuse(
                f"checkpoint {self._path} holds {', '.join(forgotten)}, which trial.restore() was not given; "
                "restore the same objects in every stage"
            )
        if len(saved["random"]) == world_size:
            randomness.put_back(saved["random"][rank])
        else:
            randomness.seed_all(*key, rank)
        stage: int | None = saved["reported_in_stage"]
        return stage

    def write(self, folder: Path, iterations: int, peers: Peers, *, reported_in_stage: int | None) -> Path | None:
        """Save everything; all ranks call it together. The first time it is also read back.

        Returns:
            The checkpoint on rank 0, None elsewhere.

        Raises:
            UnusableCheckpoint: the disk is full or refuses, or a state cannot be saved safely.
        """
        random = peers.gather(f"save after {iterations}", randomness.to_bytes(randomness.capture()))
        if random is None:
            return None
        state = {
            "state": {name: thing.state_dict() for name, thing in self._objects.items()},
            "random": [randomness.from_bytes(each) for each in random],
            "reported_in_stage": reported_in_stage,
        }
        path = checkpoint.write_state(folder, iterations, state, verify=not self._verified)
        self._verified = True
        return path

    def _add(self, name: str, thing: Any) -> None:
        if name in self._objects:
            raise TrialMisuse(f"trial.restore({name}=...) was given twice; use another name")
        if not (hasattr(thing, "state_dict") and hasattr(thing, "load_state_dict")):
            raise TrialMisuse(
                f"trial.restore({name}=...) must have state_dict() and load_state_dict(), got a {type(thing).__name__}"
            )
        from rb_core.training.gradients import bare

        self._objects[name] = thing = bare(thing)
        if self._saved is None:
            return
        states = self._saved["state"]
        if name not in states:
            raise UnusableCheckpoint(
                f"checkpoint {self._path} holds no {name!r} (it holds {', '.join(sorted(states)) or 'no object'}); "
                "restore the same objects in every stage"
            )
        try:
            thing.load_state_dict(states[name])
        except (RuntimeError, ValueError, KeyError, TypeError) as error:
            raise UnusableCheckpoint(
                f"checkpoint {self._path} does not fit {name!r}: {error}; "
                "build the same objects from the same configuration in every stage"
            ) from error
