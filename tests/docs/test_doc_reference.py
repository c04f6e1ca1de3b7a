"""The site builds without a warning, and its reference has every public name once."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
from collections import Counter
from types import ModuleType

import pytest
from source_tree import ROOT

FACES = ("rb_core", "rb_core.engine", "rb_core.testing", "rb_plugins", "rb_optuna", "rb_ray")
"""Packages whose `__all__` is public."""

WHOLE = (
    "rb_core.errors", "rb_core.events", "rb_core.hardware", "rb_core.inspection", "rb_core.estate", "rb_core.plan",
    "rb_core.ports", "rb_core.profile", "rb_core.sim.faults", "rb_core.spec", "rb_plugins.factories",
    "rb_plugins.hookspecs",
)  # fmt: skip
"""Modules of which all classes and functions are public, for whoever writes a plugin."""

DIRECTIVE = re.compile(r"^\.\. auto(?:class|exception|function|data):: (\S+)$", re.MULTILINE)


def documented() -> list[str]:
    """The names that the reference describes, as it gives them."""
    return [name for page in ROOT.glob("docs/reference/*.rst") for name in DIRECTIVE.findall(page.read_text("utf-8"))]


def found(name: str) -> object:
    """What a dotted name stands for."""
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def defined(module: ModuleType) -> list[str]:
    """The public classes and functions of a module's own."""
    return [
        f"{module.__name__}.{name}"
        for name, value in vars(module).items()
        if (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == module.__name__
        and not name.startswith("_")
    ]


def public() -> list[str]:
    """Every public name."""
    faces = [f"{package}.{name}" for package in FACES for name in importlib.import_module(package).__all__]
    return [*faces, *(name for module in WHOLE for name in defined(importlib.import_module(module)))]


def test_every_public_name_is_in_the_reference():
    there = {id(found(name)) for name in documented()}
    assert [name for name in public() if id(found(name)) not in there] == []


def test_no_name_is_there_twice():
    times = Counter(id(found(name)) for name in documented())
    assert [name for name in documented() if times[id(found(name))] > 1] == []


def test_a_name_of_the_first_level_is_given_by_it():
    top = {
        id(found(f"{package}.{name}")): package
        for package in reversed(FACES)
        for name in importlib.import_module(package).__all__
    }
    assert [name for name in documented() if top.get(id(found(name)), name.rpartition(".")[0]) not in name] == []


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built as `./dev docs` does."""
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "-c", "docs", "."]
    done = subprocess.run([*command, out], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out


def test_every_page_is_on_the_site(site):
    sources = [
        ROOT / "README.md",
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("docs/reference/*.rst"),
        *ROOT.glob("examples/*/*.md"),
    ]
    pages = [page.relative_to(ROOT).with_suffix(".html") for page in sources]
    assert len(pages) > 30
    assert [str(page) for page in pages if not (site / page).is_file()] == []


def test_the_site_asks_the_network_for_nothing(site):
    loaded = re.compile(r"<(?:script|img|link|iframe)[^>]*(?:src|href)=\"((?:https?:)?//[^\"]+)")
    asked = {url for page in site.rglob("*.html") for url in loaded.findall(page.read_text("utf-8"))}
    assert asked == set()


def test_docstrings_become_links_and_signatures(site):
    values = (site / "docs/reference/values.html").read_text("utf-8")
    assert 'id="rb_core.ExperimentSpec.successive_halving"' in values
    assert 'href="errors.html#rb_core.InvalidInput"' in values
