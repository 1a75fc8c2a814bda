"""Ports and multicast groups of their own for processes started by a tool.

Two runs on one machine must never meet: each takes a block of ports that is free now, below the
range from which the kernel picks, and multicast addresses derived from it.
"""

from __future__ import annotations

import os
import random
import socket

from jgroups_py.config.settings import StackConfig

FIRST, LAST = 12000, 20000  # real drills have theirs above; Linux picks from 32768 on


def free_block(size: int, host: str = "127.0.0.1") -> int:
    """The first of ``size`` consecutive ports that nobody uses now."""
    chance = random.Random(os.urandom(8))
    for _ in range(200):
        first = chance.randrange(FIRST, LAST - size)
        if all(_is_free(host, port) for port in range(first, first + size)):
            return first
    raise OSError(f"no {size} free consecutive ports within {FIRST}..{LAST} on {host}")


def private_attributes(stack: StackConfig, members: int, host: str = "127.0.0.1") -> dict[str, str]:
    """Attribute overrides that keep a group of ``members`` on one machine to itself."""
    size = 2 * members + 2
    first = free_block(size, host)
    group = f"239.{192 + first % 64}.{first >> 8 & 255}.{first & 255}"
    attributes: dict[str, str] = {}
    for name in stack:
        protocol = name.short_name
        if protocol in ("UDP", "SHARED_LOOPBACK"):
            attributes[f"{protocol}.mcast_addr"] = group
            attributes[f"{protocol}.mcast_port"] = str(first)
        elif protocol == "TCP":
            attributes["TCP.bind_port"] = str(first)
            attributes["TCP.port_range"] = str(members)
        elif protocol == "TCPPING":
            hosts = ",".join(f"{host}[{first + n}]" for n in range(members))
            attributes["TCPPING.initial_hosts"] = hosts
            attributes["TCPPING.port_range"] = "0"
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
