import atexit
import dataclasses
import json

import pytest
from rb_ray.scheduling.elastic import ElasticFleet
from rb_ray.scheduling.runlog import RunLog

from rb_core.clock import ManualClock
from rb_core.errors import BudgetExceeded, LaunchFailure, LeakedNodes, UnusableLog
from rb_core.eventlog import read_log
from rb_core.events import NodeReleased, NodeRequested, RunEnded, RunEnding, RunResumed, RunStarted, Warned
from rb_core.hardware import Billing, Cloud, InstanceType, Latency
from rb_core.plan import AllocationPlan, Objective, Problem, StageAllocation
from rb_core.profile import ScalingProfile
from rb_core.spec import ExperimentSpec
from rb_core.testing.fakes import FakeProvider
from rb_plugins.outcome import read_outcome
from rb_plugins.rundir import RunDirectory

BOX = InstanceType(name="box", slots=2, usd_per_hour=3.6)
CLOUD = Cloud(
    instance_types=(BOX, InstanceType(name="crate", slots=4, usd_per_hour=7.2)),
    max_nodes=4,
    launch_s=Latency(mean=30.0),
    init_s=Latency(mean=60.0),
    billing=Billing(minimum_s=0.0),
)
EXPERIMENT = ExperimentSpec.from_stages([(4, 10), (2, 20), (1, 40)])
PROBLEM = Problem(
    experiment=EXPERIMENT,
    profile=ScalingProfile(iteration_s={1: Latency(mean=10.0), 2: Latency(mean=6.0)}),
    cloud=CLOUD,
    objective=Objective(deadline_s=3600.0),
)


def box(nodes, slots_per_trial=1, kind="box"):
    return StageAllocation(instance_type=kind, nodes=nodes, slots_per_trial=slots_per_trial)


PLAN = AllocationPlan(chains=((box(2), box(1), box(1, 2)),))


class Draining(FakeProvider):
    """Nodes that were given back stay for a while in Ray's eyes."""

    draining: tuple[str, ...] = ()

    def release(self, names):
        super().release(names)
        self.draining = (*self.draining, *names)


class Rig:
    """A fleet over a fake provider whose books outlive the process of the run."""

    def __init__(self, home, *, begin=True, kind=FakeProvider, **terms):
        self.home, self.terms = home, terms
        self.clock = ManualClock()
        self.provider = kind(self.clock, self.clock.inbox(), launch_s=30.0, init_s=60.0)
        self.fleet = self.sitting()
        if begin:
            self.open()

    def sitting(self):
        return ElasticFleet(
            CLOUD, self.rent, self.clock, metric="loss", mode="min", directory=self.home, **self.terms
        )  # fmt: skip

    def rent(self, inbox):
        self.provider.inbox = inbox
        return self.provider

    def open(self, restored=False):
        self.fleet.open("r", bundle={"CPU": 1.0}, restored=restored)
        self.fleet.planned(PROBLEM, PLAN)

    def wait(self, seconds):
        until_s = self.clock.now() + seconds
        while self.clock.now() < until_s:
            self.clock.advance(min(until_s, self.clock.now() + 1.0))
            self.fleet.poll()

    def killed(self):
        """The process of the run is gone, and what it held is not; another one begins."""
        atexit.unregister(self.fleet.settle)
        self.fleet._log.close()
        self.fleet = self.sitting()

    @property
    def events(self):
        return read_log(self.home / "runs" / "r" / "events.jsonl").events

    def kinds(self, *wanted):
        return [type(event) for event in self.events if not wanted or isinstance(event, wanted)]

    @property
    def outcome(self):
        return read_outcome(RunDirectory(self.home / "runs" / "r"))

    @property
    def owned(self):
        return list(self.provider.owned("r"))


@pytest.fixture
def rig(tmp_path):
    made = Rig(tmp_path)
    yield made
    made.fleet.settle()
    assert made.owned == []


def test_a_stage_is_ready_when_its_nodes_have_joined(rig):
    assert rig.fleet.label == "rb:r"
    assert rig.fleet.ready
    rig.fleet.resize(box(2), 0)
    assert not rig.fleet.ready
    rig.wait(89.0)
    assert (rig.fleet.ready, list(rig.fleet.nodes)) == (False, [])
    rig.wait(2.0)
    assert (rig.fleet.ready, list(rig.fleet.nodes), rig.fleet.slots) == (True, [2, 2], 4)


