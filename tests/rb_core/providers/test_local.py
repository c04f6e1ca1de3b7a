import math
import os
import sys

import pytest

from rb_core.clock import ManualClock, SystemClock, pause
from rb_core.errors import InvalidInput, LaunchFailure
from rb_core.hardware import Cloud, InstanceType, Latency
from rb_core.ports import Bootstrap, Machines, NodeNews, NodeNotice, Provider, Slot
from rb_core.providers.local import LocalProvider
from rb_core.testing import ProviderContract

ONE = InstanceType(name="one", slots=1, usd_per_hour=1.0)
TWO = InstanceType(name="two", slots=2, usd_per_hour=1.0)


def cloud(**changes):
    return Cloud(**{"instance_types": (TWO,), "max_nodes": 3, **changes})


def made(slots=6, **changes):
    clock = ManualClock()
    inbox = clock.inbox()
    return clock, inbox, LocalProvider(cloud=cloud(**changes), clock=clock, inbox=inbox, slots=slots)


class TestLocalProviderOnCores(ProviderContract):
    def make(self, clock, inbox):
        return LocalProvider(cloud=cloud(), clock=clock, inbox=inbox, slots=6)


class TestLocalProviderOnGpus(ProviderContract):
    def make(self, clock, inbox):
        return LocalProvider(cloud=cloud(), clock=clock, inbox=inbox, slots=tuple("012345"))


def test_it_is_a_provider():
    assert isinstance(made()[2], Provider)


def test_nodes_run_and_join_after_the_clouds_mean_latencies():
    clock, inbox, provider = made(launch_s=Latency(mean=30.0, std=9.0), init_s=Latency(mean=60.0))
    provider.launch(["n0"], TWO, run="r")
    assert (inbox.get(), clock.now()) == (NodeNotice(node="n0", kind=NodeNews.RUNNING), 30.0)
    with pytest.raises(KeyError):
        provider.slots("n0")
    assert (inbox.get(), clock.now()) == (NodeNotice(node="n0", kind=NodeNews.READY), 90.0)
    assert provider.slots("n0") == (Slot(node="n0", index=0), Slot(node="n0", index=1))


def test_a_released_node_says_nothing_more():
    _, inbox, provider = made(launch_s=Latency(mean=30.0))
    provider.launch(["n0", "n1"], TWO, run="r")
    provider.release(["n0"])
    assert [inbox.get().node for _ in range(2)] == ["n1", "n1"]
    assert inbox.get() is None


def test_a_node_released_between_running_and_ready_never_joins():
    _, inbox, provider = made(init_s=Latency(mean=60.0))
    provider.launch(["n0"], TWO, run="r")
    assert inbox.get().kind == "running"
    provider.release(["n0"])
    assert inbox.get() is None


def test_a_device_belongs_to_one_node_at_a_time():
    _, inbox, provider = made(slots=("0", "1", "GPU-x"))
    provider.launch(["n0", "n1"], ONE, run="r")
    while inbox.get():
        pass
    assert [provider.slots(name)[0].device for name in ("n0", "n1")] == ["0", "1"]
    provider.release(["n0"])
    provider.launch(["n2", "n3"], ONE, run="r")
    while inbox.get():
        pass
    assert [provider.slots(name)[0].device for name in ("n1", "n2", "n3")] == ["1", "0", "GPU-x"]


def test_what_is_not_free_cannot_be_launched_and_nothing_is_taken():
    _, _, provider = made()
    provider.launch(["n0"], TWO, run="r")
    with pytest.raises(LaunchFailure, match=r"3 node\(s\) of type 'two' need 6 slots, and 4 .* 6 cores are free"):
        provider.launch(["n1", "n2", "n3"], TWO, run="r")
    assert provider.owned("r") == ("n0",)
    provider.launch(["n1", "n2"], TWO, run="r")


def test_a_cloud_larger_than_the_machine_is_refused_with_the_number_that_fits():
    _, _, provider = made()
    provider.check(cloud(max_nodes=3))
    with pytest.raises(InvalidInput, match=r"cloud.max_nodes: must be at most 3 .* 6 cores, .*'two' takes 2; got 4"):
        provider.check(cloud(max_nodes=4))


def test_a_type_larger_than_the_machine_is_refused():
    _, _, provider = made(slots=("0",))
    with pytest.raises(InvalidInput, match=r"instance_types\[0\].slots: must be at most 1, the GPUs .* got 2"):
        provider.check(cloud(max_nodes=1))


def test_left_alone_it_finds_this_machines_slots():
    clock = ManualClock()
    provider = LocalProvider(cloud=cloud(), clock=clock, inbox=clock.inbox())
    cores = len(os.sched_getaffinity(0))
    assert len(provider._devices) == cores or any(provider._devices)


