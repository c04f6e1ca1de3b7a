"""Clusters of the tests' own; no test meets one that runs on this machine already."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from ray._private import auto_init_hook
from raynodes import Nodes, nodes
from rb_ray.nodes.cluster import RayCluster


@pytest.fixture(scope="session", autouse=True)
def no_foreign_cluster() -> Iterator[None]:
    """Let nothing of the environment lead to another cluster, nor to another token."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
            patch.delenv(name, raising=False)
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_prestart_worker_first_driver", "0")  # a process for each CPU, whether it is needed or not
        # A call without a cluster is then an error; Ray would start one, of which nobody knows.
        patch.setattr(auto_init_hook, "enable_auto_connect", False)
        yield


@pytest.fixture(scope="module", autouse=True)
def handlers_as_before() -> Iterator[None]:
    """Put signal handlers back: Tune leaves its own behind, which swallows the next Ctrl-C of the process."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[RayCluster]:
    """A cluster of one's own, which this process is connected to while the module's tests run."""
    with RayCluster() as cluster:
        yield cluster


@pytest.fixture
def ray_nodes(ray_cluster: RayCluster) -> Iterator[Nodes]:
    """Nodes of this machine that join the module's cluster; given back after the test."""
    with nodes(ray_cluster) as made:
        yield made


@pytest.fixture(scope="module")
def four_nodes(ray_cluster: RayCluster) -> Iterator[Nodes]:
    """The module's cluster with four nodes of one slot, for tests that leave them as they are."""
    with nodes(ray_cluster) as made:
        made.launch(4)
        yield made


@pytest.fixture(scope="module")
def four_slots(ray_cluster: RayCluster) -> Iterator[RayCluster]:
    """The module's cluster with one node of four slots, which stays, for experiments of Tune.

    Tune's own log files are left out: it leaves some of them open.
    """
    with pytest.MonkeyPatch.context() as patch, nodes(ray_cluster) as made:
        patch.setenv("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
        made.launch(1, slots=4)
        yield ray_cluster
