"""The door of SEAL: all packets of a stack, out and in, are sealed.

    SendTo, Datagram                  datagrams.py
    Connected, Accepted, Received     streams.py: the protocols learn of a connection when its peer has proved itself
    Write                             in records
    ports of an ``outsider``          as they are: a gossip router is no member and has no key

Limits: ``max_handshakes`` connections whose peers have not proved themselves yet (the oldest is closed);
         ``handshake_timeout`` for each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jgroups_py.protocols.seal.datagrams import ASK_AGAIN, DatagramLimits, Datagrams
from jgroups_py.protocols.seal.ring import Ring
from jgroups_py.protocols.seal.streams import Phase, Refused, Stream
from jgroups_py.stack.doors import Door
from jgroups_py.stack.ports import (
    Accepted,
    Bind,
    Bound,
    Close,
    Closed,
    Connect,
    Connected,
    ConnectFailed,
    Datagram,
    Endpoint,
    Handle,
    In,
    Out,
    Received,
    SendTo,
    Writable,
    Write,
)
from jgroups_py.stack.protocol import Protocol


@dataclass(slots=True, eq=False)
class _Guarded:
    """A connection. ``until``: the time by which its peer must have proved itself; None: it has. ``opens``: the item
    that the protocols get then."""

    stream: Stream
    peer: Endpoint
    opens: Accepted | Connected
    until: float | None


class SealDoor(Door):
    """See the module's docstring.

    Args:
        by: SEAL itself, for its clock, its cluster and its counters.
        ring: the keys to begin with.
        suite: the suite with which this member seals. limits: those of datagrams.
        max_handshakes, handshake_timeout: attributes of SEAL.
        wake: asks for a call of ``look_again`` at a time.
    """

    name = "SEAL"

    def __init__(
        self,
        by: Protocol,
        ring: Ring,
        suite: int,
        limits: DatagramLimits,
        max_handshakes: int,
        handshake_timeout: float,
        wake: Callable[[float], None],
    ) -> None:
        super().__init__()
        self._by = by
        self._ring = ring
        self._suite = suite
        self._max_handshakes = max_handshakes
        self._handshake_timeout = handshake_timeout
        self._wake = wake
        machine = by.machine
        self.datagrams = Datagrams(
            ring,
            suite,
            limits,
            cluster=lambda: by.cluster.encode(),
            secrets=machine.secrets,
            now=lambda: machine.now,
            send=self._prove,
            turn_away=by.turn_away,
        )
        self._socket: Handle = 0
        """A UDP socket of this stack, for proofs; 0: none."""
        self._open_sockets: dict[Handle, None] = {}
        self._outsiders: dict[Handle, None] = {}
        self._destinations: dict[Handle, Endpoint] = {}
        self._guarded: dict[Handle, _Guarded] = {}
        self._unproved: dict[Handle, None] = {}  # the oldest first
        self.connections_sealed = 0
        self.keys_changed = 0

    # --- keys

    def take_ring(self, ring: Ring) -> None:
        """Use another ring from now on, for open connections, too."""
        self._ring = ring
        self.datagrams.take_ring(ring)
        for handle, guarded in list(self._guarded.items()):
            if self._guarded.get(handle) is not guarded:
                continue  # it was closed meanwhile, because another connection was closed
            try:
                said = guarded.stream.take_ring(ring)
            except Refused as refused:
                self._refuse(handle, guarded, str(refused))
                continue
            if said:
                self.keys_changed += 1
                self.outside(Write(handle, said))

    # --- out

    def outgoing(self, item: Out) -> None:
        kind = type(item)
        if kind is SendTo:
            self._send_to(item)  # type: ignore[arg-type]
        elif kind is Write:
            self._write(item)  # type: ignore[arg-type]
        else:
            match item:
                case Connect(handle, dest):
                    owner = self._way.stack.ports.get(handle)
                    if owner is not None and owner.outsiders:
                        self._outsiders[handle] = None
                    else:
                        self._destinations[handle] = dest
                case Bind(handle, "udp"):
                    self._open_sockets[handle] = None
                case Close(handle):
                    self._forget(handle)
            self.outside(item)

    def _send_to(self, item: SendTo) -> None:
        sealed = self.datagrams.seal(item.data)
        if sealed is not None:
            self.outside(SendTo(item.handle, sealed, item.dest))

    def _write(self, item: Write) -> None:
        guarded = self._guarded.get(item.handle)
        if guarded is not None:
            self.outside(Write(item.handle, guarded.stream.seal(item.data)))
        elif item.handle in self._outsiders:
            self.outside(item)

    def _prove(self, data: bytes, place: Endpoint) -> None:
        if self._socket:
            self.outside(SendTo(self._socket, data, place))

    # --- in

    def incoming(self, item: In) -> None:
        kind = type(item)
        if kind is Datagram:
            pending = self.datagrams.senders.pending
            before = len(pending)
            for plain in self.datagrams.open(item):  # type: ignore[arg-type]
                self.inside(plain)
            if len(pending) > before:
                self._wake(self._by.now + ASK_AGAIN)
        elif kind is Received:
            self._received(item)  # type: ignore[arg-type]
        else:
            self._happened(item)

    def _happened(self, item: In) -> None:
        match item:
            case Accepted(_, handle, peer):
                self.hold(handle)
                self._guard(handle, peer, item, accepted=True)
            case Connected(handle) if handle not in self._outsiders:
                guarded = self._guard(handle, self._destinations.pop(handle), item, accepted=False)
                self.outside(Write(handle, guarded.stream.start()))
            case Closed(handle) if (found := self._guarded.get(handle)) is not None:
                self._closed(item, handle, found)
            case Writable(handle) if handle in self._unproved:
                pass  # the item is about our own bytes only
            case ConnectFailed(handle) | Closed(handle):
                self._forget(handle)
                self.inside(item)
            case Bound(handle) if handle in self._open_sockets:
                self._socket = self._socket or handle
                self.inside(item)
            case _:
                self.inside(item)

    def _guard(
        self, handle: Handle, peer: Endpoint, opens: Accepted | Connected, *, accepted: bool
    ) -> _Guarded:
        if len(self._unproved) >= self._max_handshakes:
            oldest = next(iter(self._unproved))
            self._refuse(oldest, self._guarded[oldest], "too_many_handshakes")
        stream = Stream(
            self._ring,
            self._suite,
            self._by.cluster.encode(),
            self._by.machine.secrets,
            accepted=accepted,
        )
        until = self._by.now + self._handshake_timeout
        guarded = self._guarded[handle] = _Guarded(stream, peer, opens, until)
        self._unproved[handle] = None
        self._wake(until)
        return guarded

    def _received(self, item: Received) -> None:
        handle = item.handle
        guarded = self._guarded.get(handle)
        if guarded is None:
            if handle in self._outsiders:
                self.inside(item)
            return
        stream = guarded.stream
        try:
            plain = stream.feed(item.data)
        except Refused as refused:
            self._refuse(handle, guarded, str(refused))
            return
        if stream.answer:
            self.outside(Write(handle, stream.answer))
        if guarded.until is not None and stream.phase is Phase.OPEN:
            guarded.until = None
            del self._unproved[handle]
            self.connections_sealed += 1
            self.inside(guarded.opens)
        if plain and self._guarded.get(handle) is guarded:
            self.inside(Received(handle, plain))

    def _closed(self, item: Closed, handle: Handle, guarded: _Guarded) -> None:
        proved = guarded.until is None
        self._forget(handle)
        if proved:
            self.inside(item)
        elif type(guarded.opens) is Accepted:
            self.drop(handle)
        else:
            self.inside(ConnectFailed(handle, False, "closed before the peer had proved itself"))

    def _refuse(self, handle: Handle, guarded: _Guarded, cause: str) -> None:
        """Close a connection at once."""
        self._by.turn_away(cause, guarded.peer)
        proved = guarded.until is None
        self._forget(handle)
        self.outside(Close(handle, True))
        if proved:
            self.inside(Closed(handle, True))
        elif type(guarded.opens) is Accepted:
            self.drop(handle)
        else:
            self.inside(ConnectFailed(handle, False, f"the peer has not proved itself: {cause}"))

    def _forget(self, handle: Handle) -> None:
        self._guarded.pop(handle, None)
        self._unproved.pop(handle, None)
        self._outsiders.pop(handle, None)
        self._destinations.pop(handle, None)
        if self._open_sockets.pop(handle, 0) is None and handle == self._socket:
            self._socket = 0

    # --- time

    def look_again(self) -> None:
        """Do the due work, and schedule the next call."""
        now = self._by.now
        next_at = self.datagrams.ask_again() if self.datagrams.senders.pending else None
        while self._unproved:
            handle = next(iter(self._unproved))
            guarded = self._guarded[handle]
            assert guarded.until is not None
            if guarded.until > now:
                next_at = guarded.until if next_at is None else min(next_at, guarded.until)
                break
            self._refuse(handle, guarded, "handshake_late")
        if next_at is not None:
            self._wake(next_at)

    def check(self) -> None:
        """Assert the invariants."""
        self.datagrams.senders.check()
        assert len(self._unproved) <= self._max_handshakes
        assert all(self._guarded[h].until is not None for h in self._unproved)
        assert sum(g.until is not None for g in self._guarded.values()) == len(self._unproved)

    @property
    def connections(self) -> int:
        """Connections that are open now, proved or not."""
        return len(self._guarded)
