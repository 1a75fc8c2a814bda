"""After a partition: frozen until it is decided who keeps what, unmerged until all have done so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jgroups_py.address import Address
from jgroups_py.buddy.messages import Clean, Merged, Settle
from jgroups_py.view import MergeView

if TYPE_CHECKING:
    from jgroups_py.buddy.machine import BuddyMachine


class Merge:
    def __init__(self, machine: BuddyMachine) -> None:
        self.machine = machine
        self.minority = False
        self._clean: dict[Address, None] = {}

    def begin(self, view: MergeView) -> None:
        machine = self.machine
        machine.frozen = machine.unmerged = True
        machine.sides = {
            member: sub.view_id.creator for sub in view.subgroups for member in sub.members
        }

    def settled(self, settle: Settle) -> None:
        """Says ``Clean`` when our holders have what the merge changed here."""
        machine = self.machine
        self._clean = {}
        if not settle.unmerged:
            return
        tag = machine.tag

        def clean() -> None:
            if machine.tag == tag:
                machine.send(machine.coordinator, Clean())

        machine.log.when_acked(clean)

    def on_clean(self, src: Address, message: Clean) -> None:
        machine = self.machine
        self._clean[src] = None
        if len(self._clean) == len(machine.members):
            machine.send_all(Merged())
            self.on_merged(machine.me, Merged())

    def on_merged(self, src: Address, message: Merged) -> None:
        self.machine.unmerged = False
