"""One test for each hook, and the tests that say so."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from rb_core.clock import ManualClock
from rb_core.errors import InvalidInput, PlanVeto, PluginConflict
from rb_core.eventlog import MemoryLog
from rb_core.events import RunEnded, RunEnding, Warned
from rb_core.hardware import InstanceType, Latency, PriceBook
from rb_core.journal import Journal
from rb_core.plan import AllocationPlan
from rb_core.profile import ScalingProfile
from rb_core.simulate import Estimate
from rb_core.spec import ExperimentSpec
from rb_plugins import hookimpl, hookspecs
from rb_plugins.manager import Manager, make_manager
from rb_plugins.storing import depot_at

DOCS = Path(__file__).parents[2] / "docs" / "hooks.md"
HOOKS = sorted(name for name in vars(hookspecs) if name.startswith("rubberband_"))
SPEC = ExperimentSpec.from_stages([(4, 1), (2, 1), (1, 1)])
INSTANCE = InstanceType(name="quad", slots=4, usd_per_hour=2.0)
PLAN = AllocationPlan(chains=((),))
ESTIMATE = Estimate(jct_s=np.array([1.0]), cost_usd=np.array([2.0]), stages=())


def plugin(**functions: object) -> SimpleNamespace:
    return SimpleNamespace(**{name: hookimpl(function) for name, function in functions.items()})


def manager(*plugins: object) -> Manager:
    return make_manager(autoload=False, plugins=plugins)


@pytest.mark.parametrize("hook", HOOKS)
def test_every_hook_has_a_test(hook):
    assert f"test_hook_{hook.removeprefix('rubberband_')}" in globals()


@pytest.mark.parametrize("hook", HOOKS)
def test_every_hook_is_documented_with_its_arguments_moment_and_example(hook):
    arguments = ", ".join(inspect.signature(getattr(hookspecs, hook)).parameters)
    sections = re.split(r"^## ", DOCS.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    section = next((text for text in sections if text.startswith(f"{hook}({arguments})\n")), "")
    for part in ("**Arguments.**", "**When it is called.**", "**Example.**", f"def {hook}({arguments})"):
        assert part in section


def test_the_documentation_speaks_of_no_other_hook():
    headings = re.findall(r"^## (\w+)\(", DOCS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert sorted(headings) == HOOKS


def test_hook_register_providers():
    ours = manager(plugin(rubberband_register_providers=lambda: {"moon": lambda **_: "a provider"}))
    assert set(ours.providers()) == {"local", "ec2", "moon"}
    assert ours.providers().choose("moon", key="cloud.provider")(cloud=None, clock=None, inbox=None) == "a provider"
    assert ours.providers().plugin("local") == "builtins"


def test_hook_register_launchers():
    ours = manager(plugin(rubberband_register_launchers=lambda: {"srun": lambda **_: "a launcher"}))
    assert set(ours.launchers()) == {"process", "ddp", "srun"}


def test_hook_register_depots():
    ours = manager(plugin(rubberband_register_depots=lambda: {"moon": lambda uri: f"what keeps {uri}"}))
    assert depot_at("moon://crater/x", ours.depots()) == "what keeps moon://crater/x"
    with pytest.raises(InvalidInput, match=r"run\.storage: must be .* that a plugin knows \(moon://\), got 's3://x'"):
        depot_at("s3://x", ours.depots())
    with pytest.raises(InvalidInput, match=r"\(none; s3:// comes with rubberband-tune\[ray\]\)"):
        depot_at("s3://x", manager().depots())


def test_hook_register_estates():
    ours = manager(plugin(rubberband_register_estates=lambda: {"moon": lambda: "an estate"}))
    assert set(ours.estates()) == {"ec2", "moon"}
    assert ours.estates().choose("moon", key="--provider")() == "an estate"
    with pytest.raises(InvalidInput, match=r"^--provider: must be the name of a provider with an estate \(ec2, moon\)"):
        ours.estates().choose("local", key="--provider")


def test_hook_register_planners():
    class Mine:
        name = "mine"

    ours = manager(plugin(rubberband_register_planners=lambda: {"mine": Mine}))
    assert {"static", "static-1", "naive", "greedy", "mine"} <= set(ours.planners())
    assert ours.planners().choose("mine", key="planner")().name == "mine"
    with pytest.raises(InvalidInput, match=r"^planner: must be the name of a planner \(.*greedy.*\), got 'best'"):
        ours.planners().choose("best", key="planner")


def test_hook_register_price_books():
    book = PriceBook(name="mine", dated="2026-01-01", source="me", offerings=())
    ours = manager(plugin(rubberband_register_price_books=lambda: {"mine": lambda **_: book}))
    assert ours.price_books()["mine"]() is book
    assert ours.price_books()["ec2"]().name == "ec2"


def test_hook_profile():
    known = ScalingProfile(iteration_s={1: Latency(mean=1.0)})
    other = ScalingProfile(iteration_s={1: Latency(mean=2.0)})

    def for_quad(spec, instance):
        return known if instance.name == "quad" else None

    assert manager().profile(SPEC, INSTANCE) is None
    first = plugin(rubberband_profile=lambda spec, instance: other)
    assert manager(first, plugin(rubberband_profile=for_quad)).profile(SPEC, INSTANCE) is known
    elsewhere = InstanceType(name="x", slots=1, usd_per_hour=0.0)
    assert manager(first, plugin(rubberband_profile=for_quad)).profile(SPEC, elsewhere) is other


@pytest.mark.parametrize("answer", [3, {"iteration_s": {1: 1.0}}, []])
def test_a_profile_of_the_wrong_type_is_an_error(answer):
    ours = manager(plugin(rubberband_profile=lambda spec, instance: answer))
    with pytest.raises(PluginConflict, match="must answer a ScalingProfile or None"):
        ours.profile(SPEC, INSTANCE)


def test_hook_promote():
    ours = manager(plugin(rubberband_promote=lambda spec, stage, scores: sorted(scores)[: 2 - stage]))
    assert manager().promote(SPEC, 0, {0: 0.1, 1: 0.9, 2: 0.5, 3: 0.2}) is None
    assert ours.promote(SPEC, 0, {0: 0.1, 1: 0.9, 2: 0.5, 3: 0.2}) == (0, 1)
    assert ours.promote(SPEC, 1, {1: 0.9, 2: 0.5}) == (1,)


@pytest.mark.parametrize("answer", [[], [0], [0, 1, 2], [0, 0], [0, 7], 3, "01"])
def test_a_promotion_of_the_wrong_length_or_kind_is_an_error(answer):
    ours = manager(plugin(rubberband_promote=lambda spec, stage, scores: answer))
    with pytest.raises(PluginConflict, match=r"must answer 2 different trials out of \[0, 1, 2, 3\]"):
        ours.promote(SPEC, 0, {0: 0.1, 1: 0.9, 2: 0.5, 3: 0.2})


def test_a_promotion_may_be_short_where_trials_are_missing():
    ours = manager(plugin(rubberband_promote=lambda spec, stage, scores: list(scores)))
    assert ours.promote(SPEC, 0, {3: 0.1}) == (3,)


def test_a_decision_that_raises_names_hook_and_plugin():
    def broken(spec, stage, scores):
        raise KeyError("x")

    with pytest.raises(PluginConflict, match=r"rubberband_promote raised KeyError.*plugin SimpleNamespace-0"):
        manager(plugin(rubberband_promote=broken)).promote(SPEC, 0, {0: 1.0})


def test_hook_veto():
    agrees = plugin(rubberband_veto=lambda spec, plan, estimate: None)
    refuses = plugin(rubberband_veto=lambda spec, plan, estimate: "too dear" if estimate.cost_usd.max() > 1 else None)
    manager(agrees).veto(SPEC, PLAN, ESTIMATE)
    with pytest.raises(PlanVeto, match="too dear") as caught:
        manager(refuses, agrees).veto(SPEC, PLAN, ESTIMATE)
    assert (caught.value.plugin, caught.value.exit_status) == ("SimpleNamespace-0", 4)


@pytest.mark.parametrize("answer", ["", False, 0])
def test_any_answer_but_none_is_a_veto(answer):
    with pytest.raises(PlanVeto):
        manager(plugin(rubberband_veto=lambda spec, plan, estimate: answer)).veto(SPEC, PLAN, ESTIMATE)


def test_a_veto_that_raises_stops_the_run():
    def broken(spec, plan, estimate):
        raise OSError("no network")

    with pytest.raises(PlanVeto, match="failed on the question: OSError: no network"):
        manager(plugin(rubberband_veto=broken)).veto(SPEC, PLAN, ESTIMATE)


def test_hook_event():
    seen = []

    def broken(event):
        seen.append("broken")
        raise ValueError("boom")

    ours = manager(
        plugin(rubberband_event=lambda event: seen.append("first")),
        plugin(rubberband_event=broken),
        plugin(rubberband_event=lambda event: seen.append("last")),
    )
    log = MemoryLog()
    journal = Journal(log, ManualClock(), ours.observers())
    journal.write(RunEnded, ending=RunEnding.DONE)
    journal.write(RunEnded, ending=RunEnding.DONE)
    # Each is told of both events and of the one warning that tells of the broken observer.
    assert sorted(seen) == ["broken"] * 3 + ["first"] * 3 + ["last"] * 3
    assert [event.text for event in log.events if isinstance(event, Warned)] == [
        "observer rubberband_event of plugin SimpleNamespace-1 raised ValueError: boom; the run goes on"
    ]
    assert "boom" in next(report for report in ours.reports() if report.name == "SimpleNamespace-1").problem
