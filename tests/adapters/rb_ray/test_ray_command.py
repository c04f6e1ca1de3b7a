"""`rb-tune run --launcher ray`: on a cluster of its own, on one that exists, and what it says where it cannot."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from raynodes import marked
from rb_ray.nodes.cluster import RayCluster

from rb_core.clock import SystemClock, pause

TRAIN = """
import time

def train(config, trial):
    trial.load()
    for _ in trial.iterations():
        time.sleep(0.2)
        trial.report(config["x"])
        if trial.save_due:
            with trial.save() as folder:
                (folder / "state").write_text("kept")
"""
EXPERIMENT = """
name = "tiny"
[train]
target = "train.py:train"
metric = "score"
[space]
x = {uniform = [0.0, 1.0]}
[experiment]
stages = STAGES
[profile]
iteration_s = {1 = 0.2}
start_s = 0.5
[cloud]
provider = "PROVIDER"
instance_types = [{name = "box", slots = 1, usd_per_hour = 0.17}]
max_nodes = NODES
init_s = 5
billing = {minimum_s = 0}
[objective]
deadline_s = "1.02x"
"""


STAGES = "[{trials = 4, iterations = 2}, {trials = 2, iterations = 4}, {trials = 1, iterations = 4}]"
FEW = "[{trials = 2, iterations = 1}, {trials = 1, iterations = 1}]"


def command(
    folder: Path, *, provider: str = "local", stages: str = STAGES, nodes: int = 4, **variables: str
) -> subprocess.Popen[str]:
    """The command at work on the experiment in a folder, on a machine that is said to have four cores."""
    (folder / "train.py").write_text(TRAIN)
    asked = EXPERIMENT.replace("PROVIDER", provider).replace("STAGES", stages).replace("NODES", str(nodes))
    (folder / "tiny.toml").write_text(asked)
    words = ["run", "tiny.toml", "--launcher", "ray", "--yes", "--json"]
    pretend = "import os, sys\nos.sched_getaffinity = lambda pid: set(range(4))\n"
    program = f"{pretend}from rb_plugins.cli import main\nsys.exit(main({words!r}))"
    env = {**os.environ, "RB_HOME": str(folder / "home"), **variables}
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", program], cwd=folder, env=env, stdout=pipe, stderr=pipe, text=True)


@pytest.mark.long
def test_it_joins_a_cluster_and_holds_4_2_and_1_nodes(ray_cluster: RayCluster, tmp_path):
    seen = []
    clock = SystemClock()
    with command(tmp_path, RAY_ADDRESS=ray_cluster.address) as program:
        while program.poll() is None:
            alive = sum(any(name.startswith("rb:tiny-") for name in row["Resources"]) for row in ray_cluster.table())
            if [alive] != seen[-1:]:
                seen.append(alive)
            pause(clock, 0.05)
        out, errors = program.communicate()
    assert program.returncode == 0, errors
    answer = json.loads(out)
    assert answer["state"] == "done"
    assert [stage["nodes"] for stage in answer["stages"]] == [4, 2, 1]
    assert [stage["trials"] for stage in answer["stages"]] == [4, 2, 1]
    peak = seen.index(max(seen))
    assert max(seen) == 4
    assert [count for count in seen[peak:] if count in (4, 2, 1, 0)] == [4, 2, 1, 0]
    assert len(ray_cluster.table()) >= 5


@pytest.mark.long
def test_it_starts_a_cluster_of_its_own_and_leaves_nothing(tmp_path):
    mark = uuid.uuid4().hex
    with command(tmp_path, stages=FEW, nodes=1, RB_MARK=mark) as program:
        out, errors = program.communicate(timeout=240)
    assert program.returncode == 0, errors
    assert json.loads(out)["state"] == "done"
    assert not marked(mark)


@pytest.mark.parametrize(
    ("provider", "address", "problem"),
    [
        ("ray", "", 'error: cloud.provider: is "ray", for the nodes of a cluster that exists'),
        ("ray", "127.0.0.2:1", "error: RAY_ADDRESS: no Ray cluster answers at 127.0.0.2:1"),
        ("local", "127.0.0.2:1", "error: RAY_ADDRESS: no Ray cluster answers at 127.0.0.2:1"),
    ],
)
def test_where_it_cannot_run_it_says_so_in_one_line(tmp_path, provider, address, problem):
    with command(tmp_path, provider=provider, RAY_ADDRESS=address) as program:
        out, errors = program.communicate(timeout=120)
    assert (program.returncode, out) == (2, "")
    assert errors.startswith(problem)
    assert len(errors.splitlines()) == 1
