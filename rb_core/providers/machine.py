"""What this machine offers to training processes: its GPUs, else its cores. Imports no deep learning framework."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_PROC = Path("/proc/driver/nvidia/gpus")
_ANSWER_S = 20.0


def devices() -> tuple[str, ...]:
    """One entry for each slot: what CUDA_VISIBLE_DEVICES is to be for it; empty strings on a machine without GPUs."""
    gpus = visible(os.environ, gpu_count())
    return gpus or ("",) * len(os.sched_getaffinity(0))


def visible(environ: Mapping[str, str], count: int) -> tuple[str, ...]:
    """The GPUs that this process may use.

    Args:
        environ: its environment; CUDA_VISIBLE_DEVICES in it narrows and orders the GPUs. As CUDA does, the list is
            read up to the first entry that names no GPU of the machine.
        count: GPUs of the machine.
    """
    every = tuple(str(number) for number in range(count))
    chosen = environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None or not every:
        return every
    found: list[str] = []
    for entry in chosen.split(","):
        name = entry.strip()
        if name not in every and not name.startswith(("GPU-", "MIG-")):
            break
        found.append(name)
    return tuple(found)


def may_have_gpu(device_files: Path = Path("/dev"), proc: Path = _PROC, command: str = "nvidia-smi") -> bool:
    """Whether anything here is NVIDIA's: a device file, its driver or the driver's program. Starts nothing."""
    return any(device_files.glob("nvidia*")) or proc.is_dir() or shutil.which(command) is not None


def gpu_count(proc: Path = _PROC, command: Sequence[str] = ("nvidia-smi", "-L")) -> int:
    """GPUs of this machine, as the driver lists them; 0 when there is no driver."""
    try:
        return sum(1 for _ in proc.iterdir())
    except OSError:
        pass
    if shutil.which(command[0]) is None:
        return 0
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=_ANSWER_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    if answer.returncode != 0:
        return 0
    return sum(1 for row in answer.stdout.splitlines() if row.startswith("GPU "))
