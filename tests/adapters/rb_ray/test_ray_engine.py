"""The core's engine on the launcher `ray`: the run is the one of the launcher `ddp`, whatever befalls its nodes."""

import os
import signal

import pytest
import ray
from launched import TRAINED
from program import Program, counting
from raynodes import local, node_type, pid_with
from rb_ray.launching.launcher import RayLauncher
from rb_ray.nodes.bootstrap import node_resource

from rb_core.clock import SystemClock
from rb_core.engine import Engine
from rb_core.engine.request import RunRequest
from rb_core.eventlog import MemoryLog
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


@pytest.mark.long
def test_a_run_whose_program_is_killed_is_resumed_on_a_new_cluster(tmp_path):
    (tmp_path / "killed.toml").write_text(EXPERIMENT)
    (tmp_path / "train_killed.py").write_text(counting(0.02))
    home = tmp_path / "home"
    with Program(home, "run", str(tmp_path / "killed.toml"), "--planner", "static", "--json") as program:
        program.until(lambda events: any(isinstance(e, TrialSaved) and e.iterations > 4 for e in events), limit_s=120)
    assert program.log is not None
    with Program(home, "run", "--resume", str(program.log.parent), "--json") as resumed:
        told = resumed.answer(limit_s=200)
    events = resumed.events()
    first, again = (e.from_iteration for e in events if isinstance(e, TrialStarted) and e.stage == 1)
    assert again > first == 2
    best = max(told["trials"], key=lambda trial: trial["config"]["x"])
    assert told["state"] == "done"
    assert (told["best"]["trial"], told["best"]["iterations"]) == (best["trial"], 62)
