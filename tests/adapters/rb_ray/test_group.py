"""How ranks come together: what can be seen of it in one process."""

from __future__ import annotations

from datetime import timedelta

import pytest
import torch.distributed as dist
from rb_ray.trainable.allocation import Allocation
from rb_ray.trainable.group import Gathering, StorePeers, leave, process_group
from rb_ray.trainable.lead import gathering_of
from rb_ray.trainable.ranks import Options

from rb_core.errors import InvalidInput, LaunchFailure, TrialMisuse
from rb_core.training.peers import Alone, PeerLost

OPTIONS = Options(metric="score", backend="", timeout_s=60.0, checkpoint_every=1, max_iterations=None, seed=0)
ALONE = Gathering(world_size=1, host="127.0.0.1", port=0, backend="", gpus_per_rank=0.0, timeout_s=60.0)


def allocation(*bundles, node_ids=None):
    return Allocation(trial_id="", bundles=bundles, node_ids=node_ids or ("a",) * len(bundles))


def test_a_single_rank_has_a_process_group_too_and_may_get_a_second_one():
    for _ in range(2):
        with process_group(ALONE, 0, None) as peers:
            assert isinstance(peers, Alone)
            assert (dist.get_world_size(), dist.get_rank(), dist.get_backend()) == (1, 0, "gloo")
    leave()
    leave()
    assert not dist.is_initialized()


def test_a_gpu_that_torch_cannot_use_is_refused():
    gathering = gathering_of(allocation({"GPU": 1.0}), OPTIONS)
    assert gathering.device == "cuda:0"
    with pytest.raises(LaunchFailure, match="torch finds no usable one"), process_group(gathering, 0, None):
        pass


def test_ranks_on_one_node_meet_on_its_loopback_address():
    gathering = gathering_of(allocation({"CPU": 2.0}, {"CPU": 2.0}), OPTIONS)
    assert (gathering.world_size, gathering.host, gathering.device) == (2, "127.0.0.1", "cpu")


@pytest.mark.parametrize("bundles", [({}, {"CPU": 1.0}), ({"CPU": 1.0}, {"CPU": 1.0, "GPU": 1.0})])
def test_slots_that_are_not_alike_are_refused(bundles):
    with pytest.raises(
        InvalidInput, match=r"all alike, but bundle 0 is .*PlacementGroupFactory\(\[bundle\] \* ranks\)"
    ):
        gathering_of(allocation(*bundles), OPTIONS)


@pytest.fixture
def store():
    return dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=60))


def three_ranks(store):
    return [StorePeers(store, rank, 3) for rank in range(3)]


def test_rank_0_s_word_reaches_every_rank_and_rank_0_does_not_wait(store):
    first, *others = three_ranks(store)
    assert [first.broadcast("a", 1), first.broadcast("b", {"c": None})] == [1, {"c": None}]
    for other in others:
        assert [other.broadcast("a", 5), other.broadcast("b", 6)] == [1, {"c": None}]


def test_rank_0_hears_every_rank_and_then_nothing_is_left_of_it(store):
    first, *others = three_ranks(store)
    before = store.num_keys()
    first.broadcast("a", 0)
    for rank, other in enumerate(others, start=1):
        other.broadcast("a", None)
        assert other.gather("end", bytes(rank)) is None
    assert first.gather("end", b"own") == [b"own", bytes(1), bytes(2)]
    assert store.num_keys() == before


def test_ranks_that_go_different_ways_are_told(store):
    first, second, third = three_ranks(store)
    first.broadcast("iteration 3", 0)
    with pytest.raises(TrialMisuse, match="rank 0 is at 'iteration 3', rank 1 at 'iteration 4'"):
        second.broadcast("iteration 4", 0)
    second.gather("end", 0)
    third.gather("end", 0)
    with pytest.raises(TrialMisuse, match="rank 1 is at 'end', rank 0 at 'save'"):
        first.gather("save", 0)


def test_a_wait_for_a_rank_has_an_end(store):
    store.set_timeout(timedelta(milliseconds=1))
    with pytest.raises(PeerLost, match="another rank is gone"):
        three_ranks(store)[1].broadcast("a", 0)
