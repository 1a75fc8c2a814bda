"""A member that goes on purpose hands its nodes over first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jgroups_py.buddy.messages import Leaving, TakeMine
from jgroups_py.values.address import Address

if TYPE_CHECKING:
    from jgroups_py.buddy.machine import BuddyMachine


class Leave:
    """``begun``: this member is going. It may go when it owns nothing and backs up nobody who could do
    without it; after ``leave_timeout`` it is a crash, and says so."""

    def __init__(self, machine: BuddyMachine) -> None:
        self.machine = machine
        self.begun = False
        self.since = 0.0
        self._asked = False
        self._told = ""
        self._asked_by: list[Address] = []

    def begin(self) -> None:
        if self.begun:
            return
        machine = self.machine
        self.begun = True
        self.since = machine.now
        machine.send_all(Leaving())
        machine.buddies.on_leaving(machine.me, False)
        self._warn()
        self.look()

    def _warn(self) -> None:
        machine = self.machine
        staying = len(machine.members) - len(machine.buddies.leaving)
        if staying == 0:
            owned = sum(not node.removed for node in machine.own.values())
            if owned:
                nodes = "1 node" if owned == 1 else f"{owned} nodes"
                machine.complain("leaves_below", f"nobody stays to take over {nodes}")
        elif staying < machine.num_buddies + 1:
            who = "1 member stays" if staying == 1 else f"{staying} members stay"
            machine.complain("leaves_below", f"{who}: fewer crashes are survived")

    def on_leaving(self, src: Address, message: Leaving) -> None:
        self.machine.buddies.on_leaving(src, message.ready)

    def new_view(self) -> None:
        """``Leaving`` is repeated in each view: who has joined does not know."""
        machine = self.machine
        leaving = machine.buddies.leaving
        machine.buddies.leaving = {x: r for x, r in leaving.items() if x in machine.members}
        self._asked = False
        self._asked_by = []
        if self.begun:
            machine.send_all(Leaving(self._told == "may_leave"))

    def settled(self) -> None:
        asked_by, self._asked_by = self._asked_by, []
        for member in asked_by:
            self.on_take_mine(member, TakeMine())

    # --- who goes

    def look(self) -> None:
        """Asks the heir once in a view, and again for what came later, even after it was time to go: who
        did not know that we leave may have made us its heir. Says when it is time to go."""
        machine = self.machine
        if not self.begun:
            return
        if machine.settled:
            self._ask()
        if self._told:
            return
        if self.may_go():
            self._told = "may_leave"
            machine.send_all(Leaving(True))
        elif machine.now - self.since > machine.config.leave_timeout:
            self._told = "leave_timed_out"
            machine.count("leaves_timed_out")
        if self._told:
            machine.event(self._told)

    def _ask(self) -> None:
        machine = self.machine
        if len(machine.own) == machine.own.granted:
            self._asked = False
        elif not self._asked and (heir := self._heir()) is not None:
            self._asked = True
            machine.send(heir, TakeMine())

    def _heir(self) -> Address | None:
        """The next in line that stays; if all go, the last of the view, which itself has none."""
        machine = self.machine
        at = machine.members.index(machine.me)
        line = machine.members[at + 1 :] + machine.members[:at]
        staying = [x for x in line if x not in machine.buddies.leaving]
        if staying:
            return staying[0]
        return machine.members[-1] if machine.members[-1] != machine.me else None

    def may_go(self) -> bool:
        machine = self.machine
        if len(machine.members) == 1:
            return True
        if not machine.settled or machine.own or machine.log.open or machine.calls.open:
            return False
        if machine.claims.mine:
            return False
        return not any(self._needs_us(owner) for owner in machine.backups.of)

    def _needs_us(self, owner: Address) -> bool:
        """An orphan does until it is adopted; an owner does as long as others could replace us. Others that
        leave, too, could: of several one goes after the other, or the owner were without a copy though
        enough members are left."""
        machine = self.machine
        if owner not in machine.members:
            return True
        return len(machine.members) - 2 >= machine.num_buddies

    # --- the heir

    def on_take_mine(self, src: Address, message: TakeMine) -> None:
        machine = self.machine
        if machine.settled:
            machine.claims.open((((), True),), "take", only_from=src)
        else:
            self._asked_by.append(src)
