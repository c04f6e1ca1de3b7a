"""The digits example: measured for real, and run for real by the command that its README names.

The run is planned from fixed latencies in the place of measured ones, and keeps its plan, so that neither depends on
what else this machine is doing. Everything that is asserted of the run is read from its log and its answer. A third of
its trials, to half of their iterations, are enough for the same; `./dev long` runs it as it is.
"""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rb_core.eventlog import read_log
from rb_core.events import NodeReleased, NodeRequested, RunEnded, RunEnding, StageStarted, TrialReported, TrialStarted

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits"

MEASURING = """[profile]
slots = [1, 2]
budget_s = "25s"
"""

LATENCIES = {
    "iteration_s": {"1": {"mean": 0.31, "std": 0.01}, "2": {"mean": 0.186, "std": 0.01}},
    "start_s": {"mean": 0.07, "std": 0.02},
    "save_s": {"mean": 0.03, "std": 0.01},
    "sync_s": 0.02,
}

pytestmark = pytest.mark.timeout(900)


def rb_tune(*arguments, home):
    done = subprocess.run(
        [sys.executable, "-m", "rb_plugins", *map(str, arguments), "--json"],
        env={**os.environ, "RB_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@dataclasses.dataclass(frozen=True)
class Size:
    """What is asked for, and what comes of it: trials and iterations of each stage, and how many trials end where."""

    halving: str
    deadline: str
    stages: list[tuple[int, int]]
    ends: dict[int, int]


FULL = Size("n = 27, r = 3, R = 54", "1.15x", [(27, 3), (9, 6), (3, 18), (1, 27)], {3: 18, 9: 6, 27: 2, 54: 1})
SMALL = Size("n = 9, r = 3, R = 27", "1.25x", [(9, 3), (3, 6), (1, 18)], {3: 6, 9: 2, 27: 1})


@pytest.fixture(scope="module", params=[SMALL, pytest.param(FULL, marks=pytest.mark.long)], ids=["small", "full"])
def size(request):
    return request.param


@pytest.fixture(scope="module")
def answer(size, tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits")
    shutil.copy(EXAMPLE / "train.py", folder)
    (folder / "profile.json").write_text(json.dumps(LATENCIES))
    asked = (EXAMPLE / "digits.toml").read_text()
    changes = {
        MEASURING: "", "[run]\n": "[run]\nreplan = false\n", FULL.halving: size.halving, FULL.deadline: size.deadline,
    }  # fmt: skip
    for before, after in changes.items():
        assert asked.count(before) == 1
        asked = asked.replace(before, after)
    (folder / "digits.toml").write_text('profile = "profile.json"\n' + asked)
    return rb_tune("run", folder / "digits.toml", home=folder / "home")


@pytest.fixture(scope="module")
def events(answer):
    return read_log(Path(answer["run_dir"]) / "events.jsonl").events


def of(kind, events):
    return [event for event in events if isinstance(event, kind)]


@pytest.mark.long
def test_it_is_measured_on_one_slot_and_on_two(tmp_path):
    measured = rb_tune("profile", EXAMPLE / "digits.toml", home=tmp_path)
    assert set(measured["iteration_s"]) == {"1", "2"}
    assert {start["slots"] for start in measured["measurements"]} == {1, 2}
    assert any(start["restore_s"] > 0 for start in measured["measurements"] if start["from_iteration"])
    assert measured["checkpoint_gib"] > 0
    assert measured["fit"]["largest_slots"] == 2
    assert measured["seconds"] < 30


def test_it_is_done_and_says_so(size, answer, events):
    assert answer["state"] == "done"
    assert of(RunEnded, events)[-1].ending is RunEnding.DONE
    assert [(stage["trials"], stage["iterations"]) for stage in answer["stages"]] == size.stages
    ended = [trial["iterations"] for trial in answer["trials"]]
    assert {iterations: ended.count(iterations) for iterations in set(ended)} == size.ends


def test_the_best_network_is_good_and_its_checkpoint_is_there(answer, events):
    best = answer["best"]
    assert best["score"] > 0.95
    assert best["score"] in {e.score for e in of(TrialReported, events) if e.trial == best["trial"]}
    assert Path(best["checkpoint"]).exists()


def test_a_node_was_given_back_before_the_end(events):
    first_released_s = min(released.t_s for released in of(NodeReleased, events))
    last_score_s = max(reported.t_s for reported in of(TrialReported, events))
    assert first_released_s < last_score_s
    assert of(StageStarted, events)[-1].nodes == 1


def test_a_trial_ran_on_two_slots(events):
    assert {started.slots for started in of(TrialStarted, events)} == {1, 2}


def test_every_node_was_given_back(events):
    assert {e.node for e in of(NodeRequested, events)} == {e.node for e in of(NodeReleased, events)}


def test_the_bill_is_that_of_the_nodes_held(answer):
    assert answer["predicted"]["jct_s"]["p05"] <= answer["predicted"]["jct_s"]["p95"]
    held_s = sum((stage["end_s"] - stage["start_s"]) * stage["nodes"] for stage in answer["stages"])
    assert answer["actual"]["cost_usd"] == pytest.approx(held_s * 0.17 / 3600, rel=0.1)


def killed(folder: Path, moments: int) -> list[dict]:
    """What comes of SIGKILL at so many moments of a small run, each resumed afterwards."""
    (folder / "profile.json").write_text(json.dumps(LATENCIES))
    options = ["--moments", str(moments), "--small", "--profile", folder / "profile.json"]
    done = subprocess.run([sys.executable, EXAMPLE / "kills.py", *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert [moment["problems"] for moment in told["moments"]] == [[]] * moments
    assert {moment["winner"] for moment in told["moments"]} == {told["winner"]}
    assert {moment["stages"] for moment in told["moments"]} == {told["stages"]} == {3}
    assert all(moment["scores_before"] > 0 for moment in told["moments"])
    return told["moments"]


@pytest.mark.long
def test_killed_once_it_has_the_same_winner_and_leaves_no_process(tmp_path):
    killed(tmp_path, 1)


@pytest.mark.long
def test_killed_at_three_moments_it_has_the_same_winner_each_time(tmp_path):
    moments = killed(tmp_path, 3)
    assert [moment["stage"] for moment in moments] == sorted(moment["stage"] for moment in moments)
    assert moments[0]["stage"] < moments[-1]["stage"]
