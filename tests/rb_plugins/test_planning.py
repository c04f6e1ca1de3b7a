import json

import pytest
from click.testing import CliRunner
from worked_problem import PROBLEM

from rb_plugins.cli import main

SOONER = {**PROBLEM, "objective": {"deadline_s": 600}}

NOISY = {**PROBLEM["profile"], "trial_cv": 0.3}


@pytest.fixture
def run(tmp_path):
    """Run a command on a problem: its exit status, standard output and standard error."""

    def run(command: str, *options: object, **keys: object):
        path = tmp_path / "problem.json"
        path.write_text(json.dumps({**SOONER, **keys}))
        return CliRunner().invoke(main, [command, str(path), *map(str, options)])

    return run


@pytest.fixture
def answer(run):
    def answer(*arguments: object, **keys: object) -> dict:
        result = run(*arguments, "--json", **keys)
        assert (result.exit_code, result.stderr) == (0, "")
        return json.loads(result.stdout)

    return answer


def test_explain_adds_up_to_the_plan_and_names_its_neighbours(answer):
    plan, front = answer("plan", "--explain"), answer("pareto")["front"]
    told = plan["explain"]
    assert told["jct_s"]["total"] == pytest.approx(plan["expected"]["jct_s"])
    assert told["cost_usd"]["total"] == pytest.approx(plan["expected"]["cost_usd"])
    for quantity in ("jct_s", "cost_usd"):
        parts = [value for name, value in told[quantity].items() if name != "total"]
        assert sum(parts) == pytest.approx(told[quantity]["total"])
    assert [(stage["chain"], stage["stage"]) for stage in told["stages"]] == [(0, 0), (0, 1), (0, 2)]
    place = next(i for i, point in enumerate(front) if point["cost_usd"] == pytest.approx(plan["expected"]["cost_usd"]))
    assert told["faster"]["jct_s"] == pytest.approx(front[place - 1]["jct_s"])
    assert told["cheaper"]["stages"] == front[place + 1]["stages"]
    assert told["cheaper"]["added_usd"] < 0 < told["cheaper"]["added_s"]
    assert told["objective_binds"] is True
    assert told["above_lower_bound_usd"] == pytest.approx(plan["expected"]["cost_usd"] - plan["cost_lower_bound_usd"])


def test_early_release_is_used_where_a_problem_file_turns_it_on(answer):
    usual, early = answer("plan"), answer("plan", "--explain", policies={"early_release": True})
    assert usual == answer("plan", policies={"early_release": False})
    assert early["stages"] == usual["stages"]
    assert early["expected"]["cost_usd"] < usual["expected"]["cost_usd"]
    assert early["expected"]["jct_s"] == usual["expected"]["jct_s"]
    assert early["expected"]["cost_usd"] == pytest.approx(early["simulated"]["cost_usd"]["mean"])
    assert early["fingerprint"] != usual["fingerprint"]
    saved = usual["expected"]["cost_usd"] - early["expected"]["cost_usd"]
    assert early["explain"]["cost_usd"]["early_release"] == pytest.approx(-saved)
    front = answer("pareto", policies={"early_release": True})["front"]
    assert early["expected"]["cost_usd"] in [point["cost_usd"] for point in front]


def test_simulate_gives_nodes_back_early_where_the_problem_says_so(answer, tmp_path):
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"stages": answer("plan")["stages"]}))
    usual, early = (answer("simulate", "--plan", plan, policies={"early_release": on}) for on in (False, True))
    assert early["jct_s"] == usual["jct_s"]
    assert early["cost_usd"]["mean"] < usual["cost_usd"]["mean"]


def test_more_nodes_are_tried_where_the_plan_is_at_its_limit(answer):
    told = answer("plan", "--explain", objective={"deadline_s": 500})["explain"]
    assert (told["nodes"], told["max_nodes"]) == (2, 2)
    assert told["max_nodes_binds"] == (told["with_more_nodes"] is not None)
    roomy = answer("plan", "--explain", cloud={**PROBLEM["cloud"], "max_nodes": 64})["explain"]
    assert roomy["max_nodes_binds"] is False


def test_explain_for_people(run):
    result = run("plan", "--explain")
    assert result.exit_code == 0
    for words in (
        "Where the time goes", "Where the money goes", "Why it costs more than the lower bound",
        "the deadline of 10 min 00 s binds", "the nearest cheaper plan saves", "the nearest faster plan costs",
    ):  # fmt: skip
        assert words in result.stdout


def test_with_confidence_the_answer_states_its_own_probability(run, answer):
    objective = {"deadline_s": 700, "confidence": 0.9}
    told = answer("plan", profile=NOISY, objective=objective)["confidence"]
    assert (told["wanted"], told["samples"]) == (0.9, 1000)
    assert 0.85 < told["probability"] <= 1
    assert 0 < told["standard_error"] < 0.02
    assert "the limit is kept with probability" in run("plan", profile=NOISY, objective=objective).stdout
    assert "confidence" not in answer("plan", profile=NOISY, objective={"deadline_s": 700})


def test_a_plan_with_all_its_answers_can_be_read_back(answer, tmp_path):
    objective = {"deadline_s": 700, "confidence": 0.9}
    plan = answer("plan", "--explain", profile=NOISY, objective=objective)
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    again = answer("simulate", "--plan", tmp_path / "plan.json", profile=NOISY, objective=objective)
    assert again["jct_s"]["mean"] == plan["simulated"]["jct_s"]["mean"]


