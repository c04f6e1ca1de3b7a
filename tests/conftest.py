"""No test meets the user's own runs, settings or plugins."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let every run, also those of subprocesses, be kept in a folder of the tests'."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RB_HOME", str(tmp_path_factory.mktemp("rb_home")))
        patch.delenv("RB_BLOCK_PLUGINS", raising=False)
        yield
