"""What is made of what several wardens of one trial say, or do not say."""

import pickle
import select
import socket
import threading

import pytest

from rb_core.clock import SystemClock
from rb_core.errors import FailureKind
from rb_core.launchers.order import Ended, Failure, Kill
from rb_core.launchers.watch import Watch
from rb_core.ports import TrialNotice
from rb_core.training.frames import receive_frame, send_frame
from rb_core.trial import Remark, Stop

LOST = Failure(rank=0, cause="rank 2 is gone", kind=FailureKind.DIED, lost_peer=True)
BOOM = Failure(rank=2, cause="ValueError: boom", traceback="...", output_tail=("last",))
DEAD = Failure(rank=2, cause="node n1 was lost", kind=FailureKind.DIED)


class Wardens:
    """Two wardens, of ranks 0 and 1 and of ranks 2 and 3, as a launcher's threads would hear them."""

    def __init__(self, **options):
        self.inbox = SystemClock().inbox()
        self.watch = Watch(7, self.inbox, **options)
        pairs = {rank: socket.socketpair() for rank in (0, 2)}
        self.near = {rank: near for rank, (near, _) in pairs.items()}
        self.far = {rank: far for rank, (_, far) in pairs.items()}
        lines = [socket.socketpair() for _ in range(4)]
        self.channels = [near for near, _ in lines]
        self.ranks = [far for _, far in lines]

    def say(self, rank, failure):
        send_frame(self.far[rank], pickle.dumps(Ended(failure=failure)))

    def heard(self, rank):
        self.far[rank].settimeout(0)
        try:
            return pickle.loads(receive_frame(self.far[rank]))
        except (BlockingIOError, EOFError):
            return None

    def obey(self, rank):
        """Have a warden say, when it is told to end, that it was."""

        def end():
            kill = pickle.loads(receive_frame(self.far[rank]))
            self.say(rank, Failure(rank=rank, cause=kill.reason, kind=kill.kind))

        threading.Thread(target=end).start()

    def follow(self, **options):
        """What comes out when nobody says any more than has been said."""
        failure = self.watch.run(self.near, self.channels, **options)
        return None if failure is None else (failure.rank, failure.cause, failure.kind)

    def leave(self, *ranks):
        for rank in ranks:
            self.ranks[rank].close()


@pytest.fixture
def wardens(monkeypatch):
    monkeypatch.setattr("rb_core.launchers.watch.PATIENCE_S", 0.2)
    made = Wardens(farewell_s=0.2)
    yield made
    for connection in (*made.far.values(), *made.ranks):
        connection.close()


def test_a_trial_is_over_when_every_warden_says_so(wardens):
    wardens.say(0, None)
    wardens.say(2, None)
    wardens.leave(0, 1, 2, 3)
    assert wardens.follow() is None
    assert wardens.heard(0) is None


@pytest.mark.parametrize("order", [(0, 2), (2, 0)])
def test_a_rank_that_lost_a_peer_on_another_machine_is_not_to_blame(wardens, order):
    for rank in order:
        wardens.say(rank, LOST if rank == 0 else BOOM)
    wardens.leave(0, 1, 2, 3)
    assert wardens.follow() == (2, "ValueError: boom", FailureKind.RAISED)


def test_a_lost_peer_is_the_cause_when_no_better_one_comes_and_ends_the_others(wardens):
    wardens.say(0, LOST)
    wardens.leave(0, 1, 2, 3)
    assert wardens.follow() == (0, "rank 2 is gone", FailureKind.DIED)
    assert wardens.heard(2) == Kill(reason="rank 0 failed")


def test_one_failure_ends_the_others_and_what_they_say_of_that_does_not_count(wardens):
    wardens.obey(0)
    wardens.say(2, BOOM)
    wardens.leave(0, 1, 2, 3)
    assert wardens.follow() == (2, "ValueError: boom", FailureKind.RAISED)


def test_a_warden_that_vanishes_is_to_blame_before_those_who_lost_it(wardens):
    wardens.say(0, LOST)
    wardens.far[2].close()
    wardens.leave(0, 1, 2, 3)
    assert wardens.follow() == (2, "the process that guarded its ranks was killed", FailureKind.DIED)


def test_a_machine_that_does_not_answer_is_waited_for_only_so_long(wardens):
    wardens.watch.kill()
    assert wardens.follow() == (0, "killed on request; its machine did not answer in 0.2 s", FailureKind.DIED)
    assert wardens.heard(0) == wardens.heard(2) == Kill(reason="killed on request")
    for rank in (0, 2):  # and when it comes back, it finds nobody
        assert select.select([wardens.far[rank]], [], [], 0)[0]
        assert wardens.far[rank].recv(1) == b""


def test_a_machine_that_is_known_to_be_gone_is_not_waited_for(wardens):
    wardens.watch.lose(DEAD)
    wardens.obey(0)
    assert wardens.follow() == (2, "node n1 was lost", FailureKind.DIED)


def test_a_machine_that_is_gone_after_its_ranks_were_over_changes_nothing(wardens):
    wardens.say(0, None)
    wardens.say(2, None)
    wardens.leave(0, 1, 2, 3)
    assert wardens.follow() is None
    wardens.watch.lose(DEAD)


def test_a_start_that_failed_in_part_is_ended(wardens):
    wardens.say(2, Failure(rank=2, cause="told to", kind=FailureKind.DIED))
    unstarted = Failure(rank=0, cause="no process could be forked", kind=FailureKind.UNSTARTED)
    near, channels = {2: wardens.near[2]}, wardens.channels
    for connection in (wardens.near[0], *channels):
        connection.close()
    failure = wardens.watch.run(near, (), failure=unstarted)
    assert (failure.cause, failure.kind) == ("no process could be forked", FailureKind.UNSTARTED)
    assert wardens.heard(2) == Kill(reason="rank 0 failed")


def test_what_was_asked_before_the_lines_came_is_done(wardens):
    wardens.watch.send(3, Remark(text="for rank 3"))
    wardens.watch.stop(60)
    got = []

    def end():
        got.extend(pickle.loads(receive_frame(wardens.ranks[rank])) for rank in (3, 0))
        send_frame(wardens.ranks[1], pickle.dumps(Remark(text="from rank 1")))
        wardens.say(0, None)
        wardens.say(2, None)
        wardens.leave(0, 1, 2, 3)

    threading.Thread(target=end).start()
    assert wardens.follow() is None
    assert got == [Remark(text="for rank 3"), Stop()]
    assert wardens.inbox.get(0) == TrialNotice(trial=7, rank=1, message=Remark(text="from rank 1"))
