"""The cluster that a run uses: its own, or one that is joined; who may, and what is left of it."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import ray
from raynodes import marked
from rb_ray.nodes.cluster import LOOPBACK, RayCluster

from rb_core.clock import SystemClock, pause
from rb_core.errors import InvalidInput

HERE = Path(__file__).parent
JOIN = """
from rb_core.errors import InvalidInput
from rb_ray.nodes.cluster import RayCluster
try:
    with RayCluster() as cluster:
        print("joined", cluster.address, cluster.host)
except InvalidInput as error:
    print("refused", error)
"""


def joined(**variables: str) -> str:
    """What another program says that joins the cluster of RAY_ADDRESS, with these variables."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
    command = [sys.executable, "-c", JOIN]
    ran = subprocess.run(command, env={**env, **variables}, capture_output=True, text=True, timeout=120, check=True)
    return ran.stdout


@contextmanager
def driver(way: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A program with a cluster of its own and a node, once both are up; and what marks all that comes of it."""
    mark = uuid.uuid4().hex
    command = [sys.executable, str(HERE / "raydriver.py"), way]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env={**os.environ, "RB_MARK": mark}, stdin=pipe, stdout=pipe, text=True) as program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline().startswith("up ")
            yield program, mark
        finally:
            program.kill()


def all_gone(mark: str) -> bool:
    """Whether everything with that mark is gone within some seconds."""
    clock = SystemClock()
    limit_s = clock.now() + 20.0
    while marked(mark):
        if clock.now() > limit_s:
            return False
        pause(clock, 0.05)
    return True


def folders() -> set[Path]:
    return set(Path("/tmp").glob("rb-*"))


def test_the_last_one_out_ends_it(ray_cluster: RayCluster):
    address = ray_cluster.address
    with ray_cluster as again:
        assert again.address == address
    assert ray.is_initialized()
    assert [row["Alive"] for row in ray_cluster.table() if row["NodeID"] == ray_cluster.here] == [True]


def test_its_own_is_for_this_machine_and_holds_no_trials(ray_cluster: RayCluster):
    assert ray_cluster.host == LOOPBACK
    assert ray_cluster.address.startswith(f"{LOOPBACK}:")
    (head,) = [row for row in ray_cluster.table() if row["NodeID"] == ray_cluster.here]
    assert "CPU" not in head["Resources"]
    assert "GPU" not in head["Resources"]


def test_its_own_is_not_moved_once_it_runs(ray_cluster: RayCluster):
    ray_cluster.serve(str)
    try:
        with pytest.raises(InvalidInput, match=f"10.0.0.9, and its Ray cluster was started at {LOOPBACK}"):
            ray_cluster.serve(lambda: "10.0.0.9")
    finally:
        ray_cluster.serve(str)


@pytest.mark.long
def test_its_own_is_where_nodes_reach_this_machine():
    program = "from rb_ray.nodes.cluster import RayCluster\ncluster = RayCluster()\n"
    program += "cluster.serve(lambda: '127.0.0.77')\nwith cluster: print(cluster.host, cluster.address)"
    env = {name: value for name, value in os.environ.items() if not name.startswith("RAY_A")}
    said = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=120)
    assert said.stdout.startswith("127.0.0.77 127.0.0.77:"), said.stderr


def test_one_that_is_joined_has_to_be_where_nodes_reach_it(ray_cluster: RayCluster):
    joined = RayCluster()
    joined.serve(lambda: "10.0.0.9")
    with pytest.raises(InvalidInput, match=r"on 127\.0\.0\.2 alone.*--node-ip-address=10\.0\.0\.9"), joined:
        pass
    with RayCluster() as joined, pytest.raises(InvalidInput, match=r"10\.0\.0\.9"):
        joined.serve(lambda: "10.0.0.9")
    assert ray.is_initialized()


def test_a_second_one_in_a_connected_program_uses_the_connection_and_leaves_it(ray_cluster: RayCluster):
    with RayCluster() as second:
        assert second.address == ray_cluster.address
    assert ray.is_initialized()
    with pytest.raises(InvalidInput, match=r"RAY_ADDRESS.*connected to the one at"), RayCluster("127.0.0.9:6379"):
        pass
    assert ray.is_initialized()


def test_it_is_joined_by_its_address_and_token(ray_cluster: RayCluster):
    token = os.environ["RAY_AUTH_TOKEN"]
    said = joined(RAY_ADDRESS=ray_cluster.address, RAY_AUTH_TOKEN=token)
    assert said == f"joined {ray_cluster.address} {LOOPBACK}\n"


@pytest.mark.parametrize("token", [{"RAY_AUTH_TOKEN": "0" * 64}, {}])
def test_a_wrong_token_and_none_are_refused_with_the_remedy(ray_cluster: RayCluster, token: dict[str, str]):
    said = joined(RAY_ADDRESS=ray_cluster.address, **token)
    assert said.startswith(f"refused RAY_AUTH_TOKEN: is not the token of the Ray cluster at {ray_cluster.address}; set")


def test_nothing_is_left_when_it_ends_in_order_and_the_environment_is_as_before():
    with driver("end") as (program, mark):
        assert len(marked(mark)) > 5
        out, _ = program.communicate("\n", timeout=60)
        assert out == "over\n"
        assert program.returncode == 0
        assert not marked(mark)


def test_nothing_is_left_when_its_program_is_killed():
    before = folders()
    with driver("end") as (program, mark):
        assert len(folders() - before) >= 2
        program.kill()
        program.wait()
        assert all_gone(mark)


def test_nodes_are_lost_with_the_head_and_none_are_launched_any_more():
    with driver("head") as (program, mark):
        out, _ = program.communicate("\n", timeout=90)
        assert out.startswith("lost its ")
        assert "\nrefused the Ray cluster at 127." in out
        assert out.endswith("\nover\n")
        assert all_gone(mark)


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("127.0.0.2:1", r"no Ray cluster answers at 127\.0\.0\.2:1 .*ray start --head"),
        ("ray://127.0.0.2:10001", "without Ray Client, got 'ray://"),
        ("nonsense", "must be the host:port of a cluster's head, got 'nonsense'"),
        ("127.0.0.2:99999", "no Ray cluster answers"),
    ],
)
def test_an_address_without_a_cluster_is_an_error_that_says_so(address, problem, monkeypatch):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(InvalidInput, match=problem), RayCluster(address):
        pass
