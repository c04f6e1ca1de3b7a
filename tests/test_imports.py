"""What an import costs: each is made in a fresh interpreter, which then tells what was loaded with it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import rb_core

HOSTS = {"torch", "ray", "optuna", "boto3", "botocore"}

PROBLEM = {
    "experiment": {"stages": [{"trials": 4, "iterations": 10}, {"trials": 1, "iterations": 20}]},
    "profile": {"iteration_s": {"1": 10, "2": 6}},
    "cloud": {"instance_types": [{"name": "a", "slots": 2, "usd_per_hour": 3.6}]},
    "objective": {"deadline_s": "1h"},
}


def loaded(statements: str, *arguments: object) -> set[str]:
    """Top-level names of all modules that are loaded after `statements` in an interpreter of their own."""
    script = f"import sys\n{statements}\nsys.stderr.write(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {name.split(".")[0] for name in done.stderr.split()}


def test_the_core_loads_nothing_heavy():
    assert loaded("import rb_core") & {*HOSTS, "pluggy", "numpy", "scipy"} == set()


def test_the_core_and_all_its_public_names_load_no_host():
    everything = "import rb_core\nfor name in rb_core.__all__: getattr(rb_core, name)"
    assert loaded(everything) & {*HOSTS, "pluggy"} == set()


def test_plugins_load_no_more_than_pluggy():
    assert loaded("import rb_plugins") & {*HOSTS, "numpy", "scipy", "pydantic"} == set()


@pytest.mark.parametrize("arguments", ["--help", "run --help", "plan --help", "report --help"])
def test_help_loads_nothing_that_takes_time(arguments):
    command = "from rb_plugins.cli import main\nmain(sys.argv[1:], standalone_mode=False)"
    assert loaded(command, *arguments.split()) & {*HOSTS, "numpy", "scipy", "pydantic", "rich"} == set()


def test_planning_loads_no_host(tmp_path):
    problem = tmp_path / "problem.json"
    problem.write_text(json.dumps(PROBLEM))
    command = "from rb_plugins.cli import main\nmain(sys.argv[1:], standalone_mode=False)"
    assert loaded(command, "plan", problem, "--json") & HOSTS == set()


def test_every_public_name_is_there():
    assert [name for name in rb_core.__all__ if not hasattr(rb_core, name)] == []
    assert set(rb_core.__all__) <= set(dir(rb_core))
    with pytest.raises(AttributeError, match="no attribute 'Scheduler'"):
        rb_core.Scheduler  # noqa: B018
