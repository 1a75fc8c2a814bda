"""leftovers: when a group is at rest, no table of any protocol names a member that has gone.

Every attribute of every protocol is searched, through containers, dataclasses and objects of this package. Tables that
are meant to remember are named below with their bounds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from jgroups_py.protocols.relay.protocol import RELAY
from jgroups_py.stack.machine import Machine, Timer
from jgroups_py.stack.protocol import Protocol
from jgroups_py.testing.sim.member import Member
from jgroups_py.values.address import UUID, Address
from jgroups_py.values.native import attributes
from jgroups_py.values.view import View

DEPTH_MAX: Final = 6
NOT_LOOKED_AT: Final = ("stack", "config", "log")
"""Attributes that lead elsewhere."""
MAY_REMEMBER: Final[dict[str, str]] = {
    "NAKACK2.repair._answered": "the last asker, for pacing; forgotten with the next question",
    "NAKACK2.senders.left": "the progress of departed members: for departed_remembered, at most max_departed",
    "NAKACK2._early": "batches of strangers until the next view: max_buffered_before_join",
    "MFC._debts": "strangers: at most max_strangers",
    "UFC._debts": "strangers: at most max_strangers",
    "STATE_TRANSFER._covered": "of members known to a state's provider: until the third view after it",
    "RELAY.joining.snapshots": "digests of views whose joiners may still ask: at most 8, for five minutes",
    "RELAY.bridge.sessions.have": "the digest that a peer reported with its last question",
    "RELAY.buffer._arrived": "empty entries behind what stays: at most 64, or twice what is there",
    "RELAY.state._forgotten": "so that old copies are not delivered: at most 1000",
    "RELAY.state.left": "origins of other sites, which may come back: at most 1000 of each",
}
"""The reason why a finding is allowed, by its beginning."""


def leftovers(
    member: Member, known: Mapping[Address, Member], here: Iterable[Member]
) -> Iterator[str]:
    """Yield one sentence for each table of ``member`` that names a member of its site that is not ``here``. ``known``:
    all members there ever were."""
    here = list(here)
    present = {m.address for m in here}
    kept = _kept_for_a_site(here)
    gone = {a: m for a, m in known.items() if a not in present and m.site == member.site}
    for protocol in member.stack.protocols:
        found: dict[str, dict[Address, None]] = {}
        for path, address in named_in(protocol):
            if address in gone and address not in kept:
                found.setdefault(path, {})[address] = None
        for path, addresses in found.items():
            if not path.startswith(tuple(MAY_REMEMBER)):
                names = ", ".join(f"{gone[a].name}#{gone[a].incarnation}" for a in addresses)
                yield f"{member.name}: {path} still names {names}"


def _kept_for_a_site(here: Iterable[Member]) -> set[Address]:
    """Return the origins of a site that has never met another site. It keeps them, because the first site that comes
    gets their messages or gaps."""
    relays = [p for m in here for p in m.stack.protocols if isinstance(p, RELAY)]
    waiting = [r for r in relays if r.is_relaying and not r.state.sites]
    return {UUID(origin) for r in waiting for origin in r.state.delivered}


def named_in(protocol: Protocol) -> Iterator[tuple[str, Address]]:
    """Yield every address in the attributes of ``protocol``, with the names that lead there."""
    yield from _walk(protocol, protocol.name, DEPTH_MAX, {})


def _walk(value: Any, path: str, depth: int, seen: dict[int, Any]) -> Iterator[tuple[str, Address]]:
    """Yield the addresses in ``value``, with the attributes that lead there."""
    if isinstance(value, Address):
        yield path, value
        return
    if type(value) is bytes:
        if len(value) == 16:
            yield path, UUID(value)
        return
    if depth == 0 or id(value) in seen or isinstance(value, View):
        return  # the healing check covers views
    if isinstance(value, (dict, list, tuple, deque, set, frozenset)):
        if isinstance(value, dict):
            for key in list(value):
                yield from _walk(key, path, depth, seen)
            value = value.values()
        for item in list(value):
            yield from _walk(item, path, depth - 1, seen)
        return
    seen[id(value)] = value
    for name, item in _attributes(value):
        if name not in NOT_LOOKED_AT and not isinstance(item, Protocol | Machine | Timer):
            yield from _walk(item, f"{path}.{name}", depth - 1, seen)


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    # Protocols may be a user's; of their content only values of this package are known.
    if not isinstance(value, Protocol) and not type(value).__module__.startswith("jgroups_py"):
        return
    yield from attributes(value).items()
