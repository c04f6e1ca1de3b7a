import os
import sys

import pytest

from rb_core.providers.machine import devices, gpu_count, visible

LISTING = "GPU 0: NVIDIA H200 (UUID: GPU-1)\n  MIG 1g.18gb Device 0: (UUID: MIG-2)\nGPU 1: NVIDIA H200 (UUID: GPU-3)\n"


@pytest.mark.parametrize(
    ("chosen", "count", "found"),
    [
        (None, 2, ("0", "1")),
        ("1", 2, ("1",)),
        ("1, 0", 2, ("1", "0")),
        ("", 2, ()),
        ("-1", 2, ()),
        ("0,7,1", 2, ("0",)),
        ("GPU-abc,MIG-def", 2, ("GPU-abc", "MIG-def")),
        ("0", 0, ()),
        (None, 0, ()),
    ],
)
def test_the_environment_narrows_the_gpus_as_cuda_does(chosen, count, found):
    environ = {} if chosen is None else {"CUDA_VISIBLE_DEVICES": chosen}
    assert visible(environ, count) == found


def test_gpus_are_counted_in_the_drivers_folder(tmp_path):
    for name in ("0000:01:00.0", "0000:02:00.0"):
        (tmp_path / name).mkdir()
    assert gpu_count(tmp_path, ("no-such-command",)) == 2


def test_else_the_drivers_command_is_asked(tmp_path):
    assert gpu_count(tmp_path / "none", (sys.executable, "-c", f"print({LISTING!r})")) == 2


@pytest.mark.parametrize(
    "command", [("no-such-command",), (sys.executable, "-c", "print('GPU 0: x'); raise SystemExit(9)")]
)
def test_without_a_driver_there_is_none(tmp_path, command):
    assert gpu_count(tmp_path / "none", command) == 0


def test_a_machine_without_gpus_offers_the_cores_that_this_process_may_use(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert devices() == ("",) * len(os.sched_getaffinity(0))
