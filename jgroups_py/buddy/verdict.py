"""Verdict: the effect of a ``Settle`` on the nodes of one member. Values in, values out."""

from __future__ import annotations

from msgspec.structs import replace

from jgroups_py.buddy.membership import Membership
from jgroups_py.buddy.messages import Settle
from jgroups_py.buddy.values import Epoch, OwnedNode, Path, next_epoch
from jgroups_py.values.address import Address


class MergeVerdict:
    """``heirs``: by dead group, the member that has its nodes or adopts them in this view. ``winners``: by path, the copy
    that a merge keeps."""

    def __init__(self, settle: Settle, membership: Membership) -> None:
        self.settle = settle
        self.heirs: dict[Address, Address] = dict(settle.adopted_by) | dict(settle.guardians)
        self.winners = {winner.path: winner for winner in settle.winners}
        self._parties = {path: (epoch, party) for path, epoch, party in settle.unconfirmed}
        self._me = membership.me
        self._members = membership.members
        self._number = membership.number

    def party(self, path: Path) -> tuple[Epoch, Address]:
        """Return the newest owner of the path that still waits for the former owner, and its epoch."""
        return self._parties.get(path, ((0, 0), self._me))

    def groups(self) -> list[Address]:
        """Return the dead groups whose guardian this member is."""
        return [group for group, guardian in self.settle.guardians if guardian == self._me]

    def adopted(self, group: Address, path: Path, node: OwnedNode) -> OwnedNode | None:
        """Return a node of ``group`` as this member, its guardian, takes it over. None: the right copy is somewhere
        else."""
        winner = self.winners.get(path)
        if winner is not None:
            if (winner.member, winner.group) != (self._me, group):
                return None
            return replace(node, epoch=winner.epoch, giver=self.giver(node))
        epoch, party = self.party(path)
        if epoch > node.epoch:
            # Either this member has the newer copy from another group, or another member has it and this copy
            # is a spare.
            return None if party == self._me else replace(node, to=(party, epoch))
        epoch = next_epoch(node.epoch, self._number)
        return replace(node, epoch=epoch, giver=self.giver(node))

    def giver(self, node: OwnedNode) -> Address | None:
        """Return the former owner, unless it is gone and no other member has its nodes. A dead giver stays the giver: its
        guardian of this view may die, or be replaced, before it has adopted anything."""
        me, giver = self._me, node.giver
        if giver is not None and giver not in self._members and self.heirs.get(giver, me) == me:
            return None
        return None if giver == me else giver
