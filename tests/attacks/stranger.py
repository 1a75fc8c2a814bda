"""Stranger: a plain UDP socket, and plain TCP connections. It is no member and runs no protocol."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from random import Random
from typing import Any

from jgroups_py.errors import RemoteProtocolError
from jgroups_py.values.address import UUID, Address, IpAddress
from jgroups_py.values.batch import Batch
from jgroups_py.values.header import Header
from jgroups_py.values.message import MessageType
from jgroups_py.wire.connection import encode_frame, encode_handshake
from jgroups_py.wire.message import WireMessage, write_typed_message
from jgroups_py.wire.packet import LIST, MULTICAST, Packet, decode_packet
from jgroups_py.wire.packing import encode_packets
from jgroups_py.wire.primitives import DEFAULT_VERSION, Writer
from jgroups_py.wire.single import encode_nested

HOST = "127.0.0.1"


class Stranger:
    """Its address ``uuid`` is one that a member of ours could have. ``at``: the place at which it can be reached."""

    def __init__(
        self, transport: str, cluster: str, tls: ssl.SSLContext | None = None, seed: int = 1
    ) -> None:
        self.uuid = UUID.make(Random(seed))
        self._udp = transport == "UDP"
        self._cluster = cluster
        self._tls = tls
        self._again_at = 0.0
        """The earliest time at which a connection with TLS is opened once more."""
        self._connections: dict[tuple[str, int], socket.socket] = {}
        kind = socket.SOCK_DGRAM if self._udp else socket.SOCK_STREAM
        self.socket = socket.socket(socket.AF_INET, kind)
        self.socket.bind((HOST, 0))
        if not self._udp:
            self.socket.listen()
        self.socket.setblocking(False)
        self.at = IpAddress(HOST, self.socket.getsockname()[1])

    def begin(self) -> None:
        """Begin another attempt: forget received packets, and reconnect where a member has closed."""
        self.heard()
        self._again_at = 0.0

    def close(self) -> None:
        for end in (self.socket, *self._connections.values()):
            end.close()

    # --- sending

    def packet(
        self,
        src: Address,
        dest: Address | None,
        headers: Mapping[int, Header],
        payload: Any = None,
        *,
        flags: int = 0,
        cluster: str | None = None,
    ) -> bytes:
        """Return the packet of one message, as a member would send it."""
        kind = MessageType.EMPTY if payload is None else MessageType.BYTES
        batch = Batch(dest, (payload,), dict(headers), src, flags, 0, kind)
        return encode_packets([batch], self._cluster if cluster is None else cluster)[0]

    def bundle(self, *batches: Batch) -> bytes:
        """Return a packet of several messages in the name of the first one's sender. The other messages may name
        senders of their own."""
        first = batches[0]
        assert first.src is not None
        writer = Writer(DEFAULT_VERSION)
        writer.u16(DEFAULT_VERSION)
        writer.u8(LIST | (MULTICAST if first.dest is None else 0))
        writer.addr(first.dest)
        writer.addr(first.src)
        writer.astr(self._cluster)
        writer.i32(len(batches))
        for batch in batches:
            own = None if batch.src == first.src else batch.src
            headers = tuple(batch.headers.items())
            (payload,) = batch.payloads
            message = WireMessage(MessageType.BYTES, batch.flags, None, own, headers, payload)
            write_typed_message(writer, message)
        return writer.done()

    def nameless(
        self,
        src: Address,
        dest: Address | None,
        headers: Mapping[int, Header],
        payload: Any = None,
        flags: int = 0,
    ) -> bytes:
        """Return the packet of one message without the transport's header, which would name the cluster."""
        kind = MessageType.EMPTY if payload is None else MessageType.BYTES
        batch = Batch(dest, (payload,), dict(headers), src, flags, 0, kind)
        head = DEFAULT_VERSION.to_bytes(2, "big") + bytes([2 if dest is None else 0])
        return head + encode_nested(batch)

    def say(self, packet: bytes, to: IpAddress, *, as_if_at: IpAddress | None = None) -> None:
        """Sends a packet to a member. With TCP it first sends a handshake with our place or ``as_if_at``."""
        end = (to.host or HOST, to.port)
        if self._udp:
            self.socket.sendto(packet, end)
        else:
            try:
                self.connected(to, as_if_at).sendall(encode_frame(packet))
            except OSError:  # a door has closed the connection at its first bytes
                self._forget(end)

    def connected(self, to: IpAddress, as_if_at: IpAddress | None = None) -> socket.socket:
        """Return the connection to a member after a handshake; a new connection with ``as_if_at``, or if the member
        closed it."""
        end = (to.host or HOST, to.port)
        known = self._connections.get(end)
        if self._tls is not None and known is not None and time.monotonic() < self._again_at:
            return known  # a handshake costs both sides much, and the member would refuse each one
        if known is not None and _has_ended(known):
            self._forget(end)
            known = None
        if known is not None and as_if_at is None and not _is_closed(known):
            return known
        connection = self._greeted(end, None, as_if_at or self.at)
        if known is not None:
            known.close()
        self._connections[end] = connection
        self._again_at = time.monotonic() + 0.1
        return connection

    def connect_from(self, host: str, to: IpAddress, as_if_at: IpAddress) -> None:
        """Opens a connection from another address of this machine. Its handshake gives the place ``as_if_at``."""
        end = (to.host or HOST, to.port)
        connection = self._greeted(end, (host, 0), as_if_at)
        self._connections[host, -connection.fileno()] = connection

    def _greeted(
        self, end: tuple[str, int], source: tuple[str, int] | None, place: IpAddress
    ) -> socket.socket:
        connection = socket.create_connection(end, timeout=10, source_address=source)
        if self._tls is not None:
            connection = through_tls(self._tls, connection)
        connection.sendall(encode_handshake(DEFAULT_VERSION, place))
        return connection

    def _forget(self, end: tuple[str, int]) -> None:
        if (known := self._connections.pop(end, None)) is not None:
            known.close()

    # --- receiving

    def heard(self) -> list[Packet | bytes]:
        """Return everything received so far: packets, or bytes that are not packets."""
        return [_read(data) for data in (self._datagrams() if self._udp else self._frames())]

    def _datagrams(self) -> list[bytes]:
        found = []
        with contextlib.suppress(BlockingIOError):
            while True:
                found.append(self.socket.recv(65536))
        return found

    def _frames(self) -> list[bytes]:
        with contextlib.suppress(BlockingIOError):
            while True:
                connection, _ = self.socket.accept()
                self._connections[(HOST, -connection.fileno())] = connection
        found = []
        for connection in self._connections.values():
            connection.setblocking(False)
            data = b""
            with contextlib.suppress(OSError):
                while piece := connection.recv(65536):
                    data += piece
            connection.setblocking(True)
            if data.startswith(b"bela"):
                data = data[8 + int.from_bytes(data[6:8], "big") :]
            while len(data) >= 4 and (size := int.from_bytes(data[:4], "big", signed=True)) > 0:
                found.append(data[4 : 4 + size])
                data = data[4 + size :]
        return found


