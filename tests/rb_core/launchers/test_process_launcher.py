from rb_core.launchers.process import ProcessLauncher
from rb_core.testing import LauncherContract


class TestProcessLauncher(LauncherContract):
    def make(self, target):
        return ProcessLauncher(target)
