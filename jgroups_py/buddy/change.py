"""A new view: everybody reports what it holds of the dead and what was on the move; the coordinator
decides (decide.py); everybody acts on the same ``Settle``. Until then owners keep writing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from jgroups_py.buddy.backups import Backup
from jgroups_py.buddy.decide import decide
from jgroups_py.buddy.messages import (
    Adopted,
    Adoptions,
    AskAll,
    Discarded,
    Inventory,
    Listed,
    Orphan,
    Settle,
    Winner,
    groups_of,
)
from jgroups_py.buddy.outputs import Dropped
from jgroups_py.buddy.values import Epoch, Node, Path, Stamp, next_epoch
from jgroups_py.values.address import Address

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jgroups_py.buddy.machine import BuddyMachine

Parties = dict[Path, tuple[Epoch, Address]]


class Change:
    """``inventories``: what came in for the view, at its coordinator."""

    def __init__(self, machine: BuddyMachine) -> None:
        self.machine = machine
        self.inventories: dict[Address, Inventory] = {}
        self.asked = False
        self.since = 0.0
        self.heirs: dict[Address, Address] = {}
        """By dead group, who has its nodes, as the ``Settle`` of this view says."""
        self._ends: dict[Address, int] = {}
        """By dead group, the last entry of its log, until its adoption is safe."""
        self._dropped: dict[tuple[Path, Stamp], Any] = {}
        """Values that this member had, and that a merge drops in this step."""

    # --- reporting

    def begin(self) -> None:
        """Called when a view was installed."""
        machine = self.machine
        self.inventories = {}
        self.asked = False
        self.heirs = {}
        self.since = machine.now
        machine.send(machine.coordinator, self.inventory())

    def inventory(self) -> Inventory:
        machine = self.machine
        full = machine.unmerged
        orphans = tuple(
            self._orphan(o, machine.backups.of[o], full) for o in machine.backups.orphans()
        )
        nodes = _listed(machine.own) if full else ()
        adopted = tuple(
            (g, view, g in machine.adopted_safely) for g, (view, _) in machine.adopted.items()
        )
        givers = _givers(machine.own)
        sites = machine.sites.state()
        return Inventory(
            *(full, machine.unmerged, orphans, givers, adopted, nodes, sites),
            holders=machine.buddies.before,
            keeps=machine.backups.kept_before(),
        )

    @staticmethod
    def _orphan(owner: Address, backup: Backup, full: bool) -> Orphan:
        adopted = groups_of(backup.adopted)
        nodes = _listed(backup.nodes) if full else ()
        return Orphan(owner, backup.complete, backup.seq, adopted, _givers(backup.nodes), nodes)

    def on_ask_all(self, src: Address, message: AskAll) -> None:
        """Somebody else's merge is not resolved: what we own takes part in it."""
        machine = self.machine
        if not machine.settled:
            machine.frozen = machine.unmerged = True
            machine.send(machine.coordinator, self.inventory())

    # --- deciding

    def on_inventory(self, src: Address, message: Inventory) -> None:
        machine = self.machine
        if machine.me != machine.coordinator or machine.settled:
            machine.count("bad_messages")
            return
        self.inventories[src] = message
        missing = [m for m in machine.members if m not in self.inventories]
        if missing or machine.minority:
            return
        unmerged = any(i.unmerged for i in self.inventories.values())
        rest = [m for m, i in self.inventories.items() if unmerged and not i.full]
        if rest:
            self._ask(rest)
            return
        settle = decide(machine.members, self.inventories, machine.number, machine.sides)
        sites = machine.sites.merged([i.sites for i in self.inventories.values()])
        settle = replace(settle, sites=sites)
        self.inventories = {}
        machine.send_all(settle)
        self.on_settle(machine.me, settle)

    def _ask(self, rest: list[Address]) -> None:
        for member in rest:
            del self.inventories[member]
            self.machine.send(member, AskAll())

    def silent(self) -> list[Address]:
        """At the coordinator: who has not reported in time."""
        machine = self.machine
        if machine.settled or machine.me != machine.coordinator:
            return []
        return [m for m in machine.members if m not in self.inventories]

    # --- acting

    def on_settle(self, src: Address, settle: Settle) -> None:
        machine = self.machine
        if machine.settled:
            machine.count("bad_messages")
            return
        changes: dict[Path, Node | None] = {}
        parties = {path: (epoch, party) for path, epoch, party in settle.unconfirmed}
        heirs = self.heirs = dict(settle.adopted_by) | dict(settle.guardians)
        self._ends = {g: seq for g, seq in self._ends.items() if g in heirs} | dict(settle.ends)
        winners = {winner.path: winner for winner in settle.winners}
        self._merge(winners, changes)
        self._resolve_grants(parties, changes)
        groups = self._adopt(settle, parties, heirs, winners, changes)
        self._givers_of_the_dead(heirs, changes)
        self._log(changes, groups)
        for group in settle.safe:
            if group not in machine.members:
                machine.backups.of.pop(group, None)
                self.adopted(group)
        self._agree_on_backups(settle)
        machine.settled_now(settle)

    def _agree_on_backups(self, settle: Settle) -> None:
        """Who missed the view of a merge did not do what the others did in it: they have dropped its nodes, and it keeps
        theirs."""
        machine = self.machine
        for owner, holder in settle.stray:
            if holder == machine.me:
                machine.backups.drop_kept_before(owner)
        lost = [holder for owner, holder in settle.lost if owner == machine.me]
        if lost:
            machine.count("holders_lost", len(lost))
            machine.buddies.begin_anew(lost)

    def adopted(self, group: Address) -> None:
        """The adopter's holders have its nodes."""
        seq = self._ends.pop(group, None)
        if seq is not None:
            for journal in self.machine.journals:
                journal.ended(group, seq)

    def _merge(self, winners: Mapping[Path, Winner], changes: dict[Path, Node | None]) -> None:
        """Losers forget; winners take their epoch."""
        machine = self.machine
        for path, winner in winners.items():
            node = machine.own.get(path)
            if node is None:
                continue
            if winner.member == machine.me and winner.group is None:
                won = replace(node, epoch=winner.epoch, to=None)
                if node.to is not None:
                    won = machine.sites.mine(path, won)
                machine.own[path] = changes[path] = won
            else:
                self._dropped[path, node.stamp] = node.value
                machine.drop(path)
                changes[path] = None
        machine.calls.drop({path for path, node in changes.items() if node is None})

    def _resolve_grants(self, parties: Parties, changes: dict[Path, Node | None]) -> None:
        """What we granted in an earlier view: either it took, or the node is ours again."""
        machine = self.machine
        for path, node in list(machine.own.items()):
            if node.to is None:
                continue
            epoch, party = parties.get(path, ((0, 0), machine.me))
            if epoch >= node.to[1]:
                machine.own[path] = replace(node, to=(party, epoch))
            else:
                mine = replace(node, to=None, epoch=next_epoch(node.epoch, machine.number))
                machine.own[path] = changes[path] = machine.sites.mine(path, mine)

    def _adopt(
        self,
        settle: Settle,
        parties: Parties,
        heirs: Mapping[Address, Address],
        winners: Mapping[Path, Winner],
        changes: dict[Path, Node | None],
    ) -> Adoptions:
        """As guardian: the nodes of dead groups become ours."""
        machine = self.machine
        groups: Adoptions = {}
        for group, guardian in settle.guardians:
            if guardian != machine.me:
                continue
            backup = machine.backups.of.pop(group, None)
            if backup is None:
                machine.complain("bad_messages", f"guardian of {group!r}, of whom nothing is here")
                continue
            groups |= {g: (machine.number, end) for g, (_, end) in backup.adopted.items()}
            groups[group] = machine.number, backup.seq
            for path, node in backup.nodes.items():
                adopted = self._adopted(group, path, node, parties, heirs, winners)
                if adopted is not None:
                    if adopted.to is None:
                        adopted = machine.sites.mine(path, adopted)
                    machine.own[path] = changes[path] = adopted
                    machine.adopted_from[path] = group
                    machine.count("nodes_adopted")
                elif path in winners:
                    self._dropped[path, node.stamp] = node.value
        return groups

    def tell_discarded(self, discarded: Sequence[Discarded]) -> None:
        """Everybody hears of everything; who had a value says what it was."""
        machine = self.machine
        dropped, self._dropped = self._dropped, {}
        for each in discarded:
            mine = each.member == machine.me
            value = dropped.get((each.path, each.stamp)) if mine else None
            machine.event(
                "discarded", Dropped(each.path, each.stamp, each.member, each.side, value)
            )

    def _adopted(
        self,
        group: Address,
        path: Path,
        node: Node,
        parties: Parties,
        heirs: Mapping[Address, Address],
        winners: Mapping[Path, Winner],
    ) -> Node | None:
        """None: somebody else's copy of the path is the right one."""
        machine = self.machine
        winner = winners.get(path)
        if winner is not None:
            if (winner.member, winner.group) != (machine.me, group):
                return None
            return replace(node, epoch=winner.epoch, giver=self._giver(node, heirs))
        epoch, party = parties.get(path, ((0, 0), machine.me))
        if epoch > node.epoch:
            # The newer copy is ours, from another group; or it is elsewhere, and this one a spare.
            return None if party == machine.me else replace(node, to=(party, epoch))
        epoch = next_epoch(node.epoch, machine.number)
        return replace(node, epoch=epoch, giver=self._giver(node, heirs))

    def _giver(self, node: Node, heirs: Mapping[Address, Address]) -> Address | None:
        """The former owner, unless it is gone and nobody else has its nodes. It stays the dead one: who is
        its guardian in this view may die, or be replaced, before it has adopted anything."""
        me, giver = self.machine.me, node.giver
        if giver is not None and giver not in self.machine.members and heirs.get(giver, me) == me:
            return None
        return None if giver == me else giver

    def _givers_of_the_dead(
        self, heirs: Mapping[Address, Address], changes: dict[Path, Node | None]
    ) -> None:
        machine = self.machine
        for path, node in list(machine.own.items()):
            giver = self._giver(node, heirs)
            if giver != node.giver:
                machine.own[path] = changes[path] = replace(node, giver=giver)

    def _log(self, changes: dict[Path, Node | None], groups: Adoptions) -> None:
        """One entry for all of it; whoever waits for it is told when our holders have it."""
        machine = self.machine
        machine.adopted.update(groups)
        adopted = groups_of(groups)
        if changes or groups:
            machine.log.append(list(changes.items()), adopted)
        if groups:
            machine.log.when_acked(lambda: self._adopted_safely(groups))

    def _adopted_safely(self, groups: Adoptions) -> None:
        machine = self.machine
        machine.adopted_safely.update(dict.fromkeys(g for g in groups if g in machine.adopted))
        adopted = Adopted(groups_of(groups))
        machine.send_all(adopted)
        machine.backups.on_adopted(machine.me, adopted)


def _givers(nodes: Mapping[Path, Node]) -> tuple[tuple[Path, Epoch], ...]:
    return tuple((path, node.epoch) for path, node in nodes.items() if node.giver is not None)


def _listed(nodes: Mapping[Path, Node]) -> tuple[Listed, ...]:
    return tuple(
        Listed(path, node.epoch, node.stamp, node.removed, node.lineage)
        for path, node in nodes.items()
    )
