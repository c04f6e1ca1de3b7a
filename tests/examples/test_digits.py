"""The digits example, run once for real by the command that its README names; everything is read from its log."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rb_core.eventlog import read_log
from rb_core.events import NodeReleased, NodeRequested, RunEnded, RunEnding, StageStarted, TrialReported, TrialStarted

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits"

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def answer(tmp_path_factory):
    command = [sys.executable, "-m", "rb_plugins", "run", str(EXAMPLE / "digits.toml"), "--json"]
    home = tmp_path_factory.mktemp("home")
    done = subprocess.run(
        command, env={**os.environ, "RB_HOME": str(home)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def events(answer):
    return read_log(Path(answer["run_dir"]) / "events.jsonl").events


def of(kind, events):
    return [event for event in events if isinstance(event, kind)]


def test_it_is_done_and_says_so(answer, events):
    assert answer["state"] == "done"
    assert of(RunEnded, events)[-1].ending is RunEnding.DONE
    assert [(stage["trials"], stage["iterations"]) for stage in answer["stages"]] == [(27, 3), (9, 6), (3, 18), (1, 27)]
    assert sorted({trial["iterations"] for trial in answer["trials"]}) == [3, 9, 27, 54]


def test_the_best_network_is_good_and_its_checkpoint_is_there(answer, events):
    assert answer["best"]["score"] > 0.95
    assert answer["best"]["score"] in {e.score for e in of(TrialReported, events) if e.trial == answer["best"]["trial"]}
    assert Path(answer["best"]["checkpoint"]).exists()


def test_a_node_was_given_back_before_the_end(events):
    last_stage = of(StageStarted, events)[-1]
    assert any(
        released.t_s < max(e.t_s for e in of(TrialStarted, events)) or released.t_s <= last_stage.t_s
        for released in of(NodeReleased, events)
    )


def test_a_trial_ran_on_two_slots(events):
    assert 2 in {started.slots for started in of(TrialStarted, events)}


def test_every_node_was_given_back(events):
    assert {e.node for e in of(NodeRequested, events)} == {e.node for e in of(NodeReleased, events)}


def test_what_was_promised_stands_beside_what_happened(answer):
    predicted, actual = answer["predicted"], answer["actual"]
    assert 0 < predicted["jct_s"]["p05"] <= predicted["jct_s"]["p95"]
    assert actual["jct_s"] > 0
    assert actual["cost_usd"] > 0
    assert actual["profiling_s"] < 30
    held_s = sum((stage["end_s"] - stage["start_s"]) * stage["nodes"] for stage in answer["stages"])
    assert actual["cost_usd"] == pytest.approx(held_s * 0.17 / 3600, rel=0.05)
