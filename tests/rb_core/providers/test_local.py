import math
import os

import pytest

from rb_core.clock import ManualClock
from rb_core.errors import InvalidInput, LaunchFailure
from rb_core.hardware import Cloud, InstanceType, Latency
from rb_core.ports import NodeNews, NodeNotice, Provider, Slot
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
