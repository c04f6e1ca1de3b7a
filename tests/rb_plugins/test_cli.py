from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from worked_problem import PROBLEM

from rb_core.eventlog import read_log
from rb_core.events import NodeReleased, NodeRequested, RunEnded
from rb_plugins.cli import main

CASES = Path(__file__).parents[1] / "cases"

STAGES = [
    {"instance_type": "a", "nodes": 2, "slots_per_trial": 1},
    {"instance_type": "a", "nodes": 1, "slots_per_trial": 2},
    {"instance_type": "a", "nodes": 1, "slots_per_trial": 2},
]


def invoke(*arguments: object):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def answer(*arguments: object) -> dict:
    result = invoke(*arguments, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    return json.loads(result.stdout)


def changed(**keys: object) -> dict:
    return {**PROBLEM, **keys}


@pytest.fixture
def write(tmp_path):
    def write(name: str, data: object) -> Path:
        path = tmp_path / name
        path.write_text(data if isinstance(data, str) else json.dumps(data))
        return path

    return write


@pytest.fixture
def problem(write) -> Path:
    return write("problem.json", PROBLEM)


def test_plan_prints_the_agreed_object(problem):
    plan = answer("plan", problem)
    assert set(plan) == {
        "schema", "planner", "stages", "expected", "simulated", "baselines", "cost_lower_bound_usd", "objective",
        "fingerprint",
    }  # fmt: skip
    assert plan["planner"] == "exact"
    assert [(s["trials"], s["iterations"]) for s in plan["stages"]] == [(4, 10), (2, 20), (1, 40)]
    assert set(plan["stages"][0]) == {"trials", "iterations", "instance_type", "nodes", "slots_per_trial"}
    assert set(plan["simulated"]["jct_s"]) == {"mean", "std", "p05", "p10", "p50", "p90", "p95"}
    assert plan["simulated"]["samples"] == 1000
    assert set(plan["baselines"]) == {"static", "static-1", "naive", "greedy"}
    assert plan["expected"]["cost_usd"] <= plan["baselines"]["greedy"]["cost_usd"]
    # Without any noise the expectation is what is simulated.
    assert plan["simulated"]["jct_s"]["p95"] == pytest.approx(plan["expected"]["jct_s"], abs=1e-3)
    assert plan["simulated"]["cost_usd"]["p95"] == pytest.approx(plan["expected"]["cost_usd"], abs=1e-6)
    assert 0 < plan["cost_lower_bound_usd"] < plan["expected"]["cost_usd"] <= plan["baselines"]["static"]["cost_usd"]
    assert plan["expected"]["jct_s"] <= 800


def test_a_plan_can_be_read_back_and_simulated(problem, write):
    plan = answer("plan", problem)
    estimate = answer("simulate", problem, "--plan", write("plan.json", plan), "--samples", 7)
    assert estimate["samples"] == 7
    assert estimate["cost_usd"]["mean"] == pytest.approx(plan["expected"]["cost_usd"])


def test_simulate_gives_the_worked_example(problem, write):
    estimate = answer("simulate", problem, "--plan", write("plan.json", {"stages": STAGES}), "--samples", 3)
    assert estimate["jct_s"]["mean"] == pytest.approx(706.0)
    assert estimate["cost_usd"]["mean"] == pytest.approx(0.846)
    assert [stage["end_s"] for stage in estimate["stages"]] == pytest.approx([200.0, 456.0, 706.0])
    assert set(estimate["stages"][0]) == {"start_s", "end_s", "cost_usd", "idle_fraction"}


def test_equal_seeds_give_equal_answers_and_others_do_not(write):
    profile = {"iteration_s": {"1": {"mean": 10, "std": 1}}, "trial_cv": 0.1}
    noisy = write("p.json", changed(profile=profile, objective={"deadline_s": 2000}))
    assert answer("plan", noisy, "--seed", 3) == answer("plan", noisy, "--seed", 3)
    assert answer("plan", noisy, "--seed", 3)["simulated"] != answer("plan", noisy, "--seed", 4)["simulated"]


def test_several_chains_are_planned_and_read_back(write):
    bands = write("p.json", changed(experiment={"hyperband": {"R": 9, "eta": 3}}, objective={"deadline_s": "3x"}))
    plan = answer("plan", bands, "--planner", "static")
    assert [len(chain["stages"]) for chain in plan["chains"]] == [3, 2, 1]
    assert plan["order"] in ("parallel", "sequential")
    estimate = answer("simulate", bands, "--plan", write("plan.json", plan))
    assert estimate["jct_s"]["mean"] == pytest.approx(plan["expected"]["jct_s"])


@pytest.mark.parametrize("case", sorted(CASES.glob("exact_*.json")), ids=lambda path: path.stem)
def test_pareto_prints_the_front(write, case):
    case = json.loads(case.read_text(encoding="utf-8"))
    del case["problem"]["objective"]
    printed = answer("pareto", write("problem.json", case["problem"]))
    assert set(printed) == {"schema", "front"}
    points = [(point["jct_s"], point["cost_usd"]) for point in printed["front"]]
    assert [t for t, _ in points] == pytest.approx([t for t, _ in case["front"]], abs=1e-3)
    assert [c for _, c in points] == pytest.approx([c for _, c in case["front"]], abs=1e-6)
    wanted = [(s["trials"], s["iterations"]) for s in case["problem"]["experiment"]["stages"]]
    assert all([(s["trials"], s["iterations"]) for s in point["stages"]] == wanted for point in printed["front"])


def test_pareto_for_people_says_what_more_time_saves(problem):
    shown = invoke("pareto", problem)
    assert shown.exit_code == 0
    assert "saves" in shown.stdout
    assert len(shown.stdout.strip().splitlines()) >= 4


def test_plan_for_people_shows_plan_baselines_and_bound(problem):
    result = invoke("plan", problem)
    assert result.exit_code == 0
    for words in ("Plan", "time p05..p95", "this plan (exact)", "static-1", "lower bound"):
        assert words in result.stdout


def test_a_plan_made_for_another_problem_is_told_of(problem, write):
    plan = {**answer("plan", problem), "fingerprint": "0" * 64}
    result = invoke("simulate", problem, "--plan", write("plan.json", plan), "--json")
    assert result.exit_code == 0
    assert "was made for another problem" in result.stderr
    assert json.loads(result.stdout)["samples"] == 1000


def test_no_feasible_plan_ends_with_3_and_names_limit_and_nearest(write):
    result = invoke("plan", write("p.json", changed(objective={"deadline_s": 100})), "--json")
    assert (result.exit_code, result.stdout) == (3, "")
    assert "the deadline is 100.0 s" in result.stderr
    assert "raise the deadline" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plan", "missing.json"], "missing.json: cannot be read: No such file or directory"),
        (["plan", "{problem}", "--planner", "best"], "planner: must be the name of a planner (exact, "),
        (["plan", "{problem}", "--samples", "0"], "samples: must be a positive integer, got 0"),
        (["plan", "{problem}", "--seed", "-1"], "Invalid value for '--seed'"),
        (["plan"], "Missing argument 'PROBLEM'"),
        (["plan", "{problem}", "--fast"], "No such option"),
        (["simulate", "{problem}"], "Missing option '--plan'"),
        (["simulate", "{problem}", "--plan", "{problem}"], "experiment: is not a known key"),
        (["catalog", "gcp"], "catalog: must be the name of a catalogue (aws, ec2), got 'gcp'"),
        (["catalog", "--region", "moon"], "--region: must be one of us-east-1, us-west-2, got 'moon'"),
        (["report", "nothing"], "RUN: must be the id of a run in"),
        (["profile", "x.py:f"], "train.target: file"),
        (["profile", "{problem}", "--config", "{}"], "--config: must be left out"),
        (["profile", "os:getcwd", "--config", "3"], "--config[0]: must be a JSON object, got '3'"),
        (["profile", "os:getcwd", "--slots", "1,x"], "--slots: must be positive numbers separated by commas"),
        (["profile", "os:getcwd", "--budget", "soon"], "--budget: must be seconds or a duration"),
        (
            ["profile", "os:getcwd", "--launcher", "srun"],
            "run.launcher: must be the name of a launcher (ddp, process, ray)",
        ),
        (["run", "missing.toml"], "missing.toml: cannot be read"),
        (["run", "--resume", "r", "--launcher", "ray"], "--launcher: must be left out with --resume"),
    ],
)
def test_bad_usage_and_bad_input_end_with_2_and_one_line(problem, monkeypatch, tmp_path, arguments, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RB_HOME", str(tmp_path / "home"))
    result = invoke(*(argument.replace("{problem}", str(problem)) for argument in arguments))
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_an_error_in_a_file_names_key_value_and_file(write):
    stages = [{"trials": 4, "iterations": 1}, {"trials": 2, "iterations": 1}, {"trials": 0, "iterations": 1}]
    path = write("p.json", changed(experiment={"stages": stages}))
    result = invoke("plan", path)
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        "error: experiment.stages[2].trials: must be a positive integer, got 0",
        f"  in {path}",
    ]


