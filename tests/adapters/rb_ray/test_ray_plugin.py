"""What the package registers, and what it says where Ray is missing."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import pytest
from rb_ray import plugin

from rb_core.clock import SystemClock
from rb_core.errors import InvalidInput
from rb_core.hardware import Cloud, InstanceType
from rb_core.ports import Gatherer, Launcher, Provider
from rb_core.target import Target
from rb_plugins import make_manager

CLOUD = Cloud(instance_types=(InstanceType(name="box", slots=1, usd_per_hour=1.0),), provider="ray")


def test_it_is_found_as_an_installed_plugin():
    (entry,) = [entry for entry in entry_points(group="rubberband") if entry.name == "ray"]
    assert entry.load() is plugin


def test_names_are_registered_and_cost_nothing_until_they_are_chosen():
    source = "\n".join(
        (
            "import sys",
            "from rb_plugins import make_manager",
            "from rb_ray import plugin",
            "manager = make_manager(autoload=False, plugins=[plugin])",
            "assert 'ray' in manager.launchers() and 'ray' in manager.providers()",
            "assert 'ray' not in sys.modules and 'torch' not in sys.modules",
        )
    )
    subprocess.run([sys.executable, "-c", source], check=True, timeout=60)


def test_launcher_and_provider_are_what_they_say():
    clock = SystemClock()
    manager = make_manager(autoload=False, plugins=[plugin])
    launcher = manager.launchers()["ray"](target=Target.parse("json:dumps"), clock=clock)
    provider = manager.providers()["ray"](cloud=CLOUD, clock=clock, inbox=clock.inbox())
    assert isinstance(launcher, Launcher)
    assert isinstance(launcher, Gatherer)
    assert isinstance(provider, Provider)
    assert launcher.name == provider.name == "ray"


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(plugin, "find_spec", lambda name: None)
    clock = SystemClock()
    manager = make_manager(autoload=False, plugins=[plugin])
    with pytest.raises(InvalidInput, match=r"run\.launcher.*pip install 'rubberband-tune\[ray\]'"):
        manager.launchers()["ray"](target=Target.parse("json:dumps"), clock=clock)
    with pytest.raises(InvalidInput, match=r"cloud\.provider.*pip install 'rubberband-tune\[ray\]'"):
        manager.providers()["ray"](cloud=CLOUD, clock=clock, inbox=clock.inbox())
