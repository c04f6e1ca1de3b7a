"""`rb-tune doctor` sees what is there, what is missing and what does not work, and contacts nobody."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from rb_plugins import health, importable, installed
from rb_plugins.cli import main
from rb_plugins.credentials import found_credentials
from rb_plugins.installed import Extra, Package, extras, install_command

PACKAGES = ("torch", "greenlet", "optuna", "pyarrow", "ray", "boto3", "matplotlib", "prometheus-client")


@pytest.fixture(autouse=True)
def _only_light_imports(monkeypatch):
    """What extras bring takes seconds to import; one test has all of it imported, and the others something light."""
    monkeypatch.setattr(importable, "MODULES", dict.fromkeys(PACKAGES, "json"))


def doctor(*, status: int = 0) -> dict:
    result = CliRunner().invoke(main, ["doctor", "--json"])
    assert result.exit_code == status, result.stderr
    return json.loads(result.stdout)


def said(answer: dict, subject: str) -> dict:
    (finding,) = [finding for finding in answer["findings"] if finding["subject"] == subject]
    return finding


def test_a_sound_setup_works():
    answer = doctor()
    assert answer["works"]
    assert {finding["verdict"] for finding in answer["findings"]} <= {"ok", "warning"}
    assert {extra["extra"] for extra in answer["extras"]} == {"torch", "optuna", "ray", "aws", "report"}
    assert all(extra["gives"] for extra in answer["extras"])
    (torch,) = [extra for extra in answer["extras"] if extra["extra"] == "torch"]
    assert torch["state"] == "installed"
    assert torch["packages"][0]["lowest"] == "2.6"


def test_all_that_is_installed_can_be_imported(monkeypatch):
    monkeypatch.undo()
    answer = doctor()
    assert {extra["state"] for extra in answer["extras"]} == {"installed"}
    assert [package for extra in answer["extras"] for package in extra["packages"] if package["problem"]] == []
    assert {extra["install"] for extra in answer["extras"]} == {None}


def test_a_package_that_cannot_be_imported_is_broken_and_told_how_to_mend(monkeypatch, tmp_path):
    (tmp_path / "broken_one.py").write_text("raise ImportError('look here:\\n  libgone.so.1: cannot open')")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(importable.MODULES, "prometheus-client", "broken_one")
    (report,) = [extra for extra in doctor()["extras"] if extra["extra"] == "report"]
    assert report["state"] == "broken"
    assert [package["problem"] for package in report["packages"]] == [
        None, "cannot be imported: libgone.so.1: cannot open"
    ]  # fmt: skip
    assert report["install"].endswith("-m pip install --force-reinstall 'prometheus-client>=0.20'")
    lines = CliRunner().invoke(main, ["doctor"]).stdout.splitlines()
    row = next(number for number, line in enumerate(lines) if "[report]" in line)
    assert lines[row].startswith("broken ")
    assert [line.strip() for line in lines[row + 1 : row + 3]] == [
        "prometheus-client cannot be imported: libgone.so.1: cannot open", f"-> {report['install']}"
    ]  # fmt: skip


@pytest.mark.parametrize("gpu", [True, False])
def test_torch_is_fetched_for_what_the_machine_has(monkeypatch, gpu):
    monkeypatch.setattr(installed, "may_have_gpu", lambda: gpu)
    real = installed._version
    monkeypatch.setattr(installed, "_version", lambda name: "" if name == "torch" else real(name))
    (torch,) = [extra for extra in doctor()["extras"] if extra["extra"] == "torch"]
    for_cpus = "'torch>=2.6' --index-url https://download.pytorch.org/whl/cpu"
    assert torch["install"].endswith("[torch]'" if gpu else for_cpus)
    again = installed.reinstall_command("torch", "ray")
    assert (for_cpus in again) is not gpu
    assert again.endswith("--force-reinstall 'torch>=2.6' 'ray[tune]>=2.52'" if gpu else "reinstall 'ray[tune]>=2.52'")


def test_nothing_slow_is_imported_and_nobody_contacted():
    program = """
import socket, sys
def refused(*arguments):
    raise AssertionError(arguments)
socket.socket.connect = socket.getaddrinfo = refused
from rb_plugins.cli import main
main(["doctor"], standalone_mode=False)
heavy = {"torch", "ray", "optuna", "boto3", "matplotlib", "sklearn"} & set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Extras" in done.stdout


