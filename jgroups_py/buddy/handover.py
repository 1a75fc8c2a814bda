"""The way of a node from one owner to the next.

    claimant        installs it with ``giver``; when its holders have it: TAKEN
    former owner    removes it; when its holders have removed it: DONE
    claimant        clears ``giver``; only now it may grant the node on, or purge it

No moment has fewer than b + 1 copies, and each node is in one hand-over at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from jgroups_py.buddy.messages import Done, Taken
from jgroups_py.buddy.values import Epoch, Node, Path
from jgroups_py.values.address import Address

if TYPE_CHECKING:
    from jgroups_py.buddy.machine import BuddyMachine


class Handover:
    def __init__(self, machine: BuddyMachine) -> None:
        self.machine = machine
        self._early: list[tuple[Address, Taken]] = []

    # --- the new owner

    def install(self, src: Address, grants: tuple[tuple[Path, Node, Epoch], ...]) -> None:
        machine = self.machine
        changes = []
        for path, node, epoch in grants:
            mine = replace(node, epoch=epoch, giver=src, to=None)
            mine = machine.sites.mine(path, mine)
            machine.own[path] = mine
            changes.append((path, mine))
        machine.count("gravitations", len(grants))
        machine.log.append(changes, then=lambda: self._taken([path for path, _ in changes]))

    def _taken(self, paths: list[Path]) -> None:
        machine = self.machine
        for path in paths:
            node = machine.own.get(path)
            if node is not None and (giver := self._now(node.giver)) is not None:
                machine.send(giver, Taken(path, node.epoch))

    def _now(self, giver: Address | None) -> Address | None:
        """Who speaks for a former owner in this view: itself, or who has its nodes."""
        machine = self.machine
        if giver is None or giver in machine.members:
            return giver
        return machine.change.heirs.get(giver)

    def say_taken_again(self) -> None:
        """After a ``Settle``: to whom it concerns now."""
        own = self.machine.own
        paths = [path for path, node in own.items() if node.giver is not None]
        if paths:
            self.machine.log.when_acked(lambda: self._taken(paths))

    def on_done(self, src: Address, message: Done) -> None:
        machine = self.machine
        node = machine.own.get(message.path)
        if node is None or self._now(node.giver) != src or node.epoch != message.epoch:
            machine.count("stale_done")
            return
        machine.own[message.path] = mine = replace(node, giver=None)
        machine.log.append([(message.path, mine)])

    # --- the former owner

    def on_taken(self, src: Address, message: Taken) -> None:
        """Before our ``Settle`` we do not know yet whether we adopt the node."""
        if not self.machine.settled:
            self._early.append((src, message))
            return
        machine = self.machine
        node = machine.own.get(message.path)
        if node is not None and node.to is not None and node.to[1] <= message.epoch:
            machine.forget([message.path])
        # Never at once, even if it is gone already: our holders may still have it.
        done = Done(message.path, message.epoch)
        machine.log.when_acked(lambda: machine.send_member(src, done))

    def release(self) -> None:
        early, self._early = self._early, []
        for src, message in early:
            if src in self.machine.members:
                self.on_taken(src, message)
