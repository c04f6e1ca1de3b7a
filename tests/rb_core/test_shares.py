from collections import defaultdict

import pytest
from engine_world import World, nth, plan, problem, worked_training

from rb_core import events
from rb_core.shares import Share, Shares

WIDE = plan([(2, 1), (2, 2), (2, 4)])
USD_PER_SLOT_S = 3.6 / 3600 / 2
ENDS = (events.TrialPaused, events.TrialInterrupted, events.TrialFailed, events.TrialLeft)


def watched(world):
    """The shares of a run in this world."""
    shares = Shares(world.clock)
    world.engine = {"observers": (shares,)}
    return shares


def logged_slot_s(history):
    """What the log says that each trial used, counted from start to end."""
    slot_s, since = defaultdict(float), {}
    for event in history:
        if isinstance(event, events.TrialStarted):
            since[event.trial] = event
        elif isinstance(event, ENDS) and event.trial in since:
            start = since.pop(event.trial)
            slot_s[event.trial] += (event.t_s - start.t_s) * start.slots
    assert not since
    return slot_s


def test_the_worked_example():
    world = World()
    shares = watched(world)
    world.run(problem(), WIDE)
    # 106 s on one slot; 126 s on two; 166 s on four.
    assert shares.of(0) == Share(slot_s=106.0, cost_usd=pytest.approx(106 * USD_PER_SLOT_S), slots=(1,))
    assert shares.of(2) == Share(slot_s=358.0, cost_usd=pytest.approx(358 * USD_PER_SLOT_S), slots=(1, 2))
    assert shares.of(3) == Share(slot_s=1022.0, cost_usd=pytest.approx(1022 * USD_PER_SLOT_S), slots=(1, 2, 4))


@pytest.mark.parametrize(
    "training",
    [
        worked_training(failure=lambda run: f"E{run.trial}" if (run.trial, run.stage) in {(2, 0), (1, 1)} else ""),
        worked_training(every_iteration=True, save_every=3),
    ],
)
def test_every_start_counts_also_those_that_failed_or_were_cut_short(training):
    world = World(training=training)
    shares = watched(world)
    world.clock.call_at(150.0, lambda: world.provider.lose("r-0"))
    world.run(problem(), WIDE)
    used = logged_slot_s(world.history)
    assert {trial: shares.of(trial).slot_s for trial in range(4)} == pytest.approx(used)
    starts = [event for event in world.history if isinstance(event, events.TrialStarted)]
    assert {n: shares.of(n).slots for n in range(4)} == {
        n: tuple(event.slots for event in starts if event.trial == n) for n in range(4)
    }
    assert [event for event in world.history if isinstance(event, events.TrialInterrupted)]


def test_a_start_that_is_under_way_counts_until_now():
    world = World()
    shares, seen = watched(world), []
    for at_s in (89.0, 100.0, 195.0, 210.0):
        world.clock.call_at(at_s, lambda: seen.append(shares.of(3).slot_s))
    world.run(problem(), WIDE)
    assert seen == [0.0, 10.0, 105.0, 106.0 + 2 * 10.0]


def test_a_node_of_another_price_costs_its_own():
    world = World()
    shares = watched(world)
    world.run(problem(), plan([(2, 1), (1, 2), (1, 2)], kinds="bab"))
    (first, second, third) = [event for event in world.history if _starts(event, 3)]
    ends = [event.t_s for event in world.history if isinstance(event, events.TrialPaused) and event.trial == 3]
    spans = [end - start.t_s for start, end in zip((first, second, third), ends, strict=True)]
    usd = sum(span * n * price for span, n, price in zip(spans, (1, 2, 2), (2, 1, 2), strict=True)) * USD_PER_SLOT_S
    assert shares.of(3).cost_usd == pytest.approx(usd)


def _starts(event, trial):
    return isinstance(event, events.TrialStarted) and event.trial == trial


def test_who_never_began_has_used_nothing():
    assert Shares(World().clock).of(7) == Share(slot_s=0.0, cost_usd=0.0, slots=())


@pytest.mark.parametrize("at", [20, 30, 45])
def test_a_resumed_run_counts_on_from_its_log(at):
    world = World()
    world.killed(problem(), WIDE, nth(at))
    world.pass_away(40.0)
    shares = Shares(world.clock)
    for event in world.history:
        shares(event)
    world.engine = {"observers": (shares,)}
    world.resume(problem(), WIDE)
    used = logged_slot_s(world.history)
    assert {trial: shares.of(trial).slot_s for trial in range(4)} == pytest.approx(used)
    assert shares.of(3).cost_usd == pytest.approx(used[3] * USD_PER_SLOT_S)