def test_debug_shows_the_traceback(write):
    result = invoke("plan", write("p.json", "{"), "--debug")
    assert result.exception is not None
    assert "is not valid JSON" in str(result.exception)


def test_catalog_and_plugins():
    book = answer("catalog", "--region", "us-west-2", "--market", "spot")
    assert book["dated"] == "2026-07-20"
    assert {row["region"] for row in book["offerings"]} == {"us-west-2"}
    assert {row["market"] for row in book["offerings"]} == {"spot"}
    assert "p3.8xlarge" in invoke("catalog").stdout
    listed = answer("plugins")
    assert listed["plugins"][0]["name"] == "builtins"
    assert listed["planners"]["greedy"] == "builtins"
    assert (listed["depots"]["s3"], listed["estates"]["ec2"]) == ("ray", "builtins")
    assert "in use" in invoke("plugins").stdout


def test_run_prints_one_object_and_report_makes_it_again(experiment, tmp_path):
    result = invoke("run", experiment, "--json")
    assert result.exit_code == 0
    outcome = json.loads(result.stdout)
    assert (outcome["state"], outcome["objective_met"]) == ("done", True)
    assert [trial["state"] for trial in outcome["trials"]].count("finished") == 1
    best = max(outcome["trials"], key=lambda trial: trial["score"])
    assert outcome["best"]["trial"] == best["trial"]
    assert outcome["best"]["config"] == {"lr": best["score"]}
    assert outcome["best"]["iterations"] == 4
    assert Path(outcome["best"]["checkpoint"]).exists()
    assert [stage["trials"] for stage in outcome["stages"]] == [3, 1]
    assert outcome["actual"]["jct_s"] == pytest.approx(outcome["stages"][-1]["end_s"], abs=0.5)
    assert sum(stage["cost_usd"] for stage in outcome["stages"]) == pytest.approx(outcome["actual"]["cost_usd"])
    assert "stage 0: 3 trials x 2 iterations on 1 core" in result.stderr
    assert answer("report") == outcome
    assert answer("report", outcome["run"]) == outcome
    assert answer("report", outcome["run_dir"]) == outcome
    assert "Predicted and actual" in invoke("report").stdout
    kept = {path.name: path for path in Path(outcome["run_dir"]).iterdir()}
    assert {"events.jsonl", "problem.json", "plan.json", "outcome.json", "logs"} <= set(kept)
    assert json.loads(kept["outcome.json"].read_text()) == outcome
    assert stat.S_IMODE(Path(outcome["run_dir"]).stat().st_mode) == 0o700
    for path in kept.values():
        if path.is_file():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_failing_run_ends_with_1_names_the_rank_and_still_answers(altered):
    result = invoke("run", altered("small.py:train", "small.py:broken"), "--json")
    assert result.exit_code == 1
    assert "rank 0 failed: ValueError: boom" in result.stderr
    assert json.loads(result.stdout)["state"] == "failed"


