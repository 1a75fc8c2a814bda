"""The messages between a machine and its driver. Nothing else crosses that line.

Out: things to do, executed in order by the driver (trio or simulated). In: things that happened.
A ``handle`` is an int that the protocol chose with ``new_handle()``. The driver chooses only handles of accepted
connections (negative numbers). Endpoints are ``(host, port)``, the host a numeric address.

    Bind -> Bound | BindFailed              a UDP socket, or a listening TCP socket
    JoinGroup -> Bound | BindFailed         a UDP socket that hears one multicast group
    CountListeners -> Listeners             only where all who could hear a group are known; else nothing
    Connect -> Connected | ConnectFailed    a TCP connection; nothing is heard of a closed handle
    Resolve -> Resolved                     a host's name becomes addresses; may take long
    Consult -> Consulted                    a directory outside the group is read or changed; may take long
    SendTo, Write, Close -> (nothing)       Close never fails and is final
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from jgroups_py.stack.directories import DirectoryRequest
from jgroups_py.values.light import light

Handle = int
Endpoint = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Bind:
    """Open a UDP socket (``udp``) or a listener (``tcp``) on the first free port of
    ``port .. port + port_range`` (0: any port). ``multicast_ttl`` matters for UDP only. ``send_buffer`` and
    ``receive_buffer`` are bytes (0: the driver's choice). A listener's connections get its buffers and its ``nodelay``."""

    handle: Handle
    kind: Literal["udp", "tcp"]
    host: str
    port: int
    port_range: int = 0
    multicast_ttl: int = 8
    send_buffer: int = 0
    receive_buffer: int = 0
    nodelay: bool = True


@dataclass(frozen=True, slots=True)
class JoinGroup:
    """Open a UDP socket that receives packets to ``group`` on ``interface``. Datagrams that our own
    socket ``without`` sends there may be left out (a saving, not a promise)."""

    handle: Handle
    group: Endpoint
    interface: str
    receive_buffer: int = 0
    without: Handle = 0


@dataclass(frozen=True, slots=True)
class CountListeners:
    """Count the other sockets that listen to the group of a JoinGroup's ``handle`` on ``interface``. It is answered at once, or
    not at all."""

    handle: Handle
    interface: str


@light
@dataclass(frozen=True, slots=True)
class SendTo:
    """Send one datagram from a bound UDP socket. May be lost, as datagrams are."""

    handle: Handle
    data: bytes
    dest: Endpoint


@dataclass(frozen=True, slots=True)
class Connect:
    """Open a TCP connection from ``host`` (None: any local address) to ``dest``. ``send_buffer`` and ``receive_buffer``
    are bytes (0: the kernel's choice)."""

    handle: Handle
    dest: Endpoint
    timeout: float
    host: str | None = None
    nodelay: bool = True
    send_buffer: int = 0
    receive_buffer: int = 0


@light
@dataclass(frozen=True, slots=True)
class Write:
    """Send bytes on a connection. The driver keeps bytes that the peer does not take; see Writable."""

    handle: Handle
    data: bytes


@dataclass(frozen=True, slots=True)
class Close:
    """Close a socket or connection after its written bytes have left (``abort``: at once)."""

    handle: Handle
    abort: bool = False


@dataclass(frozen=True, slots=True)
class Resolve:
    """Look up the addresses of a host by its name."""

    handle: Handle
    host: str


@dataclass(frozen=True, slots=True)
class Consult:
    """Carry out ``request`` within ``timeout`` seconds. Requests of one kind of directory are carried out in
    order."""

    handle: Handle
    request: DirectoryRequest
    timeout: float


Out = Bind | JoinGroup | CountListeners | SendTo | Connect | Write | Close | Resolve | Consult


@dataclass(frozen=True, slots=True)
class Bound:
    """The socket is open, and bound to ``local``. ``receive_buffer``: the bytes that the system granted to a UDP socket; 0: not known."""

    handle: Handle
    local: Endpoint
    receive_buffer: int = 0


@dataclass(frozen=True, slots=True)
class BindFailed:
    """The socket could not be opened."""

    handle: Handle
    problem: str


@dataclass(frozen=True, slots=True)
class Listeners:
    """``others`` is the number of sockets besides ``handle`` that can hear the group, or more. With 0 no other process can."""

    handle: Handle
    others: int


@light
@dataclass(frozen=True, slots=True)
class Datagram:
    """One datagram came in."""

    handle: Handle
    data: bytes
    source: Endpoint


@dataclass(frozen=True, slots=True)
class Accepted:
    """A peer connected to ``listener``. The driver chose the connection's handle (< 0)."""

    listener: Handle
    handle: Handle
    peer: Endpoint


@dataclass(frozen=True, slots=True)
class Crowded:
    """A peer connected to the listener ``handle``, and the driver has closed the connection at once: this process has few
    descriptors left, which its members' connections and its application need."""

    handle: Handle
    peer: Endpoint


@dataclass(frozen=True, slots=True)
class Connected:
    """The connection is open."""

    handle: Handle
    local: Endpoint


@dataclass(frozen=True, slots=True)
class ConnectFailed:
    """The connection did not open. ``refused``: the host answered that no process listens there."""

    handle: Handle
    refused: bool
    problem: str


@light
@dataclass(frozen=True, slots=True)
class Received:
    """Bytes came in on a connection, in order, cut anywhere."""

    handle: Handle
    data: bytes


@dataclass(frozen=True, slots=True)
class Writable:
    """The driver holds ``unsent`` bytes of the connection. It says so when bytes are left after a write, and
    again when they have gone."""

    handle: Handle
    unsent: int


@dataclass(frozen=True, slots=True)
class Closed:
    """The peer closed the connection (``reset``: it broke). The handle is gone."""

    handle: Handle
    reset: bool


@dataclass(frozen=True, slots=True)
class Resolved:
    """A look-up has found these numeric addresses, without repetitions. If there are none, ``problem`` says why.
    The handle is gone."""

    handle: Handle
    addresses: tuple[str, ...]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Consulted:
    """The answer of a directory, or a ``problem`` without an answer. The handle is gone. ``final``: it cannot work before a person
    has solved the problem."""

    handle: Handle
    answer: Any
    problem: str = ""
    final: bool = False


In = (
    Bound
    | BindFailed
    | Listeners
    | Datagram
    | Accepted
    | Crowded
    | Connected
    | ConnectFailed
    | Received
    | Writable
    | Closed
    | Resolved
    | Consulted
)
