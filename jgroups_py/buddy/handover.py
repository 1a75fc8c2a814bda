"""The way of a node from one owner to the next.

    claimant        installs it with ``giver``; when its holders have it: TAKEN
    former owner    removes it; when its holders have removed it: DONE
    claimant        clears ``giver``; only now it may grant the node on, or purge it

There are b + 1 copies at each moment, and a node is in one hand-over at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jgroups_py.buddy.log import WriteLog
from jgroups_py.buddy.membership import Membership
from jgroups_py.buddy.messages import Done, Taken
from jgroups_py.buddy.out import BuddyOut
from jgroups_py.buddy.ownership import Grant, Ownership
from jgroups_py.buddy.values import Path
from jgroups_py.values.address import Address


class Handover:
    """``heirs``: the member that has the nodes of each dead group, by the ``Settle`` of this view."""

    def __init__(
        self, membership: Membership, log: WriteLog, ownership: Ownership, out: BuddyOut
    ) -> None:
        self._membership = membership
        self._log = log
        self._ownership = ownership
        self._out = out
        self.heirs: Mapping[Address, Address] = {}
        self._early: list[tuple[Address, Taken]] = []

    # --- the new owner

    def install(self, src: Address, grants: Sequence[Grant]) -> None:
        """Install the nodes that ``src`` has granted."""
        self._ownership.take_over(src, grants, self._taken)

    def _taken(self, paths: list[Path]) -> None:
        for path in paths:
            node = self._ownership.nodes.get(path)
            if node is not None and (giver := self._now(node.giver)) is not None:
                self._out.send(giver, Taken(path, node.epoch))

    def _now(self, giver: Address | None) -> Address | None:
        """Return the member that answers for a former owner: itself, or the adopter of its nodes."""
        if giver is None or giver in self._membership.members:
            return giver
        return self.heirs.get(giver)

    def say_taken_again(self) -> None:
        """Repeat ``Taken``: after a ``Settle`` another member may answer for the former owner."""
        own = self._ownership.nodes
        paths = [path for path, node in own.items() if node.giver is not None]
        if paths:
            self._log.when_acked(lambda: self._taken(paths))

    def on_done(self, src: Address, message: Done) -> None:
        node = self._ownership.nodes.get(message.path)
        if node is None or self._now(node.giver) != src or node.epoch != message.epoch:
            self._out.count("stale_done")
            return
        self._ownership.confirm(message.path)

    # --- the former owner

    def on_taken(self, src: Address, message: Taken) -> None:
        """Confirm, or wait for the ``Settle``: only then this member knows whether it adopts the node."""
        if not self._membership.settled:
            self._early.append((src, message))
            return
        node = self._ownership.nodes.get(message.path)
        if node is not None and node.to is not None and node.to[1] <= message.epoch:
            self._ownership.forget([message.path])
        # Wait for the log even if the node is gone here: our holders may still have it.
        done = Done(message.path, message.epoch)
        self._log.when_acked(lambda: self._out.send_member(src, done))

    # --- views

    def new_view(self) -> None:
        self.heirs = {}

    def settled(self) -> None:
        """Handle the messages that came before the ``Settle``."""
        early, self._early = self._early, []
        for src, message in early:
            if src in self._membership.members:
                self.on_taken(src, message)
