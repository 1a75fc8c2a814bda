"""Datagrams in SEAL: sealed on the way out; opened, proved and counted on the way in.

A packet is let in if it was authenticated under a key of the ring, its sender is alive (senders.py), and it has not
come before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from cryptography.exceptions import InvalidTag

from jgroups_py.protocols.seal.ring import Ring
from jgroups_py.protocols.seal.senders import AskedSender, Known, Recent, SealSenders, Verdict
from jgroups_py.protocols.seal.wire import (
    ANSWERS,
    ASKS,
    CONTROL,
    CONTROL_BODY,
    COUNTER_SIZE,
    DATA,
    HEAD,
    HEAD_SIZE,
    MAGIC,
    NONCE_AT,
    NONCE_LENGTH,
    OVERHEAD,
    SENDER_SIZE,
    VERSION,
    Aead,
    derived,
    known_suite,
)
from jgroups_py.stack.ports import Datagram, Endpoint

_BEGINS: Final = MAGIC + bytes((VERSION,))
MAX_DATAGRAM: Final = 65_507
"""Bytes of an IPv4 datagram."""
PLACES_MAX: Final = 4
"""Network places from which one pending sender is asked."""
ASKS_MAX: Final = 4
"""Number of questions to a pending sender, with ASK_AGAIN seconds between, each time twice as long."""
ASK_AGAIN: Final = 0.25
PROVE_TIME: Final = 3.0
"""Seconds after which a pending sender that has not answered is forgotten."""
ANSWERS_PER_SECOND: Final = 1000
"""Challenges that are answered in a second. Senders repeat further ones."""


@dataclass(frozen=True, slots=True)
class DatagramLimits:
    """Attributes of SEAL that bound the memory of datagrams, and ``freshness`` in seconds."""

    max_senders: int
    max_pending: int
    max_held: int
    window: int
    freshness: float


class Datagrams:
    """See the module's docstring.

    Args: suite: the suite with which this member seals.
        cluster: the name of its cluster, once it is known.
        secrets: returns so many unguessable bytes.
        now: the member's time.
        send: sends a sealed datagram to a place.
        turn_away: counts refusals: cause, place, number.
    """

    def __init__(
        self,
        ring: Ring,
        suite: int,
        limits: DatagramLimits,
        *,
        cluster: Callable[[], bytes],
        secrets: Callable[[int], bytes],
        now: Callable[[], float],
        send: Callable[[bytes, Endpoint], None],
        turn_away: Callable[[str, Endpoint, int], None],
    ) -> None:
        self._ring = ring
        self._suite = suite
        self._cluster = cluster
        self._secrets = secrets
        self._now = now
        self._send = send
        self._turn_away = turn_away
        self._sender = secrets(SENDER_SIZE)
        self._counter = 0
        self._seal: Aead | None = None
        self._head = b""
        """The head of this member's DATA packets, up to the counter. It fits ``_seal``."""
        self._recent = Recent(limits.freshness)
        self.senders = SealSenders(
            limits.max_senders, limits.max_pending, limits.max_held, limits.window
        )
        self._answered_until = 0.0
        self._answered = 0
        self.sealed = 0
        self.opened = 0
        self.own = 0
        self.challenges_sent = 0
        self.answers_sent = 0
        self.answers_held_back = 0
        self.dropped_held = 0
        self.dropped_too_large = 0

    # --- keys

    def take_ring(self, ring: Ring) -> None:
        """Use another ring from now on."""
        self._ring = ring
        self._seal = None
        self.senders.forget_keys(frozenset(key.id for key in ring.keys))

    # --- out

    def seal(self, data: bytes, kind: int = DATA) -> bytes | None:
        """Return the sealed datagram. None: it would be too large for one, and was counted."""
        if len(data) > MAX_DATAGRAM - OVERHEAD:
            self.dropped_too_large += 1
            return None
        cipher = self._seal or self._new_seal()
        counter = self._counter
        self._counter = counter + 1
        now = self._now()
        if now >= self._recent.next_mark:
            self._recent.sends(now, counter)
        head = self._head + counter.to_bytes(COUNTER_SIZE, "big")
        if kind != DATA:
            head = head[:3] + bytes((kind | self._suite,)) + head[4:]
        self.sealed += 1
        return head + cipher.encrypt(head[NONCE_AT:], data, head)

    def _new_seal(self) -> Aead:
        """Make the cipher and the head for the key that writes."""
        writer = self._ring.writer
        self._seal = cipher = derived(
            writer.secret, b"datagrams", self._suite, self._cluster(), self._sender
        )
        head = HEAD.pack(MAGIC, VERSION, DATA | self._suite, writer.id, self._sender, 0)
        self._head = head[:-COUNTER_SIZE]
        return cipher

    # --- in

    def open(self, item: Datagram) -> Iterable[Datagram]:
        """Return the datagrams that go in now: none, the plain one, or several that waited for a proof."""
        data = item.data
        if data[:3] == _BEGINS and len(data) >= OVERHEAD:
            known = self.senders.known.get(data[8:24])
            # Suite and id of a key are these bytes of a DATA packet. The first byte of other packets is larger, so they
            # match none.
            cipher = None if known is None else known.ciphers.get(data[3:8])
            if known is not None and cipher is not None:
                return self._from_known(item, known, cipher)
        return self._open_slowly(item)

    def _from_known(self, item: Datagram, known: Known, cipher: Aead) -> Iterable[Datagram]:
        """Take the usual case: DATA of a known sender under a key that it has used before."""
        data = item.data
        head = data[:HEAD_SIZE]
        try:
            plain = cipher.decrypt(head[NONCE_AT:], memoryview(data)[HEAD_SIZE:], head)
        except InvalidTag:
            self._turn_away("altered", item.source, 1)
            return ()
        return self._take(item, known, plain)

    def _take(self, item: Datagram, known: Known, plain: bytes) -> Iterable[Datagram]:
        """Return an authenticated DATA packet of a known sender, if it comes for the first time."""
        known.heard_at = self._now()
        verdict = known.window.take(int.from_bytes(item.data[24:HEAD_SIZE], "big"))
        if verdict is not Verdict.NEW:
            self._turn_away(verdict.value, item.source, 1)
            return ()
        self.opened += 1
        return (Datagram(item.handle, plain, item.source),)

    def _open_slowly(self, item: Datagram) -> Iterable[Datagram]:
        data = item.data
        if data[:2] != MAGIC:
            self._turn_away("unsealed", item.source, 1)
            return ()
        if len(data) < OVERHEAD:
            self._turn_away("malformed", item.source, 1)
            return ()
        if data[2] != VERSION or not known_suite(data[3]):
            self._turn_away("other_version", item.source, 1)
            return ()
        sender = data[8:24]
        if sender == self._sender:
            self.own += 1  # an own multicast that was looped back
            return ()
        senders = self.senders
        known = senders.known.get(sender)
        entry = known or senders.pending.get(sender)
        plain = self._opened(item, sender, None if entry is None else entry.ciphers)
        if plain is None:
            return ()
        kind = data[3] & 0xF0
        if kind == DATA:
            if known is not None:
                return self._take(item, known, plain)
            counter = int.from_bytes(data[24:HEAD_SIZE], "big")
            self._keep(sender, counter, Datagram(item.handle, plain, item.source))
            return ()
        if kind == CONTROL and len(plain) == CONTROL_BODY.size:
            return self._control(sender, plain, item.source)
        self._turn_away("malformed", item.source, 1)
        return ()

    def _opened(
        self, item: Datagram, sender: bytes, ciphers: dict[bytes, Aead] | None
    ) -> bytes | None:
        """Decrypt a packet, or count the cause of the failure. ``ciphers``: the ciphers of the sender, if it is in a
        table."""
        data = item.data
        which = bytes((data[3] & 0x0F,)) + data[4:8]
        cipher = None if ciphers is None else ciphers.get(which)
        fresh = cipher is None
        if cipher is None:
            key = self._ring.find(data[4:8])
            if key is None:
                self._turn_away("unknown_key", item.source, 1)
                return None
            cipher = derived(key.secret, b"datagrams", which[0], self._cluster(), sender)
        head = data[:HEAD_SIZE]
        try:
            plain = cipher.decrypt(head[NONCE_AT:], memoryview(data)[HEAD_SIZE:], head)
        except InvalidTag:
            self._turn_away("altered", item.source, 1)
            return None
        if fresh and ciphers is not None:
            ciphers[which] = cipher
        return plain

    # --- proofs

    def _keep(self, sender: bytes, counter: int, item: Datagram) -> None:
        """Keep a packet of an unproved sender, and challenge the sender."""
        pending = self._pending(sender)
        if not self.senders.hold(pending, counter, item):
            self.dropped_held += 1
        self._ask(pending, item.source)

    def _pending(self, sender: bytes) -> AskedSender:
        found = self.senders.pending.get(sender)
        if found is None:
            nonce = self._secrets(NONCE_LENGTH)
            found, gone = self.senders.suspect(sender, nonce, self._now())
            if gone is not None:
                self._unproved(gone)
        return found

    def _ask(self, pending: AskedSender, place: Endpoint) -> None:
        if place not in pending.places and len(pending.places) < PLACES_MAX:
            pending.places.append(place)
            pending.asked = max(pending.asked, 1)
            self._say(ASKS, place, ask=pending.nonce)

    def ask_again(self) -> float | None:
        """Repeat older challenges, and forget senders that never answered. Return the time of the next call."""
        now = self._now()
        due = []
        for sender, pending in list(self.senders.pending.items()):
            if now >= pending.since + PROVE_TIME:
                self._unproved(self.senders.give_up(sender))
                continue
            # 0.25, 0.75, 1.75 seconds after the first time
            if pending.asked < ASKS_MAX and now >= self._next_ask(pending):
                pending.asked += 1
                for place in pending.places:
                    self._say(ASKS, place, ask=pending.nonce)
            due.append(
                self._next_ask(pending) if pending.asked < ASKS_MAX else pending.since + PROVE_TIME
            )
        return min(due, default=None)

    def _next_ask(self, pending: AskedSender) -> float:
        return pending.since + ASK_AGAIN * ((1 << max(pending.asked, 1)) - 1)

    def _unproved(self, pending: AskedSender) -> None:
        place = pending.places[0] if pending.places else ("", 0)
        self._turn_away("unproved", place, max(1, len(pending.held)))

    def _control(self, sender: bytes, plain: bytes, place: Endpoint) -> Iterator[Datagram]:
        does, answer, floor, asked = CONTROL_BODY.unpack(plain)
        if does & ASKS:
            self._answer(sender, asked, place)
        pending = self.senders.pending.get(sender)
        if does & ANSWERS and pending is not None and answer == pending.nonce:
            if self.senders.trust(sender, floor, self._now()) is None:
                self._turn_away("too_many_senders", place, 1)
                return
            for held in pending.held:
                known = self.senders.known.get(sender)
                if known is None:
                    return  # an earlier packet has closed the stack
                verdict = known.window.take(held.counter)
                if verdict is Verdict.NEW:
                    self.opened += 1
                    yield held.item
                else:
                    self._turn_away(verdict.value, held.item.source, 1)

    def _answer(self, sender: bytes, asked: bytes, place: Endpoint) -> None:
        """Answer a challenge. An unproved asker is challenged in the same packet."""
        now = self._now()
        if now >= self._answered_until:
            self._answered_until, self._answered = now + 1.0, 0
        if self._answered >= ANSWERS_PER_SECOND:
            self.answers_held_back += 1
            return
        self._answered += 1
        does, back = ANSWERS, bytes(NONCE_LENGTH)
        if sender not in self.senders.known:
            pending = self._pending(sender)
            if place not in pending.places and len(pending.places) < PLACES_MAX:
                pending.places.append(place)
                pending.asked = max(pending.asked, 1)
                does, back = ANSWERS | ASKS, pending.nonce
        self._say(does, place, asked, back)

    def _say(
        self, does: int, place: Endpoint, answer: bytes = bytes(NONCE_LENGTH), ask: bytes = b""
    ) -> None:
        self.challenges_sent += bool(does & ASKS)
        self.answers_sent += bool(does & ANSWERS)
        floor = self._recent.floor(self._now(), self._counter)
        body = CONTROL_BODY.pack(does, answer, floor, ask)
        sealed = self.seal(body, CONTROL)
        assert sealed is not None
        self._send(sealed, place)
