"""A killed process can do nothing more: neither write, nor release, nor let time pass."""

import numpy as np
import pytest
from sim_cases import Falling, case_of

from rb_core.clock import ManualClock
from rb_core.events import NodeRequested, RunResumed, Warned
from rb_core.ports import Notice
from rb_core.sim.driver import DrivenClock, DrivenProvider, Driver, DriverKilled
from rb_core.sim.faults import Faults
from rb_core.sim.simlog import SimLog
from rb_core.sim.world import World


def warned(text: str) -> Warned:
    return Warned(t_s=1.0, utc="2000-01-01T00:00:01+00:00", text=text)


def test_a_dead_process_hears_and_does_nothing():
    driver, clock, done = Driver(), ManualClock(), []
    seen = DrivenClock(clock, driver)
    inbox = seen.inbox()
    seen.call_at(5.0, lambda: done.append("timer"))
    clock.call_at(6.0, lambda: done.append("world"))
    inbox.put(Notice())
    with pytest.raises(DriverKilled):
        driver.kill()
    provider = DrivenProvider(None, driver)
    for call in (
        lambda: inbox.get(10.0), lambda: provider.launch(["n"], None, run="r"), lambda: provider.release(["n"]),
        lambda: provider.owned("r"), lambda: provider.adopt({}, run="r"), lambda: provider.slots("n"),
    ):  # fmt: skip
        with pytest.raises(DriverKilled):
            call()
    assert clock.now() == 0.0
    while clock.advance(100.0):
        pass
    assert done == ["world"]


def test_a_living_process_sees_the_clock_as_it_is():
    driver, clock, done = Driver(), ManualClock(), []
    seen = DrivenClock(clock, driver)
    seen.call_at(5.0, lambda: done.append(seen.now()))
    assert seen.inbox().get(9.0) is None
    assert (done, seen.now(), seen.utc(), seen.origin) == ([5.0], 9.0, clock.utc(), clock.origin)


def test_a_kill_comes_before_its_event_is_written_or_after_or_tears_it():
    found = set()
    for seed in range(30):
        log = SimLog([2], most=100, rng=np.random.default_rng(seed), on_event=lambda event: None)
        log.append(warned("a"))
        with pytest.raises(DriverKilled):
            log.append(warned("b"), warned("c"), warned("d"))
        with pytest.raises(DriverKilled):
            log.append(warned("e"))
        torn = bool(log._torn)
        texts = [event.text for event in log.history()]
        assert texts in (["a", "b"], ["a", "b", "c"])
        found.add((len(texts), torn))
    assert found == {(2, False), (3, False), (2, True)}


def test_a_log_that_goes_on_for_ever_is_full():
    log = SimLog([], most=2, rng=np.random.default_rng(0), on_event=lambda event: None)
    log.append(warned("a"))
    with pytest.raises(Exception, match="the log is full"):
        log.append(warned("b"), warned("c"))
    assert log.full
    assert len(log.events) == 1


def killed(seed: int):
    problem, plan = case_of("exact_00")
    world = World(problem, plan, seed=seed, faults=Faults(driver_kill_per_run=2.0), curves=Falling())
    return world.run()


def test_nodes_stay_and_trials_vanish_while_nobody_is_there():
    for seed in range(40):
        evidence = killed(seed)
        resumed = [event for event in evidence.events if isinstance(event, RunResumed)]
        assert len(resumed) <= len(evidence.killed_s)
        for died_s, event in zip(evidence.killed_s, resumed, strict=False):
            assert event.clock_s > died_s
        for start in evidence.starts:
            for died_s in evidence.killed_s:
                assert not start.began_s < died_s < start.ended_s


def test_kills_come_about_as_often_as_asked_for():
    kills = [len(killed(seed).killed_s) for seed in range(100)]
    assert 1.4 < float(np.mean(kills)) < 2.4


def test_a_kill_between_intent_and_request_leaves_a_node_that_never_was():
    intents = set()
    for seed in range(60):
        evidence = killed(seed)
        names = {event.node for event in evidence.events if isinstance(event, NodeRequested)}
        intents |= names - set(evidence.nodes)
    assert intents
