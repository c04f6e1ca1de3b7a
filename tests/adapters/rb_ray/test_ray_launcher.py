"""The launcher `ray` keeps what every launcher keeps."""

import threading
import time

import pytest
import ray
from launched import TRAINED
from rb_ray.launching.launcher import RayLauncher

from rb_core.clock import SystemClock
from rb_core.launchers.group import apart
from rb_core.target import Target
from rb_core.testing import LauncherContract


@pytest.mark.usefixtures("ray_cluster")
class TestRayLauncher(LauncherContract):
    def make(self, target):
        return RayLauncher(target, SystemClock(), group=apart)  # no import of torch in each test


@pytest.mark.usefixtures("ray_cluster")
def test_once_it_is_left_nothing_of_it_calls_ray(monkeypatch):
    calls = []

    def kill(actor, ended=ray.kill):
        time.sleep(0.5)  # longer than everything else that leaving waits for
        ended(actor)
        calls.append(threading.current_thread().name)

    monkeypatch.setattr(ray, "kill", kill)
    with RayLauncher(Target.parse(f"{TRAINED}:act"), SystemClock(), group=apart):
        pass
    assert calls == ["ray-host-end"]
