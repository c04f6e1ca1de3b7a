"""The cases with known answers: small problems solved by trying every plan, noisy ones sampled 20,000 times."""

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest

from rb_core.expectation import ExpectedModel, expected
from rb_core.planners.exact import Exact, front
from rb_core.simulate import simulate
from rb_plugins.config.plan import read_plan
from rb_plugins.config.problem import load_problem, read_problem

FOLDER = Path(__file__).parents[1] / "cases"
EXACT = sorted(FOLDER.glob("exact_*.json"))
NOISY = sorted(FOLDER.glob("noisy_*.json"))
SAMPLES = 20_000


def read(path):
    case = json.loads(path.read_text())
    return case, read_problem(case["problem"], folder=path.parent, price_books={}.__getitem__)


def once(problem, plan):
    estimate = simulate(problem, plan, samples=1, rng=np.random.default_rng(0))
    return float(estimate.jct_s[0]), float(estimate.cost_usd[0])


def is_close(got, wanted):
    assert got[0] == pytest.approx(wanted[0], abs=1e-3, rel=0)
    assert got[1] == pytest.approx(wanted[1], abs=1e-6, rel=0)


def test_the_cases_are_all_there():
    assert len(EXACT) == 10
    assert len(NOISY) == 4


@pytest.mark.parametrize("path", EXACT, ids=lambda path: path.stem)
def test_a_known_plan_takes_and_costs_what_is_known(path):
    case, problem = read(path)
    plan = read_plan({"stages": case["optimum"]["a_plan"]}, problem).plan
    wanted = (case["optimum"]["jct_s"], case["optimum"]["cost_usd"])
    is_close(once(problem, plan), wanted)
    is_close(ExpectedModel(problem).evaluate(plan), wanted)
    is_close(expected(problem, plan), wanted)


@pytest.mark.parametrize("path", EXACT, ids=lambda path: path.stem)
def test_the_exact_planner_finds_the_optimum(path):
    case, problem = read(path)
    jct_s, cost_usd = once(problem, Exact().plan(problem, np.random.default_rng(0)))
    assert cost_usd == pytest.approx(case["optimum"]["cost_usd"], abs=1e-6, rel=0)
    assert jct_s <= case["problem"]["objective"]["deadline_s"] + 1e-3


@pytest.mark.parametrize("path", EXACT, ids=lambda path: path.stem)
def test_the_exact_planner_s_front_is_the_known_one(path):
    case, problem = read(path)
    candidates = front(ExpectedModel(problem))
    assert len(candidates) == len(case["front"])
    for candidate, wanted in zip(candidates, case["front"], strict=True):
        is_close((candidate.jct_s, candidate.cost_usd), wanted)
        is_close(once(problem, candidate.plan(problem)), wanted)


@pytest.mark.parametrize("path", NOISY, ids=lambda path: path.stem)
def test_the_distribution_is_the_known_one(path):
    case, problem = read(path)
    plan = read_plan(case["plan"], problem).plan
    estimate = simulate(problem, plan, samples=SAMPLES, rng=np.random.default_rng(12))
    for key in ("jct_s", "cost_usd"):
        known, values = case[key], getattr(estimate, key)
        error = math.sqrt(known["stderr"] ** 2 + known["std"] ** 2 / SAMPLES)
        assert values.mean() == pytest.approx(known["mean"], abs=4 * error + 1e-6, rel=0), key
        for quantile in (5, 95):
            wanted = known[f"p{quantile:02d}"]
            assert np.percentile(values, quantile) == pytest.approx(wanted, rel=0.02), (key, quantile)


@pytest.mark.parametrize("path", NOISY, ids=lambda path: path.stem)
def test_the_expectation_is_the_known_mean(path):
    case, problem = read(path)
    plan = read_plan(case["plan"], problem).plan
    wanted = (case["jct_s"]["mean"], case["cost_usd"]["mean"])
    assert expected(problem, plan) == pytest.approx(wanted, rel=0.02)
    assert ExpectedModel(problem).evaluate(plan) == pytest.approx(wanted, rel=0.02)


def test_a_case_is_a_problem_file_as_it_stands(tmp_path):
    case, problem = read(EXACT[0])
    path = tmp_path / "problem.json"
    path.write_text(json.dumps(case["problem"]))
    loaded = load_problem(path, price_books={}.__getitem__, objective=True)
    assert dataclasses.asdict(loaded) == dataclasses.asdict(problem)
