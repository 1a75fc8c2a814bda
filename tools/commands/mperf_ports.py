"""Picks ports and multicast groups for processes that a tool starts.

Two runs on one machine must never meet. So each takes a block of ports that is free now, below the range from which the
kernel picks, and multicast addresses that are derived from it.
"""

from __future__ import annotations

import os
import random
import re
import socket

from jgroups_py.config.settings import StackConfig
from jgroups_py.errors import ConfigError

FIRST, LAST = 12000, 20000  # real drills have theirs above; Linux picks from 32768 on
RANGE_VARIABLE = "JGROUPS_TOOL_PORTS"
"""A variable of the environment with another range, such as ``12000..20000``. Runs with separate ranges cannot meet, not even
between the moments in which a block is chosen and bound."""


def free_block(size: int, host: str = "127.0.0.1") -> int:
    """Return the first of ``size`` consecutive ports that are free now. Raise ``OSError`` if there are none, and
    ``ConfigError`` if ``JGROUPS_TOOL_PORTS`` is not a range of ports."""
    low, high = _range()
    chance = random.Random(os.urandom(8))
    for _ in range(200 if size <= high - low + 1 else 0):
        first = chance.randint(low, high - size + 1)
        if all(_is_free(host, port) for port in range(first, first + size)):
            return first
    raise OSError(f"no {size} free consecutive ports within {low}..{high} on {host}")


def _range() -> tuple[int, int]:
    text = os.environ.get(RANGE_VARIABLE)
    if text is None:
        return FIRST, LAST
    match = re.fullmatch(r"([0-9]{1,5})\.\.([0-9]{1,5})", text)
    if match is None or not 0 < int(match[1]) < int(match[2]) < 65536:
        raise ConfigError(f"{RANGE_VARIABLE}={text!r} is no range of ports such as {FIRST}..{LAST}")
    return int(match[1]), int(match[2])


def private_attributes(stack: StackConfig, members: int, host: str = "127.0.0.1") -> dict[str, str]:
    """Return attribute overrides that keep a group of ``members`` on one machine apart from others."""
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