def test_a_missed_deadline_is_a_warning_and_status_0(altered):
    altered("iteration_s = {1 = 0.02}\nstart_s = {mean = 0.2, std = 0.05}", "iteration_s = {1 = 1e-9}")
    result = invoke("run", altered('"10m"', "1e-6"), "--json")
    assert result.exit_code == 0
    assert "warning: the deadline of" in result.stderr
    assert json.loads(result.stdout)["objective_met"] is False


@pytest.mark.parametrize(
    ("old", "new", "status", "message"),
    [
        ('deadline_s = "10m"', "deadline_s = 0.001", 3, "but the deadline is 0.0 s"),
        ('launcher = "process"', 'launcher = "process"\nmax_usd = 1e-9', 4, "above max_usd"),
        ("max_nodes = 1", "max_nodes = 100000", 2, "cloud.max_nodes: must be at most"),
        ('launcher = "process"', 'launcher = "srun"', 2, "run.launcher: must be the name of a launcher"),
        ("max_nodes = 1", 'max_nodes = 1\nprovider = "moon"', 2, "cloud.provider: must be the name of a provider"),
        ("small.py:train", "small.py:absent", 2, "train.target: there is no 'absent'"),
    ],
)
def test_a_run_that_cannot_begin_starts_nothing(altered, tmp_path, old, new, status, message):
    result = invoke("run", altered(old, new), "--json")
    assert (result.exit_code, result.stdout) == (status, "")
    assert message in result.stderr
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_gives_everything_back_and_ends_with_130(altered, tmp_path, number):
    path = altered("iterations = 2", "iterations = 100000000")
    path = altered('"10m"', '"200000h"')
    command = [sys.executable, "-m", "rb_plugins", "run", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            if "stage 0:" in line:
                process.send_signal(number)
                break
        errors = process.stderr.read()
        assert process.wait() == 130
    assert "error: the run was interrupted; every node has been given back" in errors
    assert "Traceback" not in errors
    (log,) = (tmp_path / "home" / "runs").glob("*/events.jsonl")
    events = read_log(log).events
    requested = {event.node for event in events if isinstance(event, NodeRequested)}
    # A node is held before its request is logged, so an interrupt between the two gives back one more.
    assert requested <= {event.node for event in events if isinstance(event, NodeReleased)}
    assert isinstance(events[-1], RunEnded)


def test_on_a_terminal_tables_are_drawn_and_progress_is_live(experiment):
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "rb_plugins", "run", str(experiment)],
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
    ) as process:
        os.close(theirs)
        shown = bytearray()
        while True:
            try:
                shown += os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
        assert process.wait() == 0
    os.close(ours)
    text = shown.decode()
    assert "Predicted and actual" in text
    assert "stage 1 of 2" in text
    assert "─" in text


LIGHT = """
import sys
from click.testing import CliRunner
from rb_plugins.cli import main

result = CliRunner().invoke(main, sys.argv[2:])
assert result.exit_code == 0, result.output
print(*sorted(set(sys.argv[1].split(",")) & set(sys.modules)))
"""


@pytest.mark.parametrize(
    ("heavy", "arguments"),
    [
        ("torch,ray,optuna,boto3,numpy,scipy,pydantic,rich", ["--help"]),
        ("torch,ray,optuna,boto3,rich,cloudpickle", ["plan", "{problem}"]),
        ("torch,ray,optuna,boto3,rich", ["plugins"]),
    ],
)
def test_a_command_imports_nothing_that_it_does_not_need(problem, heavy, arguments):
    filled = [argument.replace("{problem}", str(problem)) for argument in arguments]
    done = subprocess.run([sys.executable, "-c", LIGHT, heavy, *filled], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
