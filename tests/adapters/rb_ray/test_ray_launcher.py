"""The launcher `ray` keeps what every launcher keeps."""

import pytest
from rb_ray.launching.launcher import RayLauncher

from rb_core.clock import SystemClock
from rb_core.launchers.group import apart
from rb_core.testing import LauncherContract


@pytest.mark.usefixtures("ray_cluster")
class TestRayLauncher(LauncherContract):
    def make(self, target):
        return RayLauncher(target, SystemClock(), group=apart)  # no import of torch in each test
