"""A follower of changes, in the explorer: it reads the journals of running members, and judges their promises.

An entry is promised when all holders have it (as its owner reports), or when its owner is dead and the member that has
its nodes has adopted this entry (as all journals report). A promised value must be one that the owner wrote, and at the
end the highest stamp of each path must be the node's.

Nobody copies the log of a dead owner: when all members that had it are gone, it cannot be read any more, and the
follower notes that (``trimmed``). A merge undoes a removal that was purged on one side of a partition while the other
side still has the node. That is no write, so no member reports it.
"""

from __future__ import annotations

from collections.abc import Mapping

from jgroups_py.buddy.machine import BuddyMachine
from jgroups_py.buddy.messages import Changes
from jgroups_py.buddy.values import Path, Stamp
from jgroups_py.testing.check.violation import Violated
from jgroups_py.values.address import Address

Entries = dict[int, Changes]


class LogFollower:
    """``strict``: nothing may be lost. Looks every ``EVERY`` steps. ``trimmed``: it could not read on; from then on
    only the messages between members are judged.
    ``journals``: the journals of running members."""

    EVERY = 8

    def __init__(self, strict: bool) -> None:
        self._strict = strict
        self.trimmed = False
        self._written: dict[Address, Entries] = {}
        self.journals: dict[Address, MemberJournal] = {}
        self._at: dict[Address, int] = {}
        self._table: dict[Path, tuple[Stamp, bool]] = {}

    def attach(self, machine: BuddyMachine) -> None:
        """Attach to a world before its first step."""
        kept = self.journals[machine.me] = MemberJournal(machine.me, self._written)
        machine.follow(kept)

    def look(self, machines: Mapping[Address, BuddyMachine]) -> None:
        """Take promised entries."""
        for me in [me for me in self.journals if me not in machines]:
            del self.journals[me]
        ends: dict[Address, int] = {}
        for kept in self.journals.values():
            for owner, seq in kept.ends.items():
                ends[owner] = max(seq, ends.get(owner, 0))
        for me, machine in machines.items():
            if not machine.minority:
                ends[me] = max(machine.log.acked, ends.get(me, 0))
        for owner, end in ends.items():
            at = self._at.get(owner, 0)
            if end > at:
                self._take(owner, at, end, owner in machines)
                self._at[owner] = end

    def _take(self, owner: Address, start: int, stop: int, alive: bool) -> None:
        for seq, changes in self._written.get(owner, {}).items():
            if start < seq <= stop:
                if not any(seq in kept.entries.get(owner, ()) for kept in self.journals.values()):
                    if alive:
                        raise Violated(
                            "follow", f"entry {seq} of {owner!r} is promised and nowhere"
                        )
                    self.trimmed = True
                    return
                for path, node in changes:
                    assert node is not None
                    known = self._table.get(path)
                    if known is None or node.stamp > known[0]:
                        self._table[path] = node.stamp, node.removed

    def at_rest(self, machines: Mapping[Address, BuddyMachine]) -> None:
        self.look(machines)
        if self.trimmed or not self._strict:
            return
        left = dict(self._table)
        for machine in machines.values():
            for path, node in machine.own.items():
                told = left.pop(path, None)
                undone = told is not None and told[0] > node.stamp and told[1]
                if told != (node.stamp, node.removed) and not undone:
                    raise Violated("follow", f"{path} is {node.stamp} at rest, told was {told}")
        for path, (stamp, removed) in left.items():
            if not removed:
                raise Violated("follow", f"{path} was told with {stamp}, nobody owns it at rest")


class MemberJournal:
    """The whole journal of one member."""

    def __init__(self, me: Address, written: dict[Address, Entries]) -> None:
        self._me = me
        self._written = written
        self.entries: dict[Address, Entries] = {}
        self.ends: dict[Address, int] = {}

    def begins(self, owner: Address, seq: int, wrote: int) -> None:
        last = max(self._written.get(owner, ()), default=0)
        known = max((n for n in self._written.get(owner, ()) if n <= seq), default=0)
        if wrote != known:
            raise Violated("follow", f"{owner!r} says it last wrote {wrote} of {last}")

    def logged(self, owner: Address, seq: int, changes: Changes) -> None:
        if owner == self._me:
            self._written.setdefault(owner, {})[seq] = changes
        elif self._written.get(owner, {}).get(seq, ()) != changes:
            raise Violated("follow", f"entry {seq} of {owner!r} is another one at {self._me!r}")
        if changes:
            self.entries.setdefault(owner, {})[seq] = changes

    def ended(self, owner: Address, seq: int) -> None:
        self.ends[owner] = seq
