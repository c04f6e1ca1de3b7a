"""Completion, as a real shell asks for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from rb_plugins.cli import main

BIN = Path(sys.executable).parent


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """A home of two runs, the one named last being older."""
    home = tmp_path_factory.mktemp("home")
    for number, run in enumerate(["digits-20261201-000000-aa", "stripes-20261202-000000-bb"]):
        folder = home / "runs" / run
        folder.mkdir(parents=True)
        os.utime(folder, (1000 - number, 1000 - number))
    return home


@pytest.fixture(scope="module")
def offered(home):
    """Type lines into a bash that has read the script; what it would offer for the last word of each."""

    def offered(*lines: str) -> list[list[str]]:
        script = ["source <(rb-tune completion bash)"]
        for line in lines:
            words = line.split(" ")
            quoted = " ".join(f"'{word}'" for word in words)
            script += [
                f"COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; COMPREPLY=(); compopt() {{ :; }}",
                "_rb_tune_completion rb-tune",
                'printf "%s\\n" "${COMPREPLY[*]}"',
            ]
        done = subprocess.run(
            ["bash", "--norc", "-ec", "\n".join(script)],
            env={**os.environ, "RB_HOME": str(home), "PATH": f"{BIN}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return [line.split() for line in done.stdout.splitlines()]

    return offered


def test_bash_completes_commands_options_runs_and_names(offered):
    commands, options, kinds, planners, launchers, providers, estates, catalogs = offered(
        "rb-tune re",
        "rb-tune report --f",
        "rb-tune init --kind ",
        "rb-tune plan --planner st",
        "rb-tune run --launcher ",
        "rb-tune profile --provider ",
        "rb-tune nodes --provider ",
        "rb-tune catalog ",
    )
    assert {"rehearse", "report"} <= set(commands)
    assert options == ["--fetch"]
    assert kinds == ["pytorch", "sklearn", "optuna", "ray"]
    assert planners == ["static", "static-1"]
    assert launchers == ["ddp", "process", "ray"]
    assert {"ec2", "local", "ray"} <= set(providers)
    assert estates == ["ec2"]
    assert catalogs == ["aws", "ec2"]


def test_bash_completes_runs_the_latest_first(offered):
    stop, report, resume = offered("rb-tune stop ", "rb-tune report str", "rb-tune run --resume ")
    assert stop == resume == ["digits-20261201-000000-aa", "stripes-20261202-000000-bb"]
    assert report == ["stripes-20261202-000000-bb"]


def test_every_parameter_that_is_a_run_completes_it(home, monkeypatch):
    monkeypatch.setenv("RB_HOME", str(home))
    offered = {
        (name, parameter.name): [item.value for item in parameter.shell_complete(click.Context(command), "str")]
        for name, command in main.commands.items()
        for parameter in command.params
        if "RUN" in (parameter.metavar or "").strip("[]").split()
    }
    assert {("stop", "run_"), ("report", "run_"), ("run", "resume"), ("gc", "run_")} <= set(offered)
    assert [of for of, runs in offered.items() if runs != ["stripes-20261202-000000-bb"]] == []


def test_a_name_is_completed_without_what_is_slow_to_import(home):
    program = """
import sys
sys.argv = ["rb-tune"]
from rb_plugins.cli import main
try:
    main(prog_name="rb-tune")
finally:
    heavy = {"numpy", "scipy", "pydantic", "torch", "ray", "optuna", "boto3", "rich"} & set(sys.modules)
    assert not heavy, heavy
"""
    for line in ("rb-tune plan --planner ", "rb-tune run --launcher ", "rb-tune catalog ", "rb-tune stop "):
        environment = {
            **os.environ,
            "RB_HOME": str(home),
            "_RB_TUNE_COMPLETE": "bash_complete",
            "COMP_WORDS": line,
            "COMP_CWORD": str(line.count(" ")),
        }
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), line
        assert done.stdout


def test_a_broken_plugin_does_not_show_in_the_line_that_is_typed(tmp_path, offered, monkeypatch):
    package = tmp_path / "broken_plugin"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('boom')")
    info = tmp_path / "broken_plugin-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-plugin\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[rubberband]\nbroken = broken_plugin\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert offered("rb-tune plan --planner gr") == [["greedy"]]


def test_a_path_is_left_to_the_shell(offered):
    assert offered("rb-tune report ./") == [[]]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_script_for(shell):
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0
    assert "_RB_TUNE_COMPLETE" in result.stdout
    answer = json.loads(CliRunner().invoke(main, ["completion", shell, "--json"]).stdout)
    assert answer["script"].strip() == result.stdout.strip()


def test_the_help_says_how_to_install_it():
    said = CliRunner().invoke(main, ["completion", "--help"]).stdout
    for line in (">> ~/.bashrc", ">> ~/.zshrc", "> ~/.config/fish/completions/rb-tune.fish"):
        assert line in said
