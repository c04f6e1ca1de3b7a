"""Which rank is to blame: from the ends of ranks as they come, without Ray."""

from __future__ import annotations

import pickle
import queue

import pytest
from rb_ray.trainable.ending import End, ending, watch

from rb_core.errors import FailureKind, TrialFailure, TrialMisuse


def watched(*ends, world_size=2, timeout_s=60.0, patience_s=0.0):
    coming: queue.SimpleQueue[End] = queue.SimpleQueue()
    for end in ends:
        coming.put(end)
    return watch(coming, world_size, timeout_s, trial=7, patience_s=patience_s)


def test_when_all_end_well_the_value_is_rank_0_s():
    assert watched(End(rank=1, value="other"), End(rank=0, value="own")) == "own"


def test_a_rank_that_fails_of_itself_is_not_waited_for_others():
    with pytest.raises(TrialFailure, match=r"trial 7, rank 1 failed: ValueError: boom") as caught:
        watched(ending(1, ValueError("boom")))
    assert (caught.value.kind, caught.value.rank) == (FailureKind.RAISED, 1)


def test_a_rank_that_only_lost_another_one_is_not_to_blame():
    lost = End(rank=0, at_s=1.0, error=ConnectionError("gone"), lost_peer=True)
    died = End(rank=1, at_s=2.0, cause="its process ended", kind=FailureKind.DIED)
    with pytest.raises(TrialFailure, match="rank 1 failed: its process ended"):
        watched(lost, died, patience_s=60.0)


def test_when_every_rank_has_lost_another_one_the_first_to_say_so_is_named():
    first, second = ConnectionError("first"), ConnectionError("second")
    with pytest.raises(ConnectionError, match="first"):
        watched(
            End(rank=1, at_s=2.0, cause=str(second), lost_peer=True),
            End(rank=0, at_s=1.0, error=first, lost_peer=True),
        )


def test_the_wait_for_a_true_cause_has_an_end():
    with pytest.raises(ConnectionError):
        watched(End(rank=0, error=ConnectionError("gone"), lost_peer=True))


def test_the_wait_for_the_others_has_an_end():
    with pytest.raises(TrialFailure, match=r"rank 1 failed: it has not ended within 0.001 s") as caught:
        watched(End(rank=0), timeout_s=0.001)
    assert caught.value.kind is FailureKind.HUNG


def test_an_end_that_tune_asks_for_is_no_failure():
    with pytest.raises(SystemExit) as caught:
        watched(End(rank=0, error=SystemExit(0)))
    assert caught.value.code == 0


@pytest.mark.parametrize(
    ("error", "cause", "has_traceback", "lost_peer"),
    [
        (ValueError("one\ntwo"), "ValueError: one", True, False),
        (SystemExit("enough"), "SystemExit: enough", True, False),
        (TrialMisuse("do it so"), "do it so", False, False),
        (RuntimeError("[...] Connection closed by peer"), "RuntimeError: [...] Connection closed by peer", True, True),
    ],
)
def test_what_a_rank_says_of_its_error(error, cause, has_traceback, lost_peer):
    end = ending(3, error)
    assert (end.rank, end.cause, bool(end.traceback), end.lost_peer) == (3, cause, has_traceback, lost_peer)


def test_the_failure_comes_whole_out_of_tune_s_process():
    with pytest.raises(TrialFailure) as caught:
        watched(ending(1, ValueError("boom")))
    sent, come = caught.value, pickle.loads(pickle.dumps(caught.value))
    assert (str(come), come.rank, come.kind, come.traceback) == (str(sent), sent.rank, sent.kind, sent.traceback)
