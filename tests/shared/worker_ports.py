"""The ports of this process for members with the shipped stacks.

Two processes on this machine never have the same ones, also those of two runs of the tests. Each holds a guard: a socket
that is bound to the first port of its block, at an address that no member has.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Mapping
from functools import cache
from typing import Final

BLOCK: Final = 20
"""Ports of a block."""
FD_SOCK2_OFFSET: Final = 100
"""FD_SOCK2 listens so many ports above the transport. So every second hundred has no blocks."""
FIRST_PORTS: Final = [
    first
    for first in (*range(11000, 12000, BLOCK), *range(10000, 11000, BLOCK))
    if first // 100 % 2 == 0
]
"""The first port of each block. Tools take their ports above (``free_block``)."""
GUARD_HOST: Final = "127.0.0.2"
_held: list[socket.socket] = []


@cache
def ports() -> Mapping[str, str]:
    """Return the ports of this process, as environment variables."""
    first, guard = claim()
    _held.append(guard)
    return {
        "JGROUPS_UDP_MCAST_PORT": str(first),
        "JGROUPS_BIND_PORT": str(first + 1),
        "JGROUPS_TCPPING_INITIAL_HOSTS": f"localhost[{first + 1}]",
    }


def claim() -> tuple[int, socket.socket]:
    """Return the first port of a block that no process has, and its guard. A block with members is left out: their tests may have been
    killed. Where there is no ``GUARD_HOST`` (not on Linux) the block depends on the number of the worker alone."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    for number in range(len(FIRST_PORTS)):
        first = FIRST_PORTS[(worker + number) % len(FIRST_PORTS)]
        guard = socket.socket()
        try:
            guard.bind((GUARD_HOST, first))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                guard.close()
                continue
        else:
            if not _is_free(first):
                guard.close()
                continue
        return first, guard
    raise OSError(f"all {len(FIRST_PORTS)} blocks of ports are taken")


def _is_free(first: int) -> bool:
    """Return whether the block has no members."""
    ports = range(first, first + BLOCK)
    listened = [*ports, *(port + FD_SOCK2_OFFSET for port in ports)]
    places = [(socket.SOCK_STREAM, port) for port in listened]
    places += [(socket.SOCK_DGRAM, port) for port in ports]
    for kind, port in places:
        with socket.socket(socket.AF_INET, kind) as sock:
            if kind == socket.SOCK_STREAM:  # connections that have ended take no port
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                sock.bind(("127.0.0.1", port))
            except OSError:
                return False
    return True
