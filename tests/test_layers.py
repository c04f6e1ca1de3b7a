"""Arrows point down only: which module may import which, read from the source."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator

import pytest
from source_tree import PACKAGES, Module, modules, names

LAYERS = (
    # 0, values: frozen dataclasses and their checks
    "errors check spec hardware profile plan events plainjson oneline",
    # 1, logic: from value to value; randomness is passed in
    "bracket rounds placement interruption markets dag billing draws occupancy simulate moments expectation planners "
    "explain standing promise sizing space ernest learning measurement steadiness speeds startups observed resplit "
    "widening condition "
    "training.sharding",
    # 2, ports: what the engine and the user's function see of each other and of the world
    "ports clock trial target training estate inspection",
    # 3, doing: what remembers and decides
    "eventlog logtail lease journal state ledger reckoning budget cluster collecting holdings engine trial_timer "
    "profiler report breakdown shares survey testing",
    # 4, edges: what touches processes, networks and SDKs, and what is simulated in their place
    "launchers providers sim",
)
"""Modules of rb_core by layer, the lowest first; the name of a package stands for all in it."""

LAYER = {f"rb_core.{entry}": layer for layer, entries in enumerate(LAYERS) for entry in entries.split()}

PURE = {
    "__future__", "collections", "dataclasses", "difflib", "enum", "functools", "itertools", "json", "math",
    "statistics", "typing", "numpy", "scipy",
}  # fmt: skip
"""What values and logic may use: nothing that reads a clock, a file, the environment or another process."""

CORE_USES = {"cloudpickle", "numpy", "pydantic", "scipy", "torch", "_typeshed"}
"""What rb_core may use of other distributions (_typeshed is for type checkers); its providers may use SDKs as well."""

MAY_PRINT = {
    "rb_plugins.show",  # the one printer of the command
    "rb_core.launchers.rank",  # into the file that takes a rank's output
    "rb_core.testing.launching_contract",  # its training functions print, to see where that goes
}

CLOCKS = {"time.time", "time.sleep", "datetime.now", "datetime.utcnow", "datetime.today", "date.today"}


def layer(name: str) -> int | None:
    """The layer of a module of rb_core; None when the table does not know it."""
    parts = name.split(".")
    return next((LAYER[head] for n in range(len(parts), 1, -1) if (head := ".".join(parts[:n])) in LAYER), None)


def upward(module: Module) -> Iterator[str]:
    """What a module of rb_core imports from above, and what it imports of rb_core that has no layer."""
    own = layer(module.name)
    for name in module.imports():
        if name.split(".")[0] == "rb_core":
            other = layer(name)
            if own is None or other is None or other > own:
                yield f"{module.name} (layer {own}) imports {name} (layer {other})"


def foreign(module: Module, allowed: Iterable[str]) -> Iterator[str]:
    """What a module imports beside its own package and what is allowed."""
    own = module.name.split(".")[0]
    for name in module.imports():
        if name.split(".")[0] not in {own, *allowed}:
            yield f"{module.name} imports {name}"


def calls(module: Module, wanted: Iterable[str]) -> Iterator[str]:
    """Uses of functions such as ``print`` or ``time.sleep``, also by ``from time import sleep``."""
    found = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Attribute):
            found.add(".".join(ast.unparse(node).split(".")[-2:]))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found.add(node.func.id)
    for name in sorted(found.intersection(wanted)):
        yield f"{module.name} uses {name}"


def private(module: Module) -> Iterator[str]:
    """Names that others keep to themselves and a module uses: imported, or of any object but its own class's."""
    nodes = list(ast.walk(module.tree))
    own = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    own |= {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
    own |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    for node in nodes:
        match node:
            case ast.Import():
                found = [(alias.name, alias.name) for alias in node.names]
            case ast.ImportFrom(level=0):
                found = [(f"{node.module}.{alias.name}",) * 2 for alias in node.names]
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=attr) if attr in own:
                found = []
            case ast.Attribute(attr=attr):
                found = [(ast.unparse(node), attr)]
            case ast.Call(func=ast.Name(id="getattr" | "setattr" | "hasattr"), args=[of, ast.Constant(value=attr), *_]):
                found = [(f"{ast.unparse(of)}.{attr}", attr)]
            case _:
                found = []
        for shown, name in found:
            if shown.split(".")[0] not in PACKAGES and any(re.match("_(?!_)", part) for part in name.split(".")):
                yield f"{module.name} uses {shown}"


def core() -> list[Module]:
    return list(modules("rb_core"))


def test_every_module_of_the_core_has_a_layer_and_every_layer_only_modules():
    # The package itself is the public face, above all layers: nothing within may import it.
    assert [m.name for m in core() if m.name != "rb_core" and layer(m.name) is None] == []
    assert [name for name in LAYER if name not in names()] == []


def test_arrows_in_the_core_point_down():
    assert [arrow for module in core() if module.name != "rb_core" for arrow in upward(module)] == []


