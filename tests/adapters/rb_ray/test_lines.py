"""Connections are for those who hold a ticket alone, and for once."""

import dataclasses
import socket
import threading

import pytest
from rb_ray.launching.lines import Listener, dial

from rb_core.errors import LaunchFailure


@pytest.fixture
def listener():
    made = Listener("127.0.0.1")
    yield made
    made.close()


def refused(connection):
    connection.settimeout(10)
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_each_ticket_is_good_for_its_own_connection(listener):
    tickets = listener.offer(3)
    ours = [dial(ticket) for ticket in reversed(tickets)]
    assert listener.wait(tickets, 10)
    theirs = listener.take(tickets)
    for near, far in zip(reversed(ours), theirs, strict=True):
        near.sendall(b"through")
        assert far.recv(7) == b"through"
        near.close()
        far.close()


def test_a_ticket_is_good_for_once(listener):
    (ticket,) = listener.offer(1)
    first = dial(ticket)
    assert listener.wait([ticket], 10)
    with pytest.raises(LaunchFailure, match="was not accepted"):
        dial(ticket)
    listener.take([ticket])[0].close()
    first.close()


def test_a_ticket_that_was_taken_back_is_worth_nothing(listener):
    (ticket,) = listener.offer(1)
    assert listener.take([ticket]) == [None]
    with pytest.raises(LaunchFailure, match="was not accepted"):
        dial(ticket)


def test_whoever_knows_the_number_without_the_secret_is_not_let_in(listener):
    (ticket,) = listener.offer(1)
    with socket.create_connection((ticket.host, ticket.port)) as guesser:
        guesser.sendall(ticket.number + bytes(32))
        guesser.recv(64, socket.MSG_WAITALL)
        guesser.sendall(bytes(32))
        assert refused(guesser)
    assert not listener.wait([ticket], 0)
    dial(ticket).close()  # nor does it cost the rightful one his place
    assert listener.wait([ticket], 10)


def test_what_the_listener_proves_with_is_no_proof_for_the_other_side(listener):
    (ticket,) = listener.offer(1)
    with socket.create_connection((ticket.host, ticket.port)) as mirror:
        mirror.sendall(ticket.number + bytes(32))
        answer = mirror.recv(64, socket.MSG_WAITALL)
        mirror.sendall(answer[32:])
        assert refused(mirror)
    assert not listener.wait([ticket], 0)


def test_one_who_says_nothing_holds_up_nobody_and_is_closed(listener, monkeypatch):
    monkeypatch.setattr("rb_ray.launching.lines.HANDSHAKE_S", 0.3)
    (ticket,) = listener.offer(1)
    with socket.create_connection((ticket.host, ticket.port)) as silent:
        dial(ticket).close()
        assert listener.wait([ticket], 10)
        assert refused(silent)


def test_who_dials_tells_an_impostor_from_the_listener(listener):
    (ticket,) = listener.offer(1)
    with socket.create_server(("127.0.0.1", 0)) as impostor:

        def pretend():
            connection, _ = impostor.accept()
            with connection:
                connection.recv(48, socket.MSG_WAITALL)
                connection.sendall(bytes(64))

        thread = threading.Thread(target=pretend)
        thread.start()
        with pytest.raises(LaunchFailure, match="does not know the secret"):
            dial(dataclasses.replace(ticket, port=impostor.getsockname()[1]))
        thread.join()


def test_nobody_there_is_a_launch_failure_that_names_the_place(listener):
    (ticket,) = listener.offer(1)
    listener.close()
    with pytest.raises(LaunchFailure, match=f"no connection to 127.0.0.1:{ticket.port}"):
        dial(ticket)


def test_a_ticket_shows_no_secret(listener):
    (ticket,) = listener.offer(1)
    assert repr(ticket.secret) not in repr(ticket)
