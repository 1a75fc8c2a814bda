"""TCP between the hosts of maps (K2, K13): one port for all maps of a host, and one connection for each map and peer.

    async with open_port(1, listen="127.0.0.1:8076") as port:
        port.serve("fx", host)                     a peer that asks for "fx" gets a link with ``host``
        port.dial("fx", "127.0.0.1:8077")          a link with that peer, made anew whenever it ends

    a link ends           the peer is dialled again after ``retry_first`` seconds, then twice that, up to ``retry_max``, with chance
    both hosts dial       the connection stays that was dialled by the smaller ``run``; the other host waits for its end
    nothing to say        an empty frame each ``alive_interval``; a peer that is silent for ``silence_timeout`` is gone
    a peer takes nothing  its link ends at ``unsent_max`` bytes

frames.py has the bytes. All tasks are of one nursery, in one thread.

Source:  seed 004.
Differs: Chronicle Map has one connection for all maps of two hosts.
Limits:  TcpSettings. Without TLS peers are unknown, so the port is on loopback only, unless ``insecure`` is set.
"""

from __future__ import annotations

import logging
import random
import secrets
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Final

import trio

from jgroups_py.driver import files
from jgroups_py.driver.needs_trio import check_trio
from jgroups_py.driver.unwrap import reraise
from jgroups_py.errors import ConfigError
from jgroups_py.maps.frames import RUN, TCP_CAUSES, Away, BadStream, Greeting, Inquiry, first_of
from jgroups_py.maps.inherited import InheritedSockets
from jgroups_py.maps.inquiry import BadInquiry, Described, answer, encode
from jgroups_py.maps.links import LinkHost
from jgroups_py.maps.tcp_connection import BROKEN, Dialled, PeerConnection
from jgroups_py.maps.tcp_places import check_clear, connect, place_from
from jgroups_py.maps.tcp_settings import TcpSettings
from jgroups_py.protocols.transport.crowd import goes
from jgroups_py.stack.log_limit import LogLimit
from jgroups_py.tls import CredentialsError, TlsSettings, load

LOG: Final = logging.getLogger("jgroups_py.maps")
APART_AFTER: Final = 10.0
"""Seconds without a link after which a peer is logged, with the reason; again each APART_AGAIN."""
APART_AGAIN: Final = 60.0
LISTEN_AGAIN: Final = 0.2
"""Seconds until the second try to listen."""


