"""`rb-tune rehearse`: the object it prints, faults and curves from files, and one run repeated by its seed."""

import json

import pytest
from click.testing import CliRunner
from worked_problem import PROBLEM

from rb_core.sim import rehearsal
from rb_core.sim.faults import Faults, Slowness
from rb_plugins.cli import main
from rb_plugins.config.faults import load_faults

PLAN = {
    "stages": [
        {"instance_type": "a", "nodes": nodes, "slots_per_trial": width} for nodes, width in ((2, 1), (1, 2), (1, 2))
    ]
}
FAULTS = {
    "launch_failure": 0.1, "never_ready": 0.02, "slow_init": {"probability": 0.1, "factor": 10},
    "node_loss_per_hour": 0.6, "loss_notice_s": 120, "mass_loss_probability": 0.2, "trial_failure": 0.02,
    "trial_hang": 0.01, "straggler": {"probability": 0.05, "factor": 5}, "nan_score": 0.01, "checkpoint_torn": 0.01,
    "answer_lost": 0.02, "clock_step_s": 3600, "driver_kill_per_run": 0.5, "true_iteration_factor": 2.0,
    "true_init_factor": 3.0,
}  # fmt: skip


@pytest.fixture
def run(tmp_path):
    """Rehearse the worked example: exit status, standard output and standard error."""

    def run(*options: object, faults: object = None, curves: str = "", plan: object = PLAN):
        words = ["rehearse", str(_file(tmp_path / "problem.json", PROBLEM)), "--plan"]
        words.append(str(_file(tmp_path / "plan.json", plan)))
        if faults is not None:
            words += ["--faults", str(_file(tmp_path / "faults.json", faults))]
        if curves:
            (tmp_path / "curves.csv").write_text(curves)
            words += ["--curves", str(tmp_path / "curves.csv")]
        return CliRunner().invoke(main, [*words, *map(str, options)])

    return run


@pytest.fixture
def answer(run):
    def answer(*options: object, **files: object) -> dict:
        result = run(*options, "--json", **files)
        assert (result.exit_code, result.stderr) == (0, "")
        return json.loads(result.stdout)

    return answer


def _file(path, content):
    path.write_text(json.dumps(content))
    return path


def test_without_faults_it_is_what_simulate_prints_and_more(answer, tmp_path):
    told = answer("--seeds", 3)
    words = ["simulate", str(tmp_path / "problem.json"), "--plan", str(tmp_path / "plan.json"), "--samples", "3"]
    simulated = json.loads(CliRunner().invoke(main, [*words, "--json"]).stdout)
    more = ("finished", "events", "leaked_nodes", "lost_trials", "failed_trials", "driver_kills")
    assert set(told) == {*simulated, *more}
    assert told["jct_s"]["mean"] == pytest.approx(706.0)
    assert told["cost_usd"]["mean"] == pytest.approx(0.846)
    for key in simulated:
        if key != "stages":
            assert told[key] == pytest.approx(simulated[key]), key
    for got, wanted in zip(told["stages"], simulated["stages"], strict=True):
        assert got == pytest.approx(wanted)
    assert (told["finished"], told["leaked_nodes"], told["lost_trials"], told["failed_trials"]) == (3, 0, 0, 0)
    assert told["events"] % 3 == 0


def test_with_faults_it_says_how_often_the_limits_were_kept(answer):
    told = answer("--seeds", 40, faults={**FAULTS, "true_iteration_factor": 1.0})
    assert 0 < told["deadline_met_fraction"] < 1
    assert told["within_budget_fraction"] is None
    assert (told["leaked_nodes"], told["lost_trials"]) == (0, 0)
    assert told["driver_kills"] > 0
    assert told["jct_s"]["mean"] > 706.0
    assert answer("--seeds", 3, faults={})["deadline_met_fraction"] == 1.0


def test_one_run_is_repeated_by_its_seed(answer):
    many = [answer("--seeds", 1, "--seed", seed, faults=FAULTS)["cost_usd"]["mean"] for seed in range(5, 10)]
    together = answer("--seeds", 5, "--seed", 5, faults=FAULTS)
    assert together["cost_usd"]["mean"] == pytest.approx(sum(many) / 5)
    assert len(set(many)) > 1


