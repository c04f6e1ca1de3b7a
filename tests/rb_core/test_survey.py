from __future__ import annotations

import itertools

import pytest

from rb_core.clock import ManualClock
from rb_core.errors import BudgetExceeded, InvalidInput, LaunchFailure, LeakedNodes, TrialFailure, UnusableProfile
from rb_core.eventlog import MemoryLog
from rb_core.events import NodeRequested, RunEnded, RunEnding, RunStarted, StageEnded
from rb_core.hardware import Billing, Cloud, InstanceType, Latency
from rb_core.journal import Journal
from rb_core.profiler import profile
from rb_core.state import fold
from rb_core.survey import Bench, Survey, most_usd
from rb_core.testing.fakes import FakeLauncher, FakeProvider, FakeTraining

A = InstanceType(name="a", slots=2, usd_per_hour=3.6)
B = InstanceType(name="b", slots=2, usd_per_hour=7.2)
CLOUD = Cloud(
    instance_types=(A, B), max_nodes=4, launch_s=Latency(mean=30), init_s=Latency(mean=60), billing=Billing(minimum_s=0)
)
BENCHES = (Bench(instance_type=A, nodes=1, sizes=(1, 2)), Bench(instance_type=B, nodes=1, sizes=(1, 2)))


class World:
    """A fake provider whose nodes of type `b` are twice as fast, and what came of a survey of both."""

    def __init__(self, *, max_usd=None, launch_s=30.0, times=(1.0, 0.5)):
        self.clock = ManualClock()
        inbox = self.clock.inbox()
        self.provider = FakeProvider(self.clock, inbox, launch_s=launch_s, init_s=60.0)
        self.log = MemoryLog()
        self.kept = []
        self.budgets = []
        seconds = dict(zip("ab", times, strict=True))

        def iteration_s(run):
            name = self.provider.books[run.slots[0].node].instance_type.name
            return seconds[name] / len(run.slots)

        self.launcher = FakeLauncher(self.clock, FakeTraining(iteration_s=iteration_s, every_iteration=True))
        self.survey = Survey(
            run="profile-1", target="f", cloud=CLOUD, record={"provider": "fake"}, provider=self.provider,
            journal=Journal(self.log, self.clock), clock=self.clock, inbox=inbox, max_usd=max_usd,
        )  # fmt: skip

    def measure(self, slots, sizes, budget_s):
        self.budgets.append(budget_s)
        return profile(
            self.launcher, self.clock, configs=[{"x": 1}, {"x": 2}], slots=slots, sizes=sizes, budget_s=budget_s
        )  # fmt: skip

    def conduct(self, benches=BENCHES, measure=None, budget_s=300.0):
        return self.survey.conduct(benches, measure or self.measure, budget_s, self.kept.append)

    @property
    def state(self):
        return fold(self.log.events)

    @property
    def ended(self):
        (last,) = self.log.events[-1:]
        assert isinstance(last, RunEnded)
        return last.ending

    def nothing_is_left(self):
        return not self.provider.owned("profile-1") and not self.state.held


def test_the_first_types_profile_and_the_others_speeds_come_of_it():
    world = World()
    measured = world.conduct()
    assert measured.instance_type == "a"
    assert measured.profile.iteration_s[1].mean == pytest.approx(1.0)
    assert set(measured.speeds) == {"b"}
    assert measured.speeds["b"].mean == pytest.approx(2.0)
    assert measured.speeds["b"].by_slots == pytest.approx({1: 2.0, 2: 2.0})
    assert world.nothing_is_left()
    assert world.ended is RunEnding.DONE


def test_types_are_held_one_after_another_under_the_runs_id_and_everything_is_in_the_log_first():
    world = World()
    world.conduct()
    assert world.provider.most_held == 1
    started = world.log.events[0]
    assert isinstance(started, RunStarted)
    assert (started.run, started.problem["cloud"]) == ("profile-1", {"provider": "fake"})
    asked = [event.node for event in world.log.events if isinstance(event, NodeRequested)]
    assert asked == list(world.provider.books) == ["profile-1-0", "profile-1-1"]
    assert [stage.instance_type for stage in world.state.stages] == ["a", "b"]
    assert sum(isinstance(event, StageEnded) for event in world.log.events) == 2


def test_its_cost_is_that_of_its_nodes_from_running_to_release():
    world = World()
    measured = world.conduct()
    books = world.provider.books.values()
    assert measured.usd == pytest.approx(
        sum((node.released_s - node.running_s) * node.instance_type.usd_per_hour / 3600 for node in books), rel=0.02
    )
    assert measured.usd < most_usd(BENCHES, CLOUD, 300.0)
    assert measured.seconds == pytest.approx(world.clock.now(), abs=1.0)


def test_time_is_shared_and_what_the_first_type_leaves_is_the_others():
    world = World()
    world.conduct(budget_s=300.0)
    first, second = world.budgets
    assert first == pytest.approx(200.0)
    assert 100.0 < second < 300.0


