"""What Linux offers for owning processes: adoption of orphans, death with the parent, ends of whole families.

And for finding the network interface that has an address.
"""

from __future__ import annotations

import ctypes
import fcntl
import ipaddress
import os
import signal
import socket
import struct
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_SIOCGIFADDR = 0x8915
_SIOCGIFNETMASK = 0x891B


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends. Not inherited by forks."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends; end at once if that happened already.

    Args:
        parent: pid that the parent had when it forked this process.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


_SURVIVES_FORKS = "jemalloc_bg_thd"
"""The thread of an allocator, pyarrow's for one, which ends it before a fork and starts it anew where it is needed."""


def thread_count() -> int:
    """Threads of this process that a fork of it would miss, those of native libraries included."""
    count = 0
    for thread in os.listdir("/proc/self/task"):
        try:
            name = Path(f"/proc/self/task/{thread}/comm").read_text(encoding="utf-8").strip()
        except OSError:
            continue  # it has just ended
        count += name != _SURVIVES_FORKS
    return count


def holds_cuda() -> bool:
    """Whether this process has opened the CUDA driver, after which a fork of it cannot use a GPU."""
    for entry in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if os.readlink(f"/proc/self/fd/{entry}").startswith("/dev/nvidia-uvm"):
                return True
    return False


def interface_of(address: str) -> str | None:
    """The network interface that has this IPv4 address, else the one in whose network it lies; None without any."""
    wanted = ipaddress.IPv4Address(address)
    near: str | None = None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                own, mask = (_interface_field(probe, name, field) for field in (_SIOCGIFADDR, _SIOCGIFNETMASK))
            except OSError:  # it has no IPv4 address
                continue
            if own == wanted:
                return name
            if near is None and wanted in ipaddress.IPv4Network((int(own), str(mask)), strict=False):
                near = name
    return near


def _interface_field(probe: socket.socket, name: str, field: int) -> ipaddress.IPv4Address:
    answer = fcntl.ioctl(probe, field, struct.pack("256s", name.encode()[:15]))
    return ipaddress.IPv4Address(answer[20:24])


def end_family(spare: frozenset[int] = frozenset()) -> None:
    """Kill every descendant of this process and wait until each is gone.

    Args:
        spare: children that stay, with all their descendants.
    """
    while spare or _has_children():
        doomed = _descendants(os.getpid(), spare)
        if spare and not doomed:
            return
        for pid in doomed:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in doomed:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _has_children() -> bool:
    """Whether any child is left, once those that have ended are collected."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _descendants(ancestor: int, spare: frozenset[int]) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                # The name in parentheses may hold anything, spaces and parentheses too.
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                children.setdefault(int(parent), []).append(int(entry.name))
    found, pending = [], [ancestor]
    while pending:
        below = [pid for pid in children.get(pending.pop(), []) if pid not in spare]
        found += below
        pending += below
    return found


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
