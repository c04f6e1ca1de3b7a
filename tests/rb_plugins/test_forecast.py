import json

import pytest
from click.testing import CliRunner
from worked_problem import PROBLEM

from rb_plugins.cli import main
from rb_plugins.session import Session


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "problem.json"
    path.write_text(json.dumps(PROBLEM))
    return path


def test_a_plan_in_words_is_what_the_command_shows(path):
    session = Session()
    planned = session.plan(session.load_problem(path, objective=True))
    shown = CliRunner().invoke(main, ["plan", str(path)]).stdout
    assert [line.rstrip() for line in str(planned).splitlines() if line.strip()] == [
        line.rstrip() for line in shown.splitlines() if line.strip()
    ]


def test_a_plan_in_words_names_every_stage_and_what_others_would_do(path):
    session = Session()
    words = str(session.plan(session.load_problem(path, objective=True), planner="naive"))
    assert words.splitlines()[0] == "Plan"
    for part in ("4 x 10", "2 x 20", "1 x 40", "this plan (naive)", "greedy", "lower bound", "0.8980 usd"):
        assert part in words
