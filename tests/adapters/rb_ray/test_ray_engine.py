"""The core's engine on the launcher `ray`: the run is the one of the launcher `ddp`, whatever befalls its nodes."""

import json
import os
import signal
import subprocess
import sys

import pytest
import ray
from launched import TRAINED
from raynodes import local, node_type, pid_with
from rb_ray.launching.launcher import RayLauncher
from rb_ray.nodes.bootstrap import node_resource

from rb_core.clock import SystemClock
from rb_core.engine import Engine
from rb_core.engine.request import RunRequest
from rb_core.eventlog import MemoryLog, read_log
from rb_core.events import NodeLost, StageEnded, TrialReported, TrialSaved, TrialStarted
from rb_core.hardware import Cloud, Latency
from rb_core.launchers.ddp import DdpLauncher
from rb_core.plan import AllocationPlan, Problem, StageAllocation
from rb_core.profile import ScalingProfile
from rb_core.spec import ExperimentSpec, Stage
from rb_core.target import Target

TARGET = Target.parse(f"{TRAINED}:act")
STAGES = ((4, 2), (2, 60), (1, 2))
WIDTHS = (1, 2, 1)
NODES = (2, 2, 1)


def request(folder, run):
    profile = ScalingProfile(iteration_s={1: Latency(mean=0.1), 2: Latency(mean=0.05)})
    plan = [
        StageAllocation(instance_type="box", nodes=m, slots_per_trial=w) for m, w in zip(NODES, WIDTHS, strict=True)
    ]
    return RunRequest(
        run=run,
        problem=Problem(
            experiment=ExperimentSpec(chains=(tuple(Stage(trials=n, iterations=e) for n, e in STAGES),)),
            profile=profile,
            cloud=Cloud(instance_types=(node_type(),), max_nodes=2),
        ),
        plan=AllocationPlan(chains=(tuple(plan),)),
        configs=tuple({"act": "fits", "lr": lr} for lr in (0.001, 0.05, 0.02, 0.0001)),
        storage=folder / run / "checkpoints",
        logs=folder / run / "logs",
        mode="min",
    )


def run(launcher, clock, asked, *, observers=()):
    """All events of a run on two nodes of one slot."""
    inbox, log = clock.inbox(), MemoryLog()
    rent = local(clock, 2)
    provider = launcher.gather(rent, inbox) if isinstance(launcher, RayLauncher) else rent(inbox)
    try:
        Engine(provider=provider, launcher=launcher, clock=clock, inbox=inbox, log=log, observers=observers).run(asked)
    finally:
        provider.close()
    return log.events


def kept(events):
    return [(e.stage, e.survivors, e.stopped) for e in events if isinstance(e, StageEnded)]


def scores(events):
    return {(e.trial, e.iterations): e.score for e in events if isinstance(e, TrialReported)}


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The run without Ray."""
    return run(DdpLauncher(TARGET), SystemClock(), request(tmp_path_factory.mktemp("plain"), "plain"))


def test_trials_are_resized_over_nodes_and_the_same_ones_survive(ray_cluster, plain, tmp_path):
    clock = SystemClock()
    events = run(RayLauncher(TARGET, clock), clock, request(tmp_path, "resized"))
    assert kept(events) == kept(plain)
    assert scores(events) == pytest.approx(scores(plain), rel=1e-4)
    started = [(e.stage, len(e.nodes), e.slots) for e in events if isinstance(e, TrialStarted)]
    assert started == [(0, 1, 1)] * 4 + [(1, 2, 2)] * 2 + [(2, 1, 1)]


@pytest.mark.long
def test_a_node_that_is_killed_in_mid_stage_changes_nothing_but_the_time(ray_cluster, plain, tmp_path):
    clock = SystemClock()
    asked = request(tmp_path, "struck")
    struck = []

    def strike(event):
        """Kill the second node of the first trial of stage 1, once that is at work."""
        match event:
            case TrialStarted(stage=1, nodes=nodes) if not struck:
                struck.append(nodes[1])
            case TrialReported() if len(struck) == 1:
                resource = node_resource(asked.run, struck[0])
                (row,) = [row for row in ray.nodes() if row["Alive"] and resource in row["Resources"]]
                os.kill(pid_with(f"--raylet_socket_name={row['RayletSocketName']}"), signal.SIGKILL)
                struck.append("done")

    events = run(RayLauncher(TARGET, clock), clock, asked, observers=[strike])
    assert [e.node for e in events if isinstance(e, NodeLost)] == struck[:1]
    assert kept(events) == kept(plain)
    assert scores(events) == pytest.approx(scores(plain), rel=1e-4)


EXPERIMENT = """
name = "killed"
[train]
target = "train_killed.py:train"
[space]
x = {uniform = [0, 1]}
[experiment]
stages = [{trials = 2, iterations = 2}, {trials = 1, iterations = 60}]
[profile]
iteration_s = {1 = 0.2, 2 = 0.1}
[cloud]
instance_types = [{name = "core", slots = 1, usd_per_hour = 0.17}]
max_nodes = 2
billing = {minimum_s = 0}
[run]
launcher = "ray"
checkpoint_every_s = 0.001
[objective]
deadline_s = "10m"
"""

TRAIN = """
import threading

def train(config, trial):
    folder = trial.load()
    count = int((folder / "count").read_text()) if folder else 0
    assert count == trial.from_iteration
    for _ in trial.iterations():
        threading.Event().wait(0.02)
        count += 1
        trial.report(config["x"])
        if trial.save_due:
            with trial.save() as folder:
                (folder / "count").write_text(str(count))
"""


@pytest.mark.long
def test_a_run_whose_program_is_killed_is_resumed_on_a_new_cluster(tmp_path):
    (tmp_path / "killed.toml").write_text(EXPERIMENT)
    (tmp_path / "train_killed.py").write_text(TRAIN)
    env = {**os.environ, "RB_HOME": str(tmp_path / "home")}
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
        env.pop(name, None)
    rb_tune = [sys.executable, "-m", "rb_plugins"]
    command = [*rb_tune, "run", str(tmp_path / "killed.toml"), "--planner", "static", "--json"]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        log = saved_in_stage_1(tmp_path / "home", program)
        program.kill()
    command = [*rb_tune, "run", "--resume", str(log.parent), "--json"]
    resumed = subprocess.run(command, env=env, capture_output=True, text=True, timeout=200)
    assert resumed.returncode == 0, resumed.stderr
    told = json.loads(resumed.stdout)
    events = read_log(log).events
    first, again = (e.from_iteration for e in events if isinstance(e, TrialStarted) and e.stage == 1)
    assert again > first == 2
    best = max(told["trials"], key=lambda trial: trial["config"]["x"])
    assert told["state"] == "done"
    assert (told["best"]["trial"], told["best"]["iterations"]) == (best["trial"], 62)


def saved_in_stage_1(home, program):
    """The log of the run, once its last trial has saved in its last stage."""
    clock = SystemClock()
    inbox, limit_s = clock.inbox(), clock.now() + 120
    while clock.now() < limit_s and program.poll() is None:
        for log in home.glob("runs/*/events.jsonl"):
            if any(isinstance(e, TrialSaved) and e.iterations > 4 for e in read_log(log).events):
                return log
        inbox.get(clock.now() + 0.05)
    program.kill()
    raise AssertionError(program.communicate()[1])
