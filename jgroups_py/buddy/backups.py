"""The buddy's side: copies kept for owners, and their fate when the owner is gone.

A backup whose owner is not in the view is an *orphan*. It is kept until all holders of the adopter have its nodes. A
backup is never served to applications.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from msgspec.structs import replace

from jgroups_py.buddy.journal import Journal
from jgroups_py.buddy.membership import Membership
from jgroups_py.buddy.messages import (
    Adopted,
    AdoptedGroups,
    Adoptions,
    Assign,
    Changes,
    Chunk,
    Dismiss,
    DismissAck,
    FillAck,
    Filled,
    Op,
    OpAck,
    Part,
)
from jgroups_py.buddy.out import BuddyOut
from jgroups_py.buddy.values import OwnedNode, Path
from jgroups_py.values.address import Address


class Backup:
    """The nodes of one owner. ``adopted``: dead groups whose nodes are among them. ``wrote``: the last entry that changed
    a value. ``turn`` and ``view``: those of its assignment."""

    __slots__ = ("adopted", "complete", "group", "nodes", "parts", "seq", "turn", "view", "wrote")

    def __init__(self, assign: Assign, view: int) -> None:
        self.group = assign.group
        self.seq = assign.seq
        self.wrote = assign.wrote
        self.turn = assign.turn
        self.view = view
        self.complete = False
        self.nodes: dict[Path, OwnedNode] = {}
        self.parts: list[Changes] = []
        """The first pieces of the next entry. They take effect with the last piece: half an adoption would mean two
        owners. They are at most as large as the owner's nodes."""
        self.adopted: Adoptions = {}

    def apply(self, changes: Changes) -> None:
        for path, node in changes:
            if node is None:
                self.nodes.pop(path, None)
            elif node.passive:
                known = self.nodes.get(path)
                if known is not None:  # otherwise the node must still be pushed
                    self.nodes[path] = replace(node, value=known.value, passive=False)
            else:
                self.nodes[path] = node


class Backups:
    """``of``: the backups here, by owner."""

    def __init__(self, membership: Membership, journals: list[Journal], out: BuddyOut) -> None:
        self._membership = membership
        self._journals = journals
        self._out = out
        self.of: dict[Address, Backup] = {}
        self._ends: dict[Address, int] = {}
        """By dead group, the last entry of its log that was adopted, until the adoption is safe."""

    # --- looking

    def orphans(self) -> list[Address]:
        return [owner for owner in self.of if owner not in self._membership.members]

    @property
    def has_orphan(self) -> bool:
        members = self._membership.members
        for owner in self.of:  # noqa: SIM110 - a generator doubles the cost, and each step asks
            if owner not in members:
                return True
        return False

    def kept_before(self) -> tuple[Address, ...]:
        """Return the owners that are members and were backed up here before this view."""
        members, number = self._membership.members, self._membership.number
        return tuple([o for o, b in self.of.items() if o in members and b.view < number])

    # --- the owner's messages

    def on_assign(self, src: Address, message: Assign) -> None:
        if message.group.owner != src:
            self._out.count("bad_messages")
            return
        backup = self.of[src] = Backup(message, self._membership.number)
        self._adopted(backup, message.adopted)
        for journal in self._journals:
            journal.begins(src, message.seq, message.wrote)

    def on_chunk(self, src: Address, message: Chunk) -> None:
        backup = self.of.get(src)
        if backup is not None and not backup.complete:
            backup.apply(message.nodes)

    def on_filled(self, src: Address, message: Filled) -> None:
        backup = self.of.get(src)
        if backup is not None:
            backup.complete = True
            self._out.send(src, FillAck(backup.turn, self._membership.number))

    def on_part(self, src: Address, message: Part) -> None:
        backup = self.of.get(src)
        if backup is not None:
            backup.parts.append(message.changes)

    def on_op(self, src: Address, message: Op) -> None:
        backup = self.of.get(src)
        if backup is None or message.seq != backup.seq + 1:
            # Not acknowledged: a copy that may lack something must not count.
            self._out.complain("unexpected_ops", f"entry {message.seq} of {src!r} does not follow")
            return
        parts: list[Changes] = []
        if backup.parts:
            parts, backup.parts = backup.parts, []
            for changes in parts:
                backup.apply(changes)
        backup.apply(message.changes)
        backup.seq = message.seq
        if message.wrote:
            backup.wrote = message.seq
        for journal in self._journals:
            wrote = (*chain.from_iterable(parts), *message.changes) if message.wrote else ()
            journal.logged(src, message.seq, wrote)
        if message.adopted:
            self._adopted(backup, message.adopted)
        self._out.send(src, OpAck(message.seq))

    def on_dismiss(self, src: Address, message: Dismiss) -> None:
        self.of.pop(src, None)
        self._out.send(src, DismissAck())

    def _adopted(self, backup: Backup, groups: AdoptedGroups) -> None:
        for group, view, end in groups:
            if self._membership.is_dead_since(group, view):
                backup.adopted[group] = view, end

    # --- orphans

    def on_adopted(self, src: Address, message: Adopted) -> None:
        for group, view, _ in message.groups:
            if self._membership.is_dead_since(group, view):
                self.release(group)

    def release(self, group: Address) -> None:
        """Drop the backup of ``group``: the adopter's holders have its nodes."""
        self.of.pop(group, None)
        seq = self._ends.pop(group, None)
        if seq is not None:
            for journal in self._journals:
                journal.ended(group, seq)

    def settle(self, ends: Iterable[tuple[Address, int]], heirs: Mapping[Address, Address]) -> None:
        """Act on a ``Settle``: it names each group's adopter and the last entry that is adopted."""
        known = {group: seq for group, seq in self._ends.items() if group in heirs}
        self._ends = known | dict(ends)

    def take(self, groups: Sequence[Address]) -> dict[Address, Backup]:
        """Remove and return the backups of the groups that this member adopts."""
        taken = {}
        for group in groups:
            backup = self.of.pop(group, None)
            if backup is None:
                what = f"guardian of {group!r}, of whom nothing is here"
                self._out.complain("bad_messages", what)
            else:
                taken[group] = backup
        return taken

    # --- views

    def new_view(self, members: Sequence[Address], strangers: Sequence[Address]) -> None:
        """Drop backups of members from another part: they have their nodes themselves, adopted or not."""
        for member in strangers:
            self.of.pop(member, None)
        for backup in self.of.values():
            for member in [m for m in backup.adopted if m in members]:
                del backup.adopted[member]

    def drop_stray(self, stray: Iterable[tuple[Address, Address]]) -> None:
        """Drop backups whose owners do not know of them, unless they were assigned in this view."""
        for owner, holder in stray:
            if holder == self._membership.me and owner in self.kept_before():
                del self.of[owner]
