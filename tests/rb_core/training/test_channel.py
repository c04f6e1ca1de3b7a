import pickle
import socket

import pytest

from rb_core.training.channel import SocketChannel
from rb_core.training.frames import receive_frame, send_frame
from rb_core.trial import Remark, Stop


@pytest.fixture
def ends():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield SocketChannel(ours), theirs


def test_messages_go_out_in_order(ends):
    channel, engine = ends
    for text in "ab":
        channel.send(Remark(text=text))
    assert [pickle.loads(receive_frame(engine)).text for _ in "ab"] == ["a", "b"]


def test_a_stop_is_seen_without_waiting_and_stays(ends):
    channel, engine = ends
    assert not channel.stop_requested()
    send_frame(engine, pickle.dumps(Stop()))
    assert channel.stop_requested()
    assert channel.stop_requested()


def test_a_stop_between_question_and_answer_is_no_answer(ends):
    channel, engine = ends
    send_frame(engine, pickle.dumps(Stop()))
    send_frame(engine, pickle.dumps(Remark(text="answer")))
    assert channel.ask(Remark(text="question")) == Remark(text="answer")
    assert channel.stop_requested()


def test_an_answer_that_comes_early_waits_for_its_question(ends):
    channel, engine = ends
    send_frame(engine, pickle.dumps(Remark(text="answer")))
    assert not channel.stop_requested()
    assert channel.ask(Remark(text="question")) == Remark(text="answer")


def test_an_engine_that_is_gone_is_told_nothing_and_asked_nothing(ends):
    channel, engine = ends
    engine.close()
    channel.send(Remark(text="lost"))
    assert not channel.stop_requested()
    with pytest.raises(ConnectionError, match="engine is gone"):
        channel.ask(Remark(text="lost"))