def test_surplus_is_given_back_and_what_is_missing_requested(rig):
    rig.fleet.resize(box(4), 0)
    rig.wait(91.0)
    rig.fleet.resize(box(2), 1)
    assert (rig.fleet.ready, rig.owned) == (True, ["r-0", "r-1"])
    rig.fleet.resize(box(3), 2)
    assert (rig.fleet.ready, rig.owned) == (False, ["r-0", "r-1", "r-4"])
    rig.fleet.resize(box(3), 2)
    assert rig.owned == ["r-0", "r-1", "r-4"]


def test_another_type_takes_the_place_of_all_nodes(rig):
    rig.fleet.resize(box(2), 0)
    rig.wait(91.0)
    rig.fleet.resize(box(1, kind="crate"), 1)
    assert rig.owned == ["r-2"]
    rig.wait(91.0)
    assert list(rig.fleet.nodes) == [4]


def test_it_is_not_ready_while_anything_may_still_land_on_a_node_that_was_given_back(tmp_path):
    rig = Rig(tmp_path, kind=Draining)
    rig.fleet.resize(box(2), 0)
    rig.wait(91.0)
    rig.fleet.resize(box(1), 1)
    assert not rig.fleet.ready
    rig.provider.draining = ()
    assert rig.fleet.ready
    rig.fleet.close()
    rig.provider.draining = ()
    rig.fleet.settle()


def test_every_request_is_in_the_log_before_the_provider_hears_of_it(tmp_path):
    rig = Rig(tmp_path)
    heard = []

    class Listening(FakeProvider):
        def launch(self, names, instance_type, *, run):
            heard.append((list(names), rig.kinds(NodeRequested)))
            super().launch(names, instance_type, run=run)

        def release(self, names):
            heard.append((list(names), rig.kinds(NodeReleased)))
            super().release(names)

    rig.provider.__class__ = Listening
    rig.fleet.resize(box(2), 0)
    rig.fleet.resize(box(1), 1)
    assert heard == [(["r-0", "r-1"], [NodeRequested] * 2), (["r-1"], [NodeReleased])]
    rig.fleet.settle()


def test_a_lost_node_is_replaced(rig):
    rig.fleet.resize(box(2), 0)
    rig.wait(91.0)
    rig.provider.lose("r-0", "reclaimed")
    rig.fleet.poll()
    assert (list(rig.fleet.nodes), rig.owned) == ([2], ["r-1", "r-2"])
    rig.wait(91.0)
    assert rig.fleet.ready
    assert "node r-0 was lost: reclaimed; it is replaced" in [e.text for e in rig.events if isinstance(e, Warned)]


def test_a_node_that_will_be_taken_away_is_no_longer_counted_and_replaced_when_it_is_gone(rig):
    rig.fleet.resize(box(4), 0)
    rig.wait(91.0)
    rig.provider.warn("r-0", 120.0)
    rig.fleet.poll()
    assert (list(rig.fleet.nodes), len(rig.owned)) == ([2, 2, 2], 4)
    rig.provider.lose("r-0")
    rig.fleet.poll()
    assert rig.owned == ["r-1", "r-2", "r-3", "r-4"]


def test_refused_nodes_are_asked_for_again(rig):
    rig.provider.refuse = "no capacity"
    rig.fleet.resize(box(2), 0)
    assert (rig.fleet.ready, rig.owned) == (False, [])
    rig.wait(6.0)
    assert rig.owned == ["r-2", "r-3"]
    rig.wait(91.0)
    assert rig.fleet.ready


def test_a_stage_goes_on_with_what_it_has_where_more_cannot_be_had(rig):
    rig.fleet.resize(box(2), 0)
    rig.wait(91.0)
    rig.provider.refuse, rig.provider.refusals = "no capacity", 1000
    rig.fleet.resize(box(4), 1)
    assert (rig.fleet.ready, list(rig.fleet.nodes)) == (True, [2, 2])
    rig.fleet.resize(box(4, slots_per_trial=8), 2)
    assert not rig.fleet.ready


