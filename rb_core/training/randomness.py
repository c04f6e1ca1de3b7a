"""The global random generators of Python, numpy and torch: seeded together, captured and put back together."""

from __future__ import annotations

import io
import random
import sys
from typing import Any, cast

import numpy as np


def seed_all(*key: int) -> None:
    """Seed the global generators of Python, numpy and, where it is loaded, torch (all its devices).

    Args:
        key: what the seeds follow from, such as (seed of the run, trial, iteration, rank).
    """
    sequence = np.random.SeedSequence([part % 2**64 for part in key])
    python, legacy, torch_seed = (int(s) for s in sequence.generate_state(3, np.uint64))
    random.seed(python)
    np.random.seed(legacy % 2**32)
    if "torch" in sys.modules:
        import torch

        torch.manual_seed(torch_seed % 2**63)


def capture() -> dict[str, Any]:
    """The state of every global generator of this process, as tensors and plain numbers alone.

    `torch.load(weights_only=True)` refuses the states as Python and numpy give them.
    """
    import torch

    version, words, gauss = random.getstate()
    legacy: Any = np.random.get_state(legacy=True)
    state: dict[str, Any] = {
        "torch": torch.get_rng_state(),
        "python_version": version,
        "python": torch.tensor(words, dtype=torch.int64),
        "python_gauss": gauss,
        "numpy": torch.tensor(np.asarray(legacy[1], dtype=np.int64)),
        "numpy_position": int(legacy[2]),
        "numpy_has_gauss": int(legacy[3]),
        "numpy_gauss": float(legacy[4]),
    }
    if cast("Any", torch.cuda).is_initialized():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def put_back(state: dict[str, Any]) -> None:
    """Set every global generator of this process to a state that `capture` gave."""
    import torch

    torch.set_rng_state(state["torch"])
    random.setstate((state["python_version"], tuple(state["python"].tolist()), state["python_gauss"]))
    words = state["numpy"].numpy().astype(np.uint32)
    np.random.set_state(("MT19937", words, state["numpy_position"], state["numpy_has_gauss"], state["numpy_gauss"]))
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])


def to_bytes(state: dict[str, Any]) -> bytes:
    """A captured state for the way to another rank."""
    import torch

    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def from_bytes(data: bytes) -> dict[str, Any]:
    """What `to_bytes` made bytes of."""
    import torch

    state: dict[str, Any] = torch.load(io.BytesIO(data), weights_only=True)
    return state
