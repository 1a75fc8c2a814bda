"""A new view, at its coordinator: it collects the reports of all members, and decides (decide.py).

A member reports its backups of dead owners and its nodes in hand-over. After a merge the coordinator also waits until
the holders of every member have the changes of the merge.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from jgroups_py.buddy.backups import Backup, Backups
from jgroups_py.buddy.decide import decide
from jgroups_py.buddy.membership import Membership
from jgroups_py.buddy.messages import AskAll, Inventory, Listed, Merged, Orphan, Settle, groups_of
from jgroups_py.buddy.out import BuddyOut
from jgroups_py.buddy.ownership import Ownership
from jgroups_py.buddy.site_messages import SiteState
from jgroups_py.buddy.values import Epoch, OwnedNode, Path
from jgroups_py.values.address import Address


class MembershipChange:
    """``inventories``: members' reports for this view, at its coordinator. ``since``: when it began to wait."""

    def __init__(self, membership: Membership, out: BuddyOut) -> None:
        self._membership = membership
        self._out = out
        self.inventories: dict[Address, Inventory] = {}
        self.since = 0.0
        self._clean: dict[Address, None] = {}

    def new_view(self) -> None:
        self.inventories = {}
        self.since = self._membership.now

    def on_inventory(self, src: Address, message: Inventory) -> dict[Address, Inventory] | None:
        """Return all inventories when the last one is there."""
        membership = self._membership
        if membership.me != membership.coordinator or membership.settled:
            self._out.count("bad_messages")
            return None
        self.inventories[src] = message
        missing = [m for m in membership.members if m not in self.inventories]
        if missing or membership.minority:
            return None
        unmerged = any(i.unmerged for i in self.inventories.values())
        rest = [m for m, i in self.inventories.items() if unmerged and not i.full]
        for member in rest:
            del self.inventories[member]
            self._out.send(member, AskAll())
        if rest:
            return None
        inventories, self.inventories = self.inventories, {}
        return inventories

    def decide(self, inventories: Mapping[Address, Inventory], sites: SiteState) -> Settle:
        """Return the fate of the dead and of nodes on the move. ``sites``: the knowledge of other sites."""
        membership = self._membership
        members, number = membership.members, membership.number
        return replace(decide(members, inventories, number, membership.sides), sites=sites)

    def silent(self) -> list[Address]:
        """Return the members that have not reported. Only the coordinator knows them."""
        membership = self._membership
        if membership.settled or membership.me != membership.coordinator:
            return []
        return [m for m in membership.members if m not in self.inventories]

    # --- the end of a merge

    def settled(self) -> None:
        self._clean = {}

    def on_clean(self, src: Address) -> bool:
        """Note that the holders of ``src`` have the changes of the merge. True: it was the last member."""
        self._clean[src] = None
        if len(self._clean) < len(self._membership.members):
            return False
        self._out.send_all(Merged())
        return True


def inventory(
    membership: Membership,
    ownership: Ownership,
    backups: Backups,
    holders: tuple[Address, ...],
    sites: SiteState,
) -> Inventory:
    """Return the report of this member. ``holders``: those of the previous view."""
    full = membership.unmerged
    orphans = tuple(_orphan(o, backups.of[o], full) for o in backups.orphans())
    nodes = _listed(ownership.nodes) if full else ()
    adopted = tuple(
        (group, view, group in ownership.adopted_safely)
        for group, (view, _) in ownership.adopted.items()
    )
    givers = _givers(ownership.nodes)
    return Inventory(
        *(full, membership.unmerged, orphans, givers, adopted, nodes, sites),
        holders=holders,
        keeps=backups.kept_before(),
    )


def _orphan(owner: Address, backup: Backup, full: bool) -> Orphan:
    adopted = groups_of(backup.adopted)
    nodes = _listed(backup.nodes) if full else ()
    return Orphan(owner, backup.complete, backup.seq, adopted, _givers(backup.nodes), nodes)


def _givers(nodes: Mapping[Path, OwnedNode]) -> tuple[tuple[Path, Epoch], ...]:
    return tuple((path, node.epoch) for path, node in nodes.items() if node.giver is not None)


def _listed(nodes: Mapping[Path, OwnedNode]) -> tuple[Listed, ...]:
    return tuple(
        Listed(path, node.epoch, node.stamp, node.removed, node.lineage)
        for path, node in nodes.items()
    )