class TcpPort:
    """Made by ``open_port``."""

    def __init__(self, node: int, settings: TcpSettings, nursery: trio.Nursery) -> None:
        self.node = node
        self.settings = settings
        self.run = secrets.token_bytes(RUN)
        self.address: tuple[str, int] | None = None
        """The address at which the port listens. None: the port does not listen."""
        self.counters: Counter[str] = Counter()
        """``links``, ``dials``, ``messages_received``, ``bytes_sent``, ``bytes_received``, ``answers`` (to inquiries), and those of TCP_CAUSES that have happened."""
        self.dialled: list[Dialled] = []
        self._nursery = nursery
        self._hosts: dict[str, LinkHost] = {}
        self._connections: dict[PeerConnection, None] = {}
        self.inherited = InheritedSockets()
        self._linked: dict[tuple[str, bytes], PeerConnection] = {}
        self._strangers: dict[PeerConnection, None] = {}
        self._inquiries = 0
        self._client: ssl.SSLContext | None = None
        self._server: ssl.SSLContext | None = None
        self._insecure = False
        self._log_limit = LogLimit(trio.current_time)
        self._apart_limit = LogLimit(trio.current_time, interval=APART_AGAIN)
        self._chance = random.Random(self.run)

    def encrypt(self, client: ssl.SSLContext, server: ssl.SSLContext) -> None:
        self._client, self._server = client, server

    def allow_clear(self) -> None:
        self._insecure = True

    # --- maps and peers

    def serve(self, name: str, host: LinkHost) -> None:
        """Give links of the map ``name`` to ``host``. ConfigError: another map has the name."""
        if not 0 < len(name) <= 255:
            raise ConfigError(f"a map's name must have 1 to 255 characters, got {len(name)}")
        if name in self._hosts:
            raise ConfigError(f'the map "{name}" is served at this port already')
        self._hosts[name] = host

    def dial(self, name: str, place: str) -> Dialled:
        """Keep a link with the peer at ``place`` (HOST:PORT) for the map ``name``, which is served here.

        Raises:
            ConfigError: nothing was started.
        """
        if name not in self._hosts:
            raise ConfigError(f'the map "{name}" is not served at this port')
        host, port = place_from(place, "a peer")
        self.check_clear(host, f"a peer at {place}")
        peer = Dialled(name, host, port)
        self.dialled.append(peer)
        self._nursery.start_soon(self._keep, peer)
        return peer

    def drop(self, name: str) -> None:
        """End serving and dialling for a map. Its links are closed without further calls to its host."""
        self._hosts.pop(name, None)
        for peer in [peer for peer in self.dialled if peer.map == name]:
            self.dialled.remove(peer)
            peer.scope.cancel()
        for (map_, _), connection in list(self._linked.items()):
            if map_ == name:
                connection.close()

    def network(self, name: str, peers: Iterable[str] = ()) -> TcpNetwork:
        """Return a network for the map ``name`` at this port. ``peers``: HOST:PORT of each. Raises ConfigError."""
        places = list(peers)
        for place in places:
            self.check_clear(place_from(place, "a peer")[0], f"a peer at {place}")
        return TcpNetwork(self, name, places)

    def is_linked(self, peer: Dialled) -> bool:
        """Is there a link with the peer, whichever side dialled?"""
        return (peer.map, peer.run) in self._linked

    def check_clear(self, host: str, what: str) -> None:
        """Raise ConfigError if messages would leave this machine in clear."""
        if self._client is None and not self._insecure:
            check_clear(host, what)

    def turned_away(self, cause: str, host: str) -> None:
        """Count and log that this side ended a connection."""
        self.counters[cause] += 1
        if (left_out := self._log_limit.admit(cause)) is not None:
            meaning = TCP_CAUSES[cause]
            LOG.warning(
                *("a map's connection with %s ends: %s (%s)%s", host or "a client that is gone"),
                *(meaning, cause, left_out),
            )

    async def leave(self) -> None:
        """End dialling, and close all links after their last messages."""
        for peer in self.dialled:
            peer.scope.cancel()
        for connection in list(self._connections):
            connection.close()
        with trio.move_on_after(self.settings.linger):
            for connection in list(self._connections):
                await connection.ended.wait()

    # --- connections

    async def accept(self, stream: trio.SocketStream) -> None:
        """Serve one connection until its end."""
        host = _peer_of(stream)
        if files.is_scarce(stream.socket):
            self.turned_away("no_descriptors", host)
            await trio.aclose_forcefully(stream)
            return
        await self.visited(stream, host)

    async def visited(self, stream: trio.abc.Stream, host: str) -> None:
        """Serve one connection from ``host``, over any stream, until its end."""
        limits = self.settings
        first = goes(list(self._strangers), host, limits.strangers_max, limits.strangers_per_host)
        if first is not None:
            del self._strangers[first]
            self.turned_away("crowded", first.host)
            first.scope.cancel()
        if self._server is not None:
            stream = trio.SSLStream(stream, self._server, server_side=True)
        connection = PeerConnection(self.settings, self.counters, self.turned_away, stream, host)
        self._strangers[connection] = None
        await self._serve(connection)

    async def _keep(self, peer: Dialled) -> None:
        """Dial a peer whenever there is no link with it."""
        limits = self.settings
        delay = limits.retry_first
        apart_since = trio.current_time()
        with peer.scope:
            while peer.problem != _ITSELF:
                begun = trio.current_time()
                other = self._linked.get((peer.map, peer.run))
                if other is None:
                    peer.linked = False
                    await self._dial(peer)
                else:  # the peer has dialled
                    peer.linked = True
                    await other.ended.wait()
                if peer.linked:
                    apart_since = trio.current_time()
                elif not self.is_linked(peer):
                    self._tell_apart(peer, trio.current_time() - apart_since)
                if trio.current_time() - begun > limits.retry_max:
                    delay = limits.retry_first
                await trio.sleep(delay * self._chance.uniform(0.5, 1.0))
                delay = min(delay * 2, limits.retry_max)

    def _tell_apart(self, peer: Dialled, seconds: float) -> None:
        """Log that a peer has had no link for this long."""
        if seconds < APART_AFTER or peer.problem == _ITSELF:
            return
        if (left_out := self._apart_limit.admit((peer.map, peer.place))) is not None:
            words = ('the map "%s" has no link with %s since %.0f s: %s%s', peer.map, peer.place)
            LOG.warning(*words, seconds, peer.problem, left_out)

    async def _dial(self, peer: Dialled) -> None:
        """Connect, and wait for the end of the connection."""
        peer.tries += 1
        self.counters["dials"] += 1
        try:
            with trio.fail_after(self.settings.connect_timeout):
                stream = await connect(peer.host, peer.port)
        except trio.TooSlowError:
            peer.problem = f"no answer within {self.settings.connect_timeout:g} s"
            return
        except OSError as error:
            peer.problem = f"it cannot be reached: {error}"
            return
        if self._client is not None:
            stream = trio.SSLStream(stream, self._client, server_hostname=peer.host)
        connection = PeerConnection(
            self.settings, self.counters, self.turned_away, stream, peer.place, peer
        )
        self._nursery.start_soon(self._serve, connection)
        await connection.ended.wait()

    async def _serve(self, connection: PeerConnection) -> None:
        """Greet, and carry messages until the end."""
        self._connections[connection] = None
        self.inherited.streams[connection.stream] = None
        peer = connection.dialled
        problem = "the connection has ended"
        try:
            async with trio.open_nursery() as nursery:
                with connection.scope:
                    if await self._shake_hands(connection):
                        nursery.start_soon(connection.write)
                        problem = await self._converse(connection)
                    else:
                        problem = TCP_CAUSES["tls"]
                nursery.cancel_scope.cancel()
        finally:
            self._forget(connection)
            if peer is not None and not self.is_linked(peer):
                peer.problem = problem
            del self.inherited.streams[connection.stream]
            await trio.aclose_forcefully(connection.stream)

    async def _shake_hands(self, connection: PeerConnection) -> bool:
        stream = connection.stream
        if not isinstance(stream, trio.SSLStream):
            return True
        with trio.move_on_after(self.settings.greeting_timeout):
            try:
                await stream.do_handshake()
                return True
            except BROKEN:
                pass
        self.turned_away("tls", connection.host)
        return False

    async def _converse(self, connection: PeerConnection) -> str:
        """Carry messages. Return the reason for the connection's end."""
        if connection.dialled is not None:
            connection.say_first(Greeting(connection.dialled.map, self.node, self.run))
        limits = self.settings
        try:
            frames = await connection.frames(limits.greeting_timeout, renewed=False)
            if not frames:
                return "it has ended the connection without a greeting"
            first = first_of(frames.pop(0))
            if isinstance(first, Inquiry):
                return await self._answer(connection, first, frames)
            problem = self._on_first(connection, first)
            while frames is not None and not problem:
                for data in frames:
                    self._on_frame(connection, data)
                frames = await connection.frames(limits.silence_timeout)
        except BadStream as bad:
            late = bad.cause == "silent" and connection.peer is None
            self.turned_away("late" if late else bad.cause, connection.host)
            return str(bad)
        return problem or "it has ended the connection"

    async def _answer(
        self, connection: PeerConnection, asks: Inquiry, frames: list[bytes] | None
    ) -> str:
        """Answer a program that compares a map. Return the reason for the connection's end."""
        self._strangers.pop(connection, None)
        host = None if connection.dialled is not None else self._hosts.get(asks.map)
        side = None if host is None else host.compared
        if host is None or side is None:
            connection.turn_away("unknown_map", f'the map "{asks.map}" is not served here')
            await connection.frames(self.settings.linger)
            return ""
        if self._inquiries >= self.settings.inquiries_max:
            connection.turn_away("inquiries", f"{self._inquiries} others compare maps here already")
            await connection.frames(self.settings.linger)
            return ""
        self._inquiries += 1
        try:
            connection.say_first(asks)
            connection.send(encode(Described(asks.map, self.node, side.key_codec)))
            while frames is not None:
                for data in frames:
                    if data:
                        connection.send(await trio.to_thread.run_sync(answer, side, data))
                        self.counters["answers"] += 1
                frames = await connection.frames(self.settings.silence_timeout)
        except BadInquiry as bad:
            self.turned_away("bad_inquiry", connection.host)
            return str(bad)
        finally:
            self._inquiries -= 1
        return "it has ended the connection"

    def _on_first(self, connection: PeerConnection, first: Greeting | Away) -> str:
        """Handle the other side's greeting. Return the reason for which there will be no link. Empty: there may be
        one."""
        peer = connection.dialled
        if isinstance(first, Away):
            return f"it ends the connection: {_printable(first.reason)}"
        if peer is None:
            connection.peer = first
            if first.map in self._hosts:
                connection.say_first(Greeting(first.map, self.node, self.run))
            else:
                connection.turn_away("unknown_map", f'the map "{first.map}" is not served here')
            return ""
        if first.run == self.run:
            return _ITSELF
        if first.map != peer.map:
            raise BadStream("bad_greeting", f'it answers for another map than "{peer.map}"')
        peer.node, peer.run = first.node, first.run
        if self.is_linked(peer):
            return "it had dialled, too"
        connection.peer = first
        connection.send(b"")  # the other side waits for a frame; a superfluous connection gets none
        self._link(connection)
        return ""

    def _on_frame(self, connection: PeerConnection, data: bytes) -> None:
        if connection in self._strangers:
            del self._strangers[connection]
            self._link(connection)
        if data and connection.owner is not None:
            self.counters["messages_received"] += 1
            connection.owner.received(connection.number, data)

    def _link(self, connection: PeerConnection) -> None:
        """Begin a link after both greetings. Choose which of two connections with the peer stays, the same one at both
        sides."""
        greeting, peer = connection.peer, connection.dialled
        assert greeting is not None
        host = self._hosts.get(greeting.map)
        if host is None or connection.closing:
            connection.close()
            return
        other = self._linked.get((greeting.map, greeting.run))
        if other is not None:
            by_us = other.dialled is not None
            if by_us != (peer is not None) and by_us == (self.run < greeting.run):
                connection.close()
                return
            self._forget(other)
            other.close()
        self._linked[greeting.map, greeting.run] = connection
        connection.owner = host
        self.counters["links"] += 1
        if peer is not None:
            peer.problem, peer.linked = "", True
        connection.number = host.link_opened(connection)

    def _forget(self, connection: PeerConnection) -> None:
        """End the link of a connection."""
        self._connections.pop(connection, None)
        self._strangers.pop(connection, None)
        greeting = connection.peer
        if greeting is not None and self._linked.get((greeting.map, greeting.run)) is connection:
            del self._linked[greeting.map, greeting.run]
        owner, connection.owner = connection.owner, None
        connection.ended.set()
        if owner is not None:
            owner.link_closed(connection.number)


