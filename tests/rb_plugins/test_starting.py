"""What `rb-tune init` writes runs at once, and nothing that stood there is lost."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner
from source_tree import TEMPLATES

from rb_plugins import starters
from rb_plugins.cli import main
from rb_plugins.starters import MOST_NODES, STARTERS, next_commands, write_starter
from rb_plugins.starting import init


def started(folder: Path, *options: str) -> dict:
    result = CliRunner().invoke(main, ["init", str(folder), *options, "--json"])
    assert (result.exit_code, result.stderr) == (0, "")
    return json.loads(result.stdout)


def in_shell(commands: list[str], home: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """Type the commands into a shell, as they are told."""
    return subprocess.run(
        ["bash", "-euc", "\n".join([*commands, *more])],
        cwd=home,
        env={**os.environ, "RB_HOME": str(home / "runs"), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )


def tried(kind: str, home: Path) -> str:
    """What the commands that `init` tells print."""
    answer = started(home / "first", "--kind", kind)
    # From another folder than that of this process, into which the commands therefore lead by an absolute path.
    done = in_shell(answer["next"], home)
    assert done.returncode == 0, done.stderr
    assert "imported anew" not in done.stderr
    return done.stdout


# docs/start.md has the one of PyTorch, and its test runs that.
@pytest.mark.parametrize("kind", [pytest.param("pytorch", marks=pytest.mark.long), "sklearn"])
def test_an_experiment_runs_as_it_is_without_a_warning_and_can_be_reported_on(tmp_path, kind):
    printed = tried(kind, tmp_path)
    score = re.search(r"^best accuracy ([\d.]+)", printed, flags=re.MULTILINE)
    assert score is not None
    assert float(score[1]) > 0.8, "configurations must tell the good from the bad"
    assert (tmp_path / "first" / "report.html").stat().st_size > 10_000


def test_a_study_runs_as_it_is(tmp_path):
    printed = tried("optuna", tmp_path)
    assert float(re.findall(r"^accuracy ([\d.]+)", printed, flags=re.MULTILINE)[0]) > 0.8


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_ray_run_runs_as_it_is(tmp_path):
    done = in_shell(started(tmp_path / "first", "--kind", "ray")["next"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert float(re.findall(r"^accuracy ([\d.]+)", done.stdout, flags=re.MULTILINE)[0]) > 0.8


def test_the_ray_script_trains_and_goes_on_where_it_stood():
    # Tune's own part is the long test's: here its session is a list, and its checkpoint a folder.
    program = """
import contextlib, importlib.util, shutil, sys, types
spec = importlib.util.spec_from_file_location("tune_script", sys.argv[1])
script = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)
told, kept = [], []
class Checkpoint:
    @staticmethod
    def from_directory(folder):
        shutil.copytree(folder, sys.argv[2], dirs_exist_ok=True)
    @contextlib.contextmanager
    def as_directory(self):
        yield sys.argv[2]
