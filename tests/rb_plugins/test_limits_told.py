"""What the command says of a limit: with the plan, and at the end of a run."""

from __future__ import annotations

import dataclasses
import json

import pytest
from click.testing import CliRunner
from worked_problem import PROBLEM

from rb_core.eventlog import line, read_log
from rb_core.events import RunEnded, RunEnding, TrialReported, TrialSaved
from rb_plugins.cli import main
from rb_plugins.rundir import RunDirectory


def invoke(*words: object):
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.mark.parametrize(
    ("objective", "words", "key"),
    [
        (
            {"deadline_s": "1.5x"},
            r"deadline: 12 min 30 s (750 s), 1.5 times the fastest plan's 8 min 20 s; this plan is expected to end ",
            {"deadline_s": 750.0, "deadline_factor": 1.5},
        ),
        ({"deadline_s": 800}, "deadline: 13 min 20 s; this plan is expected to end ", {"deadline_s": 800.0}),
        ({"budget_usd": 2}, "budget: 2.000 usd; this plan is expected to cost ", {"budget_usd": 2.0}),
    ],
)  # fmt: skip
def test_a_plan_is_shown_with_its_limit(tmp_path, objective, words, key):
    (tmp_path / "problem.json").write_text(json.dumps({**PROBLEM, "objective": objective}))
    result = invoke("plan", tmp_path / "problem.json")
    assert result.exit_code == 0
    assert f"\n{words}" in result.stdout
    assert json.loads(invoke("plan", tmp_path / "problem.json", "--json").stdout)["objective"] == pytest.approx(key)


def test_a_run_begins_with_its_limit_and_ends_with_what_became_of_it(altered):
    began = invoke("run", altered('"10m"', '"400x"'))
    assert began.exit_code == 0
    assert ", 400 times the fastest plan's " in began.stdout
    for told in (began, invoke("report")):
        assert "\nthe deadline of " in told.stdout
        assert " was kept, with " in told.stdout
    answer = json.loads(invoke("report", "--json").stdout)
    assert answer["objective"]["spare_s"] == answer["objective"]["deadline_s"] - answer["actual"]["jct_s"] > 0


def test_a_budget_that_was_kept_or_not_is_told_at_the_end(altered):
    told = invoke("run", altered('deadline_s = "10m"', "budget_usd = 3"))
    assert "\nthe budget of 3.000 usd was kept, with " in told.stdout
    answer = json.loads(invoke("report", "--json").stdout)
    assert answer["objective"] == {"budget_usd": 3.0, "spare_usd": 3.0 - answer["actual"]["cost_usd"]}


def test_a_missed_deadline_is_told_at_the_end_too(altered):
    altered("iteration_s = {1 = 0.02}\nstart_s = {mean = 0.2, std = 0.05}", "iteration_s = {1 = 1e-9}")
    told = invoke("run", altered('"10m"', "1e-6"))
    assert "\nthe deadline of 0.0 s was missed by " in told.stdout
    assert json.loads(invoke("report", "--json").stdout)["objective"]["spare_s"] < 0


def test_a_run_that_failed_says_which_iteration_its_best_checkpoint_is_of(experiment, tmp_path):
    assert invoke("run", experiment).exit_code == 0
    (path,) = (tmp_path / "home" / "runs").iterdir()
    directory = RunDirectory(path)
    events = read_log(directory.events).events
    saved = max(number for number, event in enumerate(events) if isinstance(event, TrialSaved))
    reported = next(event for event in reversed(events) if isinstance(event, TrialReported))
    told = dataclasses.replace(reported, iterations=events[saved].iterations + 3)
    ended = dataclasses.replace(events[-1], ending=RunEnding.FAILED, reason="no node can be had")
    assert isinstance(events[-1], RunEnded)
    directory.events.write_text("".join(map(line, (*events[: saved + 1], told, ended))))
    report = invoke("report")
    assert " after 7 iterations: trial " in report.stdout
    assert f"  checkpoint: {events[saved].checkpoint} (after 4 iterations, not 7)\n" in report.stdout
    best = json.loads(invoke("report", "--json").stdout)["best"]
    assert (best["iterations"], best["checkpoint_iterations"]) == (7, 4)
