"""Random small problems under random faults: the engine keeps every invariant in all of them."""

import dataclasses

import pytest

from rb_core.events import RunEnding
from rb_core.sim.invariants import BrokenInvariant
from rb_core.sim.trouble import trouble

RUNS = range(1000)
MORE = range(1000, 2000)
"""Left to the long tests."""

BATCH = 100

REPLANNED = range(2000, 2040)
"""Runs in which the rest may be planned anew as well, which takes many times as long."""


@pytest.mark.parametrize(
    "first", [*RUNS[::BATCH], *(pytest.param(first, marks=pytest.mark.long) for first in MORE[::BATCH])]
)
def test_every_invariant_is_kept(first):
    broken = []
    for number in range(first, first + BATCH):
        try:
            trouble(number).rehearse()
        except BrokenInvariant as error:
            broken.append(f"{error}\n  again: ./dev rehearse --first {number} --runs 1")
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize("first", REPLANNED[::10])
def test_every_invariant_is_kept_where_the_rest_is_planned_anew(first):
    broken, changes = [], 0
    for number in range(first, first + 10):
        try:
            changes += len(trouble(number, replan=True).rehearse().state.replans)
        except BrokenInvariant as error:
            broken.append(f"{error}\n  again: ./dev rehearse --first {number} --runs 1 --replan")
    assert not broken, "\n".join(broken)
    assert changes


def test_the_cases_meet_everything():
    cases = [trouble(number) for number in range(200)]
    for field in dataclasses.fields(cases[0].faults):
        if field.name == "spot":
            continue
        assert len({getattr(case.faults, field.name) for case in cases}) > 1, field.name
    assert {case.plan.order for case in cases} == set(type(cases[0].plan.order))
    assert {len(case.problem.experiment.chains) for case in cases} == {1, 2, 3}
    for key in ("mode", "on_deadline", "retries"):
        assert len({case.options[key] for case in cases}) > 1, key


def test_the_runs_end_in_every_way_and_are_killed():
    runs = [trouble(number).rehearse() for number in range(60)]
    assert {run.state.ending for run in runs} >= {RunEnding.DONE, RunEnding.FAILED}
    assert sum(run.kills for run in runs) > 10


def test_a_case_is_the_same_each_time():
    assert trouble(7) == trouble(7)
    assert trouble(7).rehearse() == trouble(7).rehearse()
    assert trouble(7) != trouble(8)
