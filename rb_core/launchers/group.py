"""How the ranks of a trial come together before the training function runs."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from rb_core.errors import LaunchFailure
from rb_core.launchers import linux
from rb_core.ports import TrialRun
from rb_core.training.peers import Peers

_LOOPBACK = "127.0.0.1"


@contextmanager
def apart(run: TrialRun, rank: int, peers: Peers, device: str, timeout_s: float) -> Iterator[bool]:
    """No process group, and no import of torch: for frameworks that bring their own."""
    yield False


@contextmanager
def torch_group(
    run: TrialRun,
    rank: int,
    peers: Peers,
    device: str,
    timeout_s: float,
    *,
    address: str = _LOOPBACK,
    meeting: str = _LOOPBACK,
) -> Iterator[bool]:
    """torch's default process group: nccl between GPUs where each rank has one, else gloo.

    Also for a single rank, so that code which asks torch.distributed runs at any world size.

    Args:
        run: what is started.
        rank: which rank this is.
        peers: how the ranks tell each other where they meet.
        device: where this rank computes, as torch names it.
        timeout_s: longest wait for another rank.
        address: this machine's, as the machines of the other ranks reach it; its interface is what gloo uses, unless
            ``GLOO_SOCKET_IFNAME`` names another one.
        meeting: the address of rank 0's machine.

    Raises:
        LaunchFailure: the slot names a GPU that torch cannot use.
    """
    import torch
    import torch.distributed

    dist: Any = torch.distributed
    interface = linux.interface_of(address)
    if interface is not None:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
    backend = "gloo"
    if device != "cpu":
        if not torch.cuda.is_available():
            raise LaunchFailure(
                f"slot {run.slots[rank].index} of node {run.slots[rank].node} is GPU {run.slots[rank].device}, "
                "but torch finds no usable GPU there; install a CUDA build of torch or use slots without GPUs"
            )
        torch.cuda.set_device(0)
        if len({(slot.node, slot.device) for slot in run.slots}) == len(run.slots):
            backend = "cpu:gloo,cuda:nccl"
    timeout = timedelta(seconds=timeout_s)
    world_size = len(run.slots)
    if rank == 0:
        listener = socket.create_server((meeting, 0))
        port = peers.broadcast("rendezvous", listener.getsockname()[1])
        store = dist.TCPStore(
            meeting, port, world_size, True, timeout, wait_for_workers=False, master_listen_fd=listener.detach()
        )
    else:
        port = peers.broadcast("rendezvous", None)
        store = dist.TCPStore(meeting, port, world_size, False, timeout, wait_for_workers=False)
    dist.init_process_group(backend, store=store, rank=rank, world_size=world_size, timeout=timeout)
    yield True
    # Not after an error: with a rank gone this could wait for it.
    dist.destroy_process_group()
