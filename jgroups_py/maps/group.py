"""GroupLinks: the links of one map with the members of a group. It does no I/O: a driver hands in views, messages and
time, and executes the results of ``take``.

    a view            each new member is greeted (HI); links with those that are gone end
    HI both ways      a link is up. Each side has a number for it, and a message with other numbers belongs to an earlier link
    own changes       leave once, for all (ALL)
    all else          goes to one member (DATA)
    several sites     RELAY carries multicasts only. The first member of each view announces itself, two of them have a
    link, and their messages to
      (``sites``)     each other is multicast with the receiver's address; everybody takes what is sent to all, also from other sites
    no answer         a member is greeted again, ever less often: it may not serve the map yet

Limits:  ``early_max`` members that speak before they are in a view; ``remote_max`` first members of other sites.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Final

import msgspec

from jgroups_py.values.address import Address

MAGIC: Final = b"jgmaps\x01"
"""The first bytes of each message of maps on a channel. The last byte is the version."""
Number = Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]


class LinkKind(IntEnum):
    HI = 0
    DATA = 1
    ALL = 2
    ANNOUNCE = 3
    BYE = 4


class Envelope(msgspec.Struct, frozen=True, array_like=True):
    """``mine`` and ``yours``: the numbers of the link at the sender and at the receiver; 0: none. ``to``: the receiver,
    if a multicast is for one member."""

    map: Annotated[str, msgspec.Meta(max_length=255)]
    kind: LinkKind
    mine: Number = 0
    yours: Number = 0
    to: Annotated[bytes, msgspec.Meta(max_length=64)] = b""
    data: bytes = b""


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Envelope)


class BadEnvelope(ValueError):
    """Bytes that are no envelope."""


def sealed(envelope: Envelope) -> bytes:
    return MAGIC + _encoder.encode(envelope)


def opened(data: bytes) -> Envelope | None:
    """Return the envelope of a message. None: the bytes are no message of maps. Raises BadEnvelope."""
    if not data.startswith(MAGIC):
        return None
    try:
        return _decoder.decode(memoryview(data)[len(MAGIC) :])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadEnvelope(str(error)[:200]) from None


@dataclass(frozen=True, kw_only=True)
class GroupSettings:
    """Times are in seconds."""

    sites: bool = False
    """Does RELAY join several sites?"""
    hi_first: float = 1.0
    hi_max: float = 60.0
    """The longest time between greetings of a member that does not answer. The first time is ``hi_first``."""
    announce_interval: float = 2.0
    """Seconds between two announcements of a site's first member."""
    remote_timeout: float = 10.0
    """After this silence the first member of another site counts as gone."""
    early_max: int = 64
    """The most links with members that are in no view yet."""
    remote_max: int = 64
    """The most links with first members of other sites."""

    def __post_init__(self) -> None:
        for name in ("hi_first", "hi_max", "announce_interval", "remote_timeout"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be more than 0 seconds, got {getattr(self, name)}")


# --- outputs


@dataclass(frozen=True, slots=True)
class Send:
    """A message to send. ``to`` None: to all."""

    to: Address | None
    data: bytes


@dataclass(frozen=True, slots=True)
class Up:
    """A link with a member has begun."""

    member: Address


@dataclass(frozen=True, slots=True)
class Down:
    """The link with a member has ended."""

    member: Address


@dataclass(frozen=True, slots=True)
class Incoming:
    """A message over a link; ``shared``: it was sent to all."""

    member: Address
    data: bytes
    shared: bool


@dataclass(frozen=True, slots=True)
class Overheard:
    """A message to all from a member without a link."""

    data: bytes


GroupOut = Send | Up | Down | Incoming | Overheard


@dataclass(slots=True)
class _Peer:
    mine: int
    yours: int = 0
    up: bool = False
    told: tuple[int, int] = (0, 0)
    remote: bool = False
    heard_at: float = 0.0
    hi_due: float = 0.0
    hi_delay: float = 0.0


class GroupLinks:
    """See the module's docstring. ``chance`` gives a number from 1 to 2**32 - 1."""

    def __init__(
        self, name: str, me: Address, chance: Callable[[], int], settings: GroupSettings
    ) -> None:
        self.name = name
        self.me = me
        self.settings = settings
        self.counters: Counter[str] = Counter()
        """stale: messages of earlier links; crowded: members that ``early_max`` or ``remote_max`` kept out."""
        self._chance = chance
        self._peers: dict[Address, _Peer] = {}
        self._members: dict[Address, None] = {}
        self._out: list[GroupOut] = []
        self._announce_due = 0.0

    def take(self) -> list[GroupOut]:
        """Return the outputs, in order."""
        out, self._out = self._out, []
        return out

    @property
    def linked(self) -> list[Address]:
        return [member for member, peer in self._peers.items() if peer.up]

    @property
    def is_first(self) -> bool:
        """Does this member speak for its site?"""
        return self.settings.sites and next(iter(self._members), None) == self.me

    # --- inputs

    def view(self, members: Sequence[Address], now: float) -> None:
        """Take a view: the group has these members, the coordinator first."""
        self._members = dict.fromkeys(members)
        for member, peer in list(self._peers.items()):
            if peer.remote and member in self._members:
                peer.remote = False
            elif member not in self._members and not (peer.remote and self.is_first):
                self._drop(member)
        for member in members:
            if member != self.me and member not in self._peers:
                self._greet(member, self._add(member, now), now)

    def received(self, source: Address, envelope: Envelope, now: float) -> None:
        """Take a message of another member. Any envelope may come."""
        if source == self.me or (envelope.to and envelope.to != self.me):
            return
        peer = self._peers.get(source)
        if envelope.kind is LinkKind.ALL:
            if peer is not None and peer.up:
                peer.heard_at = now
                self._out.append(Incoming(source, envelope.data, True))
            else:
                self._out.append(Overheard(envelope.data))
            return
        if peer is None:
            peer = self._met(source, envelope, now)
            if peer is None:
                return
        peer.heard_at = now
        if envelope.kind is LinkKind.HI:
            self._on_hi(source, peer, envelope, now)
        elif envelope.kind is LinkKind.DATA:
            self._on_data(source, peer, envelope)
        elif envelope.kind is LinkKind.BYE:
            self.close(source, now)
            self._out.append(Down(source))
        elif not peer.up and now >= peer.hi_due:
            self._greet(source, peer, now)

    def tick(self, now: float) -> None:
        """Act on time. Call it a few times a second."""
        for member, peer in list(self._peers.items()):
            if peer.remote and now - peer.heard_at > self.settings.remote_timeout:
                self._drop(member)
            elif not peer.up and now >= peer.hi_due:
                self._greet(member, peer, now)
        if self.is_first and now >= self._announce_due:
            self._announce_due = now + self.settings.announce_interval
            self._out.append(Send(None, sealed(Envelope(self.name, LinkKind.ANNOUNCE))))

    # --- the host's side

    def send(self, member: Address, data: bytes) -> None:
        peer = self._peers.get(member)
        if peer is not None and peer.up:
            self._say(member, peer, LinkKind.DATA, data)

    def send_all(self, data: bytes) -> None:
        self._out.append(Send(None, sealed(Envelope(self.name, LinkKind.ALL, data=data))))

    def close(self, member: Address, now: float) -> None:
        """End a link at this side. Another one may follow."""
        peer = self._peers.get(member)
        if peer is not None:
            peer.mine, peer.yours, peer.up = self._chance(), 0, False
            peer.hi_delay = self.settings.hi_max
            peer.hi_due = now + peer.hi_delay

    def leave(self) -> None:
        """Stop serving the map."""
        self._out.append(Send(None, sealed(Envelope(self.name, LinkKind.BYE))))
        self._peers.clear()

    # --- inside

    def _met(self, source: Address, envelope: Envelope, now: float) -> _Peer | None:
        """Meet a sender outside the view: a member with a newer view, or the first member of another site."""
        remote = bool(envelope.to) or envelope.kind is LinkKind.ANNOUNCE
        if envelope.kind is LinkKind.BYE or (remote and not self.is_first):
            return None
        most = self.settings.remote_max if remote else self.settings.early_max
        others = sum(
            peer.remote == remote and member not in self._members
            for member, peer in self._peers.items()
        )
        if others >= most:
            self.counters["crowded"] += 1
            return None
        peer = self._add(source, now)
        peer.remote = remote
        return peer

    def _add(self, member: Address, now: float) -> _Peer:
        peer = self._peers[member] = _Peer(self._chance(), heard_at=now, hi_due=now)
        return peer

    def _greet(self, member: Address, peer: _Peer, now: float) -> None:
        self._say(member, peer, LinkKind.HI)
        peer.hi_delay = min(max(peer.hi_delay * 2, self.settings.hi_first), self.settings.hi_max)
        peer.hi_due = now + peer.hi_delay

    def _on_hi(self, source: Address, peer: _Peer, hi: Envelope, now: float) -> None:
        known = hi.yours == peer.mine
        # The peer has begun a link. Our number stays. Otherwise both would change theirs for ever.
        if hi.mine != peer.yours:
            self._take_down(source, peer)
            peer.yours = hi.mine
        if not known or peer.told != (peer.mine, peer.yours):
            peer.told = (peer.mine, peer.yours)
            self._greet(source, peer, now)
        if known:
            self._bring_up(source, peer)

    def _on_data(self, source: Address, peer: _Peer, envelope: Envelope) -> None:
        if (envelope.mine, envelope.yours) != (peer.yours, peer.mine):
            self.counters["stale"] += 1
            return
        self._bring_up(source, peer)
        self._out.append(Incoming(source, envelope.data, False))

    def _bring_up(self, member: Address, peer: _Peer) -> None:
        if not peer.up:
            peer.up, peer.hi_delay = True, 0.0
            self._out.append(Up(member))

    def _take_down(self, member: Address, peer: _Peer) -> None:
        if peer.up:
            peer.up = False
            self._out.append(Down(member))

    def _drop(self, member: Address) -> None:
        self._take_down(member, self._peers[member])
        del self._peers[member]

    def _say(self, member: Address, peer: _Peer, kind: LinkKind, data: bytes = b"") -> None:
        to = bytes(member) if peer.remote else b""
        envelope = Envelope(self.name, kind, peer.mine, peer.yours, to, data)
        self._out.append(Send(None if peer.remote else member, sealed(envelope)))