class TcpNetwork:
    """The links of one map, at a port that others may share. Made by ``TcpPort.network``."""

    def __init__(self, port: TcpPort, name: str, peers: Sequence[str]) -> None:
        self._port = port
        self._name = name
        self._peers = peers

    async def run(self, host: LinkHost) -> None:
        """Give ``host`` its links, until cancelled."""
        self._port.serve(self._name, host)
        try:
            for place in self._peers:
                self._port.dial(self._name, place)
            await trio.sleep_forever()
        finally:
            self._port.drop(self._name)


_ITSELF: Final = "this is the host itself"


@asynccontextmanager
async def open_port(
    node: int,
    *,
    listen: str | None = None,
    tls: TlsSettings | None = None,
    insecure: bool = False,
    settings: TcpSettings | None = None,
) -> AsyncIterator[TcpPort]:
    """Open the port of a host's maps for as long as the block lasts. Its end closes the links.

    Args:
        node: the identifier of this host.
        listen: HOST:PORT. Port 0 takes a free one; see ``TcpPort.address``. None: the host only dials.
        tls: credentials, of one authority for all hosts.
        insecure: allow other hosts than those of this machine without ``tls``.

    Raises:
        ConfigError: nothing was opened.
        LocalProtocolError: there is no trio loop here.
    """
    check_trio("open_port", aio=False)
    async with _nursery() as nursery:
        port = TcpPort(node, settings or TcpSettings(), nursery)
        if insecure:
            port.allow_clear()
        if tls is not None:
            problem = tls.problem()
            if problem is not None:
                raise ConfigError(f"tls: {problem[0]} {problem[1]}")
            try:
                credentials = load(tls)
            except CredentialsError as error:
                raise ConfigError(f"tls: {error}") from None
            port.encrypt(credentials.client, credentials.server)
        if listen is not None:
            host, number = place_from(listen, "listen")
            port.check_clear(host, f"listen={listen}")
            listeners = await _listening(host, number, listen)
            port.inherited.listeners += listeners
            port.address = listeners[0].socket.getsockname()[:2]
            nursery.start_soon(trio.serve_listeners, port.accept, listeners)
        yield port
        await port.leave()


async def _listening(host: str, number: int, listen: str) -> list[trio.SocketListener]:
    """Listen at the port. It is tried twice, because the process that had the port may be dying. Raises ConfigError."""
    problem: OSError | None = None
    for pause in (0.0, LISTEN_AGAIN):
        await trio.sleep(pause)
        try:
            return await trio.open_tcp_listeners(number, host=host)
        except OSError as error:
            problem = error
    raise ConfigError(f"the maps' port cannot listen at {listen}: {problem}") from None


@asynccontextmanager
async def _nursery() -> AsyncIterator[trio.Nursery]:
    try:
        async with trio.open_nursery() as nursery:
            yield nursery
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        reraise(group)


def _peer_of(stream: trio.SocketStream) -> str:
    try:
        return str(stream.socket.getpeername()[0])
    except OSError:
        return ""  # the peer has closed already


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text[:300])
