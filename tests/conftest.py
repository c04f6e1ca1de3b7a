"""No test meets the user's own runs, settings or plugins."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from xdist.scheduler import LoadFileScheduling

CLUSTERS = "tests/adapters/rb_ray/"
"""Tests that start clusters of Ray."""


class OneClusterAtATime(LoadFileScheduling):
    """Lets one worker run all tests of a file, and all those that start clusters."""

    def _split_scope(self, nodeid: str) -> str:
        return CLUSTERS if nodeid.startswith(CLUSTERS) else super()._split_scope(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> OneClusterAtATime:
    """How tests are dealt out where several run at a time, with the option -n."""
    return OneClusterAtATime(config, log)


@pytest.fixture(scope="session", autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let every run, also those of subprocesses, be kept in a folder of the tests'."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RB_HOME", str(tmp_path_factory.mktemp("rb_home")))
        patch.delenv("RB_BLOCK_PLUGINS", raising=False)
        yield