def test_what_another_process_held_went_with_it():
    _, inbox, provider = made()
    provider.launch(["n1"], TWO, run="r")
    provider.adopt({"n0": TWO, "n1": TWO}, run="r")
    said = list(iter(lambda: inbox.get(until_s=0.0), None))
    assert [(n.node, n.ago_s) for n in said if n.kind == NodeNews.LOST] == [("n0", math.inf)]
    assert provider.owned("r") == ("n1",)


class Booted:
    """A local provider whose nodes run a command, on the real clock."""

    def __init__(self, source, *arguments, slots=6, **changes):
        self.clock = SystemClock()
        self.inbox = self.clock.inbox()
        self.provider = LocalProvider(cloud=cloud(**changes), clock=self.clock, inbox=self.inbox, slots=slots)
        self.provider.boot(
            lambda name, instance_type: Bootstrap(
                argv=(sys.executable, "-c", source, *arguments), env={"NODE": name, "SLOTS": str(instance_type.slots)}
            )
        )

    def hear(self, count):
        notices = [self.inbox.get(self.clock.now() + 30.0) for _ in range(count)]
        return [(notice.node, notice.kind) for notice in notices], notices[-1].reason

    def read(self, path):
        while not (path.exists() and path.read_text().endswith("\n")):
            pause(self.clock, 0.02)
        return path.read_text()


SAYS = """
import os, sys, time
with open(os.path.join(sys.argv[1], os.environ["NODE"]), "w") as file:
    file.write(f"{os.getpid()} {os.environ['SLOTS']} {os.environ.get('CUDA_VISIBLE_DEVICES', '-')}\\n")
time.sleep(600)
"""


def test_a_booted_node_is_a_process_until_it_is_released(tmp_path):
    booted = Booted(SAYS, str(tmp_path))
    booted.provider.launch(["n0", "n1"], TWO, run="r")
    said, _ = booted.hear(4)
    for name in ("n0", "n1"):
        assert [kind for node, kind in said if node == name] == [NodeNews.RUNNING, NodeNews.READY]
    pids = {name: booted.read(tmp_path / name).split()[0] for name in ("n0", "n1")}
    booted.provider.release(["n0"])
    assert not os.path.exists(f"/proc/{pids['n0']}")
    assert os.path.exists(f"/proc/{pids['n1']}")
    assert booted.provider.owned("r") == ("n1",)
    booted.provider.close()
    assert not os.path.exists(f"/proc/{pids['n1']}")
    assert booted.inbox.get(booted.clock.now()) is None


def test_a_provider_that_is_closed_starts_no_commands_any_more(tmp_path):
    booted = Booted(SAYS, str(tmp_path))
    booted.provider.launch(["n0"], TWO, run="r")
    booted.provider.close()
    assert booted.inbox.get(booted.clock.now() + 0.1) is None
    assert list(tmp_path.iterdir()) == []


def test_a_booted_node_sees_its_own_gpus_alone(tmp_path):
    booted = Booted(SAYS, str(tmp_path), slots=("0", "GPU-x", "2", "3"))
    booted.provider.launch(["n0", "n1"], TWO, run="r")
    booted.hear(4)
    assert booted.read(tmp_path / "n0").split()[1:] == ["2", "0,GPU-x"]
    assert booted.read(tmp_path / "n1").split()[1:] == ["2", "2,3"]
    booted.provider.close()


def test_a_booted_node_whose_command_ends_is_lost_and_its_slots_are_free():
    booted = Booted("import sys; sys.exit('no such cluster')", init_s=Latency(mean=600.0))
    booted.provider.launch(["n0", "n1", "n2"], TWO, run="r")
    said, reason = booted.hear(6)
    assert sorted(said) == sorted((f"n{n}", kind) for n in range(3) for kind in (NodeNews.LOST, NodeNews.RUNNING))
    assert reason == "its command ended: no such cluster"
    assert booted.provider.owned("r") == ()
    booted.provider.launch(["n3", "n4", "n5"], TWO, run="r")
    booted.provider.release(["n3", "n4", "n5"])
    booted.provider.close()


def test_nodes_without_a_command_are_no_processes():
    _, inbox, provider = made()
    provider.launch(["n0"], TWO, run="r")
    assert [inbox.get().kind for _ in range(2)] == [NodeNews.RUNNING, NodeNews.READY]
    provider.close()
    assert provider.owned("r") == ("n0",)


def test_it_offers_machines():
    assert isinstance(made()[2], Machines)
