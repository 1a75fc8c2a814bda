"""Every multicast of an application reaches all members of its view, or the sender learns which members lack it.

    named   a receiver lacks messages of a sender that had it in its view all the time, and the sender
            was not told that they are lost (Excluded)

A sender's views count as news, too: a receiver may lack messages sent while it was not in the sender's view, or before
such a view. A merge view with groups that the sender had in its view until then is no news. But if they were fewer than
half of its view, they may have gone on alone unnoticed.
"""

from __future__ import annotations

from collections.abc import Callable

from jgroups_py.testing.sim.member import Member
from jgroups_py.values.address import Address
from jgroups_py.values.view import MergeView, View


class Named:
    """See the module's docstring. ``sent(member)``: the number of its multicasts."""

    def __init__(
        self,
        say: Callable[[str, Member, str], None],
        name: Callable[[Address], str],
        sent: Callable[[Member], int],
    ) -> None:
        self._say = say
        self._name = name
        self._sent = sent
        self._members: dict[Address, Member] = {}
        self._views: dict[Address, View] = {}
        self._told: dict[tuple[Address, Address], int] = {}
        """(sender, receiver): the number up to which the sender knows, by its views, of possible gaps there."""
        self._named: dict[Address, dict[int, None]] = {}
        """By sender: the numbers reported to it as lost."""
        self._later: dict[Address, list[tuple[Member, int, int]]] = {}
        """By sender: gaps of others, to be judged when the sender's reader has come to them."""
        self.named = 0

    def watch(self, member: Member) -> None:
        self._members[member.address] = member

    def on_view(self, member: Member, view: View) -> None:
        me = member.address
        old = self._views.get(me)
        self._views[me] = view
        apart = [m for m in view if old is None or m not in old]
        if old is not None:
            apart += view.left_since(old)
            if isinstance(view, MergeView):
                mine = next((s.members for s in view.subgroups if me in s.members), (me,))
                went_on = [m for m in old if m in view and m not in mine]
                if 2 * len(went_on) < len(old):
                    apart += went_on
        for other in apart:
            self._told[me, other] = self._sent(member)
        for receiver, first, last in self._later.pop(me, ()):
            self.missing(receiver, me, first, last)

    def lost(self, member: Member, numbers: list[int]) -> None:
        """Note that these were reported to ``member`` as lost."""
        self._named.setdefault(member.address, {}).update(dict.fromkeys(numbers))
        self.named += len(numbers)

    def missing(self, receiver: Member, origin: Address, first: int, last: int) -> None:
        """Note that ``receiver`` will not get ``first``..``last`` of ``origin``. The gap is judged when the sender's
        application has the view in which the receiver is."""
        sender, here = self._members.get(origin), self._views.get(receiver.address)
        view = self._views.get(origin)
        if sender is None or view is None or here is None or sender is receiver:
            return
        if receiver.address not in view:
            return  # its last news is that the receiver is gone
        if view.id < here.id:
            self._later.setdefault(origin, []).append((receiver, first, last))
            return
        told, named = self._told.get((origin, receiver.address), 0), self._named.get(origin, {})
        unnamed = [n for n in range(max(first, told + 1), last + 1) if n not in named]
        if unnamed:
            self._say(
                "named",
                receiver,
                f"{len(unnamed)} messages of {self._name(origin)} are missing, "
                f"{unnamed[0]}..{unnamed[-1]}, and it was not told",
            )
