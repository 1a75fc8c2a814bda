"""The other programs of this machine that listen to multicast groups, as Linux lists them in /proc/net. They are only
hints.

Elsewhere, and where /proc is closed, they are unknown. IPv4 only. Sockets of other machines or other network namespaces
are not seen; one that is seen may belong to another program. Groups of 224.0.0.* are left
out: no cluster uses them, name services do.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from pathlib import Path

from jgroups_py.stack.ports import Endpoint

PLACES_MAX = 5
"""The most groups that are named."""


def hints(groups: Sequence[Endpoint], proc: Path = Path("/proc/net")) -> list[str]:
    """Describe the other programs in words, for a member that listens to ``groups`` and is alone. It reads two small
    files."""
    if not groups:
        return []
    found = []
    listening = _listening(_read(proc / "udp"))
    others = [place for place in listening if place not in groups]
    if others:
        # Those that differ in one part only are the likely mistakes.
        own = {part for place in groups for part in place}
        others.sort(key=lambda place: own.isdisjoint(place))
        places = ", ".join(f"{host}:{port}" for host, port in others[:PLACES_MAX])
        found.append(f"a process on this machine listens to {places}: is the group there?")
    for place in groups:
        more = listening.get(place, 0) - 1
        if more > 0:
            sockets = "1 more socket" if more == 1 else f"{more} more sockets"
            found.append(
                f"{sockets} on this machine listen{'s' if more == 1 else ''} to "
                f"{place[0]}:{place[1]}: do cluster name, bind_addr and version agree?"
            )
    joined = _joined(_read(proc / "igmp"))
    for host, _ in groups:
        devices = joined.get(host, [])
        if len(devices) > 1:
            found.append(
                f"{host} is joined on {', '.join(devices)}: is bind_addr the same everywhere?"
            )
    return found


def _read(file: Path) -> list[str]:
    try:
        return file.read_text("ascii", "replace").splitlines()
    except OSError:
        return []


def _listening(lines: Sequence[str]) -> dict[Endpoint, int]:
    """Return the number of UDP sockets that are bound to each multicast address."""
    found: dict[Endpoint, int] = {}
    for line in lines[1:]:
        words = line.split()
        if len(words) < 2 or ":" not in words[1]:
            continue
        address, _, port = words[1].partition(":")
        host = _host(address)
        if host is not None and _is_group(host):
            place = host, int(port, 16)
            found[place] = found.get(place, 0) + 1
    return found


def _joined(lines: Sequence[str]) -> dict[str, list[str]]:
    """Return groups, and the devices on which they are joined."""
    found: dict[str, list[str]] = {}
    device = ""
    for line in lines[1:]:
        words = line.split()
        if not line[:1].isspace() and len(words) > 1:
            device = words[1].rstrip(":")
        elif words and (host := _host(words[0])) is not None and _is_group(host):
            found.setdefault(host, []).append(device)
    return found


def _host(text: str) -> str | None:
    """Read an address as the kernel prints it: a number in the machine's byte order, in hex."""
    try:
        return socket.inet_ntoa(struct.pack("=I", int(text, 16)))
    except (ValueError, struct.error):
        return None


def _is_group(host: str) -> bool:
    first = int(host.partition(".")[0])
    return 224 <= first <= 239 and not host.startswith("224.0.0.")
