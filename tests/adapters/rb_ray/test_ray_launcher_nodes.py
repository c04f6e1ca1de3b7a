"""Trials over several nodes: they compute what they compute on one, and what befalls a node befalls its trials."""

import dataclasses
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import ray
import torch
from launched import TRAINED, above, joined, on, until_gone
from ray.util import placement_group_table
from raynodes import pid_with
from rb_ray.depots.s3 import S3Depot
from rb_ray.launching.launcher import RayLauncher
from rb_ray.nodes.bootstrap import node_resource
from s3server import CREDENTIALS, Bucket, s3_server

from rb_core.clock import SystemClock
from rb_core.errors import FailureKind
from rb_core.launchers.ddp import DdpLauncher
from rb_core.ports import NodeNews
from rb_core.target import Target
from rb_core.testing.launching_contract import Story, a_run, is_running
from rb_core.training import checkpoint
from rb_core.trial import Remark, Saved


@pytest.fixture(scope="module")
def home(ray_cluster):
    with joined(Target.parse(f"{TRAINED}:act"), ships=True) as made:
        yield made


@pytest.fixture(scope="module")
def pair(home):
    return home.launch(2)


def weights(story):
    assert story.failure is None
    return torch.load(story.all(Saved)[-1].checkpoint, weights_only=True)["state"]["model"]


def test_two_nodes_train_what_one_machine_does(home, pair, tmp_path):
    config = {"act": "fits", "lr": 0.05}
    first = Story(home.launcher, on(home.slots(*pair), tmp_path / "ray", to_iteration=2, config=config)).to_end()
    later = on(home.slots(pair[0]), tmp_path / "ray", stage=1, from_iteration=2, to_iteration=4, config=config)
    second = Story(home.launcher, dataclasses.replace(later, checkpoint=_checkpoint(first))).to_end()
    with DdpLauncher(Target.parse(f"{TRAINED}:act")) as ddp:
        whole = Story(ddp, a_run(tmp_path / "ddp", to_iteration=4, config=config)).to_end()
    ours, theirs = weights(second), weights(whole)
    assert max((ours[name] - theirs[name]).abs().max().item() for name in theirs) < 1e-5


@pytest.mark.long
def test_nodes_that_share_no_folder_go_on_from_a_store(home, pair, tmp_path):
    config = {"act": "fits", "lr": 0.05}
    with s3_server() as endpoint:
        Bucket(endpoint).make()
        depot = S3Depot(uri="s3://bucket/run", endpoint=endpoint, region=CREDENTIALS["AWS_REGION"])

        def stored(run, **changes):
            return Story(home.launcher, dataclasses.replace(run, depot=depot, env=CREDENTIALS, **changes)).to_end()

        first = stored(on(home.slots(*pair), tmp_path / "ray", to_iteration=2, config=config))
        assert first.failure is None
        (saved,) = first.all(Saved)
        later = on(home.slots(*pair), tmp_path / "ray", stage=1, from_iteration=2, to_iteration=4, config=config)
        second = stored(later, deposited=saved.checkpoint)
        assert second.failure is None
        (last,) = second.all(Saved)
        assert len(Bucket(endpoint).below(depot.uri)) == 2
        with pytest.MonkeyPatch.context() as patch:
            for name, value in CREDENTIALS.items():
                patch.setenv(name, value)
            depot.fetch(last.checkpoint, tmp_path / "last.pt")
    assert checkpoint.read_state(tmp_path / "last.pt")["iterations"] == 4
    assert not (tmp_path / "ray" / "checkpoints").exists()


def _checkpoint(story):
    assert story.failure is None
    return Path(story.all(Saved)[-1].checkpoint)


def waiting(home, nodes, folder):
    """A trial each of whose ranks has told its pid and waits."""
    story = Story(home.launcher, on(home.slots(*nodes), folder, config={"act": "waits"}))
    for _ in nodes:
        story.until(Remark)
    return story, [int(story.told_by(rank)[0].text) for rank in range(len(nodes))]


def groups():
    return [row for row in placement_group_table().values() if row["state"] != "REMOVED"]


def test_the_slots_are_held_in_ray_until_the_trial_is_over(home, pair, tmp_path):
    story, _ = waiting(home, pair, tmp_path)
    (group,) = groups()
    held = [resource for bundle in group["bundles"].values() for resource in bundle]
    assert {node_resource(home.run, node) for node in pair} <= set(held)
    story.handle.kill()
    assert story.to_end().failure.cause == "killed on request"
    assert groups() == []


@pytest.mark.parametrize(
    ("how", "kind", "rank"),
    [
        pytest.param("raise", FailureKind.RAISED, 0, marks=pytest.mark.long),
        ("raise", FailureKind.RAISED, 1),
        ("kill", FailureKind.DIED, 0),
        pytest.param("kill", FailureKind.DIED, 1, marks=pytest.mark.long),
    ],
)
def test_the_rank_at_fault_is_blamed_whatever_the_others_on_other_nodes_say(home, pair, tmp_path, how, kind, rank):
    config = {"act": "meets", "how": how, "rank": rank}
    failure = Story(home.launcher, on(home.slots(*pair), tmp_path, config=config)).to_end().failure
    assert (failure.rank, failure.kind) == (rank, kind)