script.tune = types.SimpleNamespace(
    Checkpoint=Checkpoint, get_checkpoint=lambda: kept[0] if kept else None,
    report=lambda metrics, checkpoint: told.append(metrics["accuracy"]),
)
script.EPOCHS = 2
script.train({"lr": 1.0, "width": 32})
kept.append(Checkpoint())
script.EPOCHS = 5
script.train({"lr": 1.0, "width": 32})
assert len(told) == 5 and told[-1] > 0.8, told
"""
    script = STARTERS["ray"].files[0]
    folder = Path(os.environ["RB_HOME"]) / "ray-starter"
    folder.mkdir()
    command = [sys.executable, "-c", program, str(TEMPLATES / "ray" / script), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_all_that_is_shipped_is_written():
    for kind, starter in STARTERS.items():
        assert set(starter.files) == {path.name for path in (TEMPLATES / kind).iterdir() if path.is_file()}
    assert list(STARTERS) == list(next(p for p in init.params if p.name == "kind").type.choices)


def test_a_file_that_is_there_is_not_overwritten(tmp_path):
    (tmp_path / "train.py").write_text("mine")
    result = CliRunner().invoke(main, ["init", str(tmp_path), "--kind", "sklearn"])
    assert result.exit_code == 2
    assert f"{tmp_path}/train.py would be overwritten, and nothing was written" in result.stderr
    assert result.stderr.strip().endswith("name another folder, or let --force rename what is there")
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]
    assert (tmp_path / "train.py").read_text() == "mine"


def test_force_keeps_what_was_there_under_another_name(tmp_path):
    (tmp_path / "train.py").write_text("mine")
    (tmp_path / "train.py.old1").write_text("older")
    answer = started(tmp_path, "--kind", "sklearn", "--force")
    assert answer["kept"] == {f"{tmp_path}/train.py": f"{tmp_path}/train.py.old2"}
    assert (tmp_path / "train.py.old1").read_text() == "older"
    assert (tmp_path / "train.py.old2").read_text() == "mine"
    assert (tmp_path / "train.py").read_text() == STARTERS["sklearn"].text("train.py")


def test_a_link_to_nowhere_is_in_the_way_too(tmp_path):
    (tmp_path / "train.py").symlink_to(tmp_path / "elsewhere.py")
    assert CliRunner().invoke(main, ["init", str(tmp_path), "--kind", "sklearn"]).exit_code == 2
    assert not (tmp_path / "elsewhere.py").exists()


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(main, ["init", str(tmp_path / "file" / "first")])
    assert result.exit_code == 2
    assert "Not a directory; name a folder that can be" in result.stderr


@pytest.mark.parametrize(("slots", "nodes"), [(1, 1), (2, 2), (64, MOST_NODES)])
def test_no_more_nodes_are_asked_for_than_the_machine_has(tmp_path, slots, nodes):
    write_starter(STARTERS["pytorch"], tmp_path, slots=slots)
    assert tomllib.loads((tmp_path / "experiment.toml").read_text())["cloud"]["max_nodes"] == nodes


def test_without_a_kind_it_is_the_first_that_is_installed(monkeypatch, tmp_path):
    for lacking, kind in [((), "pytorch"), (("torch",), "sklearn"), (("torch", "scikit-learn"), "optuna")]:
        monkeypatch.setattr(starters, "missing", lambda *names, gone=lacking: tuple(n for n in names if n in gone))
        assert started(tmp_path / kind)["kind"] == kind
    monkeypatch.setattr(starters, "missing", lambda *names: names)
    assert started(tmp_path / "none")["kind"] == "pytorch"


def test_what_is_missing_is_told_with_the_command_that_installs_it(monkeypatch, tmp_path):
    monkeypatch.setattr(starters, "missing", lambda *names: names)
    result = CliRunner().invoke(main, ["init", str(tmp_path / "first"), "--kind", "ray"])
    assert result.exit_code == 0
    assert "still to be installed, as below: ray, pyarrow" in result.stdout
    *_, folder, install, run = [line.strip() for line in result.stdout.splitlines()]
    assert folder == f"cd {tmp_path}/first"
    assert shlex.split(install)[:4] == [sys.executable, "-m", "pip", "install"]
    assert install.endswith("[ray]'")
    assert run.endswith("python tune.py")


def test_programs_that_the_shell_does_not_find_are_told_by_their_path(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert next_commands(STARTERS["optuna"], tmp_path)[-1] == f"{Path(sys.executable).parent}/python tune.py"
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/bin")
    assert next_commands(STARTERS["optuna"], tmp_path)[-1] == "python tune.py"


def test_data_parallel_training_without_torch_says_so_before_anything_begins(monkeypatch, experiment, tmp_path):
    experiment.write_text(experiment.read_text().replace('launcher = "process"', 'launcher = "ddp"'))
    monkeypatch.setattr("rb_plugins.builtins.find_spec", lambda name: None)
    refused = CliRunner().invoke(main, ["run", str(experiment)])
    assert refused.exit_code == 2
    assert "'ddp' needs torch: pip install 'rubberband-tune[torch]'" in refused.stderr
    assert not list((tmp_path / "home" / "runs").glob("*"))
    assert "needs torch" in CliRunner().invoke(main, ["check", str(experiment)]).stdout
