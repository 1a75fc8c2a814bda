"""The judge of explored schedules. It looks at machines from outside and keeps its own books.

Every write has a number. The oracle knows which numbers the history of each value contains (by path
and stamp), and which of them were acknowledged when a call began.
"""

from __future__ import annotations

from typing import Any, Final

from jgroups_py.buddy.call import BuddyCall
from jgroups_py.buddy.machine import BuddyMachine
from jgroups_py.buddy.values import Path, Stamp
from jgroups_py.testing.check.violation import Violated
from jgroups_py.values.address import Address

EMPTY: Final[frozenset[int]] = frozenset()


class Oracle:
    """``values``: acknowledged writes must be found (not so after partitions, async writes, or more
    crashes than allowed). ``merges``: at the end lost values must be listed."""

    def __init__(self, *, values: bool, merges: bool) -> None:
        self.values = values
        self.merges = merges
        self.follows = False
        """Another site writes; its histories go on after a purge here."""
        self.acked: dict[Path, frozenset[int]] = {}
        self.purged: dict[Path, frozenset[int]] = {}
        self.listed: dict[Path, frozenset[int]] = {}
        self.history: dict[tuple[Path, Stamp], frozenset[int]] = {}
        self.written: dict[tuple[Path, Stamp], int | None] = {}
        self._pending: list[tuple[BuddyCall, Path, frozenset[int], int | None]] = []

    # --- I1

    def single_owner(self, one: BuddyMachine, others: list[BuddyMachine]) -> None:
        """Check I1 for the nodes that ``one`` owns after its step."""
        if one.membership.frozen:
            return
        mine = [path for path, node in one.own.items() if node.to is None]
        if not mine:
            return
        for other in others:
            if other is one or other.tag != one.tag or other.membership.frozen:
                continue
            for path in mine:
                node = other.own.get(path)
                if node is not None and node.to is None:
                    raise Violated("I1", f"{path} is owned by {one.me!r} and {other.me!r}")

    @staticmethod
    def counts(machine: BuddyMachine) -> None:
        """Check that incremental counters match a recount."""
        own = machine.ownership
        granted = sum(node.to is not None for node in own.nodes.values())
        moving = sum(node.to is not None or node.giver is not None for node in own.nodes.values())
        if (own.granted, own.moving) != (granted, moving):
            raise Violated("counts", f"{machine.me!r} counts {own.granted}, {own.moving} nodes")

    # --- I2, I3

    def before(self, machine: BuddyMachine, path: Path, must: frozenset[int]) -> frozenset[int]:
        """Return the history of the value that a call finds. ``must``: writes acknowledged when it began."""
        self.resolve()
        node = machine.own.get(path)
        found = EMPTY if node is None else self.history[(path, node.stamp)]
        purged = self.purged.get(path, EMPTY)
        if node is not None and node.removed:
            found -= purged  # the owner died while purging: the node stays removed
        if self.values:
            missing = must - found - purged
            if missing:
                raise Violated("I2", f"{path} at {machine.me!r} lacks {sorted(missing)}")
            back = found & purged
            if back and not self.follows:
                raise Violated("I3", f"{path} at {machine.me!r} has purged {sorted(back)} again")
        return found

    def writes(self, call: BuddyCall, path: Path, history: frozenset[int], op: int | None) -> None:
        """Note that a call is about to write ``op`` (None: to remove)."""
        self._pending.append((call, path, history, op))

    def resolve(self) -> None:
        """Note the stamps of values that were about to be written."""
        for call, path, history, value in self._pending:
            node = call.nodes.get(path)
            if node is None:
                continue  # a removal of a missing node
            known = self.history.get((path, node.stamp))
            if known is not None:
                raise Violated("stamp", f"{path}: {node.stamp} was given twice")
            if node.value != value or node.removed != (value is None):
                raise Violated("value", f"{path} is {node.value!r}, written was {value!r}")
            self.history[(path, node.stamp)] = history
            self.written[(path, node.stamp)] = value
        self._pending.clear()

    def acknowledged(self, path: Path, op: int) -> None:
        self.acked[path] = self.acked.get(path, EMPTY) | {op}

    def was_purged(self, path: Path, stamp: Stamp) -> None:
        self.purged[path] = self.purged.get(path, EMPTY) | self.history[(path, stamp)]

    def was_listed(self, path: Path, stamp: Stamp) -> None:
        self.listed[path] = self.listed.get(path, EMPTY) | self.history[(path, stamp)]

    def removed_there(self, path: Path, stamp: Stamp, there: Stamp) -> None:
        """Note that a node, removed and forgotten here, is removed at the site that still had it."""
        self.history[(path, stamp)] = self.history[(path, there)]

    # --- at rest

    def at_rest(self, machines: list[BuddyMachine]) -> None:
        self.resolve()
        by_address = {machine.me: machine for machine in machines}
        for machine in machines:
            self._is_idle(machine)
            self._values_as_written(machine)
            self._backups_equal(machine, by_address)
            self.single_owner(machine, machines)
        if self.values or self.merges:
            self._nothing_lost(machines)

    def _is_idle(self, machine: BuddyMachine) -> None:
        """Check that a machine is idle (I6) and all its calls have ended."""
        left = {
            "unsettled": not machine.settled,
            "frozen": machine.membership.frozen,
            "unmerged": machine.membership.unmerged,
            "calls": bool(machine.calls.open or machine.calls.waiting),
            "claims": bool(machine.claims.order or machine.claims.mine),
            "log": machine.log.open > 0,
            "hand-over": any(n.giver is not None or n.to is not None for n in machine.own.values()),
            "push": machine.buddies.pushing,
            "buddies": not machine.buddies.complete,
            "orphans": bool(machine.backups.orphans()),
        }
        if any(left.values()) or not machine.protected:
            what = ", ".join(name for name, there in left.items() if there)
            raise Violated("end", f"{machine.me!r} at rest: {what or 'not protected'}")

    @staticmethod
    def _backups_equal(machine: BuddyMachine, by_address: dict[Address, BuddyMachine]) -> None:
        """Check that each holder's copy equals the owner's (I6)."""
        for member in machine.buddies.holders:
            backup = by_address[member].backups.of.get(machine.me)
            if backup is None or not backup.complete or backup.nodes != machine.own:
                raise Violated("I6", f"{member!r} has another copy of {machine.me!r}'s nodes")
        for owner in machine.backups.of:
            if machine.me not in by_address[owner].buddies.holders:
                raise Violated("I6", f"{machine.me!r} keeps a backup of {owner!r} for nothing")

    def _values_as_written(self, machine: BuddyMachine) -> None:
        for path, node in machine.own.items():
            if self.written.get((path, node.stamp), node.value) != node.value:
                raise Violated("value", f"{path} at {machine.me!r} is {node.value!r} at rest")

    def _nothing_lost(self, machines: list[BuddyMachine]) -> None:
        """Check I2 at the end, or after merges I9: missing values are listed."""
        final: dict[Path, frozenset[int]] = {}
        shown: dict[Path, Any] = {}
        for machine in machines:
            for path, node in machine.own.items():
                final[path] = self.history[(path, node.stamp)]
                shown[path] = node.value
        for path, acked in self.acked.items():
            listed = self.listed.get(path, EMPTY) if self.merges else EMPTY
            missing = acked - final.get(path, EMPTY) - self.purged.get(path, EMPTY) - listed
            if missing:
                check = "I9" if self.merges else "I2"
                raise Violated(check, f"at rest {path} lacks {sorted(missing)}")
