"""A locator chooses the buddies of a member. Its answers are checked.

Users subclass ``BuddyLocator``. ``NextMemberBuddyLocator`` picks the next members in line. Pool, other host and other
zone are hints: it ignores them one by one when no member fits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from jgroups_py.errors import ConfigError
from jgroups_py.values.address import Address

BUDDIES_MAX: Final = 100
"""The highest ``numBuddies``."""


class MemberFacts(msgspec.Struct, frozen=True):
    """The facts about a member that a locator gets. ``hosts``: all interface addresses of its host."""

    address: Address
    pool: str = ""
    zone: str = ""
    hosts: tuple[str, ...] = ()
    leaving: bool = False


class BuddyLocator:
    """Chooses buddies. It is asked when the membership changes, and at no other time."""

    def init(self, properties: Mapping[str, str]) -> None:
        """Take ``buddyLocatorProperties``. Raises ConfigError if they make no sense."""

    def get_buddies(self, members: Sequence[MemberFacts]) -> Sequence[Address]:
        """Return the buddies. ``members``: all members of the view in their order, turned so that the owner comes
        first."""
        raise NotImplementedError


class NextMemberBuddyLocator(BuddyLocator):
    """The next members in line. Properties: ``numBuddies`` (default 1), ``ignoreColocatedBuddies`` (default true)."""

    def __init__(self) -> None:
        self.num_buddies = 1
        self.ignore_colocated = True
        self.hints_broken = 0
        """The number of buddies chosen so far that break a hint."""

    def init(self, properties: Mapping[str, str]) -> None:
        self.num_buddies = buddies_wanted(properties)
        self.ignore_colocated = _truth(properties.get("ignoreColocatedBuddies", "true"))

    def get_buddies(self, members: Sequence[MemberFacts]) -> list[Address]:
        owner, *others = members
        chosen: list[Address] = []
        for level, fits in enumerate(self._levels(owner)):
            for member in others:
                if len(chosen) == self.num_buddies:
                    return chosen
                if member.address not in chosen and fits(member):
                    chosen.append(member.address)
                    self.hints_broken += level > 0 and not member.leaving
        return chosen

    def _levels(self, owner: MemberFacts) -> list[Callable[[MemberFacts], bool]]:
        def pool(member: MemberFacts) -> bool:
            return member.pool == owner.pool

        def host(member: MemberFacts) -> bool:
            return not (self.ignore_colocated and set(member.hosts) & set(owner.hosts))

        def zone(member: MemberFacts) -> bool:
            return not (owner.zone and member.zone == owner.zone)

        def stays(member: MemberFacts) -> bool:
            return not member.leaving

        return [
            lambda m: stays(m) and pool(m) and host(m) and zone(m),
            lambda m: stays(m) and pool(m) and host(m),
            lambda m: stays(m) and pool(m),
            stays,
            lambda m: True,
        ]


def checked(
    answer: Sequence[Address],
    members: Sequence[Address],
    wanted: int,
    leaving: Sequence[Address] = (),
) -> tuple[list[Address], list[str]]:
    """Return a locator's answer without its mistakes, and the mistakes. The next members in line fill it up.
    ``members``: the owner first. Members in ``leaving`` are replaced, because a buddy cannot leave. If too few members
    stay, leavers follow in the order of ``leaving``."""
    owner, *others = members
    staying = [m for m in others if m not in leaving]
    good: list[Address] = []
    wrong: list[str] = []
    named: list[Address] = []
    for buddy in answer:
        if buddy == owner:
            wrong.append("the owner itself")
        elif buddy not in others:
            wrong.append(f"a stranger, {buddy!r}")
        elif buddy in named:
            wrong.append(f"{buddy!r} twice")
        elif len(named) == wanted:
            wrong.append(f"more than numBuddies, which is {wanted}")
            break
        else:
            named.append(buddy)
            if buddy in staying:
                good.append(buddy)
    if not wrong and len(named) < min(wanted, len(others)):
        wrong.append(f"{len(named)} instead of {min(wanted, len(others))}")
    line = [*staying, *(m for m in leaving if m in others)]
    good += [m for m in line if m not in good][: wanted - len(good)]
    return good, wrong


def buddies_wanted(properties: Mapping[str, str]) -> int:
    """Return ``numBuddies``. Raises ConfigError if it is no number of buddies."""
    text = properties.get("numBuddies", "1")
    try:
        value = int(text.strip())
    except ValueError:
        raise ConfigError(f"numBuddies must be a whole number, got {text!r}") from None
    if not 1 <= value <= BUDDIES_MAX:
        raise ConfigError(f"numBuddies must be within 1..{BUDDIES_MAX}, got {value}")
    return value


def _truth(text: str) -> bool:
    known = {"true": True, "false": False}
    if text.strip().lower() not in known:
        raise ConfigError(f"ignoreColocatedBuddies must be true or false, got {text!r}")
    return known[text.strip().lower()]