def test_where_none_can_be_had_for_long_it_gives_up(tmp_path):
    rig = Rig(tmp_path)
    rig.provider.refuse, rig.provider.refusals = "no capacity", 1000
    rig.fleet.resize(box(2), 0)
    with pytest.raises(LaunchFailure, match="no node of type box could be had in 20 attempts"):
        rig.wait(3600.0)
    rig.fleet.settle()
    assert rig.owned == []


def test_the_hard_limit_of_the_bill_ends_it_with_everything_given_back(tmp_path):
    # Two nodes cost 0.001 usd a second each.
    rig = Rig(tmp_path, max_usd=0.5)
    rig.fleet.resize(box(2), 0)
    with pytest.raises(BudgetExceeded):
        rig.wait(3600.0)
    assert 30.0 + 240.0 < rig.clock.now() < 30.0 + 251.0
    assert rig.owned == []
    rig.fleet.settle()
    assert rig.outcome.bill.cost_usd <= 0.5


def test_more_than_may_be_spent_is_not_even_requested(tmp_path):
    rig = Rig(tmp_path, max_usd=0.001)
    with pytest.raises(BudgetExceeded):
        rig.fleet.resize(box(4), 0)
    assert rig.provider.books == {}
    rig.fleet.settle()


def test_the_end_gives_everything_back_and_ends_the_log(rig):
    rig.fleet.resize(box(2), 0)
    rig.wait(91.0)
    rig.fleet.close()
    rig.fleet.close()
    assert rig.owned == []
    rig.fleet.settle()
    rig.fleet.settle()
    rig.fleet.poll()
    assert rig.kinds(RunStarted, NodeReleased, RunEnded) == [RunStarted, NodeReleased, NodeReleased, RunEnded]


def test_how_long_nodes_took_to_start_is_kept_for_the_plans_to_come(tmp_path):
    far = dataclasses.replace(CLOUD, provider="far")

    class Far(Rig):
        def sitting(self):
            return ElasticFleet(far, self.rent, self.clock, directory=self.home)

        def open(self):
            self.fleet.open("r", bundle={"CPU": 1.0}, restored=False)
            self.fleet.planned(dataclasses.replace(PROBLEM, cloud=far), PLAN)

    rig = Far(tmp_path)
    rig.fleet.resize(box(2), 0)
    rig.wait(91.0)
    rig.fleet.settle()
    (pool,) = json.loads((tmp_path / "latencies.json").read_text())["pools"]
    assert (pool["provider"], pool["instance_type"]) == ("far", "box")
    assert [(start["launch_s"], start["init_s"]) for start in pool["starts"]] == [(30.0, 60.0)] * 2


def test_nodes_that_stay_are_named(tmp_path):
    rig = Rig(tmp_path)
    rig.fleet.resize(box(1), 0)
    rig.provider.deaf = 1000
    with pytest.raises(LeakedNodes, match="r-0"):
        rig.fleet.settle()
    rig.provider.deaf = 0
    rig.provider.release(["r-0"])


def test_a_fleet_that_was_never_opened_can_be_closed(tmp_path):
    fleet = Rig(tmp_path, begin=False).fleet
    fleet.poll()
    assert (fleet.ready, list(fleet.nodes), fleet.held, fleet.spent_usd) == (True, [], (), 0.0)
    fleet.close()
    fleet.settle()
    assert list(tmp_path.iterdir()) == []


def test_after_the_process_was_killed_it_goes_on_with_the_nodes(rig):
    rig.fleet.resize(box(2), 0)
    rig.wait(100.0)
    rig.killed()
    rig.open(restored=True)
    rig.fleet.resize(box(2), 0)
    rig.wait(1.0)
    assert (rig.fleet.ready, list(rig.fleet.nodes), rig.owned) == (True, [2, 2], ["r-0", "r-1"])
    assert rig.kinds(RunStarted, RunResumed, NodeRequested) == [RunStarted, NodeRequested, NodeRequested, RunResumed]


def test_nodes_that_ended_with_the_process_are_requested_anew(rig):
    rig.fleet.resize(box(2), 0)
    rig.wait(100.0)
    rig.killed()
    rig.provider.release(["r-0"])
    rig.open(restored=True)
    rig.fleet.resize(box(2), 0)
    rig.wait(1.0)
    assert rig.owned == ["r-1", "r-2"]
    rig.wait(91.0)
    assert rig.fleet.ready


