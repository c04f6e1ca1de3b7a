"""Optional packages that are there and broken: told as such, with how to mend them, and never as a fault of ours."""

from __future__ import annotations

import sys

import pytest
from click.testing import CliRunner

from rb_core.errors import InvalidInput
from rb_plugins.cli import main
from rb_plugins.importable import Attempt, Attempts, require
from rb_plugins.manager import make_manager
from rb_plugins.picture import Picture

AGAIN = f"{sys.executable} -m pip install --force-reinstall "


@pytest.fixture
def broken(monkeypatch, tmp_path):
    """Make a package broken: a function of its name and of what it does when it is imported."""

    def broken(name: str, does: str = "raise OSError('libgone.so.1: cannot open')") -> None:
        folder = tmp_path / "packages" / name
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(does)
        monkeypatch.syspath_prepend(str(folder.parent))
        for loaded in [each for each in sys.modules if each.partition(".")[0] == name]:
            monkeypatch.delitem(sys.modules, loaded)

    return broken


@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("raise OSError('look here:\\n  libgone.so.1')", "libgone.so.1"),
        ("raise AttributeError('module x has no y')", "AttributeError: module x has no y"),
        ("raise SystemExit('not here')", "SystemExit: not here"),
        ("import what_it_needs", "ModuleNotFoundError: No module named 'what_it_needs'"),
    ],
)
def test_a_broken_package_is_told_with_its_last_line_and_how_to_mend_it(broken, does, said):
    broken("optional_one", does)
    with pytest.raises(InvalidInput) as raised:
        require("optional_one", key="--option", extra="some")
    assert str(raised.value) == (
        "--option: needs optional_one, which is installed but broken, and cannot be imported "
        f"({said}); install it anew: {AGAIN}optional-one"
    )


def test_a_package_that_is_not_there_is_told_as_missing():
    with pytest.raises(InvalidInput, match=r"'x' needs absent_one, which is not installed; pip install '.*\[some\]'"):
        require("absent_one", key="--option", user="'x'", extra="some")


@pytest.mark.parametrize(
    ("package", "arguments", "command"),
    [
        ("prometheus_client", ["status", "--metrics", "m.prom"], "'prometheus-client>=0.20'"),
        ("boto3", ["nodes", "--provider", "ec2"], "'boto3>=1.35'"),
        ("boto3", ["catalog", "aws", "--region", "us-east-1"], "'boto3>=1.35'"),
    ],
)
def test_commands_say_that_it_is_broken(broken, monkeypatch, tmp_path, package, arguments, command):
    monkeypatch.setenv("RB_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    broken(package)
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2
    assert "fault of rb-tune" not in done.stderr
    assert "is installed but broken, and cannot be imported (OSError: libgone.so.1: cannot open)" in done.stderr
    assert done.stderr.rstrip().endswith(AGAIN + command)


def test_pictures_providers_and_launchers_say_it_too(broken, tmp_path):
    manager = make_manager()
    for name in ("matplotlib", "boto3", "ray", "pyarrow"):
        broken(name)
    for package, use in {
        "matplotlib": lambda: Picture(front=[(1.0, 1.0)], marks={}).write(tmp_path / "a.svg"),
        "boto3": lambda: manager.providers()["ec2"](cloud=None, clock=None, inbox=None),
        "ray": lambda: manager.launchers()["ray"](target=None, clock=None),
        "pyarrow": lambda: manager.depots()["s3"](uri="s3://bucket"),
    }.items():
        with pytest.raises(InvalidInput, match=rf"needs {package}, which is installed but broken.*{package}"):
            use()


def test_what_dies_while_it_is_imported_is_broken(broken):
    broken("deadly_one", "import os; os.kill(os.getpid(), 11)")
    broken("quitting_one", "import os; os._exit(3)")
    broken("talking_one", "print('hello')")
    with Attempts(["deadly-one", "quitting-one", "talking-one"], limit_s=300.0) as attempts:
        found = attempts.results()
    assert {name: (attempt.problem, attempt.is_broken) for name, attempt in found.items()} == {
        "deadly-one": ("killed by SIGSEGV", True),
        "quitting-one": ("exit status 3", True),
        "talking-one": ("", False),
    }


def test_what_takes_too_long_is_told_and_ended(broken):
    broken("endless_one", "import time; time.sleep(600)")
    with Attempts(["endless-one"], limit_s=0.2) as attempts:
        assert attempts.results()["endless-one"] == Attempt(problem="not imported within 0.2 s")
        assert attempts.alive
    assert not attempts.alive
