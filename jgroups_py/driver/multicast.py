"""Finds out whether multicast works here, by sending a datagram to itself."""

from __future__ import annotations

import os
import select
import socket
from dataclasses import dataclass

from jgroups_py.driver.opening import local_of, open_group, open_udp
from jgroups_py.stack.ports import Bind, JoinGroup


@dataclass(frozen=True, slots=True)
class MulticastProbe:
    """``usable``: multicast works. ``why``: the reason if it does not, in words."""

    usable: bool
    why: str = ""

    def __bool__(self) -> bool:
        return self.usable


def probe_multicast(
    interface: str = "127.0.0.1", *, group: str | None = None, timeout: float = 0.5
) -> MulticastProbe:
    """Send a datagram to a group on ``interface`` and wait for it. It blocks up to ``timeout``."""
    if group is None:
        group = "ff11::8:8:123" if ":" in interface else "239.255.77.77"
    opened: list[socket.socket] = []
    try:
        hears = open_group(JoinGroup(1, (group, 0), interface), 65536)
        opened.append(hears)
        speaks = open_udp(Bind(2, "udp", interface, 0, multicast_ttl=0), 65536)
        opened.append(speaks)
        token = os.urandom(16)
        speaks.sendto(token, (group, local_of(hears)[1]))
        while select.select([hears], [], [], timeout)[0]:
            if hears.recv(64) == token:
                return MulticastProbe(True)
        return MulticastProbe(False, f"a datagram sent to {group} on {interface} did not come back")
    except OSError as error:
        return MulticastProbe(False, f"multicast on {interface}: {error.strerror or error}")
    finally:
        for sock in opened:
            sock.close()
