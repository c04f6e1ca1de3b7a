from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from engine_world import World, nth, plan, problem

from rb_core import events
from rb_core.bracket import Bracket
from rb_core.clock import ManualClock
from rb_core.engine.resumption import resumption
from rb_core.errors import UnusableLog
from rb_core.plan import StageAllocation
from rb_core.state import fold

WIDE = plan([(2, 1), (2, 2), (2, 4)])


def brackets():
    return {0: Bracket(problem().experiment.chains[0], "max")}


def killed(at):
    world = World()
    world.killed(problem(), WIDE, nth(at))
    return world


@pytest.mark.parametrize("at", [3, 25, 37, 50])
def test_state_and_bracket_stand_where_the_log_ends(at):
    world, made = killed(at), brackets()
    before = resumption(world.history, made, world.clock)
    assert repr(before.state) == repr(fold(world.history))
    assert before.started is world.history[0]
    assert made[0].stage == sum(type(event) is events.StageEnded for event in world.history)


def test_time_goes_on_by_the_clock_that_began():
    world = killed(25)
    last_s = world.history[-1].t_s
    world.clock.inbox().get(world.clock.now() + 33.0)
    world.clock.step(9999.0)
    assert resumption(world.history, brackets(), world.clock).t_s == last_s + 33.0


@pytest.mark.parametrize(("away", "elapsed_s"), [(timedelta(minutes=5), 300.0), (timedelta(minutes=-5), 0.0)])
def test_time_goes_on_by_the_wall_clock_under_another_one(away, elapsed_s):
    world = killed(25)
    last = world.history[-1]
    clock = ManualClock(epoch=datetime.fromisoformat(last.utc) + away)
    assert resumption(world.history, brackets(), clock).t_s == pytest.approx(last.t_s + elapsed_s)


def test_the_clock_of_the_last_resumption_counts():
    world = killed(25)
    clock = ManualClock(start_s=1000.0, epoch=datetime(2001, 1, 1, tzinfo=UTC))
    resumed = events.RunResumed(
        t_s=400.0, utc=clock.utc().isoformat(), problem={}, environment={}, clock=clock.origin, clock_s=1000.0
    )
    clock.inbox().get(1007.0)
    assert resumption([*world.history, resumed], brackets(), clock).t_s == 407.0


def changed(stage, record, chain=0):
    return events.Replanned(
        t_s=300.0,
        utc="",
        chain=chain,
        stage=stage,
        plan=record,
        reason="",
        jct_s=1.0,
        cost_usd=1.0,
        before_jct_s=2.0,
        before_cost_usd=1.0,
    )


def stage(trials, nodes, slots_per_trial, instance_type="a"):
    return {
        "trials": trials,
        "iterations": 10,
        "instance_type": instance_type,
        "nodes": nodes,
        "slots_per_trial": slots_per_trial,
    }


def test_the_plan_is_the_first_one_where_nothing_was_changed():
    world = killed(25)
    assert resumption(world.history, brackets(), world.clock).plan(WIDE) == WIDE


def test_the_plan_is_the_one_that_stood_last():
    world = killed(25)
    history = [
        *world.history,
        changed(1, {"stages": [stage(2, 4, 2, "b"), stage(1, 4, 4)]}),
        changed(2, {"stages": [stage(1, 1, 2)]}),
    ]
    made = resumption(history, brackets(), world.clock).plan(WIDE)
    assert made.chains[0] == (
        WIDE.chains[0][0],
        StageAllocation(instance_type="b", nodes=4, slots_per_trial=2),
        StageAllocation(instance_type="a", nodes=1, slots_per_trial=2),
    )


def test_a_change_may_be_of_chains_that_follow():
    two = plan([(2, 1), (1, 2)], [(2, 1), (1, 2)])
    wanted = problem([[(4, 10), (2, 20)], [(3, 10), (1, 40)]])
    world = World()
    world.killed(wanted, two, nth(25))
    made = {number: Bracket(chain, "max") for number, chain in enumerate(wanted.experiment.chains)}
    rest = {"chains": [{"stages": [stage(2, 2, 2)]}, {"stages": [stage(3, 3, 1), stage(1, 2, 2)]}]}
    before = resumption([*world.history, changed(1, rest)], made, world.clock)
    nodes = [[allocation.nodes for allocation in chain] for chain in before.plan(two).chains]
    assert nodes == [[2, 2], [3, 2]]


@pytest.mark.parametrize(
    "edited",
    [
        events.TrialPaused(t_s=300.0, utc="", trial=99, stage=0, iterations=10),
        events.TrialFailed(t_s=300.0, utc="", trial=99, stage=0, rank=0, cause=""),
        events.NodeRunning(t_s=300.0, utc="", node="r-99", since_s=0.0),
        events.StageEnded(t_s=300.0, utc="", chain=0, stage=0, survivors=(3, 2), stopped=(1, 0)),
        events.StageEnded(t_s=300.0, utc="", chain=7, stage=0, survivors=(3, 2), stopped=(1, 0)),
        events.StageStarted(
            t_s=300.0, utc="", chain=0, stage=2, trials=(3,), instance_type="a", nodes=1, slots_per_trial=1
        ),
    ],
    ids=lambda event: type(event).__name__,
)
def test_what_the_log_never_introduced_is_refused(edited):
    world = killed(25)
    with pytest.raises(UnusableLog, match=r"log of run r speaks of what it never introduced .* was edited"):
        resumption([*world.history, edited], brackets(), world.clock)
