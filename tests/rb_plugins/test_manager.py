from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from types import SimpleNamespace

import pytest

from rb_core.errors import PluginConflict
from rb_plugins import hookimpl, manager
from rb_plugins.manager import make_manager


def plugin(**functions: object) -> SimpleNamespace:
    return SimpleNamespace(**{name: hookimpl(function) for name, function in functions.items()})


def make(*plugins: object):
    return make_manager(autoload=False, plugins=plugins)


def test_two_managers_share_nothing():
    one = make(plugin(rubberband_register_planners=lambda: {"mine": object}))
    assert "mine" in one.planners()
    assert "mine" not in make().planners()


@pytest.mark.parametrize("name", ["greedy", "mine"])
def test_a_name_given_twice_is_an_error_that_names_both_plugins(name):
    first = SimpleNamespace(__name__="first", rubberband_register_planners=hookimpl(lambda: {"mine": object}))
    second = SimpleNamespace(__name__="second", rubberband_register_planners=hookimpl(lambda: {name: object}))
    with pytest.raises(PluginConflict) as caught:
        make(first, second).planners()
    other = "builtins" if name == "greedy" else "first"
    assert f"planner {name!r}" in str(caught.value)
    assert f"plugin {other}" in str(caught.value)
    assert "plugin second" in str(caught.value)
    assert "RB_BLOCK_PLUGINS" in str(caught.value)


def test_a_misspelt_hook_is_an_error():
    with pytest.raises(PluginConflict, match="rubberband_evnt"):
        make(plugin(rubberband_evnt=lambda event: None))


@pytest.mark.parametrize(
    "function",
    [
        lambda: None,
        lambda spec, stage: None,
        lambda spec, stage, scores, more: None,
        lambda spec, stage, score=None: None,
        lambda spec, stage, **rest: None,
    ],
)
def test_a_function_must_take_exactly_the_arguments_of_its_hook(function):
    with pytest.raises(PluginConflict, match=r"rubberband_promote"):
        make(plugin(rubberband_promote=function))


def test_a_method_of_an_object_fits_and_the_order_of_arguments_is_free():
    class Plugin:
        @hookimpl
        def rubberband_promote(self, scores, stage, spec):
            return None

    assert [report.name for report in make(Plugin()).reports()] == ["builtins", "Plugin-0"]


def test_a_wrapper_around_a_hook_that_is_asked_one_by_one_is_refused():
    @hookimpl(wrapper=True)
    def rubberband_event(event):
        return (yield)

    with pytest.raises(PluginConflict, match="takes no wrapper"):
        make(SimpleNamespace(rubberband_event=rubberband_event))


def test_a_plugin_that_is_refused_leaves_nothing_behind():
    ours = make()
    with pytest.raises(PluginConflict):
        ours.register(plugin(rubberband_event=lambda: None, rubberband_evnt=lambda event: None), "odd")
    assert [report.name for report in ours.reports()] == ["builtins"]
    ours.register(plugin(rubberband_event=lambda event: None), "odd")


def test_a_name_or_object_registered_twice_is_an_error():
    twice = plugin(rubberband_event=lambda event: None)
    ours = make()
    ours.register(twice, "a")
    with pytest.raises(PluginConflict, match="plugin b"):
        ours.register(twice, "b")
    with pytest.raises(PluginConflict, match="plugin a"):
        ours.register(plugin(), "a")


@pytest.mark.parametrize("answer", [None, 3, {"x": 3}, {3: object}])
def test_a_registration_that_is_none_is_reported_and_left_out(answer, caplog):
    ours = make(plugin(rubberband_register_planners=lambda: answer))
    assert "greedy" in ours.planners()
    assert "must answer a mapping of names to factories" in caplog.text
    assert "must answer a mapping" in ours.reports()[-1].problem


GOOD = """
from rb_plugins import hookimpl

@hookimpl
def rubberband_register_planners():
    return {"good": object}
"""


@pytest.fixture
def entries(tmp_path, monkeypatch):
    """Make modules importable and entry points of them known; returns a function name -> source."""
    monkeypatch.syspath_prepend(tmp_path)
    known = []

    def add(name, source):
        monkeypatch.delitem(sys.modules, f"rb_test_{name}", raising=False)
        (tmp_path / f"rb_test_{name}.py").write_text(source)
        known.append(EntryPoint(name=name, value=f"rb_test_{name}", group="rubberband"))

    monkeypatch.setattr(manager, "entry_points", lambda group: [e for e in known if e.group == group])
    return add


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("import no_such_module_anywhere", "ModuleNotFoundError"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("def x(:", "SyntaxError"),
        (GOOD.replace("planners", "planer"), "unknown hook"),
        (GOOD.replace("planners()", "planners(x)"), "x"),
    ],
)
def test_a_broken_entry_point_is_reported_and_stops_no_other(entries, source, problem):
    entries("alpha", source)
    entries("zeta", GOOD)
    ours = make_manager()
    assert "good" in ours.planners()
    assert [report.name for report in ours.reports()] == ["builtins", "zeta", "alpha"]
    assert problem in ours.reports()[-1].problem
    assert ours.reports()[-1].hooks == ()


def test_a_blocked_entry_point_is_not_even_imported(entries, monkeypatch):
    entries("alpha", "raise SystemExit('must not be imported')")
    entries("zeta", GOOD)
    monkeypatch.setenv("RB_BLOCK_PLUGINS", "alpha, other")
    reports = make_manager().reports()
    assert [(report.name, report.problem) for report in reports] == [
        ("builtins", ""),
        ("zeta", ""),
        ("alpha", "blocked by RB_BLOCK_PLUGINS"),
    ]


def test_without_autoload_no_entry_point_is_loaded(entries):
    entries("alpha", "raise SystemExit('must not be imported')")
    assert [report.name for report in make().reports()] == ["builtins"]


def test_reports_tell_the_hooks_of_a_plugin():
    assert "rubberband_register_planners" in make().reports()[0].hooks
