"""A member that leaves on purpose hands over its nodes first."""

from __future__ import annotations

from jgroups_py.buddy.backups import Backups
from jgroups_py.buddy.calls import Calls
from jgroups_py.buddy.claims import WHOLE_TREE, Claims
from jgroups_py.buddy.config import BuddyConfig
from jgroups_py.buddy.log import WriteLog
from jgroups_py.buddy.membership import Membership
from jgroups_py.buddy.messages import Leaving, TakeMine
from jgroups_py.buddy.out import BuddyOut
from jgroups_py.buddy.ownership import Ownership
from jgroups_py.values.address import Address


class Leave:
    """``begun``: this member is leaving. It may go when it owns nothing and no owner needs its backup. After
    ``leave_timeout`` the leave counts as a crash and is reported as one."""

    def __init__(
        self,
        membership: Membership,
        config: BuddyConfig,
        log: WriteLog,
        ownership: Ownership,
        backups: Backups,
        claims: Claims,
        calls: Calls,
        out: BuddyOut,
    ) -> None:
        self._membership = membership
        self._config = config
        self._log = log
        self._ownership = ownership
        self._backups = backups
        self._claims = claims
        self._calls = calls
        self._out = out
        self.begun = False
        self.since = 0.0
        self._asked = False
        self._told = ""
        self._asked_by: list[Address] = []

    def begin(self) -> None:
        """Begin to leave."""
        self.begun = True
        self.since = self._membership.now
        self._out.send_all(Leaving())

    def warn(self) -> None:
        """Complain if too few members stay."""
        membership = self._membership
        staying = len(membership.members) - len(membership.leaving)
        if staying == 0:
            owned = sum(not node.removed for node in self._ownership.nodes.values())
            if owned:
                nodes = "1 node" if owned == 1 else f"{owned} nodes"
                self._out.complain("leaves_below", f"nobody stays to take over {nodes}")
        elif staying < membership.num_buddies + 1:
            who = "1 member stays" if staying == 1 else f"{staying} members stay"
            self._out.complain("leaves_below", f"{who}: fewer crashes are survived")

    def new_view(self) -> None:
        """Repeat ``Leaving``, because a joiner does not know of it."""
        self._asked = False
        self._asked_by = []
        if self.begun:
            self._out.send_all(Leaving(self._told == "may_leave"))

    def settled(self) -> None:
        """Answer the members that asked before the ``Settle``."""
        asked_by, self._asked_by = self._asked_by, []
        for member in asked_by:
            self.on_take_mine(member, TakeMine())

    # --- the member that goes

    def look(self) -> None:
        """Ask the heir once in each view, and again for nodes that came later. This continues after the member may leave,
        because another leaver may have made it its heir. Report when it may go."""
        membership = self._membership
        if not self.begun:
            return
        if membership.settled:
            self._ask()
        if self._told:
            return
        if self.may_go():
            self._told = "may_leave"
            self._out.send_all(Leaving(True))
        elif membership.now - self.since > self._config.leave_timeout:
            self._told = "leave_timed_out"
            self._out.count("leaves_timed_out")
        if self._told:
            self._out.event(self._told)

    def _ask(self) -> None:
        if len(self._ownership.nodes) == self._ownership.granted:
            self._asked = False
        elif not self._asked and (heir := self._heir()) is not None:
            self._asked = True
            self._out.send(heir, TakeMine())

    def _heir(self) -> Address | None:
        """Return the next member in line that stays. If all leave: the last member of the view, which has no heir
        itself."""
        membership = self._membership
        staying = [x for x in membership.line[1:] if x not in membership.leaving]
        if staying:
            return staying[0]
        return membership.members[-1] if membership.members[-1] != membership.me else None

    def may_go(self) -> bool:
        """Is nothing lost if this member goes now?"""
        if len(self._membership.members) == 1:
            return True
        if not self._membership.settled or self._ownership.nodes or self._log.open:
            return False
        if self._calls.open or self._claims.mine:
            return False
        return not any(self._needs_us(owner) for owner in self._backups.of)

    def _needs_us(self, owner: Address) -> bool:
        """Does ``owner`` need this member's backup? An orphan needs it until it is adopted. A living owner needs this member's
        copy while another member could replace it. Other leavers count as replacements, so leavers go one after the
        other and the owner keeps a copy."""
        membership = self._membership
        if owner not in membership.members:
            return True
        return len(membership.members) - 2 >= membership.num_buddies

    # --- the heir

    def on_take_mine(self, src: Address, message: TakeMine) -> None:
        """Note that ``src`` leaves, and that this member is its heir."""
        if self._membership.settled:
            self._claims.open(WHOLE_TREE, "take", only_from=src)
        else:
            self._asked_by.append(src)
