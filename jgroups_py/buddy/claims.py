"""Claims: a member asks the others for nodes that it does not own, in one order for the whole view.

The coordinator multicasts claims in the order in which it gets them. At a member a claim waits only for earlier claims
that overlap with it. A member's own claim is done when all others have answered. A search therefore cannot miss a node
that is moving between two members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from jgroups_py.buddy.backups import Backups
from jgroups_py.buddy.call import BuddyCall
from jgroups_py.buddy.config import BuddyConfig
from jgroups_py.buddy.membership import Membership
from jgroups_py.buddy.messages import Answer, Claim, ClaimId, ClaimRequest, Mode
from jgroups_py.buddy.out import BuddyOut
from jgroups_py.buddy.ownership import Grant, Ownership
from jgroups_py.buddy.reach import Reach
from jgroups_py.buddy.site_messages import Found, Survey
from jgroups_py.buddy.surveyor import Surveyor
from jgroups_py.buddy.values import OwnedNode, Path, Wanted, pieces
from jgroups_py.values.address import Address

WHOLE_TREE: tuple[Wanted, ...] = (((), True),)
Keeping = Callable[[Path], bool]
"""Return whether a caller at this member needs the node for a moment more."""


def _value(grant: Grant) -> object:
    return grant[1].value


class OwnClaim:
    """A claim of this member. ``missing``: the members that have not answered. ``calls``: those that wait for it."""

    __slots__ = (
        "backed_up",
        "calls",
        "found",
        "missing",
        "mode",
        "owned",
        "survey",
        "then",
        "wanted",
    )

    def __init__(self, wanted: tuple[Wanted, ...], mode: Mode, missing: list[Address]) -> None:
        self.wanted = wanted
        self.mode = mode
        self.missing = dict.fromkeys(missing)
        self.owned: dict[Path, Address] = {}
        """The nodes that others own and have not granted."""
        self.backed_up: dict[Path, list[Address]] = {}
        """By path, the members that keep a backup."""
        self.survey: Survey | None = None
        self.found: list[Found] = []
        self.then: Callable[[list[Found]], None] | None = None
        self.calls: list[BuddyCall] = []


class Claims:
    """``order``: the claims of this view that are not done here, in the coordinator's order. ``mine``: those of this
    member that are open. ``keeping``: a node for which it is true is not granted yet; the driver bounds the time."""

    def __init__(
        self,
        membership: Membership,
        config: BuddyConfig,
        ownership: Ownership,
        backups: Backups,
        surveyor: Surveyor,
        keeping: Keeping | None,
        out: BuddyOut,
    ) -> None:
        self._membership = membership
        self._config = config
        self._ownership = ownership
        self._backups = backups
        self._surveyor = surveyor
        self._keeping = keeping
        self._out = out
        self.order: dict[ClaimId, Claim] = {}
        self._reach: dict[ClaimId, Reach] = {}
        """The reach of each claim in ``order``."""
        self.mine: dict[ClaimId, OwnClaim] = {}
        self._early: list[ClaimRequest] = []
        self._count = 0
        self.due = False
        """Is it worth calling ``progress``?"""

    # --- asking

    @property
    def full(self) -> bool:
        return len(self.mine) >= self._config.claims_max

    def open(
        self,
        wanted: tuple[Wanted, ...],
        mode: Mode,
        only_from: Address | None = None,
        survey: Survey | None = None,
    ) -> OwnClaim:
        """Open a claim at all others, or at ``only_from``."""
        me, members = self._membership.me, self._membership.members
        self._count += 1
        claim = (me, self._count)
        asked = [m for m in members if m != me] if only_from is None else [only_from]
        own = self.mine[claim] = OwnClaim(wanted, mode, asked)
        self._out.count("claims")
        request = ClaimRequest(claim, wanted, mode, only_from, survey)
        self._out.send(self._membership.coordinator, request)
        return own

    def survey_all(self, survey: Survey, then: Callable[[list[Found]], None]) -> None:
        """Ask all members at one place in the order of claims. A new view voids the survey."""
        own = self.open(WHOLE_TREE, "take", survey=survey)
        own.survey = survey
        own.then = then

    def join(self, wanted: tuple[Wanted, ...], mode: Mode) -> OwnClaim | None:
        """Return an open claim of this member, sent to all, that asks for the same."""
        for own in self.mine.values():
            if own.wanted == wanted and own.mode == mode and own.calls:
                return own
        return None

    def is_next_elsewhere(self, path: Path) -> bool:
        """Has another member claimed the node, and may it go now?"""
        return bool(self.order) and self._wanted_by_others(path) and not self._keeps(path)

    def _wanted_by_others(self, path: Path) -> bool:
        me = self._membership.me
        return any(claim[0] != me and path in reach for claim, reach in self._reach.items())

    def _keeps(self, path: Path) -> bool:
        return self._keeping is not None and self._keeping(path)

    # --- the coordinator

    def on_request(self, src: Address, message: ClaimRequest) -> None:
        """Order a claim, or keep it until the ``Settle`` of its view."""
        if not self._membership.settled:
            self._early.append(message)
        else:
            self._order(message)

    def settled(self) -> None:
        """Order the claims that came before the ``Settle``."""
        early, self._early = self._early, []
        for message in early:
            self._order(message)

    def _order(self, message: ClaimRequest) -> None:
        claim = Claim(
            message.claim, message.wanted, message.mode, message.only_from, message.survey
        )
        self._out.send_all(claim)
        self.on_claim(self._membership.me, claim)

    # --- everybody

    def on_claim(self, src: Address, claim: Claim) -> None:
        me = self._membership.me
        if claim.claim[0] == me:
            if claim.claim not in self.mine:
                self._out.count("bad_messages")
                return
        elif claim.only_from is not None and claim.only_from != me:
            return  # done here: no member waits for our answer
        self.order[claim.claim] = claim
        self._reach[claim.claim] = Reach(claim.wanted)
        self.due = True

    def look(self) -> None:
        """Note a change that a claim may have waited for."""
        self.due = bool(self.order)

    def progress(self) -> Iterator[OwnClaim]:
        """Process claims in their order, as far as possible. Yield each finished claim of this member. Its calls run
        before the next claim is processed."""
        self.due = False
        ahead: list[Reach] = []
        for claim in list(self.order.values()):
            reach = self._reach[claim.claim]
            own = self.mine.get(claim.claim)
            if self._blocked(reach, ahead):
                ahead.append(reach)
            elif own is not None:
                if own.missing:
                    ahead.append(reach)
                    continue
                del self.mine[claim.claim]
                if own.survey is not None and own.then is not None:
                    own.then([*own.found, self._surveyor.answer(own.survey)])
                yield own
                self._done(claim)
            elif self._answer(claim):
                self._done(claim)
            else:
                ahead.append(reach)

    def _done(self, claim: Claim) -> None:
        del self.order[claim.claim], self._reach[claim.claim]

    @staticmethod
    def _blocked(reach: Reach, ahead: list[Reach]) -> bool:
        return any(reach.meets(earlier) for earlier in ahead)

    def _covered(self, reach: Reach) -> list[tuple[Path, OwnedNode]]:
        """Return the nodes in ``reach`` that this member may grant."""
        found = reach.among(self._ownership.nodes)
        return [(path, node) for path, node in found if node.to is None]

    def _answer(self, claim: Claim) -> bool:
        """Answer a claim of another member. False: the answer must wait."""
        if claim.survey is not None:
            found = self._surveyor.answer(claim.survey)
            self._out.send(claim.claim[0], Answer(claim.claim, found=found))
            return True
        covered = self._covered(self._reach[claim.claim])
        owned: tuple[Path, ...] = ()
        if claim.mode == "look":
            self._say(claim, covered)
            return True
        if claim.mode == "create":
            owned = tuple(path for path, node in covered if not node.removed)
            covered = [(path, node) for path, node in covered if node.removed]
        if not all(self._ownership.may_grant(path) for path, _ in covered):
            return False
        if any(self._keeps(path) for path, _ in covered):
            return False
        passive = tuple(path for path, node in covered if node.passive)
        if passive:
            self._out.event("activate", passive)
            return False
        self._grant(claim, [path for path, _ in covered], owned)
        return True

    def _grant(self, claim: Claim, paths: list[Path], owned: tuple[Path, ...]) -> None:
        """Grant each node by itself: a view may come between two pieces of the answer."""
        claimant = claim.claim[0]
        grants = self._ownership.grant(paths, claimant)
        config = self._config
        *first, last = pieces(grants, _value, config.chunk_nodes, config.chunk_bytes)
        for piece in first:
            self._out.send(claimant, Answer(claim.claim, tuple(piece), more=True))
        backups = self._backed_up(Reach(tuple([(path, False) for path, _ in claim.wanted])))
        floor = self._ownership.floor
        self._out.send(claimant, Answer(claim.claim, tuple(last), owned, backups, floor=floor))

    def _say(self, claim: Claim, covered: list[tuple[Path, OwnedNode]]) -> None:
        """Answer a ``look``: name the nodes here and grant none."""
        owned = tuple(path for path, node in covered if not node.removed)
        self._out.send(
            claim.claim[0],
            Answer(
                claim.claim,
                owned=owned[: self._config.look_max],
                backs_up=self._backed_up(self._reach[claim.claim]),
                floor=self._ownership.floor,
            ),
        )

    def _backed_up(self, reach: Reach) -> tuple[tuple[Path, Address], ...]:
        """Return the paths that this member backs up, each with its owner."""
        if not self._config.search_backup_trees:
            return ()
        found: list[tuple[Path, Address]] = []
        for owner, backup in self._backups.of.items():
            found += [(path, owner) for path, n in reach.among(backup.nodes) if not n.removed]
        return tuple(found[: self._config.look_max])

    # --- the claimant

    def seen(self, own: OwnClaim) -> dict[Path, tuple[Address, tuple[Address, ...]]]:
        """Return the owner of each existing path and the members that reported a backup, including this member."""
        me = self._membership.me
        reach = Reach(own.wanted)
        owners = {path: me for path, node in self._covered(reach) if not node.removed}
        owners.update(own.owned)
        backups = own.backed_up
        for path, _ in self._backed_up(reach):
            backups.setdefault(path, []).append(me)
        return {path: (owners[path], tuple(backups.get(path, ()))) for path in sorted(owners)}

    def on_answer(self, src: Address, message: Answer) -> tuple[Grant, ...]:
        """Return the nodes that ``src`` has granted."""
        own = self.mine.get(message.claim)
        if own is None or src not in own.missing:
            self._out.count("bad_messages")
            return ()
        if not message.more:
            del own.missing[src]
        self._ownership.raise_floor(message.floor)
        own.owned.update(dict.fromkeys(message.owned, src))
        for path, _ in message.backs_up:
            own.backed_up.setdefault(path, []).append(src)
        self._out.count("backups_told", len(message.backs_up))
        if message.found is not None:
            own.found.append(message.found)
        self.due = True
        return message.grants

    # --- views

    def new_view(self) -> list[BuddyCall]:
        """Drop the claims of the old view. Return the calls that waited for them."""
        calls = [call for own in self.mine.values() for call in own.calls]
        self.order.clear()
        self._reach.clear()
        self.mine.clear()
        self._early.clear()
        return calls
