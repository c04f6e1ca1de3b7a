"""No test meets the user's own runs, settings or plugins, nor is any deaf to an interrupt."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


def pytest_configure() -> None:
    """Heed SIGINT, which a shell lets programs ignore that it starts in the background; children inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let every run, also those of subprocesses, be kept in a folder of the tests'."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RB_HOME", str(tmp_path_factory.mktemp("rb_home")))
        patch.delenv("RB_BLOCK_PLUGINS", raising=False)
        yield