def test_where_no_run_finishes_times_are_null(answer):
    told = answer("--seeds", 2, faults={"trial_failure": 1.0})
    assert (told["samples"], told["finished"], told["jct_s"], told["stages"]) == (2, 0, None, [])
    assert told["deadline_met_fraction"] == 0.0
    assert told["failed_trials"] > 0


def test_for_people(run):
    result = run("--seeds", 10, faults=FAULTS)
    assert (result.exit_code, result.stderr) == (0, "")
    for words in ("Rehearsal", "deadline met", "nodes leaked", "trials failed", "p05..p95"):
        assert words in result.stdout
    assert "p05..p95" not in run("--seeds", 1, faults={"trial_failure": 1.0}).stdout


def test_recorded_curves_decide_who_goes_on(answer, run):
    rows = [(trial, at, 0.1 * trial) for trial in range(4) for at in (10, 30, 70)]
    table = "trial,iterations,score\n" + "".join(f"{t},{at},{score}\n" for t, at, score in rows)
    assert answer("--seeds", 1, curves=table)["finished"] == 1
    result = run("--seeds", 1, curves=table.replace("3,30,", "3,9,"))
    assert result.exit_code == 2
    assert "curves: trial 3 must have a score recorded after 11 to 30 iterations" in result.stderr


@pytest.mark.parametrize(
    ("faults", "problem"),
    [
        ({"launch_failures": 0.1}, "launch_failures: is not a known key; did you mean launch_failure?"),
        ({"slow_init": {"probability": 2, "factor": 3}}, "slow_init.probability: must be a number from 0 to 1"),
        ({"slow_init": {"chance": 1}}, "slow_init.chance: is not a known key"),
        ({"straggler": 0.1}, "straggler: must be an object with keys, got 0.1"),
        ({"trial_hang": "often"}, "trial_hang: must be a number, got 'often'"),
        ({"true_init_factor": 0}, "true_init_factor: must be a finite number above 0, got 0"),
        ({"schema": 2}, "schema: must be 1"),
        ([], "must hold one object with keys"),
    ],
)
def test_a_wrong_faults_file_is_refused_by_the_key(run, faults, problem):
    result = run("--seeds", 1, faults=faults)
    assert result.exit_code == 2
    assert problem in result.stderr
    assert "faults.json" in result.stderr


def test_every_key_of_a_faults_file_is_read(tmp_path):
    faults = load_faults(_file(tmp_path / "faults.json", {"schema": 1, **FAULTS}))
    kinds = {"slow_init": Slowness, "straggler": Slowness}
    assert faults == Faults(**{key: kinds.get(key, float)(value) if not isinstance(value, dict) else kinds[key](**value)
                               for key, value in FAULTS.items()})  # fmt: skip


@pytest.mark.parametrize("seeds", [0, -1, 2_000_000])
def test_the_number_of_seeds_is_bounded(run, seeds):
    result = run("--seeds", seeds)
    assert result.exit_code == 2
    assert "--seeds: must be from 1 to 1000000" in result.stderr


def test_a_broken_invariant_names_the_command_that_repeats_the_run(run, monkeypatch, tmp_path):
    monkeypatch.setattr(rehearsal, "violations", lambda evidence: ["nothing_held: still held: n0"])
    result = run("--seeds", 5, "--seed", 7, "--replan", faults={"trial_hang": 0.5})
    assert result.exit_code == 1
    assert "the rehearsal with seed 7 broke 1 invariant(s): nothing_held: still held: n0" in result.stderr
    again = (
        f"rb-tune rehearse {tmp_path}/problem.json --plan {tmp_path}/plan.json --seeds 1 --seed 7 "
        f"--faults {tmp_path}/faults.json --replan"
    )
    assert again in result.stderr


def test_the_first_run_is_told_event_by_event_and_the_answer_last(run, answer):
    result = run("--seeds", 2, "--seed", 7, "--events", faults=FAULTS)
    assert (result.exit_code, result.stderr) == (0, "")
    *events, last = map(json.loads, result.stdout.splitlines())
    assert last == answer("--seeds", 2, "--seed", 7, faults=FAULTS)
    assert (events[0]["event"], events[-1]["event"]) == ("RunStarted", "RunEnded")
    assert len(events) == answer("--seeds", 1, "--seed", 7, faults=FAULTS)["events"]
