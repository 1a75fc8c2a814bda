"""Picks ports and multicast groups for processes that a tool starts.

Two runs on one machine must never meet. So each takes a block of ports that is free now, below the range from which the
kernel picks, and multicast addresses that are derived from it. Members bind the ports only later: until then guards say to
other processes that the block is taken.
"""

from __future__ import annotations

import errno
import os
import random
import socket
from collections import deque
from typing import Final

from jgroups_py.config.settings import StackConfig

FIRST, LAST = 12000, 20000  # real drills have theirs above; Linux picks from 32768 on
SLOT: Final = 16
"""Blocks begin at multiples of this many ports."""
GUARD_HOST: Final = "127.0.0.2"
"""The address of guards. A guard is a socket that is bound to the first port of a slot. No member has this address."""
HELD_MAX: Final = 16
"""Blocks that a process holds; with one more, the oldest is given up."""
_held: deque[list[socket.socket]] = deque()


def free_block(size: int, host: str = "127.0.0.1") -> int:
    """Return the first of ``size`` consecutive ports that are free now. No other process gets one of them before this one ends or
    has asked for ``HELD_MAX`` more blocks. Raise ``OSError`` if there are none."""
    slots = list(range(FIRST, LAST - size + 1, SLOT))
    random.Random(os.urandom(8)).shuffle(slots)
    for first in slots:
        guards = _guards(range(first, first + size, SLOT))
        if guards is None:
            continue
        if all(_is_free(host, port) for port in range(first, first + size)):
            _held.append(guards)
            if len(_held) > HELD_MAX:
                _release(_held.popleft())
            return first
        _release(guards)
    raise OSError(f"no {size} free consecutive ports within {FIRST}..{LAST} on {host}")


def _guards(ports: range) -> list[socket.socket] | None:
    """A guard for each slot, or None if another process has one. Without ``GUARD_HOST`` (not on Linux) there are none."""
    guards: list[socket.socket] = []
    for port in ports:
        guard = socket.socket()
        guards.append(guard)
        try:
            guard.bind((GUARD_HOST, port))
        except OSError as error:
            _release(guards)
            return None if error.errno == errno.EADDRINUSE else []
    return guards


def _release(guards: list[socket.socket]) -> None:
    for guard in guards:
        guard.close()


def private_attributes(stack: StackConfig, members: int, host: str = "127.0.0.1") -> dict[str, str]:
    """Return attribute overrides that keep a group of ``members`` on one machine apart from others."""
    size = 2 * members + 2
    first = free_block(size, host)
    group = f"239.{192 + first % 64}.{first >> 8 & 255}.{first & 255}"
    attributes: dict[str, str] = {}
    tcp = False
    for name in stack:
        protocol = name.short_name
        if protocol in ("UDP", "SHARED_LOOPBACK"):
            attributes[f"{protocol}.mcast_addr"] = group
            attributes[f"{protocol}.mcast_port"] = str(first)
        elif protocol == "TCP":
            attributes["TCP.bind_port"] = str(first)
            attributes["TCP.port_range"] = str(members)
            tcp = True
        elif protocol == "TCPPING":
            hosts = ",".join(f"{host}[{first + n}]" for n in range(members))
            attributes["TCPPING.initial_hosts"] = hosts
            attributes["TCPPING.port_range"] = "0"
        elif protocol == "FD_SOCK2" and tcp:
            # With its default, 100, it would listen where another group has its block.
            attributes["FD_SOCK2.offset"] = str(members + 1)
        elif protocol == "MPING":
            attributes["MPING.mcast_addr"] = group
            attributes["MPING.mcast_port"] = str(first + 1)
    return attributes


def _is_free(host: str, port: int) -> bool:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, kind) as sock:
            try:
                sock.bind((host, port))
            except OSError:
                return False
    return True
