"""The values of buddy replication: paths, stamps, epochs, nodes, groups.

An epoch is the number of an ownership. A stamp is the number of a value. Ownership may move without a write. So one number
for both would let a copy that was adopted and never touched beat a thousand writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any, Final, NamedTuple, TypeVar

import msgspec

from jgroups_py.values.address import Address

Path = tuple[Annotated[str, msgspec.Meta(min_length=1)], ...]
"""Non-empty strings; the root is the empty tuple."""
Epoch = tuple[int, int]
"""(number of the view in which the ownership began, count within it)."""
ViewKey = tuple[int, Address]
"""A view's number and its creator."""
Wanted = tuple[Path, bool]
"""A path, and whether everything below it is meant, too."""

T = TypeVar("T")

LINEAGE_MAX: Final = 8
"""The most earlier stamps that a node keeps. With more, a merge may list a value as discarded that the winner
contains."""
BACKUP_ROOT: Final = "_buddy_backup_"


class Stamp(NamedTuple):
    """Orders the values that a path has had. ``version`` rises with each write. ``epoch`` is that of the owner at the
    write. ``site`` rises when a backup site is promoted."""

    site: int
    epoch: Epoch
    version: int
    owner: Address


class OwnedNode(msgspec.Struct, frozen=True, array_like=True):
    """A node as its owner and the owner's holders keep it.

    ``giver``: the former owner. It stays here until it confirms that it and its holders have dropped the
    node, or until the member that has its nodes now confirms this. ``to``: the member that was granted the
    node, and its epoch. The node is not ours to write any more. It is never replicated. ``unsent``: (site,
    number) of each event that is still to be sent to a site. ``lineage``: the last stamp of each earlier
    ownership that wrote, the newest ``LINEAGE_MAX`` of them. ``came``: the site that the value came from.
    Empty: it was written here. ``passive``: at the owner, the value is not in memory (None) but in a store.
    In the log, holders have the value already. A node is neither pushed nor granted without its value.
    """

    value: Any
    epoch: Epoch
    stamp: Stamp
    removed: bool = False
    giver: Address | None = None
    unsent: tuple[tuple[str, int], ...] = ()
    lineage: tuple[Stamp, ...] = ()
    to: tuple[Address, Epoch] | None = None
    came: str = ""
    passive: bool = False


class BuddyGroup(msgspec.Struct, frozen=True, array_like=True):
    """An owner and its buddies. It travels with ``Assign``. A restarted owner is another group."""

    owner: Address
    buddies: tuple[Address, ...]
    name: str

    @property
    def backup_root(self) -> Path:
        """The path at which a buddy shows the copies of this group."""
        return (BACKUP_ROOT, self.name)


def group_name(logical_name: str, owner: Address) -> str:
    return f"{logical_name}-{owner}"


def next_epoch(epoch: Epoch, view: int) -> Epoch:
    """Return the epoch of the ownership that follows ``epoch`` when it begins in view number ``view``."""
    return (view, 0) if (view, 0) > epoch else (epoch[0], epoch[1] + 1)


def descends(stamp: Stamp, lineage: Iterable[Stamp], from_: Stamp) -> bool:
    """Is it certain that the value with ``stamp`` and ``lineage`` was made from the one with stamp ``from_``? Within one
    ownership versions follow each other."""
    return any(
        s.owner == from_.owner
        and s.epoch == from_.epoch
        and s.site == from_.site
        and s.version >= from_.version
        for s in (stamp, *lineage)
    )


def weight(value: Any) -> int:
    """Return the bytes of texts and bytes in a node's value, those in maps and lists included."""
    if isinstance(value, bytes | str):
        return len(value)
    if isinstance(value, dict):
        return sum(weight(key) + weight(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return sum(map(weight, value))
    return 0


def pieces(items: Iterable[T], value: Callable[[T], Any], nodes: int, size: int) -> list[list[T]]:
    """Divide items. A piece has at most ``nodes`` of them, and none after its values have ``size`` bytes."""
    found: list[list[T]] = [[]]
    room = size
    for item in items:
        if len(found[-1]) >= nodes or room <= 0:
            found.append([])
            room = size
        found[-1].append(item)
        room -= weight(value(item))
    return found


def covers(wanted: Iterable[Wanted], path: Path) -> bool:
    for base, deep in wanted:  # noqa: SIM110 - a generator doubles the cost
        if path == base or (deep and path[: len(base)] == base):
            return True
    return False
