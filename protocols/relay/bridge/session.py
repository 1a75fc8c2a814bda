"""Sessions with the relays of other sites: for each, the numbers that it has, was sent and acknowledged.

member on the bridge          ask; nothing is sent before the answer
answer                        sets the cursor; numbers above it are replayed, then new ones follow
"I have less"                 moves the cursor back
acknowledgement               moves the cursor on, where it was moved back
number missing in the buffer  stalled; after `gap_wait` a GAP moves the cursor on
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jgroups_py.protocols.relay.state import Numbers, SiteNumbers
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch


class RelaySession:
    """A session with one remote relay. ``site`` is "" until the peer has named it."""

    __slots__ = (
        "acked",
        "asked_back",
        "blind",
        "blocked",
        "cursor",
        "have",
        "inbox",
        "leaving",
        "owes_have",
        "peer",
        "peer_token",
        "perhaps_gone",
        "post_bytes",
        "posts",
        "ready",
        "refused",
        "replay_to",
        "site",
        "stalled",
        "told",
        "token",
    )

    def __init__(self, peer: Address) -> None:
        self.peer = peer
        self.site = ""
        self.token = 0
        """Number of the latest question. Answers to other questions are old."""
        self.peer_token = 0
        """Number of the peer's last question. The same number again is a repetition."""
        self.ready = False
        self.refused = False
        """The peer is relay of a site that is not among ``sites``."""
        self.blocked = False
        """Does flow control of the bridge block now?"""
        self.blind = False
        """The peer does not know where to begin. It gets all unacknowledged messages."""
        self.leaving = False
        self.owes_have: dict[bytes, None] = {}
        """Origins with a GAP that was not acted on. They are asked back when the peer is its site's only relay."""
        self.perhaps_gone: Numbers = {}
        """Origins that the peer no longer knew while its site had two relays, and their numbers here."""
        self.cursor: Numbers = {}
        """Digest: home numbers sent to the peer."""
        self.replay_to: Numbers = {}
        """Digest: sending up to here counts as replay."""
        self.stalled: dict[bytes, float] = {}
        """Origin whose next number is in no buffer -> the time since when."""
        self.acked: Numbers = {}
        """Digest: home numbers that all members of its site have."""
        self.have: SiteNumbers = {}
        """Digests that the peer reported in its question."""
        self.told: Numbers = {}
        """Digest of its origins: numbers acknowledged to the peer in this session."""
        self.asked_back: dict[bytes, tuple[int, float]] = {}
        """Origin -> (the number to which the peer was asked to go back, the time until which it is not asked again)."""
        self.inbox: deque[Batch | Any] = deque()
        """Items that came while the local group could take no more."""
        self.posts: deque[bytes] = deque()
        """Posts that wait for flow control, ``post_bytes`` in all."""
        self.post_bytes = 0

    def begin(self, token: int) -> None:
        """Begin a question. Nothing is known until the answer."""
        self.token = token
        self.ready = False
        self.cursor = {}
        self.replay_to = {}
        self.stalled = {}

    def answered(self, numbers: Mapping[bytes, int], replay_to: Mapping[bytes, int]) -> None:
        """Set the cursor to the numbers that the peer has."""
        self.ready = True
        self.cursor = dict(numbers)
        self.replay_to = {o: n for o, n in replay_to.items() if n > numbers.get(o, 0)}

    def back_to(self, numbers: Mapping[bytes, int], replay_to: Mapping[bytes, int]) -> bool:
        """Move the cursor back: the peer has less than was sent. True: it moved."""
        moved = False
        for origin, number in numbers.items():
            if number < self.acked.get(origin, 0):
                self.acked[origin] = number
            at = self.cursor.get(origin, 0)
            if number < at:
                self.cursor[origin] = number
                self.replay_to[origin] = max(at, replay_to.get(origin, 0))
                self.stalled.pop(origin, None)
                moved = True
        return moved

    def acknowledged(self, numbers: Mapping[bytes, int]) -> None:
        """Note that all members of its site have ``numbers``. Requests below them have ended."""
        for origin, number in numbers.items():
            if number > self.acked.get(origin, 0):
                self.acked[origin] = number
            if self.ready and number > self.cursor.get(origin, 0):
                self.cursor[origin] = number
                self.stalled.pop(origin, None)
                if number >= self.replay_to.get(origin, 0):
                    self.replay_to.pop(origin, None)

    @property
    def replaying(self) -> int:
        """Count the messages to be replayed."""
        return sum(n - self.cursor.get(o, 0) for o, n in self.replay_to.items())

    def starts_anew(self) -> None:
        """Acknowledge anew after a question of either end, because the peer may have less now."""
        self.acked = {}
        self.told = {}

    def sent(self, origin: bytes, first: int, count: int) -> int:
        """Note a sent run. Return how many of its messages were replay."""
        self.cursor[origin] = first + count - 1
        replay_to = self.replay_to.get(origin, 0)
        replayed = min(count, max(0, replay_to + 1 - first))
        if replayed and first + count > replay_to:
            del self.replay_to[origin]
        return replayed

    def keep(self, origins: Iterable[bytes]) -> None:
        """Forget all but ``origins`` of this site. A member that began blindly had taken over the peer's knowledge of
        others."""
        known = dict.fromkeys(origins)
        for origin in [o for o in self.cursor if o not in known]:
            self.forget(origin)

    def forget(self, origin: bytes) -> None:
        for numbers in (self.cursor, self.replay_to, self.acked, self.told):
            numbers.pop(origin, None)
        for numbers in self.have.values():
            numbers.pop(origin, None)
        self.stalled.pop(origin, None)
        self.asked_back.pop(origin, None)
        self.owes_have.pop(origin, None)


class Sessions(dict[Address, RelaySession]):
    """Sessions by peer."""

    def of_site(self, site: str) -> list[RelaySession]:
        return [s for s in self.values() if s.site == site]

    def relays_of(self, site: str) -> int:
        """Count the peers that are, or may be, relay of ``site``."""
        return sum(1 for s in self.values() if s.site in (site, "") and not s.refused)

    def acknowledged(self, sites: Sequence[str], origin: bytes) -> int:
        """Return the number that all of ``sites`` have acknowledged. Two relays of a site both count."""
        lowest: int | None = None
        for site in sites:
            acks = [s.acked.get(origin, 0) for s in self.values() if s.site == site]
            number = min(acks, default=0)
            lowest = number if lowest is None else min(lowest, number)
        return lowest or 0

    def stalled_since(self) -> float | None:
        """Return the earliest time since when a number is missing. None: no number is missing."""
        return min((at for s in self.values() for at in s.stalled.values()), default=None)

    def forget(self, origins: Iterable[bytes]) -> None:
        """Forget departed ``origins`` that all members of their site have forgotten."""
        for origin in origins:
            for session in self.values():
                session.forget(origin)
