"""Which network interface torch is told to use."""

import socket

import pytest

from rb_core.launchers.linux import interface_of


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.7"])
def test_loopback_addresses_are_the_loopback_interface_s(address):
    assert interface_of(address) in {name for _, name in socket.if_nameindex()}
    assert interface_of(address) == interface_of("127.0.0.1") == "lo"


def test_an_address_of_no_network_of_this_machine_is_no_interface_s():
    assert interface_of("198.51.100.1") is None
