"""Counts the listeners of a multicast group on the loopback interface, as Linux lists them in /proc/net.

Packets through the loopback interface stay in this network namespace, and the kernel lists all its sockets. So a
member that is alone there can be sure of that, and need not wait for answers that cannot come. On other interfaces, on
other systems, and where /proc is closed, the number is unknown.

Of two members that start together, each binds its socket before it looks. So at least one of them sees the other. A
member that sees another one asks it and waits.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

LOOKS_MAX: Final = 5
"""The list is read again when it changed meanwhile. After this many readings the number is unknown."""


def others(sock: socket.socket, interface: str, proc: Path = Path("/proc/net")) -> int | None:
    """Return the number of other sockets that have the port of ``sock``, whatever address they are bound to. None: unknown."""
    if not ipaddress.ip_address(interface.partition("%")[0]).is_loopback:
        return None
    own = f"{os.fstat(sock.fileno()).st_ino}"
    return count(lambda: _sockets(proc), sock.getsockname()[1], own)


def count(look: Callable[[], dict[str, int] | None], port: int, own: str) -> int | None:
    """Return the number of sockets besides ``own`` that have ``port``. ``look`` returns sockets and their ports.

    The kernel hands its list out in pieces. When a socket is closed between two of them, another one may be left out. Then the next look
    has no closed socket, and differs. So two equal looks in a row leave out no socket that was there before the first.
    """
    before = None
    for _ in range(LOOKS_MAX):
        found = look()
        if found is None or own not in found:
            return None
        if found == before:
            return sum(at == port for at in found.values()) - 1
        before = found
    return None


def _sockets(proc: Path) -> dict[str, int] | None:
    """Return the ports of all UDP sockets, by inode."""
    try:
        lines = (proc / "udp").read_text("ascii").splitlines()[1:]
        if (proc / "udp6").exists():
            lines += (proc / "udp6").read_text("ascii").splitlines()[1:]
        words = [line.split() for line in lines]
        return {word[9]: int(word[1].rpartition(":")[2], 16) for word in words}
    except (OSError, ValueError, IndexError):
        return None