def test_a_trial_whose_slots_others_hold_fails_within_a_bound(home, pair, tmp_path, monkeypatch):
    holder, _ = waiting(home, pair[:1], tmp_path)
    monkeypatch.setattr("rb_ray.launching.placed.SLOTS_S", 0.5)
    failure = Story(home.launcher, on(home.slots(*pair), tmp_path, trial=1)).to_end().failure
    assert failure.kind is FailureKind.UNSTARTED
    assert f"did not hold 2 slot(s) of {pair[0]}, {pair[1]}" in failure.cause
    holder.handle.kill()
    holder.to_end()


@pytest.mark.parametrize("end", [lambda handle: handle.kill(), lambda handle: handle.stop(0.1)], ids=["kill", "stop"])
def test_a_trial_that_waits_for_its_slots_can_be_ended(home, pair, tmp_path, end):
    holder, _ = waiting(home, pair[:1], tmp_path)
    waits = Story(home.launcher, on(home.slots(*pair), tmp_path, trial=1))
    end(waits.handle)
    assert waits.to_end().failure.kind is FailureKind.DIED
    holder.handle.kill()
    holder.to_end()
    assert groups() == []


@pytest.mark.long
def test_a_frozen_machine_holds_up_no_kill(home, pair, tmp_path, monkeypatch):
    monkeypatch.setattr("rb_ray.launching.placed.FAREWELL_S", 0.5)
    story, pids = waiting(home, pair, tmp_path)
    (frozen,) = above(pids[1], 1)
    os.kill(frozen, signal.SIGSTOP)
    try:
        story.handle.kill()
        assert "killed on request" in story.to_end().failure.cause
    finally:
        os.kill(frozen, signal.SIGCONT)
    until_gone(frozen, *pids)


def test_what_ray_knows_of_a_dead_host_ends_its_trials(home, pair, tmp_path):
    story, pids = waiting(home, pair, tmp_path)
    guard, server, host = above(pids[1], 3)
    for pid in (server, guard):  # so that its line says nothing
        os.kill(pid, signal.SIGSTOP)
    try:
        os.kill(host, signal.SIGKILL)
        failure = story.to_end().failure
    finally:
        for pid in (guard, server):
            os.kill(pid, signal.SIGCONT)
    assert (failure.rank, failure.kind) == (1, FailureKind.DIED)
    assert f"node {pair[1]} was lost" in failure.cause
    until_gone(*pids)
    again = Story(home.launcher, on(home.slots(*pair), tmp_path, stage=1, config={"act": "meets"})).to_end()
    assert again.failure is None


def test_a_node_that_is_killed_takes_its_ranks_and_its_trial_goes_on_elsewhere(home, pair, tmp_path):
    stays, (goes,) = pair[0], home.launch(1)
    story, pids = waiting(home, (stays, goes), tmp_path)
    os.kill(raylet(home, goes), signal.SIGKILL)
    failure = story.to_end().failure
    assert (failure.rank, failure.kind) == (1, FailureKind.DIED)
    home.hear(goes, NodeNews.LOST)
    until_gone(*pids)
    again = Story(home.launcher, on(home.slots(stays), tmp_path, stage=1, config={"act": "meets"})).to_end()
    assert again.failure is None


def test_a_node_that_has_left_is_not_replaced_by_this_program_s_own(home, pair, tmp_path):
    (slot,) = home.slots(pair[0])
    gone = dataclasses.replace(slot, node="gone")
    failure = Story(home.launcher, on((slot, gone), tmp_path)).to_end().failure
    assert failure.kind is FailureKind.DIED
    assert failure.cause == "node gone had left the cluster when the trial was to start"


def test_a_node_that_is_given_back_is_let_go_by_its_host(home, tmp_path):
    (node,) = home.launch(1)
    story, pids = waiting(home, (node,), tmp_path)
    _, server, host = above(pids[0], 3)
    home.provider.release([node])
    assert is_running(pids[0])  # what is on it comes first
    story.handle.kill()
    story.to_end()
    until_gone(server, host)


def raylet(home, node):
    resource = node_resource(home.run, node)
    (row,) = [row for row in ray.nodes() if row["Alive"] and resource in row["Resources"]]
    return pid_with(f"--raylet_socket_name={row['RayletSocketName']}")


@pytest.mark.long
def test_a_program_that_is_killed_leaves_no_rank_and_no_host(tmp_path):
    command = [sys.executable, str(Path(__file__).with_name("launchdriver.py")), str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        pids = [int(pid) for pid in program.stdout.readline().split()]
        program.kill()
    assert len(pids) == 4
    until_gone(*pids)


@pytest.mark.long
def test_ranks_get_the_threads_of_the_launcher_and_not_those_of_ray(ray_cluster, tmp_path):
    with RayLauncher(Target.parse(f"{TRAINED}:act"), SystemClock(), threads_per_rank=2) as launcher:
        story = Story(launcher, a_run(tmp_path, config={"act": "tells_threads"})).to_end()
    assert story.failure is None
    assert story.all(Remark) == [Remark(text="2 2")]
