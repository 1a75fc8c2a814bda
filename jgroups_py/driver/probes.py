"""Tries the network and the clock of this machine, for ``jgroups-py doctor``.

Each function opens and closes its sockets, and returns facts. None judges them. Failures of the system are part of the
facts, so no function raises an OSError.
"""

from __future__ import annotations

import ctypes
import math
import os
import socket
import sys
import time
from dataclasses import dataclass
from typing import Final, Literal

import trio

from jgroups_py.driver import opening
from jgroups_py.driver.base import DriverLimits
from jgroups_py.driver.refusal import refusal
from jgroups_py.stack.ports import Bind, Endpoint, JoinGroup

PORTS_MAX: Final = 1000
"""The most ports of one range that are tried."""
_TIME_ERROR: Final = 5  # adjtimex: the clock is not synchronised
_TIMEX_BYTES: Final = 512  # struct timex is smaller on every system


@dataclass(frozen=True, slots=True)
class Device:
    """The interface with an address. ``mtu`` is in bytes, 0 if it is not known."""

    name: str
    mtu: int
    up: bool


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports that could be bound. ``problem``: the system's words about the last port that could not be
    bound."""

    free: tuple[int, ...]
    taken: tuple[int, ...]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Buffer:
    """A socket buffer: bytes asked for, and granted. ``kind``: its purpose."""

    kind: str
    asked: int
    granted: int


@dataclass(frozen=True, slots=True)
class EchoProbe:
    """The answer to the question whether a datagram to a multicast group came back. ``seconds``: the time until it
    came. ``problem``: why it could not be sent."""

    size: int
    came: bool
    seconds: float = 0.0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ClockProbe:
    """``synchronised``: the system says that its clock follows a server; None: it does not say. ``late``: the longest
    time by which a short sleep ended too late. ``stepped``: the amount by which the clock was set meanwhile.
    Seconds."""

    synchronised: bool | None
    late: float
    stepped: float


def device_of(host: str) -> Device | None:
    """Return the interface with that numeric address; None if no interface has it."""
    import psutil

    plain = host.partition("%")[0]
    for name, entries in psutil.net_if_addrs().items():
        if any(entry.address.partition("%")[0] == plain for entry in entries):
            stats = psutil.net_if_stats().get(name)
            return Device(name, stats.mtu if stats else 0, bool(stats and stats.isup))
    return None


def try_ports(kind: Literal["udp", "tcp"], host: str, first: int, last: int) -> Ports:
    """Bind each port for a moment, as a member would. ``first`` 0 is any port."""
    free, taken, problem = [], [], ""
    for port in range(first, min(last, first + PORTS_MAX - 1) + 1):
        bind = Bind(0, kind, host, port)
        try:
            sock = opening.open_udp(bind, 0) if kind == "udp" else opening.open_listener(bind)
        except OSError as error:
            taken.append(port)
            problem = refusal(host, port, port, error)
        else:
            free.append(port)
            sock.close()
    return Ports(tuple(free), tuple(taken), problem)


def try_group(group: Endpoint, interface: str) -> str:
    """Open the socket of a multicast group for a moment. Return the system's words if that fails."""
    try:
        opening.open_group(JoinGroup(0, group, interface), 0).close()
    except OSError as error:
        return refusal(*group, group[1], error)
    return ""


def buffers(
    host: str, group: Endpoint | None, send: int, receive: int, multicast: int
) -> tuple[Buffer, ...]:
    """Return the buffers that the system grants to the UDP sockets of a member. 0 asks for the driver's default."""
    default = DriverLimits.socket_buffer
    found = []
    try:
        bind = Bind(0, "udp", host, 0, send_buffer=send, receive_buffer=receive)
        with opening.open_udp(bind, default) as sock:
            sent, received = socket.SO_SNDBUF, socket.SO_RCVBUF
            found.append(Buffer("sending", send or default, opening.granted(sock, sent)))
            found.append(Buffer("receiving", receive or default, opening.granted(sock, received)))
        if group is not None:
            with opening.open_group(JoinGroup(0, group, host, multicast), default) as sock:
                asked = multicast or default
                got = opening.granted(sock, socket.SO_RCVBUF)
                found.append(Buffer("receiving multicasts", asked, got))
    except OSError:
        pass  # reported with the ports and the group
    return tuple(found)


async def multicast_echo(host: str, group: str, ttl: int, size: int, timeout: float) -> EchoProbe:
    """Send a datagram of ``size`` bytes to ``group`` and wait for it on a second socket, for ``timeout`` seconds at most.

    It goes to a free port and not to that of members: they would count it as garbage."""
    token = os.urandom(16)
    data = token.ljust(size, b"\0")
    begun = trio.current_time()
    try:
        with (
            opening.open_udp(Bind(0, "udp", host, 0, multicast_ttl=ttl), len(data)) as out,
            opening.open_group(JoinGroup(0, (group, 0), host), 2 * len(data)) as heard,
        ):
            heard_at = opening.local_of(heard)[1]
            sender = trio.socket.from_stdlib_socket(out.dup())
            receiver = trio.socket.from_stdlib_socket(heard.dup())
            with sender, receiver, trio.move_on_after(timeout):
                await sender.sendto(data, (group, heard_at))
                while not (await receiver.recv(65536)).startswith(token):
                    pass
                return EchoProbe(size, True, trio.current_time() - begun)
    except OSError as error:
        return EchoProbe(size, False, 0.0, error.strerror or str(error))
    return EchoProbe(size, False)


async def reachable(place: Endpoint, timeout: float) -> str:
    """Connect to a host and port for a moment. Return the reason if that fails, or an empty text."""
    try:
        with trio.fail_after(timeout):
            found = await trio.socket.getaddrinfo(*place, type=socket.SOCK_STREAM)
            family, kind, number, _, address = min(
                found, key=lambda entry: entry[0] != socket.AF_INET
            )
            with trio.socket.socket(family, kind, number) as sock:
                await sock.connect(address)
    except trio.TooSlowError:
        return f"no answer within {timeout:g} s"
    except OSError as error:
        return error.strerror or str(error)
    return ""


async def clock(sleeps: int, pause: float) -> ClockProbe:
    """Sleep ``sleeps`` times for ``pause`` seconds and look at how late each sleep ends."""
    wall, steady = time.time(), time.monotonic()
    late = 0.0
    for _ in range(sleeps):
        due = time.monotonic() + pause
        await trio.sleep(pause)
        late = max(late, time.monotonic() - due)
    stepped = (time.time() - wall) - (time.monotonic() - steady)
    return ClockProbe(_synchronised(), late, stepped)


def _synchronised() -> bool | None:
    """Ask the kernel, without a change of settings. Linux only."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        adjtimex = ctypes.CDLL(None, use_errno=True).adjtimex
        state = int(adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES)))
    except (OSError, AttributeError):
        return None
    return None if state < 0 else state != _TIME_ERROR


def fragments(size: int, mtu: int, host: str) -> int:
    """Return the number of IP packets for a datagram of ``size`` bytes on an interface with that MTU."""
    header = 40 + 8 if ":" in host else 20
    room = (mtu - header) // 8 * 8
    if room <= 0:
        return 0
    return max(1, math.ceil((size + 8) / room))
