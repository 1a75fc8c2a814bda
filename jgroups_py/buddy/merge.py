"""After a partition: frozen until it is decided who keeps what, unmerged until all have done so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from jgroups_py.buddy.messages import Clean, Merged, Settle
from jgroups_py.values.address import Address
from jgroups_py.values.view import MergeView

if TYPE_CHECKING:
    from jgroups_py.buddy.machine import BuddyMachine


class Merge:
    def __init__(self, machine: BuddyMachine) -> None:
        self.machine = machine
        self.minority = False
        """``partition=majority``, and too few of the last settled view are here."""
        self._clean: dict[Address, None] = {}
        self._last_settled: tuple[Address, ...] = ()

    def count(self, ready: Mapping[Address, bool]) -> None:
        """A new view: are enough of the last settled one in it? Who left with nothing is not missed."""
        machine = self.machine
        if machine.config.partition == "majority":
            before = [member for member in self._last_settled if not ready.get(member, False)]
            here = [member for member in before if member in machine.members]
            self.minority = 2 * len(here) <= len(before) and bool(before)

    def begin(self, view: MergeView) -> None:
        machine = self.machine
        machine.frozen = machine.unmerged = True
        machine.sides = {
            member: sub.view_id.creator for sub in view.subgroups for member in sub.members
        }

    def may_have_been_missed(self) -> None:
        """A view did not come here. If it was one of a merge, the others know nodes that are here, too; and two that missed
        it may have come from both sides."""
        self.machine.frozen = self.machine.unmerged = True
        self.machine.sides = {}

    def settled(self, settle: Settle) -> None:
        """Says ``Clean`` when our holders have what the merge changed here."""
        machine = self.machine
        self._clean = {}
        self._last_settled = machine.members
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
