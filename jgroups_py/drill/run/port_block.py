"""The ports of one real drill, reserved against other drills of this host."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from jgroups_py.drill.run.resolve import DrillError

HOST = "127.0.0.1"
MEMBERS_MAX = 100
"""The most members: FD_SOCK2 listens 100 ports above its transport."""
FD_OFFSET, BRIDGE_OFFSET, GROUP_OFFSET, GUARD_OFFSET = 100, 200, 400, 500
"""Member i has port base + i. Its FD_SOCK2 is 100 above, its bridge 200, the bridge's FD_SOCK2 300. The multicasts of
site i go to port base + 400 + i. The guard port is above all of them."""
BASES = range(20_000, 32_000, GUARD_OFFSET + 1)
"""The first ports of blocks, below the ports that Linux gives to outgoing connections (32768 on)."""


@contextmanager
def port_block(members: int) -> Iterator[int]:
    """Reserve a block of ports until the end of the ``with`` block, and yield its first port.

    Members bind later: until then this process listens on the guard port, which marks the block as taken.

    Raises:
        DrillError: no block is free.
    """
    bases = list(BASES)
    random.Random(os.urandom(8)).shuffle(bases)
    for base in bases:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as guard:
            try:
                guard.bind((HOST, base + GUARD_OFFSET))
                guard.listen()
            except OSError:
                continue
            steps = range(0, GUARD_OFFSET, FD_OFFSET)
            if all(_is_free(base + i + step) for i in range(members) for step in steps):
                yield base
                return
    raise DrillError("no block of free ports on this machine")


def _is_free(port: int) -> bool:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(socket.AF_INET, kind) as sock:
            if kind == socket.SOCK_STREAM:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                sock.bind((HOST, port))
            except OSError:
                return False
    return True
