"""Holding: one member's report on its part of a cache with buddies. A reader combines the reports of all members."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from jgroups_py.buddy.machine import BuddyMachine
from jgroups_py.values.address import Address


@dataclass(frozen=True, slots=True)
class PlaceOfMember:
    """``view``: the one this member is in; ``member`` and the keys of ``members`` (with their logical names): addresses.
    ``moves``: rises with each node that comes from another member or goes to one, and with each removed node that is
        forgotten.
    ``moving``: the reason for which nodes may have no owner or two just now; empty: each has one, as far as this member
        knows.
    ``seq``: the last entry of its log. ``told``: the last one that all its holders have, so that others may learn of
        it.

    If two successive reports differ only in ``seq`` and ``told`` and are not ``moving``, this member gained and lost
    nodes only by its own calls in between. Adoptions and merges need no count: they come with a view, before it is
    settled.
    """

    view: str
    member: str
    members: Mapping[str, str]
    moves: int
    moving: str
    seq: int
    told: int


def holding(machine: BuddyMachine, moves: int, name_of: Callable[[Address], str]) -> PlaceOfMember:
    """Return the report of this member."""
    number, creator = machine.tag
    return PlaceOfMember(
        view=f"{number}|{bytes(creator).hex()}",
        member=bytes(machine.me).hex(),
        members={bytes(member).hex(): name_of(member) for member in machine.members},
        moves=moves,
        moving=_moving(machine),
        seq=machine.log.seq,
        # The end of a partition may drop writes of the smaller side.
        told=0 if machine.minority else machine.log.acked,
    )


def _moving(machine: BuddyMachine) -> str:
    if machine.minority:
        return "it is on the smaller side of a partition"
    if not machine.settled or machine.membership.unmerged:
        return "its view is not settled"
    if machine.backups.orphans():
        return "nodes of a member that is gone are not adopted yet"
    if machine.ownership.granted:
        return f"{machine.ownership.granted} of its nodes are on their way to other members"
    return ""
