"""The public keys of members, of joiners, and of members that a merge brings.

    a joiner's own request    its key, until it is a member or was refused, for JOINER_SECONDS at most. Another key for
                              the same joiner or member is refused
    a member's list           keys of other members, until the next view names its members

Limits: ``joiners_max`` joiners, the oldest is forgotten; FOREIGN_MAX keys from lists.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from jgroups_py.protocols.security.key_list import MemberKeys
from jgroups_py.protocols.security.rsa import PublicKey, UnusableKey, read_public_key
from jgroups_py.values.address import Address

JOINER_SECONDS: Final = 60.0
"""Seconds after which a joiner is forgotten: it asks again, or has gone."""
FOREIGN_MAX: Final = 10_000
"""Keys from lists that are kept until the next view."""


class OtherKey(Exception):
    """The address has another public key already."""


class PublicKeys:
    """See the module's docstring."""

    def __init__(self, me: Address, own: PublicKey, joiners_max: int) -> None:
        self._me = me
        self._members: dict[Address, PublicKey] = {me: own}
        self._joiners: dict[Address, tuple[PublicKey, float]] = {}
        self._listed: dict[Address, PublicKey] = {}
        self._joiners_max = joiners_max
        self.forgotten = 0
        """Joiners that were forgotten because others took their places."""

    def of(self, member: Address) -> PublicKey | None:
        """Return the key of a member or joiner. None: it is unknown."""
        joining = self._joiners.get(member)
        return (
            self._members.get(member)
            or (None if joining is None else joining[0])
            or self._listed.get(member)
        )

    def listed(self, members: Iterable[Address]) -> tuple[MemberKeys, ...]:
        """Return the known keys of ``members``, for a list."""
        return tuple(MemberKeys(m, key.encoded) for m in members if (key := self.of(m)) is not None)

    def add_joiner(self, joiner: Address, encoded: bytes, now: float) -> None:
        """Keep the key that a joiner sent.

        Raises:
            UnusableKey: the key cannot be used.
            OtherKey: the joiner or member has another key.
        """
        asked = self._joiners.get(joiner)
        known = self._members.get(joiner) or (None if asked is None else asked[0])
        if known is not None:
            if known.encoded != encoded:
                raise OtherKey
            return
        key = read_public_key(encoded)
        if len(self._joiners) >= self._joiners_max:
            del self._joiners[next(iter(self._joiners))]
            self.forgotten += 1
        self._joiners[joiner] = key, now

    def forget_joiner(self, joiner: Address) -> None:
        """Forget the key of a joiner that was refused."""
        self._joiners.pop(joiner, None)

    def add_listed(self, entries: Iterable[MemberKeys]) -> None:
        """Keep the keys of a member's list.

        Raises:
            UnusableKey, OtherKey: as ``add_joiner``, for one of them. The others are kept.
        """
        problem: Exception | None = None
        for entry in entries:
            if not entry.public or entry.member == self._me:
                continue
            known = self.of(entry.member)
            if known is not None:
                if known.encoded != entry.public:
                    problem = OtherKey()
                continue
            try:
                key = read_public_key(entry.public)
            except UnusableKey as error:
                problem = error
                continue
            if len(self._listed) < FOREIGN_MAX:
                self._listed[entry.member] = key
        if problem is not None:
            raise problem

    def view_installed(self, members: Iterable[Address], now: float) -> None:
        """Forget the keys of former members, of old joiners, and other members' keys from lists."""
        kept = {m: key for m in members if (key := self.of(m)) is not None}
        self._members = {self._me: self._members[self._me], **kept}
        self._joiners = {
            joiner: (key, at)
            for joiner, (key, at) in self._joiners.items()
            if joiner not in kept and now - at < JOINER_SECONDS
        }
        self._listed.clear()

    def __len__(self) -> int:
        return len(self._members)

    def check(self) -> None:
        assert len(self._joiners) <= self._joiners_max
        assert len(self._listed) <= FOREIGN_MAX
        assert not self._joiners.keys() & self._members.keys()
