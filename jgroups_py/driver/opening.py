"""Opens sockets as ports.py asks for them. All are non-blocking; failures are OSErrors.

Multicast uses only the named interface, in both directions. Loopback works, too, although ``lo`` does not carry the
MULTICAST flag.
"""

from __future__ import annotations

import errno
import ipaddress
import logging
import socket
import struct
import sys
from collections.abc import Iterator

from jgroups_py.stack.ports import Bind, Connect, Endpoint, JoinGroup

log = logging.getLogger("jgroups_py.driver")

_IP_MULTICAST_ALL = 49  # Linux: 0 = only groups this very socket joined
_BACKLOG = 128


def family_of(host: str) -> socket.AddressFamily:
    """Return the family of a numeric address."""
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def local_of(sock: socket.socket) -> Endpoint:
    name = sock.getsockname()
    return name[0], name[1]


def last_port(bind: Bind) -> int:
    """Return the last port that is tried; 0 where the system chooses."""
    return min(bind.port + bind.port_range, 65535) if bind.port else 0


def open_udp(bind: Bind, default_buffer: int) -> socket.socket:
    """Return a bound UDP socket that can also send to groups."""
    family = family_of(bind.host)
    for port in _ports(bind):
        sock = socket.socket(family, socket.SOCK_DGRAM)
        try:
            sock.setblocking(False)
            _send_multicast_through(sock, bind.host, bind.multicast_ttl)
            _buffers(
                sock, bind.send_buffer or default_buffer, bind.receive_buffer or default_buffer
            )
            sock.bind((bind.host, port))
            return sock
        except OSError as error:
            sock.close()
            if error.errno != errno.EADDRINUSE or port == bind.port + bind.port_range:
                raise
    raise AssertionError("a port range is never empty")


def open_group(join: JoinGroup, default_buffer: int) -> socket.socket:
    """Return a UDP socket that receives multicasts to ``group`` on ``interface``."""
    group, port = join.group
    family = family_of(group)
    if not ipaddress.ip_address(group).is_multicast:
        raise OSError(errno.EINVAL, f"{group} is not a multicast address")
    if family_of(join.interface) != family:
        kind, example = (
            ("IPv6", "ff0e::8:8:8") if family == socket.AF_INET else ("IPv4", "228.8.8.8")
        )
        raise OSError(
            errno.EINVAL, f"on {join.interface} it must be an {kind} group such as {example}"
        )
    sock = socket.socket(family, socket.SOCK_DGRAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if not sys.platform.startswith("linux") and hasattr(socket, "SO_REUSEPORT"):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        _buffers(sock, 0, join.receive_buffer or default_buffer)
        # Linux hands a socket that is bound to the group no packets of other groups with the same port.
        place = group if sys.platform.startswith("linux") else ""
        if family == socket.AF_INET6:
            index = _index(join.interface)
            # A group of this link or this host (ff01, ff02) is one for each interface.
            sock.bind((place, port, 0, index))
            request = struct.pack("=16sI", socket.inet_pton(family, group), index)
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, request)
        else:
            sock.bind((place, port))
            if sys.platform.startswith("linux"):
                sock.setsockopt(socket.IPPROTO_IP, _IP_MULTICAST_ALL, 0)
            request = socket.inet_aton(group) + socket.inet_aton(join.interface)
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request)
        return sock
    except BaseException:
        sock.close()
        raise


def open_listener(bind: Bind) -> socket.socket:
    """Return a listening TCP socket."""
    for port in _ports(bind):
        sock = socket.socket(family_of(bind.host), socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            if sys.platform != "win32":
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # Accepted connections inherit them. The window is agreed on before a connection is accepted.
            _buffers(sock, bind.send_buffer, bind.receive_buffer)
            sock.bind((bind.host, port))
            sock.listen(_BACKLOG)
            return sock
        except OSError as error:
            sock.close()
            if error.errno != errno.EADDRINUSE or port == bind.port + bind.port_range:
                raise
    raise AssertionError("a port range is never empty")


def open_stream(connect: Connect) -> socket.socket:
    """Return a TCP socket that is not connected yet."""
    sock = socket.socket(family_of(connect.dest[0]), socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        if connect.nodelay:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _buffers(sock, connect.send_buffer, connect.receive_buffer)
        if connect.host is not None:
            sock.bind((connect.host, 0))
        return sock
    except BaseException:
        sock.close()
        raise


def _ports(bind: Bind) -> Iterator[int]:
    return iter(range(bind.port, last_port(bind) + 1))


def _send_multicast_through(sock: socket.socket, host: str, ttl: int) -> None:
    wildcard = ipaddress.ip_address(host.split("%")[0]).is_unspecified
    if sock.family == socket.AF_INET6:
        level = socket.IPPROTO_IPV6
        sock.setsockopt(level, socket.IPV6_MULTICAST_HOPS, ttl)
        sock.setsockopt(level, socket.IPV6_MULTICAST_LOOP, 1)
        if not wildcard:
            sock.setsockopt(level, socket.IPV6_MULTICAST_IF, _index(host))
        return
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, ttl)
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
    if not wildcard:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(host))


def _index(host: str) -> int:
    """Return the index of the interface that has this IPv6 address (0: the system's choice)."""
    import psutil  # imported only here, because it is not cheap

    plain = host.split("%")[0]
    if ipaddress.ip_address(plain).is_unspecified:
        return 0
    for name, addresses in psutil.net_if_addrs().items():
        if any(a.address.split("%")[0] == plain for a in addresses):
            return socket.if_nametoindex(name)
    raise OSError(errno.EADDRNOTAVAIL, f"no interface has the address {host}")


def granted(sock: socket.socket, option: int) -> int:
    """Return the bytes of a buffer (``SO_SNDBUF``, ``SO_RCVBUF``). The kernel may have granted less than was asked for."""
    size = sock.getsockopt(socket.SOL_SOCKET, option)
    # Linux counts its own bookkeeping, too, and reports the double.
    return size // 2 if sys.platform.startswith("linux") else size


def _buffers(sock: socket.socket, send: int, receive: int) -> None:
    """Ask for buffers. 0: leave the kernel's choice."""
    for option, name, asked in (
        (socket.SO_SNDBUF, "send", send),
        (socket.SO_RCVBUF, "receive", receive),
    ):
        if not asked:
            continue
        sock.setsockopt(socket.SOL_SOCKET, option, asked)
        got = granted(sock, option)
        if got < asked:
            log.debug("asked for a %s buffer of %d bytes, got %d", name, asked, got)