def test_what_is_known_is_told_after_each_type():
    world = World()
    measured = world.conduct()
    assert [set(known.speeds) for known in world.kept] == [set(), {"b"}, {"b"}]
    assert world.kept[-1] == measured


def test_a_type_that_fails_ends_it_with_the_profile_kept_and_everything_given_back():
    world = World()

    def measure(slots, sizes, budget_s):
        if world.kept:
            raise TrialFailure(trial=0, rank=0, cause="CUDA out of memory")
        return world.measure(slots, sizes, budget_s)

    with pytest.raises(TrialFailure, match="out of memory"):
        world.conduct(measure=measure)
    assert world.kept[0].instance_type == "a"
    assert world.nothing_is_left()
    assert world.ended is RunEnding.FAILED


def test_an_interrupt_gives_everything_back_and_is_logged_as_one():
    world = World()

    def interrupt(slots, sizes, budget_s):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.conduct(measure=interrupt)
    assert world.nothing_is_left()
    assert world.ended is RunEnding.INTERRUPTED


def test_a_node_that_is_lost_while_it_is_measured_on_is_replaced_once():
    world = World()

    def measure(slots, sizes, budget_s):
        world.budgets.append(budget_s)
        if len(world.budgets) == 1:
            world.provider.lose(slots[0].node)
            raise TrialFailure(trial=0, rank=0, cause="killed by SIGKILL")
        return world.measure(slots, sizes, budget_s)

    world.conduct(BENCHES[:1], measure)
    assert list(world.provider.books) == ["profile-1-0", "profile-1-1"]
    assert any("it is measured once more" in warning for warning in world.state.warnings)


def test_a_second_loss_ends_it():
    world = World()

    def measure(slots, sizes, budget_s):
        world.provider.lose(slots[0].node, "taken back")
        raise TrialFailure(trial=0, rank=0, cause="killed by SIGKILL")

    with pytest.raises(LaunchFailure, match=r"profile-1-1 was lost .*taken back.* and so was one before it"):
        world.conduct(BENCHES[:1], measure)
    assert world.nothing_is_left()


@pytest.mark.parametrize(("refusals", "had"), [(1, True), (2, False)])
def test_one_refusal_is_borne_and_the_second_is_told_with_its_reason(refusals, had):
    world = World()
    world.provider.refuse, world.provider.refusals = "no capacity in us-west-2a", refusals
    if had:
        assert world.conduct(BENCHES[:1]).instance_type == "a"
    else:
        with pytest.raises(LaunchFailure, match=r"no node of type a .*: no capacity in us-west-2a"):
            world.conduct(BENCHES[:1])
    assert world.nothing_is_left()


def test_nodes_that_are_never_ready_are_an_error_in_time():
    world = World(launch_s=1e9)
    with pytest.raises(LaunchFailure, match=r"1 node.* were not ready within 410 s; raise the cloud's"):
        world.conduct()
    assert list(world.provider.books) == ["profile-1-0"]
    assert world.nothing_is_left()


def test_nodes_that_cannot_be_given_back_are_named():
    world = World()
    world.provider.deaf = 1000
    with pytest.raises(LeakedNodes, match="profile-1-0"):
        world.conduct(BENCHES[:1])
    assert world.ended is RunEnding.FAILED


@pytest.mark.parametrize("max_usd", [0.04, 0.07, 0.09, 0.12])
def test_a_limit_of_the_bill_is_never_exceeded(max_usd):
    world = World(max_usd=max_usd, times=(20.0, 10.0))
    with pytest.raises((BudgetExceeded, UnusableProfile)):
        world.conduct()
    books = world.provider.books.values()
    spent = sum(
        (node.released_s - node.running_s) * node.instance_type.usd_per_hour / 3600
        for node in books
        if node.running_s is not None
    )
    assert spent <= max_usd
    assert world.nothing_is_left()


def test_waiting_for_a_node_that_runs_and_costs_too_much_ends_by_the_limit():
    world = World(max_usd=0.03)
    with pytest.raises(BudgetExceeded, match="profiling on type a any longer"):
        world.conduct()
    assert world.clock.now() < 90


def test_whatever_write_fails_nothing_is_held_that_was_not_logged_before():
    world = World()
    world.conduct()
    total = len(world.log.events)
    for number in range(total):
        killed = World()
        count = itertools.count()
        append = killed.log.append

        def cut(*events, count=count, append=append, number=number):
            if next(count) == number:
                raise KeyboardInterrupt
            append(*events)

        killed.log.append = cut
        with pytest.raises(KeyboardInterrupt):
            killed.conduct()
        assert not killed.provider.owned("profile-1")
        logged = {event.node for event in killed.log.events if isinstance(event, NodeRequested)}
        assert set(killed.provider.books) <= logged


def test_no_type_at_all_is_refused():
    with pytest.raises(InvalidInput, match="at least one instance type"):
        World().conduct(())
