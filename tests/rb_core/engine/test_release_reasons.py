"""Why nodes are given back, in words that fit what comes next."""

from __future__ import annotations

from dataclasses import replace

from engine_world import World, plan, problem

from rb_core import events
from rb_core.cluster import NOT_NEXT
from rb_core.plan import Objective, Policies

NO_NEXT = "idle, and nothing is left to run on it"


def reasons(world):
    return [event.reason for event in world.history if type(event) is events.NodeReleased]


def releasing(chains):
    return replace(problem(chains, max_nodes=2), policies=Policies(early_release=True))


def test_what_falls_idle_in_the_last_stage_is_not_said_to_wait_for_a_next_one():
    world = World()
    world.run(releasing([[(3, 10)]]), plan([(2, 1)]))
    assert reasons(world) == [NO_NEXT, NO_NEXT]


def test_what_falls_idle_before_another_stage_is_not_needed_for_that():
    world = World()
    world.run(releasing([[(3, 10), (1, 5)]]), plan([(2, 1), (1, 1)]))
    assert reasons(world) == [f"idle, and {NOT_NEXT}", NO_NEXT]


def test_what_goes_for_a_new_plan_within_a_stage_is_said_to():
    world = World()
    slow = replace(problem([[(2, 40)]]), objective=Objective(deadline_s=300.0))
    world.run(slow, plan([(1, 1)], kinds="b"), replan=True)
    assert any(type(event) is events.Replanned for event in world.history)
    assert NOT_NEXT not in reasons(world)
