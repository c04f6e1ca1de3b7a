"""A cluster on EC2, whatever happens to it: limits are kept, nothing is lost sight of, and the bill is right."""

from __future__ import annotations

import itertools
from dataclasses import replace

import hypothesis.strategies as st
import pytest
from crash_ec2.driver import Disk, MortalClients, MortalDriver, MortalLog
from ec2_world import REGION, RUN, cloud_of, session
from faulty_ec2 import FaultyEC2
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from rb_core import events
from rb_core.clock import ManualClock
from rb_core.cluster import Cluster
from rb_core.hardware import InstanceType, Latency, Market
from rb_core.journal import Journal
from rb_core.learning import Learning
from rb_core.ledger import ledger
from rb_core.ports import NodeNotice
from rb_core.profile import ScalingProfile
from rb_core.providers.ec2 import tags as tag
from rb_core.providers.ec2.clients import Clients
from rb_core.providers.ec2.provider import Ec2Provider
from rb_core.sim.driver import DrivenClock
from rb_core.state import fold

MOST_NODES = 6
ZONES = [f"{REGION}{letter}" for letter in "abc"]
DISK_USD, ADDRESS_USD = 100 * 0.08 / 720, 0.005
KINDS = tuple(
    InstanceType(
        name=name,
        slots=slots,
        usd_per_hour=usd + DISK_USD + ADDRESS_USD,
        disk_usd_per_hour=DISK_USD,
        address_usd_per_hour=ADDRESS_USD,
        market=market,
    )
    for name, slots, usd, market in (
        ("g4dn.12xlarge", 4, 3.912, Market.ON_DEMAND),
        ("g4dn.xlarge", 1, 0.16, Market.SPOT),
    )
)
PRICES = {(kind.name, kind.market.value): kind.usd_per_hour - DISK_USD - ADDRESS_USD for kind in KINDS}
KNOWN_TO_S = 20.0
"""Begin and end of a node together are known to so many seconds: by looks, some of which have no answer."""


