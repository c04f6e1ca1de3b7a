"""`--html` of `plan`, `rehearse` and `report`."""

import json

from click.testing import CliRunner
from worked_problem import PROBLEM

from rb_core.report import duration, money
from rb_plugins.cli import main


def _asked(*words):
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == 0, result.stderr
    return result


def test_a_plan_and_its_rehearsal_are_pages(tmp_path):
    problem, plan = tmp_path / "problem.json", tmp_path / "plan.json"
    problem.write_text(json.dumps(PROBLEM))
    plan.write_text(_asked("plan", problem, "--json", "--html", tmp_path / "plan.html").stdout)
    _asked("rehearse", problem, "--plan", plan, "--seeds", 2, "--seed", 7, "--html", tmp_path / "rehearsal.html")
    planned, rehearsed = ((tmp_path / name).read_text() for name in ("plan.html", "rehearsal.html"))
    assert "planned, nothing has run" in planned
    assert "A plan has no scores." in planned
    expected = json.loads(plan.read_text())["expected"]
    for written in (planned, rehearsed):
        assert duration(expected["jct_s"]) in written
        assert money(expected["cost_usd"]) in written
    assert "--seeds 1 --seed 7" in rehearsed


def test_the_page_of_a_run_lies_in_its_directory_or_where_it_is_wanted(experiment, tmp_path):
    told = json.loads(_asked("run", experiment, "--json").stdout)
    said = _asked("report", told["run"], "--html").stderr
    _asked("report", told["run"], "--html", tmp_path / "here.html")
    written = (tmp_path / "here.html").read_text()
    assert said.endswith("report.html\n")
    assert (tmp_path / "home" / "runs" / told["run"] / "report.html").read_text() == written
    assert f"{told['run']}: done" in written
    assert f"{told['best']['score']:.5g}" in written
    assert str(experiment) in written


def test_a_file_that_cannot_be_written_is_said(tmp_path):
    problem = tmp_path / "problem.json"
    problem.write_text(json.dumps(PROBLEM))
    result = CliRunner().invoke(main, ["plan", str(problem), "--html", str(tmp_path / "no" / "plan.html")])
    assert result.exit_code == 2
    assert "--html" in result.stderr
    assert "No such file" in result.stderr