def test_values_and_logic_touch_nothing_outside():
    pure = [module for module in core() if layer(module.name) in (0, 1)]
    assert [arrow for module in pure for arrow in foreign(module, PURE)] == []


def test_the_core_knows_neither_plugins_nor_hosts():
    allowed = {*sys.stdlib_module_names, *CORE_USES}
    sdks = {"boto3", "botocore"}
    assert [
        arrow
        for module in core()
        for arrow in foreign(module, allowed | sdks if module.name.startswith("rb_core.providers.") else allowed)
    ] == []


def test_plugins_know_no_adapter_and_no_host():
    hosts = {"rb_optuna", "rb_ray", "optuna", "ray", "torch", "boto3", "botocore"}
    assert [m.name for m in modules("rb_plugins") if any(name.split(".")[0] in hosts for name in m.imports())] == []


def test_pluggy_is_imported_by_the_plugins_package_alone():
    others = modules("rb_core", "rb_optuna", "rb_ray")
    assert [m.name for m in others if "pluggy" in {name.split(".")[0] for name in m.imports()}] == []


@pytest.mark.parametrize(("adapter", "other"), [("rb_optuna", "rb_ray"), ("rb_ray", "rb_optuna")])
def test_adapters_know_nothing_of_each_other_and_of_the_command(adapter, other):
    for module in modules(adapter):
        imported = set(module.imports())
        assert other not in {name.split(".")[0] for name in imported}, module.name
        assert imported & {"rb_plugins.cli", "rb_plugins.show"} == set(), module.name


@pytest.mark.parametrize("adapter", ["rb_optuna", "rb_ray"])
def test_what_a_host_keeps_to_itself_is_used_in_one_module(adapter):
    assert [use for m in modules(adapter) if m.name != f"{adapter}._compat" for use in private(m)] == []


def test_the_wall_clock_is_read_and_slept_on_in_one_module():
    assert [use for m in modules() if m.name != "rb_core.clock" for use in calls(m, CLOCKS)] == []
    (clock,) = [module for module in core() if module.name == "rb_core.clock"]
    assert list(calls(clock, CLOCKS))


def test_one_module_prints():
    assert [use for m in modules() if m.name not in MAY_PRINT for use in calls(m, {"print"})] == []


@pytest.mark.parametrize(
    ("name", "source", "arrow"),
    [
        ("rb_core.spec", "from rb_core.engine import Engine", "rb_core.engine (layer 3)"),
        ("rb_core.spec", "def f():\n    from rb_core import engine", "rb_core.engine (layer 3)"),
        ("rb_core.spec", "if TYPE_CHECKING:\n    from .engine import Engine", "rb_core.engine (layer 3)"),
        ("rb_core.planners.new", "from ..launchers import ddp", "rb_core.launchers.ddp (layer 4)"),
        ("rb_core.engine", "from rb_core import Engine", "rb_core (layer None)"),
        ("rb_core.engine", "import rb_core.unheard_of", "rb_core.unheard_of (layer None)"),
    ],
)
def test_an_arrow_that_points_up_is_seen(name, source, arrow):
    assert [found.partition(" imports ")[2] for found in upward(Module(name, source))] == [arrow]


@pytest.mark.parametrize(
    ("source", "use"),
    [
        ("import time\ntime.sleep(1)", "time.sleep"),
        ("from time import time", "time.time"),
        ("import datetime\ndatetime.datetime.now()", "datetime.now"),
        ("def f():\n    print()", "print"),
    ],
)
def test_a_call_that_is_not_allowed_is_seen(source, use):
    assert list(calls(Module("rb_core.new", source), {*CLOCKS, "print"})) == [f"rb_core.new uses {use}"]


def test_an_import_from_outside_is_seen():
    assert list(foreign(Module("rb_core.bill", "import os.path"), PURE)) == ["rb_core.bill imports os.path"]


@pytest.mark.parametrize(
    ("source", "uses"),
    [
        ("def f(study):\n    study._storage.get(trial._id)", ["study._storage", "trial._id"]),
        ("from optuna.storages._heartbeat import beat", ["optuna.storages._heartbeat.beat"]),
        ("from optuna.progress_bar import _Bar", ["optuna.progress_bar._Bar"]),
        ("import optuna._gp", ["optuna._gp"]),
        ("getattr(study, '_stop_flag', False)", ["study._stop_flag"]),
        ("class Ours(Study):\n    def f(self):\n        self._log(self.x)", ["self._log"]),
        ("class Ours:\n    def __init__(self):\n        self._x = 1\n    def f(self):\n        self._x.__str__()", []),
        ("from rb_optuna import _compat\nfrom __future__ import annotations\n_compat.stop(study)", []),
    ],
)
def test_a_name_that_others_keep_to_themselves_is_seen(source, uses):
    assert sorted(private(Module("rb_optuna.new", source))) == sorted(f"rb_optuna.new uses {use}" for use in uses)
