from rb_core.launchers.ddp import DdpLauncher
from rb_core.launching_contract import LauncherContract


class TestDdpLauncher(LauncherContract):
    def make(self, target):
        return DdpLauncher(target)
