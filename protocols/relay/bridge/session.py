"""RELAY's session with one remote relay: what it has, what was sent to it, what it acknowledged.

member on the bridge          ask; nothing is sent before the answer
answer                        sets the cursor; what is above is replayed, then new ones follow
"I have less"                 moves the cursor back
acknowledgement               moves it on, where it was moved back
number missing in the buffer  stalled; after `gap_wait` a GAP moves the cursor on
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from jgroups_py.protocols.relay.state import Numbers, SiteNumbers
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch


class Session:
    """See the module's docstring. ``site`` is "" until the peer has said it."""

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
        """Of the question that is open or was answered last; answers to others are old."""
        self.peer_token = 0
        """Of the question it asked last; the same again is a repetition."""
        self.ready = False
        self.blocked = False
        """Flow control of the bridge: send nothing now."""
        self.blind = False
        """It does not know where to begin: with what is not acknowledged."""
        self.leaving = False
        self.owes_have: dict[bytes, None] = {}
        """Origins of which a GAP was not acted on; ask it back when it is alone."""
        self.perhaps_gone: Numbers = {}
        """Origins it no longer knew while its site had two relays, and what was here of them."""
        self.cursor: Numbers = {}
        """Home numbers sent there."""
        self.replay_to: Numbers = {}
        """Up to here sending counts as replay."""
        self.stalled: dict[bytes, float] = {}
        """Origins whose next number is in no buffer, and since when."""
        self.acked: Numbers = {}
        """Home numbers that all members of its site have."""
        self.have: SiteNumbers = {}
        """What it said to have when it asked."""
        self.told: Numbers = {}
        """What of its origins was acknowledged to it in this session."""
        self.asked_back: dict[bytes, tuple[int, float]] = {}
        """Asked to go back to this number, and when; not again before something happens."""
        self.inbox: deque[Batch | Any] = deque()
        """What came while the local group could take no more."""
        self.posts: deque[bytes] = deque()
        """Posts that wait for flow control; ``post_bytes`` in all."""
        self.post_bytes = 0

    def begin(self, token: int) -> None:
        """A new question is under way; nothing is known until the answer."""
        self.token = token
        self.ready = False
        self.cursor = {}
        self.replay_to = {}
        self.stalled = {}

    def answered(self, numbers: Mapping[bytes, int], replay_to: Mapping[bytes, int]) -> None:
        """The cursor is what the peer has."""
        self.ready = True
        self.cursor = dict(numbers)
        self.replay_to = {o: n for o, n in replay_to.items() if n > numbers.get(o, 0)}

    def back_to(self, numbers: Mapping[bytes, int], replay_to: Mapping[bytes, int]) -> bool:
        """The peer has less than was sent; True if that is news."""
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
        """All of its site have them: what it asked back for has come, or was given up, by other ways."""
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
        """Messages that are to be replayed."""
        return sum(n - self.cursor.get(o, 0) for o, n in self.replay_to.items())

    def starts_anew(self) -> None:
        """Either end has asked: both acknowledge again, because either may have less now."""
        self.acked = {}
        self.told = {}

    def forget(self, origin: bytes) -> None:
        for numbers in (self.cursor, self.replay_to, self.acked, self.told):
            numbers.pop(origin, None)
        for numbers in self.have.values():
            numbers.pop(origin, None)
        self.stalled.pop(origin, None)
        self.asked_back.pop(origin, None)

    def forget_remote(self, site: str, origins: Iterable[bytes]) -> None:
        """Departed origins of that site: everybody has had all of them."""
        have = self.have.get(site, {})
        for origin in origins:
            have.pop(origin, None)
            self.told.pop(origin, None)
            self.owes_have.pop(origin, None)
