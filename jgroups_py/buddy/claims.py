"""Claims: what is not owned here is asked for, in one order for the whole view.

The coordinator multicasts claims in the order in which it gets them. A claim waits at a member only
behind earlier ones that overlap and are not done there; a claim of one's own is done when everybody
else has answered. So a search cannot miss a node that is on its way from one member to another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from jgroups_py.buddy.messages import Answer, Claim, ClaimId, ClaimRequest, Mode
from jgroups_py.buddy.reach import Reach
from jgroups_py.buddy.site_messages import Found, Survey
from jgroups_py.buddy.values import (
    Epoch,
    Node,
    Path,
    Wanted,
    next_epoch,
    pieces,
)
from jgroups_py.values.address import Address

if TYPE_CHECKING:
    from collections.abc import Callable

    from jgroups_py.buddy.calls import Call
    from jgroups_py.buddy.machine import BuddyMachine

Grant = tuple[Path, Node, Epoch]


def _value(grant: Grant) -> object:
    return grant[1].value


class OwnClaim:
    """A claim of this member. ``missing``: who has not answered. ``sequenced``: it has its place."""

    __slots__ = (
        "backed_up",
        "calls",
        "found",
        "survey",
        "missing",
        "mode",
        "owned",
        "sequenced",
        "then",
        "wanted",
    )

    def __init__(self, wanted: tuple[Wanted, ...], mode: Mode, missing: list[Address]) -> None:
        self.wanted = wanted
        self.mode = mode
        self.missing = dict.fromkeys(missing)
        self.sequenced = False
        self.owned: dict[Path, Address] = {}
        """What others own and have not granted."""
        self.backed_up: dict[Path, list[Address]] = {}
        """Who keeps a backup of what."""
        self.survey: Survey | None = None
        self.found: list[Found] = []
        self.then: Callable[[list[Found]], None] | None = None
        self.calls: list[Call] = []


class Claims:
    """``order``: claims of this view not done here, in the coordinator's order."""

    def __init__(self, machine: BuddyMachine) -> None:
        self.machine = machine
        self.order: dict[ClaimId, Claim] = {}
        self._reach: dict[ClaimId, Reach] = {}
        """Of those."""
        self.mine: dict[ClaimId, OwnClaim] = {}
        self._early: list[ClaimRequest] = []
        self._count = 0
        self._look = False

    # --- asking

    @property
    def full(self) -> bool:
        return len(self.mine) >= self.machine.config.claims_max

    def open(
        self,
        wanted: tuple[Wanted, ...],
        mode: Mode,
        only_from: Address | None = None,
        survey: Survey | None = None,
    ) -> OwnClaim:
        machine = self.machine
        self._count += 1
        claim = (machine.me, self._count)
        asked = (
            [m for m in machine.members if m != machine.me] if only_from is None else [only_from]
        )
        own = self.mine[claim] = OwnClaim(wanted, mode, asked)
        machine.count("claims")
        machine.send(machine.coordinator, ClaimRequest(claim, wanted, mode, only_from, survey))
        return own

    def survey_all(self, survey: Survey, then: Callable[[list[Found]], None]) -> None:
        """Everybody answers at its place in the order of claims. Void when the view changes."""
        wanted: tuple[Wanted, ...] = (((), True),)
        own = self.open(wanted, "take", survey=survey)
        own.survey = survey
        own.then = then

    def join(self, wanted: tuple[Wanted, ...], mode: Mode) -> OwnClaim | None:
        """An open claim of ours, of all members, that asks for the same."""
        for own in self.mine.values():
            if own.wanted == wanted and own.mode == mode and own.calls:
                return own
        return None

    def wanted_by_others(self, path: Path) -> bool:
        me = self.machine.me
        return any(claim[0] != me and path in reach for claim, reach in self._reach.items())

    # --- the coordinator

    def on_request(self, src: Address, message: ClaimRequest) -> None:
        """Claims of a view come after its ``Settle``."""
        if not self.machine.settled:
            self._early.append(message)
        else:
            self._order(message)

    def release(self) -> None:
        early, self._early = self._early, []
        for message in early:
            self._order(message)

    def _order(self, message: ClaimRequest) -> None:
        claim = Claim(
            message.claim, message.wanted, message.mode, message.only_from, message.survey
        )
        self.machine.send_all(claim)
        self.on_claim(self.machine.me, claim)

    # --- everybody

    def on_claim(self, src: Address, claim: Claim) -> None:
        machine = self.machine
        if claim.claim[0] == machine.me:
            own = self.mine.get(claim.claim)
            if own is None:
                machine.count("bad_messages")
                return
            own.sequenced = True
        elif claim.only_from is not None and claim.only_from != machine.me:
            return  # for us it is done: nobody waits for our answer
        self.order[claim.claim] = claim
        self._reach[claim.claim] = Reach(claim.wanted)
        self._look = True

    def look(self) -> None:
        """Something changed that a claim may have waited for."""
        self._look = True

    def progress(self) -> bool:
        """Does what can be done of claims, in their order."""
        if not self._look:
            return False
        self._look = False
        ahead: list[Reach] = []
        for claim in list(self.order.values()):
            reach = self._reach[claim.claim]
            if self._blocked(reach, ahead) or not self._handle(claim):
                ahead.append(reach)
            else:
                del self.order[claim.claim], self._reach[claim.claim]
        return True

    @staticmethod
    def _blocked(reach: Reach, ahead: list[Reach]) -> bool:
        return any(reach.meets(earlier) for earlier in ahead)

    def _handle(self, claim: Claim) -> bool:
        """True: done here."""
        if claim.claim[0] == self.machine.me:
            own = self.mine[claim.claim]
            if own.missing:
                return False
            del self.mine[claim.claim]
            if own.survey is not None and own.then is not None:
                own.then([*own.found, self.machine.walks.answer(own.survey)])
            self.machine.calls.answered(own)
            return True
        return self._answer(claim)

    def _covered(self, reach: Reach) -> list[tuple[Path, Node]]:
        """Nodes that are ours to grant."""
        found = reach.among(self.machine.own)
        return [(path, node) for path, node in found if node.to is None]

    def _answer(self, claim: Claim) -> bool:
        machine = self.machine
        if claim.survey is not None:
            found = machine.walks.answer(claim.survey)
            machine.send(claim.claim[0], Answer(claim.claim, found=found))
            return True
        covered = self._covered(self._reach[claim.claim])
        owned: tuple[Path, ...] = ()
        if claim.mode == "look":
            return self._say(claim, covered)
        if claim.mode == "create":
            owned = tuple(path for path, node in covered if not node.removed)
            covered = [(path, node) for path, node in covered if node.removed]
        if any(n.giver is not None or not machine.log.stable(p) for p, n in covered):
            return False
        if machine.keeping is not None and any(machine.keeping(path) for path, _ in covered):
            return False
        passive = [path for path, node in covered if node.passive]
        if passive:
            machine.passive.need(passive)
            return False
        claimant = claim.claim[0]
        grants = []
        for path, node in covered:
            epoch = next_epoch(node.epoch, machine.number)
            machine.own[path] = replace(node, to=(claimant, epoch))
            grants.append((path, node, epoch))
        machine.count("nodes_granted", len(grants))
        # Each node moves for itself: a view change may come between two pieces.
        config = machine.config
        *first, last = pieces(grants, _value, config.chunk_nodes, config.chunk_bytes)
        for piece in first:
            machine.send(claimant, Answer(claim.claim, tuple(piece), more=True))
        backups = self._backed_up(Reach(tuple([(path, False) for path, _ in claim.wanted])))
        machine.send(
            claimant, Answer(claim.claim, tuple(last), owned, backups, floor=machine.floor)
        )
        return True

    def _say(self, claim: Claim, covered: list[tuple[Path, Node]]) -> bool:
        """Who looks is told what is here, and gets nothing."""
        machine = self.machine
        owned = tuple(path for path, node in covered if not node.removed)
        machine.send(
            claim.claim[0],
            Answer(
                claim.claim,
                owned=owned[: machine.config.look_max],
                backs_up=self._backed_up(self._reach[claim.claim]),
                floor=machine.floor,
            ),
        )
        return True

    def _backed_up(self, reach: Reach) -> tuple[tuple[Path, Address], ...]:
        """Paths of which this member keeps a backup, and whose."""
        machine = self.machine
        if not machine.config.search_backup_trees:
            return ()
        found: list[tuple[Path, Address]] = []
        for owner, backup in machine.backups.of.items():
            found += [(path, owner) for path, n in reach.among(backup.nodes) if not n.removed]
        return tuple(found[: machine.config.look_max])

    # --- the claimant

    def seen(self, own: OwnClaim) -> dict[Path, tuple[Address, tuple[Address, ...]]]:
        """Who owns what is there, and who said that it keeps a backup; this member included."""
        me = self.machine.me
        reach = Reach(own.wanted)
        owners = {path: me for path, node in self._covered(reach) if not node.removed}
        owners.update(own.owned)
        backups = own.backed_up
        for path, _ in self._backed_up(reach):
            backups.setdefault(path, []).append(me)
        return {path: (owners[path], tuple(backups.get(path, ()))) for path in sorted(owners)}

    def on_answer(self, src: Address, message: Answer) -> None:
        own = self.mine.get(message.claim)
        if own is None or src not in own.missing:
            self.machine.count("bad_messages")
            return
        if not message.more:
            del own.missing[src]
        self.machine.floor = max(self.machine.floor, message.floor)
        own.owned.update(dict.fromkeys(message.owned, src))
        for path, _ in message.backs_up:
            own.backed_up.setdefault(path, []).append(src)
        self.machine.count("backups_told", len(message.backs_up))
        if message.found is not None:
            own.found.append(message.found)
        if message.grants:
            self.machine.handover.install(src, message.grants)
            self.machine.calls.granted()
        self._look = True

    # --- views

    def void(self) -> list[Call]:
        """A new view: claims of the old one are void; their calls are to be tried again."""
        calls = [call for own in self.mine.values() for call in own.calls]
        self.order.clear()
        self._reach.clear()
        self.mine.clear()
        self._early.clear()
        return calls