def test_a_node_that_the_log_gave_back_and_the_provider_still_has_is_given_back(rig):
    rig.fleet.resize(box(2), 0)
    rig.wait(100.0)
    rig.provider.deaf = 1
    rig.fleet.resize(box(1), 1)
    assert rig.owned == ["r-0", "r-1"]
    rig.wait(50.0)
    rig.killed()
    rig.open(restored=True)
    assert rig.owned == ["r-0"]
    # It was paid for until now.
    assert rig.fleet.spent_usd == pytest.approx(0.001 * (150.0 - 30.0))


def test_a_provider_that_does_not_answer_is_asked_again_without_waiting_for_it(rig):
    rig.fleet.resize(box(1), 0)
    rig.wait(100.0)
    rig.killed()
    rig.provider.unheard["owned"] = 2
    before_s = rig.clock.now()
    rig.open(restored=True)
    rig.fleet.resize(box(1), 0)
    assert (rig.clock.now(), rig.fleet.ready) == (before_s, False)
    rig.wait(5.0)
    assert rig.fleet.ready


def test_a_provider_that_never_answers_ends_it(tmp_path):
    rig = Rig(tmp_path)
    rig.fleet.resize(box(1), 0)
    rig.killed()
    rig.provider.unheard["owned"] = 6
    rig.open(restored=True)
    with pytest.raises(LaunchFailure, match="does not say what the run holds"):
        rig.wait(100.0)
    rig.fleet.settle()
    assert rig.owned == []


def test_a_run_that_another_process_is_at_work_on_is_left_alone(rig):
    with pytest.raises(UnusableLog):
        rig.sitting().open("r", bundle={}, restored=True)


def test_what_is_held_is_planned_with(rig):
    rig.fleet.resize(box(2), 0)
    rig.wait(130.0)
    (batch,) = rig.fleet.held
    assert (batch.count, batch.running_s, batch.usable_s) == (2, -100.0, -40.0)
    assert rig.fleet.instance_type == BOX
    rig.fleet.resize(box(1), 1)
    assert rig.fleet.spent_usd == pytest.approx(0.1)
    assert rig.fleet.offered == CLOUD


@pytest.mark.parametrize(
    ("has", "fits"), [({"CPU": 2.0}, True), ({"CPU": 64.0}, True), ({"CPU": 1.0}, False), ({"GPU": 2.0}, False)]
)
def test_a_node_that_does_not_hold_what_it_is_planned_with_ends_the_run(tmp_path, has, fits):
    rig = Rig(tmp_path, resources=lambda own: has if own == "rb:r:r-0" else None)
    rig.fleet.resize(box(1), 0)
    if fits:
        rig.wait(91.0)
        assert rig.fleet.ready
    else:
        with pytest.raises(LaunchFailure, match=r"2 slot\(s\) of {'CPU': 1.0}, and has room for [01] \(CPU [01]\)"):
            rig.wait(91.0)
    rig.fleet.settle()
    assert rig.owned == []


def test_the_bill_can_be_reported(rig):
    rig.fleet.resize(box(2), 0)
    rig.wait(130.0)
    rig.fleet.close()
    assert rig.outcome.bill.cost_usd == pytest.approx(0.2)
    rig.fleet.settle()
    assert rig.outcome.ending == RunEnding.DONE


def test_an_id_that_is_no_folder_s_name_is_made_one(tmp_path):
    log = RunLog(tmp_path, "../my run/№1", ManualClock())
    log.close()
    assert log.directory.path.parent == tmp_path / "runs"
    assert log.run == "my-run-1"


def test_what_precedes_the_start_of_the_log_is_not_noted(tmp_path):
    rig = Rig(tmp_path, begin=False)
    rig.fleet.open("r", bundle={}, restored=False)
    rig.fleet.note(Warned, text="too early")
    rig.fleet.planned(PROBLEM, PLAN, remark="a remark")
    rig.fleet.planned(dataclasses.replace(PROBLEM, objective=None), PLAN)
    rig.fleet.note(Warned, text="in time")
    assert [e.text for e in rig.events if isinstance(e, Warned)] == ["a remark", "in time"]
    assert rig.kinds(RunStarted) == [RunStarted]
    rig.fleet.settle()
