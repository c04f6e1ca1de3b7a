"""What users install: the wheel that is built from the sdist, in an environment of its own."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
from source_tree import PACKAGES, ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

TYPED = """
from typing import assert_type

from rb_core import Billing, Cloud, ExperimentSpec, InstanceType, Objective, Trial
from rb_core.events import Event
from rb_plugins import Session, hookimpl
from rb_plugins.tuning import Measuring


def train(config: dict[str, float], trial: Trial) -> None:
    for iteration in trial.iterations():
        assert_type(iteration, int)
        trial.report(config["x"])


@hookimpl
def rubberband_event(event: Event) -> None:
    print(event)


cloud = Cloud(instance_types=(InstanceType(name="a", slots=1, usd_per_hour=1.0),), billing=Billing(minimum_s=0))
spec = ExperimentSpec.successive_halving(n=4, r=1, R=4, eta=2)
outcome = Session().tune(
    train, space={"x": [1, 2]}, experiment=spec, cloud=cloud, objective=Objective(deadline_s=60.0), profile=Measuring()
)
assert_type(outcome.bill.cost_usd, float)
if outcome.best is not None:
    assert_type(outcome.best.score, float)
"""

MISTAKEN = """
from rb_core import ExperimentSpec, Objektive
from rb_plugins import Sesion

ExperimentSpec.successive_halving(n="four", r=1, R=4, eta=2)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> tuple[Path, Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / ".ci")
        from release import build
    return build(ROOT, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def environment(built, tmp_path_factory) -> Path:
    """A new environment with the wheel, which finds what the wheel needs where these tests have it."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(folder / "bin" / "python")]
    subprocess.run([*pip, "install", "--quiet", "--no-index", "--no-deps", built[1]], check=True)
    (site / "needed.pth").write_text(sysconfig.get_path("purelib"))
    return folder


def told(environment: Path, *command: str | Path, folder: Path) -> str:
    """What a program of the environment prints, in a folder from which no source can be imported."""
    program, *arguments = command
    done = subprocess.run([environment / "bin" / program, *arguments], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_holds_every_file_of_the_packages_and_nothing_else(built):
    names = zipfile.ZipFile(built[1]).namelist()
    ours = {
        (Path(package) / file.relative_to(folder)).as_posix()
        for package, folder in PACKAGES.items()
        for file in folder.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert {name for name in names if ".dist-info/" not in name} == ours
    assert {f"{package}/py.typed" for package in PACKAGES} <= ours


def test_the_sdist_can_be_developed_and_tested_from(built):
    with tarfile.open(built[0]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    wanted = {"README.md", "LICENSE", "CHANGELOG.md", "constraints.txt", "dev", ".ci/run", "tests/conftest.py"}
    assert wanted | {"docs/files.md", "examples/digits/digits.toml"} <= names


def test_the_version_stands_in_one_place(built, environment, tmp_path):
    version = PROJECT["version"]
    assert f"-{version}-" in built[1].name
    assert version in told(environment, "rb-tune", "--version", folder=tmp_path)
    written = re.compile(rf"(?<![\d.]){re.escape(version)}(?![\d.])")
    twice = [f for p in PACKAGES.values() for f in p.rglob("*.py") if written.search(f.read_text(encoding="utf-8"))]
    assert twice == []


def test_the_changelog_begins_with_this_version():
    (newest, *_) = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert newest == PROJECT["version"]


def test_what_is_installed_plans(environment, tmp_path):
    problem = ROOT / "examples" / "problems" / "ec2.toml"
    assert '"planner": "exact"' in told(environment, "rb-tune", "plan", problem, "--json", folder=tmp_path)
    where = told(environment, "python", "-c", "import rb_ray; print(rb_ray.__file__)", folder=tmp_path)
    assert Path(where.strip()).is_relative_to(environment)


def test_every_extra_is_tried_before_a_release(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / ".ci")
    from release import TRIALS

    assert set(TRIALS) - {"core"} == set(PROJECT["optional-dependencies"]) - {"dev"}


def test_types_reach_users(environment, tmp_path):
    (tmp_path / "typed.py").write_text(TYPED)
    (tmp_path / "mistaken.py").write_text(MISTAKEN)
    command = ["--strict", "--python-executable", environment / "bin" / "python", "typed.py", "mistaken.py"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    said = re.findall(r"^(\w+)\.py:(\d+): error: .*\[(.*)\]$", done.stdout, re.MULTILINE)
    assert said == [
        ("mistaken", "2", "attr-defined"),
        ("mistaken", "3", "attr-defined"),
        ("mistaken", "5", "arg-type"),
    ], done.stdout
