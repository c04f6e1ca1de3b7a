from rb_core.launchers.ddp import DdpLauncher
from rb_core.testing import LauncherContract


class TestDdpLauncher(LauncherContract):
    def make(self, target):
        return DdpLauncher(target)
