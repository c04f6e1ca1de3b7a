"""What keeps the repository in order: names, folders, links, commands, and what is shipped."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from source_tree import PACKAGES, ROOT, Module, files, modules

from rb_plugins.cli import main

BANNED = {"scheduler", "executor", "resource", "resources", "worker", "job", "manager", "util", "utils", "helper"}
"""Words that every host uses in a sense of its own; they name nothing in rb_core."""

MARKDOWN = list(files("*.md"))
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"```\w*[^\n]*\n(.*?)```", re.DOTALL)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


def defined(module: Module) -> set[str]:
    """Every name that a module defines: of itself, classes, functions, parameters, attributes and variables."""
    names = {module.name}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.attr)
    return names


def banned(names: set[str]) -> set[str]:
    """Those that hold a banned word, in snake case or camel case."""
    return {name for name in names if BANNED & {w.lower() for w in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)}}


def anchors(markdown: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", markdown), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> list[str]:
    """Links of a page to files and headings that are not there."""
    broken = []
    for link in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        if "://" in link:
            continue
        place, _, anchor = link.partition("#")
        file = page.parent / place if place else page
        if not file.exists() or (anchor and anchor not in anchors(file.read_text(encoding="utf-8"))):
            broken.append(link)
    return broken


@pytest.mark.parametrize("module", list(modules("rb_core")), ids=lambda module: module.name)
def test_no_name_in_the_core_means_something_else_elsewhere(module):
    assert banned(defined(module)) == set()


def test_a_banned_word_is_seen():
    source = "class JobQueue:\n    def go(self, worker_count):\n        self.taskManager = utils = jobless = 1"
    assert banned(defined(Module("rb_core.executor", source))) == {
        "JobQueue", "worker_count", "taskManager", "utils", "rb_core.executor"
    }  # fmt: skip


def test_no_folder_takes_the_name_of_another_project():
    assert not (ROOT / "adapters" / "__init__.py").exists()
    assert {path.name for path in (ROOT / "adapters").iterdir() if path.name != "__pycache__"} == {
        "rb_optuna", "rb_ray"
    }  # fmt: skip
    importable = {file.parent for folder in ROOT.iterdir() for file in folder.glob("__init__.py")}
    assert importable == {PACKAGES["rb_core"], PACKAGES["rb_plugins"]}


def test_tests_and_examples_cannot_be_imported_by_name():
    packages = {shown(p) for p in files("__init__.py") if shown(p).startswith(("tests/", "examples/"))}
    assert packages == {
        "examples/evaluation/curves/__init__.py",
        "examples/evaluation/dollars/__init__.py",
        "examples/evaluation/fidelity/__init__.py",
        "examples/evaluation/headline/__init__.py",
        "examples/evaluation/replanning/__init__.py",
        "examples/evaluation/sampling/__init__.py",
        "examples/evaluation/sensitivity/__init__.py",
        "examples/evaluation/spot/__init__.py",
        "examples/sample_plugin/src/rubberband_sample_plugin/__init__.py",
        "tests/crash_ec2/__init__.py",
        "tests/faulty_ec2/__init__.py",
    }


def test_test_files_differ_in_name():
    names = [file.name for file in files("test_*.py")]
    assert sorted(set(names)) == sorted(names)


def test_what_is_shipped(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    shipped = set(zipfile.ZipFile(wheel).namelist())
    tops = {name.split("/")[0] for name in shipped}
    assert tops == {*PACKAGES, f"rubberband_tune-{PROJECT['version']}.dist-info"}
    assert {f"{package}/py.typed" for package in PACKAGES} <= shipped
    assert "rb_plugins/data/ec2_prices.csv" in shipped


@pytest.mark.parametrize("page", MARKDOWN, ids=shown)
def test_links_lead_somewhere(page):
    assert broken_links(page) == []


def test_a_broken_link_is_seen(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A heading, here\n[a](#a-heading-here) [b](#gone) [c](gone.md) [d](page.md) [e](https://x.y)\n")
    assert broken_links(page) == ["#gone", "gone.md"]


@pytest.mark.parametrize("page", MARKDOWN, ids=shown)
def test_commands_that_are_shown_exist(page):
    text = page.read_text(encoding="utf-8")
    code = "\n".join([*FENCE.findall(text), *re.findall(r"`([^`\n]+)`", FENCE.sub("", text))])
    usage = subprocess.run([ROOT / "dev"], capture_output=True, text=True, check=True).stdout
    known = {f"rb-tune {name}" for name in main.commands} | set(re.findall(r"^\./dev \w+", usage, flags=re.MULTILINE))
    assert set(re.findall(r"(?:rb-tune|\./dev) [a-z]\w*", code)) <= known


def test_no_file_knows_the_machine_it_was_written_on():
    here = (f"{ROOT}/", f"{Path.home()}/", f"{sys.prefix}/")
    found = [
        shown(path)
        for pattern in ("*.py", "*.md", "*.toml", "*.json", "*.csv", "*.txt")
        for path in files(pattern)
        if any(place in path.read_text(encoding="utf-8") for place in here)
    ]
    assert found == []


def test_the_changelog_tells_of_this_version():
    assert f"## {PROJECT['version']}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_every_extra_is_named_in_the_readme():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [extra for extra in PROJECT["optional-dependencies"] if f"[{extra}]" not in readme] == []
