"""Ownership: the nodes that this member owns, and every change of them.

No other part writes a node or an epoch. A method is one transition of one or more nodes: it refuses forbidden
transitions, numbers the nodes for other sites, and appends the entry to the log.

    absent  --write, take_over, accept, bury, settle-->  owned
    owned   --write, accept, tell, mark_unsent-->        owned, with a new value or new numbers
    owned   --passivate--> passive --activate, write-->  owned
    owned   --grant-->     granted --forget-->           absent
                           granted --settle-->           granted to the heir, or owned again
    owned with a giver --confirm, settle-->              owned without one
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from msgspec.structs import replace

from jgroups_py.buddy.config import BuddyConfig
from jgroups_py.buddy.known_sites import KnownSites
from jgroups_py.buddy.log import Action, WriteLog
from jgroups_py.buddy.membership import Membership
from jgroups_py.buddy.messages import Adoptions, groups_of
from jgroups_py.buddy.out import BuddyOut
from jgroups_py.buddy.outbox import Outboxes
from jgroups_py.buddy.site_messages import Sent
from jgroups_py.buddy.values import LINEAGE_MAX, Epoch, OwnedNode, Path, Stamp, next_epoch
from jgroups_py.buddy.verdict import MergeVerdict
from jgroups_py.values.address import Address

Grant = tuple[Path, OwnedNode, Epoch]
"""A node, as it was, and the epoch of its next owner."""
Watch = Callable[[Path, OwnedNode | None, OwnedNode | None], None]
"""Called for each change of a node with the path, the old node, the new node."""
Discards = dict[tuple[Path, Stamp], Any]
"""Values that this member had and that a merge drops."""


class Settled(NamedTuple):
    """The changes that ``settle`` made."""

    discards: Discards
    forgotten: list[Path]
    """Nodes of this member that a merge gave to other members."""


class DeadOwnersCopy(Protocol):
    """The backup of a dead owner, as far as an adoption needs it (``Backup``)."""

    seq: int
    nodes: dict[Path, OwnedNode]
    adopted: Adoptions


class Ownership:
    """``nodes``: all nodes of this member, those that are granted or removed among them. ``moving``: the number of
    nodes that are granted or have a giver. ``granted``: the number of granted nodes."""

    def __init__(
        self,
        membership: Membership,
        config: BuddyConfig,
        log: WriteLog,
        outboxes: Outboxes,
        known: KnownSites,
        out: BuddyOut,
        watch: Watch | None = None,
    ) -> None:
        self._membership = membership
        self._config = config
        self._log = log
        self._outboxes = outboxes
        self._known = known
        self._out = out
        self._watch = watch
        self._nodes: dict[Path, OwnedNode] = {}
        self.nodes: Mapping[Path, OwnedNode] = MappingProxyType(self._nodes)
        self.moving = 0
        self.granted = 0
        self.floor: Epoch = (0, 0)
        """The highest epoch of a node that was dropped here, or at a member that answered a claim."""
        self.adopted: Adoptions = {}
        """Dead groups whose nodes are among ``nodes``."""
        self.adopted_safely: dict[Address, None] = {}
        """Adopted groups whose nodes all holders have."""
        self.adopted_from: dict[Path, Address] = {}
        """Nodes that came with a dead group and have not moved since."""

    # --- reading

    def owned(self) -> list[tuple[Path, OwnedNode]]:
        """Return the nodes that are granted to no member."""
        return [(path, node) for path, node in self._nodes.items() if node.to is None]

    def mine(self, path: Path) -> OwnedNode | None:
        """Return the node if this member owns it and has not granted it."""
        node = self._nodes.get(path)
        return node if node is not None and node.to is None else None

    def first_epoch(self) -> Epoch:
        """Return the epoch for a node without an owner: above all epochs of dropped nodes."""
        return next_epoch(self.floor, self._membership.number)

    def may_grant(self, path: Path) -> bool:
        """Do all holders have the node, and has its former owner let go?"""
        return self._nodes[path].giver is None and self._log.stable(path)

    def may_passivate(self, path: Path) -> bool:
        """May the value leave memory? It stays while the node moves or a holder lacks the value. It always stays if
        there are other sites, because they may need it at any time."""
        node = self._nodes.get(path)
        return (
            node is not None
            and not (node.removed or node.passive or node.unsent or self._config.sites)
            and node.to is None
            and node.giver is None
            and self._log.stable(path)
        )

    def may_purge(self, path: Path) -> bool:
        """May a removed node be forgotten? It may if all holders have the removal and no member waits for the node."""
        node = self._nodes[path]
        return (
            node.removed
            and node.giver is None
            and node.to is None
            and not node.unsent
            and self._log.stable(path)
        )

    # --- writing

    def write(
        self, values: Mapping[Path, Any], then: Action | None = None
    ) -> dict[Path, OwnedNode]:
        """Write new values; None removes a node. This makes one entry of the log and one event for each site. ``then``
        runs when all holders have the entry.

        Returns:
            The nodes written. Empty: nothing changed, and ``then`` does not run.
        """
        changes: list[tuple[Path, OwnedNode]] = []
        for path, value in values.items():
            node = self._nodes.get(path)
            if node is None and value is None:
                continue
            assert node is None or node.to is None, f"{path} is granted, not ours to write"
            changes.append((path, self._written(node, value)))
        self._out.count("writes", len(changes))
        if not changes:
            return {}
        if self._outboxes:
            changes = self._outboxes.numbered(changes, self._log.seq + 1)
        for path, node in changes:
            self._set(path, node)
        self._log.append(changes, then=then, wrote=True)
        return dict(changes)

    def bury(self, path: Path, stamp: Stamp) -> OwnedNode:
        """Create a removed node that outranks ``stamp``, a value that only another site has. Nobody here may have the
        path."""
        assert path not in self._nodes, f"{path} is owned here"
        node = self._written(OwnedNode(None, self.first_epoch(), stamp), None)
        changes = self._outboxes.numbered([(path, node)], self._log.seq + 1)
        self._set_all(changes)
        self._log.append(changes, wrote=True)
        return changes[0][1]

    def accept(self, site: str, changes: Sequence[tuple[Sent, Sequence[str]]]) -> None:
        """Take values of another site, each with the sites to pass it on to. A value keeps its stamp."""
        accepted = []
        for sent, others in changes:
            node = self._from_site(site, sent)
            if others:
                node = self._outboxes.marked(sent.path, node, others, self._log.seq + 1)
            accepted.append((sent.path, node))
        self._out.count("events_applied", len(accepted))
        self._set_all(accepted)
        if accepted:
            self._log.append(accepted, wrote=True)

    def _from_site(self, site: str, sent: Sent) -> OwnedNode:
        node = self._nodes.get(sent.path)
        if node is None:
            return OwnedNode(
                sent.value,
                self.first_epoch(),
                sent.stamp,
                sent.removed,
                lineage=sent.lineage,
                came=site,
            )
        assert sent.stamp > node.stamp, f"{sent.path} is as new here"
        return replace(
            node,
            value=sent.value,
            stamp=sent.stamp,
            removed=sent.removed,
            lineage=sent.lineage,
            unsent=tuple(entry for entry in node.unsent if entry[0] != site),
            came=site,
        )

    def _written(self, node: OwnedNode | None, value: Any) -> OwnedNode:
        """Return the node with a new value and a higher stamp."""
        me, site_epoch = self._membership.me, self._known.epoch
        removed = value is None
        if node is None:
            epoch = self.first_epoch()
            return OwnedNode(value, epoch, Stamp(site_epoch, epoch, 1, me), removed)
        old = node.stamp
        site = max(site_epoch, old.site)
        epoch = node.epoch
        if epoch < old.epoch and site == old.site:  # the stamp of a site that counts its own views
            epoch = old.epoch if old.owner == me else (old.epoch[0], old.epoch[1] + 1)
        stamp = Stamp(site, epoch, old.version + 1, me)
        lineage = node.lineage
        if stamp[:2] != old[:2] or stamp.owner != old.owner:
            lineage = (*lineage, old)[-LINEAGE_MAX:]
        return replace(
            node,
            value=value,
            stamp=stamp,
            removed=removed,
            lineage=lineage,
            came="",
            passive=False,
        )

    # --- hand-over

    def grant(self, paths: Iterable[Path], to: Address) -> list[Grant]:
        """Make ``to`` the next owner of these nodes. They stay here, unwritten, until it has them. Holders do not learn
        of it."""
        grants = []
        for path in paths:
            node = self._nodes[path]
            assert node.to is None, f"{path} is granted already"
            assert node.giver is None, f"{path} is still with its former owner"
            assert not node.passive, f"the value of {path} is not in memory"
            epoch = next_epoch(node.epoch, self._membership.number)
            self._set(path, replace(node, to=(to, epoch)))
            grants.append((path, node, epoch))
        self._out.count("nodes_granted", len(grants))
        return grants

    def take_over(
        self, giver: Address, grants: Sequence[Grant], then: Callable[[list[Path]], None]
    ) -> None:
        """Own the nodes that ``giver`` has granted. ``then`` runs with their paths when all holders have them."""
        changes = []
        for path, node, epoch in grants:
            mine = replace(node, epoch=epoch, giver=giver, to=None)
            mine = self._outboxes.mine(path, mine, self._log.seq + 1)
            self._set(path, mine)
            changes.append((path, mine))
        self._out.count("gravitations", len(grants))
        self._log.append(changes, then=lambda: then([path for path, _ in changes]))

    def confirm(self, path: Path) -> None:
        """Note that the former owner of the node and its holders have dropped the node."""
        node = self._nodes[path]
        assert node.giver is not None, f"{path} has no giver"
        node = replace(node, giver=None)
        self._set(path, node)
        self._log.append([(path, node)])

    def forget(self, paths: Sequence[Path]) -> None:
        """Drop nodes that another member has, and nodes that need not be remembered."""
        for path in paths:
            self._drop(path)
        self._log.append([(path, None) for path in paths])

    def raise_floor(self, floor: Epoch) -> None:
        """Note that another member has dropped nodes of epochs up to ``floor``."""
        self.floor = max(self.floor, floor)

    # --- values in a store

    def passivate(self, path: Path) -> None:
        """Drop a value that is in a store. Ownership and backups stay as they are."""
        assert self.may_passivate(path), f"the value of {path} must stay in memory"
        self._set(path, replace(self._nodes[path], value=None, passive=True))
        self._out.count("passivated")

    def activate(self, path: Path, value: Any) -> None:
        """Put a value back. A node that is no longer passive has its value already."""
        node = self._nodes.get(path)
        if node is not None and node.passive:
            self._set(path, replace(node, value=value, passive=False))
            self._out.count("activated")

    # --- events to other sites

    def mark_unsent(self, site: str, paths: Sequence[Path]) -> None:
        """Mark these nodes as unsent to ``site``. Entries of the log have at most ``chunk_nodes`` nodes."""
        size = self._config.chunk_nodes
        for at in range(0, len(paths), size):
            changes = []
            for path in paths[at : at + size]:
                node = self._outboxes.marked(path, self._nodes[path], [site], self._log.seq + 1)
                self._set(path, node)
                changes.append((path, node))
            self._log.append(changes)

    def acknowledged(self, site: str, n: int, path: Path) -> bool:
        """Note that ``site`` has event ``n`` of the node. False: the node has another number by now. Holders learn it
        later (``tell``)."""
        node = self.mine(path)
        if node is None or (site, n) not in node.unsent:
            return False
        left = tuple(entry for entry in node.unsent if entry != (site, n))
        self._set(path, replace(node, unsent=left))
        return True

    def give_up(self, site: str, paths: Iterable[Path]) -> None:
        """Stop sending these nodes to ``site``."""
        changes = []
        for path in paths:
            node = self._nodes[path]
            node = replace(node, unsent=tuple(e for e in node.unsent if e[0] != site))
            self._set(path, node)
            changes.append((path, node))
        if changes:
            self._log.append(changes)

    def tell(self, paths: Iterable[Path]) -> None:
        """Log these nodes as they are now, as far as this member still owns them."""
        changes = [(path, node) for path in paths if (node := self.mine(path)) is not None]
        if changes:
            self._log.append(changes)

    # --- views

    def new_view(self, members: Sequence[Address]) -> None:
        """Forget adoptions of members of the view: they have their nodes themselves."""
        while len(self.adopted) > self._config.departed_max:
            self._not_adopted(next(iter(self.adopted)))
        for member in [group for group in self.adopted if group in members]:
            self._not_adopted(member)

    def _not_adopted(self, group: Address) -> None:
        del self.adopted[group]
        self.adopted_safely.pop(group, None)

    def settle(
        self,
        verdict: MergeVerdict,
        copies: Mapping[Address, DeadOwnersCopy],
        safe: Callable[[Adoptions], None],
    ) -> Settled:
        """Act on a ``Settle`` in one entry of the log. ``copies``: the backups of the groups that this member adopts.
        ``safe`` runs when all holders have the adopted nodes.
        """
        changes: dict[Path, OwnedNode | None] = {}
        discards: Discards = {}
        self._settle_winners(verdict, changes, discards)
        forgotten = [path for path, node in changes.items() if node is None]
        self._settle_grants(verdict, changes)
        groups = self._adopt(verdict, copies, changes, discards)
        self._settle_givers(verdict, changes)
        self._log_settled(changes, groups, safe)
        return Settled(discards, forgotten)

    def _settle_winners(
        self, verdict: MergeVerdict, changes: dict[Path, OwnedNode | None], discards: Discards
    ) -> None:
        """Losers forget. Winners take their epoch."""
        for path, winner in verdict.winners.items():
            node = self._nodes.get(path)
            if node is None:
                continue
            if winner.member == self._membership.me and winner.group is None:
                won = replace(node, epoch=winner.epoch, to=None)
                if node.to is not None:
                    won = self._outboxes.mine(path, won, self._log.seq + 1)
                self._set(path, won)
                changes[path] = won
            else:
                discards[path, node.stamp] = node.value
                self._drop(path)
                changes[path] = None

    def _settle_grants(self, verdict: MergeVerdict, changes: dict[Path, OwnedNode | None]) -> None:
        """Complete grants of earlier views, or take their nodes back."""
        for path, node in list(self._nodes.items()):
            if node.to is None:
                continue
            epoch, party = verdict.party(path)
            if epoch >= node.to[1]:
                self._set(path, replace(node, to=(party, epoch)))
            else:
                number = self._membership.number
                mine = replace(node, to=None, epoch=next_epoch(node.epoch, number))
                mine = self._outboxes.mine(path, mine, self._log.seq + 1)
                self._set(path, mine)
                changes[path] = mine

    def _adopt(
        self,
        verdict: MergeVerdict,
        copies: Mapping[Address, DeadOwnersCopy],
        changes: dict[Path, OwnedNode | None],
        discards: Discards,
    ) -> Adoptions:
        """Own the nodes of dead groups."""
        number = self._membership.number
        groups: Adoptions = {}
        for group, copy in copies.items():
            groups |= {g: (number, end) for g, (_, end) in copy.adopted.items()}
            groups[group] = number, copy.seq
            for path, node in copy.nodes.items():
                adopted = verdict.adopted(group, path, node)
                if adopted is not None:
                    if adopted.to is None:
                        adopted = self._outboxes.mine(path, adopted, self._log.seq + 1)
                    self._set(path, adopted)
                    changes[path] = adopted
                    self.adopted_from[path] = group
                    self._out.count("nodes_adopted")
                elif path in verdict.winners:
                    discards[path, node.stamp] = node.value
        return groups

    def _settle_givers(self, verdict: MergeVerdict, changes: dict[Path, OwnedNode | None]) -> None:
        """Do not wait for a giver that is gone and whose nodes no member has."""
        for path, node in list(self._nodes.items()):
            giver = verdict.giver(node)
            if giver != node.giver:
                node = replace(node, giver=giver)
                self._set(path, node)
                changes[path] = node

    def _log_settled(
        self,
        changes: dict[Path, OwnedNode | None],
        groups: Adoptions,
        safe: Callable[[Adoptions], None],
    ) -> None:
        self.adopted.update(groups)
        if changes or groups:
            self._log.append(list(changes.items()), groups_of(groups))
        if groups:
            self._log.when_acked(lambda: self._adopted_safely(groups, safe))

    def _adopted_safely(self, groups: Adoptions, safe: Callable[[Adoptions], None]) -> None:
        self.adopted_safely.update(dict.fromkeys(g for g in groups if g in self.adopted))
        safe(groups)

    # --- the table

    def _set_all(self, nodes: Iterable[tuple[Path, OwnedNode]]) -> None:
        for path, node in nodes:
            self._set(path, node)

    def _set(self, path: Path, node: OwnedNode) -> None:
        before = self._nodes.get(path)
        if before is not None:
            self._count(before, -1)
        self._count(node, 1)
        self._nodes[path] = node
        if self._watch is not None:
            self._watch(path, before, node)

    def _drop(self, path: Path) -> None:
        node = self._nodes.pop(path)
        self._count(node, -1)
        self.adopted_from.pop(path, None)
        self._outboxes.dropped(path)
        epoch = node.epoch if node.to is None else node.to[1]
        self.floor = max(self.floor, epoch, node.stamp.epoch)
        if self._watch is not None:
            self._watch(path, node, None)

    def _count(self, node: OwnedNode, by: int) -> None:
        if node.giver is not None or node.to is not None:
            self.moving += by
            if node.to is not None:
                self.granted += by