def test_size_answers_with_a_plan_that_fits(answer, tmp_path):
    told = answer("size", "--R", 20, "--eta", 2, "--r", 5, "--deadline", "15m", "--budget", 2)
    largest = told["largest"]["n"]
    rows = {row["n"]: row for row in told["sizes"]}
    assert (rows[largest]["fits"], rows[largest + 1]["fits"]) == (True, False)
    assert told["expected"]["jct_s"] <= 900
    assert told["expected"]["cost_usd"] <= 2
    (tmp_path / "plan.json").write_text(json.dumps(told["plan"]))
    experiment = {"successive_halving": {"n": largest, "r": 5, "R": 20, "eta": 2}}
    estimate = answer("simulate", "--plan", tmp_path / "plan.json", experiment=experiment)
    assert estimate["cost_usd"]["mean"] == pytest.approx(told["expected"]["cost_usd"])


def test_size_takes_the_limits_of_the_problem_and_hyperband(answer, run):
    told = answer("size", "--R", 9, "--eta", 3, "--kind", "hyperband", "--budget", 50, objective={"deadline_s": 5000})
    assert (told["deadline_s"], told["largest"]) == (5000, {"R": 9})
    shown = run("size", "--R", 9, "--eta", 3, "--kind", "hyperband", "--budget", 50, objective={"deadline_s": 5000})
    assert "R = 9 fits" in shown.stdout
    assert "the largest" in shown.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--R", 9, "--eta", 3], "--budget: is required where the problem has no budget"),
        (["--R", 9, "--eta", 1, "--budget", 1], "--eta: must be an integer of at least 2, got 1"),
        (["--R", 9, "--eta", 3, "--r", 10, "--budget", 1], "--r: must not exceed R (9), got 10"),
        (["--R", 9, "--eta", 3, "--budget", -1], "budget_usd: must be a finite number above 0"),
        (["--R", 9, "--eta", 3, "--budget", 1, "--deadline", "soon"], "--deadline: must be seconds or a duration"),
        (["--R", 9, "--eta", 3, "--budget", 1, "--confidence", 2], "confidence: must be a number from 0.5"),
        (
            ["--R", 9, "--eta", 3, "--budget", 1, "--kind", "hyperband", "--rungs", "incremental"],
            "--rungs: is for successive halving",
        ),
    ],
)
def test_size_refuses_what_is_no_question(run, options, message):
    result = run("size", *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


def test_an_infeasible_problem_names_the_nearest_feasible_ones(run):
    result = run("plan", objective={"deadline_s": 400})
    assert result.exit_code == 3
    assert "the fastest plan of planner exact needs 500.0 s but the deadline is 400.0 s" in result.stderr
    assert "nearest feasible: a deadline of 500.0 s with these nodes" in result.stderr
    feasible = run("plan", objective={"deadline_s": 500.0})
    assert feasible.exit_code == 0


def test_where_nothing_fits_size_ends_with_3(run):
    result = run("size", "--R", 9, "--eta", 3, "--budget", 0.001)
    assert (result.exit_code, result.stdout) == (3, "")
    assert "not even n = 1 fits" in result.stderr


@pytest.mark.parametrize(
    ("keys", "jct_s"),
    [
        # 10^6 trials on 2 x 2 slots at 5 + 10 + 1 s, then one on all four at 5 + 4 + 1 s; a barrier of 4 s after each.
        ({"experiment": {"stages": [{"trials": 10**6, "iterations": 1}, {"trials": 1, "iterations": 1}]}}, 4_000_108),
        # 10^9 iterations on all four slots.
        ({"experiment": {"stages": [{"trials": 1, "iterations": 10**9}]}}, 4_000_000_100),
        # Far more nodes than four trials can use.
        ({"cloud": {**PROBLEM["cloud"], "max_nodes": 4096}}, 90 + 46 + 4 + 86 + 4 + 166 + 4),
    ],
)
def test_extreme_problems_are_planned(answer, keys, jct_s):
    (fastest, *_) = answer("pareto", **keys)["front"]
    assert fastest["jct_s"] == pytest.approx(jct_s)
    plan = answer("plan", objective={"deadline_s": "1.2x"}, **keys)
    assert plan["expected"]["jct_s"] <= 1.2 * jct_s + 1e-6


def test_prices_of_zero_leave_the_fastest_plan_alone(answer):
    cloud = {**PROBLEM["cloud"], "instance_types": [{"name": "a", "slots": 2, "usd_per_hour": 0}]}
    (point,) = answer("pareto", cloud=cloud)["front"]
    assert (point["jct_s"], point["cost_usd"]) == (500, 0)
    told = answer("plan", "--explain", cloud=cloud)["explain"]
    assert (told["cost_usd"]["total"], told["cheaper"]) == (0, None)


def test_nodes_that_cannot_hold_a_trial_are_told_of(run):
    result = run("pareto", profile={"iteration_s": {"8": 1}})
    assert result.exit_code == 3
    assert "no trial fits: the profile knows 8 slots per trial, and max_nodes 2" in result.stderr