def through_tls(context: ssl.SSLContext, connection: socket.socket) -> socket.socket:
    """Return a socket whose bytes go through TLS. TLS runs in a thread, because the member runs in this one and
    must answer."""
    ours, theirs = socket.socketpair()

    def pump() -> None:
        with contextlib.suppress(OSError), theirs, context.wrap_socket(connection) as talk:
            while True:
                ready, _, _ = select.select([theirs, talk], [], [], 30)
                if talk in ready or not (data := theirs.recv(65536) if ready else b""):
                    return  # the member or the stranger closes the connection
                talk.sendall(data)

    threading.Thread(target=pump, daemon=True).start()
    return ours


class Bait:
    """A port on another host of loopback, to which no member has a reason to connect."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.bind(("127.0.0.3", 0))
        self._socket.listen()
        self._socket.setblocking(False)
        self.at = IpAddress(*self._socket.getsockname())

    def came(self) -> bool:
        """Return whether a member has connected."""
        try:
            self._socket.accept()[0].close()
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        self._socket.close()


def _is_closed(connection: socket.socket) -> bool:
    """Return whether the member has closed the connection. A member closes connections of strangers a second
    after a view."""
    watch = select.poll()
    watch.register(connection, select.POLLRDHUP)
    return bool(watch.poll(0))


def _has_ended(connection: socket.socket) -> bool:
    if not select.select([connection], [], [], 0)[0]:
        return False
    try:
        return not connection.recv(1, socket.MSG_PEEK)
    except OSError:
        return True


def _read(data: bytes) -> Packet | bytes:
    try:
        return decode_packet(data)
    except RemoteProtocolError:
        return data
