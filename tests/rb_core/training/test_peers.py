import socket

import pytest

from rb_core.errors import TrialMisuse
from rb_core.training.peers import Alone, PeerLost, SocketPeers


@pytest.fixture
def three():
    pairs = [socket.socketpair() for _ in range(2)]
    yield [SocketPeers(0, [a for a, _ in pairs]), *(SocketPeers(r, [b]) for r, (_, b) in enumerate(pairs, start=1))]
    for pair in pairs:
        for side in pair:
            side.close()


def test_rank_0_tells_the_others(three):
    assert [peers.broadcast("x", peers is three[0] and "zero") for peers in three] == ["zero"] * 3


def test_rank_0_hears_the_others_in_order(three):
    assert [three[rank].gather("x", rank) for rank in (2, 1)] == [None, None]
    assert three[0].gather("x", 0) == [0, 1, 2]


def test_one_process_agrees_with_itself():
    assert Alone().broadcast("x", 1) == 1
    assert Alone().gather("x", 1) == [1]


def test_ranks_at_different_occasions_are_told_so(three):
    three[0].broadcast("iteration 3", None)
    with pytest.raises(TrialMisuse, match="rank 0 is at 'iteration 3', rank 1 at 'end'"):
        three[1].broadcast("end", None)


def test_a_rank_that_is_gone_is_lost():
    here, there = socket.socketpair()
    there.close()
    with here:
        for call in (SocketPeers(0, [here]).broadcast, SocketPeers(0, [here]).gather, SocketPeers(1, [here]).gather):
            with pytest.raises(PeerLost):
                call("x", 1)
