"""The buddy's side: copies kept for owners, and what becomes of them when the owner is gone.

A backup whose owner is not in the view is an *orphan*. It is kept until who adopted it says that its
own holders have it; it is never served to anybody.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from msgspec.structs import replace

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
from jgroups_py.buddy.values import Node, Path
from jgroups_py.values.address import Address

if TYPE_CHECKING:
    from jgroups_py.buddy.machine import BuddyMachine


class Backup:
    """Of one owner. ``adopted``: dead groups whose nodes are among its nodes. ``wrote``: the last
    entry that changed a value. ``turn`` and ``view``: of its assignment."""

    __slots__ = ("adopted", "complete", "group", "nodes", "parts", "seq", "turn", "view", "wrote")

    def __init__(self, assign: Assign, view: int) -> None:
        self.group = assign.group
        self.seq = assign.seq
        self.wrote = assign.wrote
        self.turn = assign.turn
        self.view = view
        self.complete = False
        self.nodes: dict[Path, Node] = {}
        self.parts: list[Changes] = []
        """Of the next entry. Half of it might be half of an adoption, and a second owner: until all is
        here nothing is. As much as the owner's nodes at most."""
        self.adopted: Adoptions = {}

    def apply(self, changes: Changes) -> None:
        for path, node in changes:
            if node is None:
                self.nodes.pop(path, None)
            elif node.passive:
                known = self.nodes.get(path)
                if known is not None:  # else it is still to be pushed
                    self.nodes[path] = replace(node, value=known.value, passive=False)
            else:
                self.nodes[path] = node


class Backups:
    def __init__(self, machine: BuddyMachine) -> None:
        self.machine = machine
        self.of: dict[Address, Backup] = {}

    def orphans(self) -> list[Address]:
        return [owner for owner in self.of if owner not in self.machine.members]

    def kept_before(self) -> tuple[Address, ...]:
        """Owners that are there and were backed up here before this view."""
        members, number = self.machine.members, self.machine.number
        return tuple([o for o, b in self.of.items() if o in members and b.view < number])

    def drop_kept_before(self, owner: Address) -> None:
        """Unless it was assigned in this view."""
        if owner in self.kept_before():
            del self.of[owner]

    def on_assign(self, src: Address, message: Assign) -> None:
        if message.group.owner != src:
            self.machine.count("bad_messages")
            return
        backup = self.of[src] = Backup(message, self.machine.number)
        self._adopted(backup, message.adopted)
        for journal in self.machine.journals:
            journal.begins(src, message.seq, message.wrote)

    def on_chunk(self, src: Address, message: Chunk) -> None:
        backup = self.of.get(src)
        if backup is not None and not backup.complete:
            backup.apply(message.nodes)

    def on_filled(self, src: Address, message: Filled) -> None:
        backup = self.of.get(src)
        if backup is not None:
            backup.complete = True
            self.machine.send(src, FillAck(backup.turn, self.machine.number))

    def on_part(self, src: Address, message: Part) -> None:
        backup = self.of.get(src)
        if backup is not None:
            backup.parts.append(message.changes)

    def on_op(self, src: Address, message: Op) -> None:
        backup = self.of.get(src)
        if backup is None or message.seq != backup.seq + 1:
            # Not acknowledged: a copy that may lack something must not count.
            self.machine.complain(
                "unexpected_ops", f"entry {message.seq} of {src!r} does not follow"
            )
            return
        parts, backup.parts = backup.parts, []
        for changes in (*parts, message.changes):
            backup.apply(changes)
        backup.seq = message.seq
        if message.wrote:
            backup.wrote = message.seq
        for journal in self.machine.journals:
            wrote = (*chain.from_iterable(parts), *message.changes) if message.wrote else ()
            journal.logged(src, message.seq, wrote)
        self._adopted(backup, message.adopted)
        self.machine.send(src, OpAck(message.seq))

    def on_dismiss(self, src: Address, message: Dismiss) -> None:
        self.of.pop(src, None)
        self.machine.send(src, DismissAck())

    def on_adopted(self, src: Address, message: Adopted) -> None:
        for group, view, _ in message.groups:
            if self.machine.is_dead_since(group, view):
                self.of.pop(group, None)
                self.machine.change.adopted(group)

    def _adopted(self, backup: Backup, groups: AdoptedGroups) -> None:
        for group, view, end in groups:
            if self.machine.is_dead_since(group, view):
                backup.adopted[group] = view, end

    def came_back(self, members: tuple[Address, ...]) -> None:
        """Who is in the view has its nodes itself."""
        for backup in self.of.values():
            for member in [m for m in backup.adopted if m in members]:
                del backup.adopted[member]
