from __future__ import annotations

import json
import secrets
import socket
import threading
from collections.abc import Iterator

import pytest

from rb_core.errors import LaunchFailure
from rb_core.providers.ec2 import lifeline as module
from rb_core.providers.ec2.agent import Line, proof
from rb_core.providers.ec2.lifeline import MOST_BYTES, Lifeline, NodePhase, NodeReport

KEY = bytes(range(32))
TOLD = {"node": "run-1", "instance": "i-1", "phase": "running"}


class Driver:
    """A lifeline, and what it heard."""

    def __init__(self) -> None:
        self.heard: list[NodeReport] = []
        self.lifeline = Lifeline(KEY, self.heard.append, "127.0.0.1")

    def line(self, key: bytes = KEY) -> Line:
        return Line(self.lifeline.address, key)

    def say(self, request: bytes) -> bytes:
        """The answer to what is no proper client."""
        host, port = self.lifeline.address.split(":")
        with socket.create_connection((host, int(port)), 10) as stranger:
            stranger.sendall(request)
            return b"".join(iter(lambda: stranger.recv(65536), b""))


@pytest.fixture
def driver() -> Iterator[Driver]:
    made = Driver()
    yield made
    made.lifeline.close()


def posted(body: bytes, **headers: str) -> bytes:
    shown = "".join(f"X-Rubberband-{name}: {value}\r\n" for name, value in headers.items())
    return f"POST / HTTP/1.0\r\nContent-Length: {len(body)}\r\n{shown}\r\n".encode() + body


def test_a_report_is_heard_and_the_lease_renewed(driver: Driver):
    line = driver.line()
    assert line.tell({**TOLD, "leaves_in_s": 119.5, "rebalance": True, "said": "so far"})["end"] is False
    line.tell(TOLD)
    assert driver.heard == [
        NodeReport(
            node="run-1", instance="i-1", phase=NodePhase.RUNNING, said="so far", leaves_in_s=119.5, rebalance=True
        ),
        NodeReport(node="run-1", instance="i-1", phase=NodePhase.RUNNING),
    ]


def test_a_node_that_is_dismissed_is_told_so_and_no_other(driver: Driver):
    driver.lifeline.dismiss(["run-1"])
    line = driver.line()
    assert line.tell(TOLD)["end"] is True
    assert line.tell({**TOLD, "node": "run-2"})["end"] is False


def test_who_does_not_hold_the_key_is_not_heard(driver: Driver):
    with pytest.raises(ConnectionError, match="does not take this node's proof"):
        driver.line(secrets.token_bytes(32)).tell(TOLD)
    assert driver.heard == []


def test_an_impostor_does_not_keep_a_node_alive():
    heard: list[NodeReport] = []
    impostor = Lifeline(secrets.token_bytes(32), heard.append, "127.0.0.1")
    impostor.answer = lambda challenge, nonce, shown, body: (b'{"challenge": "", "end": false}', shown)
    try:
        with pytest.raises(ConnectionError, match="is not the driver"):
            Line(impostor.address, KEY).tell(TOLD)
    finally:
        impostor.close()


def test_a_replay_is_refused(driver: Driver):
    body, challenge = json.dumps(TOLD).encode(), driver.lifeline.challenge()
    request = posted(body, Challenge=challenge, Nonce="n", Proof=proof(KEY, "node", challenge, "n", body))
    assert b" 200 " in driver.say(request)
    assert b" 401 " in driver.say(request)
    assert len(driver.heard) == 1


def test_a_report_is_bound_to_its_challenge_its_nonce_and_its_body(driver: Driver):
    body, challenge = json.dumps(TOLD).encode(), driver.lifeline.challenge()
    shown = proof(KEY, "node", challenge, "n", body)
    for changed in (
        posted(body, Challenge=driver.lifeline.challenge(), Nonce="n", Proof=shown),
        posted(body, Challenge=challenge, Nonce="m", Proof=shown),
        posted(body + b" ", Challenge=challenge, Nonce="n", Proof=shown),
        posted(body, Challenge=challenge, Nonce="n", Proof=proof(KEY, "driver", challenge, "n", body)),
        posted(body, Challenge="1.0-made-up", Nonce="n", Proof=proof(KEY, "node", "1.0-made-up", "n", body)),
        posted(body),
    ):
        assert b" 401 " in driver.say(changed)
    assert driver.heard == []
    assert b" 200 " in driver.say(posted(body, Challenge=challenge, Nonce="n", Proof=shown))


def test_an_old_challenge_is_no_good_and_a_node_gets_on_with_a_new_one(driver: Driver, monkeypatch):
    line = driver.line()
    line.tell(TOLD)
    monkeypatch.setattr(module, "CHALLENGE_S", -1.0)
    with pytest.raises(ConnectionError):
        line.tell(TOLD)
    monkeypatch.setattr(module, "CHALLENGE_S", 60.0)
    line.tell(TOLD)
    assert len(driver.heard) == 2


def test_challenges_that_were_used_are_forgotten_once_they_are_too_old(driver: Driver, monkeypatch):
    line = driver.line()
    monkeypatch.setattr(module, "CHALLENGE_S", 0.5)
    line.tell(TOLD)
    first = set(driver.lifeline._used)
    threading.Event().wait(0.6)
    line.tell(TOLD)
    assert first.isdisjoint(driver.lifeline._used)


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (f"POST / HTTP/1.0\r\nContent-Length: {MOST_BYTES + 1}\r\n\r\n".encode(), b" 413 "),
        (b"POST / HTTP/1.0\r\nContent-Length: -1\r\n\r\n", b" 413 "),
        (b"POST / HTTP/1.0\r\n\r\n", b" 413 "),
        (b"GET / HTTP/1.0\r\n\r\n", b" 501 "),
    ],
)
def test_what_is_no_report_is_refused(driver: Driver, request_, status):
    assert status in driver.say(request_)


@pytest.mark.parametrize("told", [b"[]", b"{", b'{"node": "a", "instance": "i", "phase": "flying"}', b"\xff"])
def test_a_proven_report_that_is_none_is_refused(driver: Driver, told):
    challenge = driver.lifeline.challenge()
    request = posted(told, Challenge=challenge, Nonce="n", Proof=proof(KEY, "node", challenge, "n", told))
    assert b" 400 " in driver.say(request)
    assert driver.heard == []


def test_strangers_who_hold_connections_open_do_not_keep_nodes_out(driver: Driver, monkeypatch):
    monkeypatch.setattr(module, "MOST_CONNECTIONS", 4)
    host, port = driver.lifeline.address.split(":")
    strangers = [socket.create_connection((host, int(port)), 10) for _ in range(12)]
    try:
        driver.line().tell(TOLD)
        assert len([t for t in threading.enumerate() if t.name == "lease"]) <= 4
    finally:
        for stranger in strangers:
            stranger.close()


def test_no_thread_is_left_and_closing_again_does_nothing():
    before = set(threading.enumerate())
    driver = Driver()
    host, port = driver.lifeline.address.split(":")
    with socket.create_connection((host, int(port)), 10):
        driver.line().tell(TOLD)
        driver.lifeline.close()
    driver.lifeline.close()
    assert set(threading.enumerate()) == before


def test_a_port_in_use_and_a_foreign_address_are_refused(driver: Driver):
    port = int(driver.lifeline.address.split(":")[1])
    with pytest.raises(LaunchFailure, match="nodes cannot report to"):
        Lifeline(KEY, driver.heard.append, "127.0.0.1", port)
    with pytest.raises(LaunchFailure, match="one of this machine's"):
        Lifeline(KEY, driver.heard.append, "192.0.2.1")