def test_what_is_missing_is_told_with_what_it_gives_and_how_to_install_it(monkeypatch):
    real = installed._version
    monkeypatch.setattr(installed, "_version", lambda name: "" if name == "optuna" else real(name))
    text = CliRunner().invoke(main, ["doctor"]).stdout
    row = text.splitlines().index(next(line for line in text.splitlines() if "[optuna]" in line))
    assert text.splitlines()[row].startswith("missing")
    assert "optuna, not installed" in text.splitlines()[row]
    assert text.splitlines()[row + 1].strip() == f"-> {install_command('[optuna]')}"


def test_a_needed_package_that_is_too_old_is_a_problem(monkeypatch):
    real = installed._version
    monkeypatch.setattr(installed, "_version", lambda name: "1.9" if name == "pydantic" else real(name))
    result = CliRunner().invoke(main, ["doctor"])
    assert result.exit_code == 1
    assert "needed packages: pydantic 1.9, below 2.12" in result.stderr
    assert "pip install 'pydantic>=2.12'" in result.stderr.splitlines()[-1]


def test_a_home_that_cannot_be_is_a_problem(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RB_HOME", str(tmp_path / "file"))
    finding = said(doctor(status=1), "run directory")
    assert finding["verdict"] == "problem"
    assert "is not a directory" in finding["said"]
    assert "RB_HOME" in finding["remedy"]


def test_processes_that_cannot_be_started_are_a_problem(monkeypatch, tmp_path):
    broken = tmp_path / "broken-python"
    broken.write_text("#!/bin/sh\necho no python here >&2\nexit 3\n")
    broken.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(broken))
    finding = said(doctor(status=1), "training processes")
    assert "no python here" in finding["said"]


def test_a_broken_plugin_is_a_warning_that_names_it(monkeypatch, tmp_path):
    info = tmp_path / "broken_plugin-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-plugin\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[rubberband]\nbroken = nowhere_to_be_found\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    answer = doctor()
    (finding,) = [f for f in answer["findings"] if f["subject"] == "plugins" and f["verdict"] == "warning"]
    assert finding["said"].startswith("broken: ")
    assert "RB_BLOCK_PLUGINS=broken" in finding["remedy"]


@pytest.mark.parametrize(
    ("found", "lowest", "fit"),
    [("2.13.0+cpu", "2.6", True), ("2.6", "2.6.0", True), ("2.5.9", "2.6", False), ("", "", False), ("1", "", True)],
)
def test_versions_are_compared_as_numbers(found, lowest, fit):
    assert Package(name="x", lowest=lowest, found=found).is_fit is fit


def test_the_extras_are_those_of_the_package():
    known = extras()
    assert {package.name for package in known["ray"].packages} == {"pyarrow", "ray"}
    assert "numpy" in {package.name for package in known[""].packages}
    assert Extra(name="x", packages=(Package(name="y"),)).is_fit is False


def test_what_torch_was_built_for_is_read_and_not_imported(monkeypatch, tmp_path):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise RuntimeError('imported')")
    version = tmp_path / "torch" / "version.py"
    monkeypatch.setattr(health, "find_spec", lambda name: type("Spec", (), {"origin": str(version)}))
    version.write_text("from typing import Optional\ncuda: Optional[str] = '12.8'\nhip = None\n")
    assert health.torch_cuda() == "12.8"
    version.write_text("cuda: Optional[str] = None\n")
    assert health.torch_cuda() == ""


def test_credentials_are_found_where_aws_takes_them_from(tmp_path):
    home = {"HOME": str(tmp_path)}
    assert found_credentials(home) == ""
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "hidden"}
    assert found_credentials({**home, **keys}) == "in the environment (AWS_ACCESS_KEY_ID)"
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").write_text("[profile work]\nsso_session = us\n")
    assert found_credentials({**home, "AWS_PROFILE": "work"}) == f"in {tmp_path}/.aws/config, profile work"
    assert found_credentials({**home, "AWS_PROFILE": "play"}) == ""
    (tmp_path / ".aws" / "credentials").write_text("[default]\naws_access_key_id = a\naws_secret_access_key = hidden\n")
    assert found_credentials(home) == f"in {tmp_path}/.aws/credentials, profile default"
    (tmp_path / ".aws" / "credentials").write_text("no section")
    assert found_credentials(home) == ""


def test_it_says_where_it_stands():
    answer = doctor()
    assert str(Path(health.__file__).parent) in said(answer, "package")["said"]
    assert os.environ["RB_HOME"] in said(answer, "run directory")["said"]
