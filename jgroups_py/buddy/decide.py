"""The decision of the coordinator of a new view, from the inventories of all members. Values in, ``Settle`` out.

The holder with the best copy adopts the nodes of a dead owner: a complete copy first, then the longer log. The holders'
own lists of buddies are not used: they differ while buddies change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jgroups_py.buddy.messages import Discarded, Inventory, Listed, Orphan, Settle, Winner
from jgroups_py.buddy.values import Epoch, Path, descends, next_epoch
from jgroups_py.values.address import Address

Inventories = Mapping[Address, Inventory]


def decide(
    members: Sequence[Address],
    inventories: Inventories,
    view: int,
    sides: Mapping[Address, Address] | None = None,
) -> Settle:
    """``sides``: the creator of the view that each member comes from, where it is known."""
    adopted_by: dict[Address, Address] = {}
    safe: dict[Address, None] = {}
    for member in members:
        for group, _, acked in inventories[member].adopted:
            if group not in members:
                adopted_by.setdefault(group, member)
                if acked:
                    safe[group] = None
    chosen, ends = _guardians(members, inventories, adopted_by)
    unmerged = any(inventories[m].unmerged for m in members)
    winners, discarded = (
        _winners(members, inventories, chosen, view, sides or {}) if unmerged else ((), ())
    )
    return Settle(
        guardians=tuple((group, member) for group, (member, _) in chosen.items()),
        adopted_by=tuple(adopted_by.items()),
        safe=tuple(safe),
        unconfirmed=_unconfirmed(members, inventories, chosen),
        unmerged=unmerged,
        winners=winners,
        discarded=discarded,
        ends=ends,
        lost=tuple(
            (owner, holder)
            for owner in members
            for holder in inventories[owner].holders
            if holder in inventories and owner not in inventories[holder].keeps
        ),
        stray=tuple(
            (owner, holder)
            for holder in members
            for owner in inventories[holder].keeps
            if owner in inventories and holder not in inventories[owner].holders
        ),
    )


Chosen = dict[Address, tuple[Address, Orphan]]
Ends = tuple[tuple[Address, int], ...]
"""By dead owner, the last entry in the best copy. Owners that another dead owner has adopted are among them."""


def _guardians(
    members: Sequence[Address], inventories: Inventories, adopted_by: dict[Address, Address]
) -> tuple[Chosen, Ends]:
    best: dict[Address, tuple[bool, int, int]] = {}
    chosen: Chosen = {}
    for rank, member in enumerate(members):
        for orphan in inventories[member].orphans:
            if orphan.group in adopted_by:
                continue
            merit = (orphan.complete, orphan.seq, -rank)
            if orphan.group not in best or merit > best[orphan.group]:
                best[orphan.group] = merit
                chosen[orphan.group] = (member, orphan)
    ends = {group: orphan.seq for group, (_, orphan) in chosen.items()}
    inner = {
        group: (guardian, end)
        for guardian, orphan in chosen.values()
        for group, _, end in orphan.adopted
        if group not in members
    }
    for group, (guardian, end) in inner.items():
        chosen.pop(group, None)
        adopted_by.setdefault(group, guardian)
        ends[group] = end  # other copies may have less of its log
    return chosen, tuple(ends.items())


def _unconfirmed(
    members: Sequence[Address], inventories: Inventories, chosen: Chosen
) -> tuple[tuple[Path, Epoch, Address], ...]:
    """Return, for each path, the newest owner that still waits for the former owner. A chosen backup counts as its
    guardian's nodes."""
    newest: dict[Path, tuple[Epoch, Address]] = {}

    def note(givers: tuple[tuple[Path, Epoch], ...], party: Address) -> None:
        for path, epoch in givers:
            if path not in newest or (epoch, party) > newest[path]:
                newest[path] = (epoch, party)

    for member in members:
        note(inventories[member].givers, member)
    for guardian, orphan in chosen.values():
        note(orphan.givers, guardian)
    return tuple((path, epoch, party) for path, (epoch, party) in newest.items())


Copy = tuple[Listed, Address, Address | None]
"""A copy, the member that has it, and the dead owner whose guardian that member is."""


def _winners(
    members: Sequence[Address],
    inventories: Inventories,
    chosen: Chosen,
    view: int,
    sides: Mapping[Address, Address],
) -> tuple[tuple[Winner, ...], tuple[Discarded, ...]]:
    copies: dict[Path, list[Copy]] = {}
    for member in members:
        for listed in inventories[member].nodes:
            copies.setdefault(listed.path, []).append((listed, member, None))
    for dead, (guardian, orphan) in chosen.items():
        for listed in orphan.nodes:
            copies.setdefault(listed.path, []).append((listed, guardian, dead))
    winners = []
    discarded = []
    for path, found in copies.items():
        if len(found) < 2:
            continue
        best, member, group = max(found, key=_merit)
        epoch = next_epoch(max(listed.epoch for listed, _, _ in found), view)
        winners.append(Winner(path, epoch, best.stamp, member, group))
        for listed, at, _ in found:
            if not descends(best.stamp, best.lineage, listed.stamp):
                discarded.append(Discarded(path, listed.stamp, at, sides.get(at, at)))
    return tuple(winners), tuple(discarded)


def _merit(copy: Copy) -> tuple[object, ...]:
    listed, member, group = copy
    return (listed.stamp, listed.epoch, member, group is None)
