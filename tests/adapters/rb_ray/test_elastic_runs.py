import json
import os
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from elastic_tuned import Eyes, rented, told, tuner
from raynodes import mentioning

from rb_core.eventlog import read_log
from rb_core.events import NodeLost, NodeReady, NodeReleased, NodeRequested, RunResumed
from rb_core.state import fold
from rb_plugins.outcome import read_outcome
from rb_plugins.rundir import RunDirectory

PROGRAM = Path(__file__).with_name("elastic_tuned.py")

LONG_S = 240.0
"""Longest wait for an experiment, which takes about 20 s on a machine that does nothing else."""


def directory(home):
    (path,) = (home / "runs").iterdir()
    return RunDirectory(path)


def executed(folder):
    """How often each iteration of each trial was run."""
    return Counter(tuple(map(int, line.split())) for line in (folder / "notes").read_text().splitlines())


class Run:
    """An experiment whose last node is killed in its last stage."""

    def __init__(self, folder):
        self.folder = folder
        self.eyes = Eyes(kill_at=5)
        self.told = told(tuner(folder, self.eyes).fit(), self.eyes)
        until_s = time.monotonic() + 20
        while (left := rented()) and time.monotonic() < until_s:
            time.sleep(0.1)
        self.left = left
        self.directory = directory(folder)
        self.events = events_of(folder)


@pytest.fixture(scope="module")
def run(ray_cluster, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RB_HOME", str(folder))
        patch.setenv("PYTHONPATH", str(PROGRAM.parent))
        patch.setattr("rb_core.providers.local.devices", lambda: ("",) * 4)
        yield Run(folder)


def test_the_nodes_are_4_then_2_then_1(run):
    assert {iterations: set(seen) for iterations, seen in run.eyes.nodes.items() if iterations <= 5} == {
        1: {4}, 2: {4}, 3: {2}, 4: {2}, 5: {1},
    }  # fmt: skip


def test_the_best_go_on(run):
    assert run.told["iterations"] == {1: 2, 2: 2, 3: 4, 4: 8}
    assert run.told["errors"] == 0


def test_a_node_that_is_killed_in_mid_stage_is_replaced_and_its_trial_goes_on_from_its_checkpoint(run):
    (lost,) = [event for event in run.events if isinstance(event, NodeLost)]
    assert lost.node == run.eyes.killed
    assert len([event for event in run.events if isinstance(event, NodeRequested)]) == 5
    # A trial may land on the fifth, and be through, before it is seen to have joined.
    assert len([event for event in run.events if isinstance(event, NodeReady)]) in (4, 5)
    again = {entry: count for entry, count in executed(run.folder).items() if count > 1}
    assert set(again) <= {(4, done) for done in (5, 6, 7)}
    assert set(again.values()) <= {2}
    assert set(executed(run.folder)) == {
        (x, done) for x, most in run.told["iterations"].items() for done in range(1, most + 1)
    }


def test_everything_is_gone_at_the_end(run):
    assert run.left == {}
    assert fold(run.events).held == {}
    assert mentioning(f"rb:{run.directory.run}:") == []


def test_the_run_can_be_reported_with_its_bill(run):
    outcome = read_outcome(run.directory)
    assert outcome.ending == "done"
    assert [(len(stage.trials), stage.nodes, stage.survivors) for stage in outcome.state.stages] == [
        (4, 4, (3, 2)), (2, 2, (3,)), (1, 1, (3,)),
    ]  # fmt: skip
    assert [cost.idle_fraction < 1.0 for cost in outcome.bill.stages] == [True] * 3
    assert (outcome.best.trial, outcome.best.config["x"], outcome.best.iterations) == (3, 4, 8)
    nodes = fold(run.events).nodes.values()
    held_s = sum(node.released_s - node.running_s for node in nodes)
    assert outcome.bill.cost_usd == pytest.approx(held_s / 3600.0, abs=len(nodes) / 3600.0)


@pytest.mark.long
def test_a_driver_that_is_killed_at_a_barrier_is_restored_and_leaves_no_node(tmp_path):
    environ = {**os.environ, "RB_HOME": str(tmp_path), "PYTHONPATH": str(PROGRAM.parent)}
    command = [sys.executable, str(PROGRAM), str(tmp_path)]
    with subprocess.Popen([*command, "begin"], env=environ, stdout=subprocess.DEVNULL) as driver:
        try:
            until(lambda: any(isinstance(event, NodeReleased) for event in events_of(tmp_path)), driver)
        finally:
            driver.kill()
    before = executed(tmp_path)
    assert set(before) == {(x, done) for x in (1, 2) for done in (1, 2)}
    said = subprocess.run([*command, "restore"], env=environ, stdout=subprocess.PIPE, timeout=LONG_S, check=True).stdout
    last = json.loads(said.splitlines()[-1])
    assert (last["iterations"], last["errors"], last["left"]) == ({"1": 2, "2": 8}, 0, [])
    assert {entry: count for entry, count in executed(tmp_path).items() if count > 1} == {}
    assert len([event for event in events_of(tmp_path) if isinstance(event, RunResumed)]) == 1
    assert fold(events_of(tmp_path)).held == {}
    assert mentioning(f"rb:{directory(tmp_path).run}:") == []


def events_of(home):
    """What the log of the one run holds so far."""
    (log, *_) = [*(home / "runs").glob("*/events.jsonl"), None]
    return read_log(log).events if log else ()


def until(holds, process):
    """Wait until something holds, while a process goes on."""
    limit_s = time.monotonic() + LONG_S
    while not holds():
        assert time.monotonic() < limit_s
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.02)
        assert process.poll() is None