class Ec2Machine(RuleBasedStateMachine):
    """One run, whose driver is killed and resumed, in a cloud that does what clouds do."""

    def __init__(self):
        super().__init__()
        self.clock = ManualClock()
        self.cloud = FaultyEC2(clock=self.clock, region=REGION, boot_s=15.0, shutdown_s=8.0).__enter__()
        self.disk, self.numbers, self.altered, self.blind_s = Disk(), itertools.count(), set(), 0.0
        self.clients = Clients(REGION, session=session(), endpoint=self.cloud.url, max_attempts=1)
        made = cloud_of({"image": self.cloud.image(), "zones": ZONES})
        self.place = replace(made, instance_types=KINDS, max_nodes=MOST_NODES, launch_s=Latency(mean=15.0))
        self.begin()

    def begin(self):
        history = self.disk.reopen()
        state = fold(history) if history else None
        self.driver = MortalDriver()
        clock = DrivenClock(self.clock, self.driver)
        self.inbox = clock.inbox()
        self.journal = Journal(
            MortalLog(self.disk, self.driver), clock, state=state, t_s=self.clock.now() if history else 0.0
        )
        if not history:
            self.journal.write(
                events.RunStarted, run=RUN, problem={}, plan={"stages": []}, metric="", mode="max", seed=0, target="",
                environment={},
            )  # fmt: skip
        profile = ScalingProfile(iteration_s={1: Latency(mean=1.0)})
        self.provider = Ec2Provider(
            cloud=self.place, clock=clock, inbox=self.inbox, clients=MortalClients(self.clients, self.driver)
        )
        self.cluster = Cluster(
            self.provider,
            self.journal,
            clock,
            self.inbox,
            learning=Learning(profile, self.place),
            run=RUN,
            names=(f"{RUN}-{number}" for number in self.numbers),
            admit=lambda count, kind: None,
        )
        self.cluster.trains = lambda: True

    def wait(self, seconds):
        until_s = self.clock.now() + seconds
        while (notice := self.inbox.get(until_s)) is not None:
            if isinstance(notice, NodeNotice):
                self.cluster.took(notice)

    @initialize(kind=st.sampled_from(KINDS), count=st.integers(1, MOST_NODES))
    def first(self, kind, count):
        self.scale(kind, count)

    @rule(kind=st.sampled_from(KINDS), count=st.integers(0, MOST_NODES))
    def scale(self, kind, count):
        self.cluster.resize(kind, count, chain=0, stage=0)

    @rule(seconds=st.sampled_from((1.0, 7.0, 30.0, 120.0)))
    def time_passes(self, seconds):
        self.wait(seconds)

    @rule(which=st.integers(0, 9), notice_s=st.sampled_from((0.0, 120.0)))
    def interrupt(self, which, notice_s):
        held = [each for each in self.cloud.alive() if each.market == "spot" and each.state == "running"]
        if held:
            self.cloud.interrupt(held[which % len(held)].id, notice_s=notice_s)

    @rule(which=st.integers(0, 9))
    def guest_shuts_down(self, which):
        held = [each for each in self.cloud.alive() if each.state == "running"]
        if held:
            self.cloud.guest_shutdown(held[which % len(held)].id)

    @rule(kind=st.sampled_from(KINDS), zone=st.sampled_from(ZONES), count=st.sampled_from((0, 1, 2, 6)))
    def capacity_changes(self, kind, zone, count):
        self.cloud.capacity[kind.name, zone, kind.market.value] = count

    @rule(action=st.sampled_from(("*", "RunInstances", "TerminateInstances")), times=st.integers(1, 3))
    def throttle(self, action, times):
        self.cloud.fault(action, "error", code="RequestLimitExceeded", times=times, when=by_us)

    @rule(action=st.sampled_from(("RunInstances", "TerminateInstances")))
    def lose_an_answer(self, action):
        self.cloud.fault(action, "drop_after")

    @rule(seconds=st.sampled_from((0.0, 12.0, 25.0)))
    def become_slow(self, seconds):
        self.cloud.visible_s = seconds

    @rule(which=st.integers(0, 9))
    def somebody_changes_a_tag(self, which):
        held = [each for each in self.cloud.alive() if each.visible and each.id not in self.altered]
        if held and not self.altered:
            chosen = held[which % len(held)].id
            self.altered.add(chosen)
            self.clients.control.create_tags(Resources=[chosen], Tags=[{"Key": tag.RUN, "Value": "mine"}])

    @rule(away_s=st.sampled_from((0.0, 3.0, 40.0)))
    def kill_and_resume(self, away_s):
        wanted = self.cluster._type, self.cluster._wanted
        self.driver.alive = False
        self.clock.inbox().get(self.clock.now() + away_s)
        self.blind_s += away_s
        calm(self.cloud)
        self.begin()
        state = self.journal.state
        orphans = [name for name in self.provider.owned(RUN) if name not in state.held]
        self.cluster.hold([state.nodes[name] for name in state.held], list(state.nodes))
        self.cluster.adopt(self.wait)
        self.provider.release(orphans)
        self.cluster.resize(*wanted, chain=0, stage=0)

    @invariant()
    def never_above_the_limit(self):
        up = [each.id for each in self.cloud.alive() if each.state in ("pending", "running")]
        assert len([instance for instance in up if instance not in self.altered]) <= MOST_NODES

    @invariant()
    def everything_alive_is_tagged(self):
        for each in self.cloud.alive():
            assert each.tags.get(tag.RUN) == RUN or each.id in self.altered
            assert each.tags.get(tag.ATTEMPT) in self.journal.state.launches

    def teardown(self):
        try:
            calm(self.cloud)
            self.wait(5.0)
            with self.cluster:
                pass
            self.clock.inbox().get(self.clock.now() + 20.0)
            left = [each.id for each in self.cloud.alive() if each.id not in self.altered]
            assert left == []
            assert self.altered or self.cloud.leaked_volumes() == []
            assert self.altered or self.cloud.open_spot_requests() == []
            if not self.altered:
                self.same_bill()
        finally:
            self.provider.close()
            self.clients.close()
            self.cloud.__exit__(None, None, None)

    def same_bill(self):
        theirs = self.cloud.bill(PRICES).total_usd
        known_to = sum(self.known_to_s(node) / 3600 * node.usd_per_hour for node in self.journal.state.nodes.values())
        assert abs(ledger(self.journal.state, self.place).cost_usd - theirs) <= 0.01 * theirs + known_to

    def known_to_s(self, node):
        # A start is billed for a minute, seen or not.
        end_s = self.journal.t_s if node.released_s is None else node.released_s
        lived_s = 0.0 if node.running_s is None else end_s - node.running_s
        if node.node in self.reclaimed_unseen():
            return self.blind_s + 60.0 + lived_s
        return self.blind_s + (60.0 if lived_s < 60.0 else KNOWN_TO_S)

    def reclaimed_unseen(self):
        # EC2 asks nothing for these; the run gave them back before it looked again, and counts what they ran.
        launches = self.journal.state.launches
        taken = [each for each in self.cloud.instances() if each.reason == "Server.SpotInstanceTermination"]
        return {launches[each.tags[tag.ATTEMPT]].nodes[each.launch_index] for each in taken}


def by_us(call):
    return call.action != "CreateTags"


def calm(cloud):
    for fault in cloud._faults:
        fault.cancel()


QUIET = {"deadline": None, "database": None, "derandomize": True, "suppress_health_check": list(HealthCheck)}


def test_whatever_happens_the_limit_is_kept_and_nothing_is_lost():
    run_state_machine_as_test(Ec2Machine, settings=settings(max_examples=12, stateful_step_count=12, **QUIET))


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_whatever_happens_for_long():
    run_state_machine_as_test(Ec2Machine, settings=settings(max_examples=150, stateful_step_count=30, **QUIET))
