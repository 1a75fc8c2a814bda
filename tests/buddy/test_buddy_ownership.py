"""Ownership by itself: every transition of a node, and its refusals."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from jgroups_py.buddy.backups import Backup
from jgroups_py.buddy.config import BuddyConfig
from jgroups_py.buddy.holders import Holder, Holders
from jgroups_py.buddy.journal import Journal
from jgroups_py.buddy.known_sites import KnownSites
from jgroups_py.buddy.log import WriteLog
from jgroups_py.buddy.membership import Membership
from jgroups_py.buddy.messages import Adoptions, Assign, Op, Settle, Winner
from jgroups_py.buddy.out import BuddyOut
from jgroups_py.buddy.outbox import Outboxes
from jgroups_py.buddy.outputs import SendMessage
from jgroups_py.buddy.ownership import Grant, Ownership, Settled
from jgroups_py.buddy.site_messages import Sent
from jgroups_py.buddy.values import BuddyGroup, Epoch, OwnedNode, Path, Stamp
from jgroups_py.buddy.verdict import MergeVerdict
from jgroups_py.values.address import Address
from jgroups_py.values.view import View, ViewId

ME, OTHER, THIRD, DEAD = (Address(b"%02d" % n) for n in range(4))
X: Path = ("x",)
Y: Path = ("y",)


class Owner:
    """An ``Ownership`` of the only member that writes, with one holder."""

    def __init__(self, *, sites: tuple[str, ...] = (), holder: bool = True, **more: Any) -> None:
        config = BuddyConfig(site="N" if sites else "", sites=sites, **more)
        self.membership = Membership(ME, "me", config)
        self.out = BuddyOut(self.membership)
        self.known = KnownSites()
        self.outboxes = Outboxes(sites, self.known)
        self.holders = Holders()
        journals: list[Journal] = []
        self.log = WriteLog(ME, config, self.holders, journals, self.out)
        self.seen: list[tuple[Path, OwnedNode | None, OwnedNode | None]] = []
        self.own = Ownership(
            self.membership,
            config,
            self.log,
            self.outboxes,
            self.known,
            self.out,
            lambda *change: self.seen.append(change),
        )
        self.view(1, ME, OTHER, THIRD)
        if holder:
            self.holders[OTHER] = Holder(0, todo=deque(), turn=1)

    def view(self, number: int, *members: Address) -> None:
        self.membership.install(View(ViewId(members[0], number), members))

    def acked(self) -> None:
        for holder in self.holders.values():
            holder.acked = self.log.seq
        self.log.advance()

    def logged(self) -> list[Op]:
        """Return the operations that were sent to the holder since the last call."""
        found = [out.message for out in self.out.take() if isinstance(out, SendMessage)]
        return [message for message in found if isinstance(message, Op)]

    def counts(self) -> tuple[int, int]:
        return self.own.moving, self.own.granted

    def written(self, *paths: Path, value: Any = 1) -> None:
        """Return our nodes that the holder has."""
        self.own.write(dict.fromkeys(paths, value))
        self.acked()
        self.logged()
        self.seen.clear()


def copy(**nodes: OwnedNode) -> Backup:
    backup = Backup(Assign(BuddyGroup(DEAD, (ME,), "dead"), 7, ()), 1)
    backup.nodes = {(name,): node for name, node in nodes.items()}
    return backup


def node_of(owner: Address, epoch: Epoch = (1, 0), value: Any = "theirs", **more: Any) -> OwnedNode:
    return OwnedNode(value, epoch, Stamp(0, epoch, 1, owner), **more)


def never(groups: Adoptions) -> None:
    raise AssertionError("nothing was adopted")


def settle(o: Owner, message: Settle, dead: Backup | None = None) -> Settled:
    verdict = MergeVerdict(message, o.membership)
    if dead is None:
        return o.own.settle(verdict, {}, never)
    return o.own.settle(verdict, {DEAD: dead}, lambda groups: None)


# --- writing


def test_a_new_node_has_the_epoch_of_its_view_and_the_first_version() -> None:
    o = Owner()
    assert set(o.own.write({X: 1})) == {X}
    node = o.own.nodes[X]
    assert node.value == 1 and node.epoch == (1, 0) and node.stamp == Stamp(0, (1, 0), 1, ME)
    assert o.logged() == [Op(1, ((X, node),), (), True)]
    assert o.seen == [(X, None, node)]


def test_a_further_write_raises_the_version_and_leaves_the_epoch() -> None:
    o = Owner()
    o.written(X)
    o.own.write({X: 2})
    node = o.own.nodes[X]
    assert (node.value, node.epoch, node.stamp.version, node.lineage) == (2, (1, 0), 2, ())


def test_a_write_in_another_ownership_notes_the_last_stamp_of_the_one_before() -> None:
    o = Owner()
    o.own.take_over(OTHER, [(X, node_of(OTHER), (1, 1))], lambda paths: None)
    o.own.write({X: 2})
    node = o.own.nodes[X]
    assert node.lineage == (Stamp(0, (1, 0), 1, OTHER),)
    assert node.stamp == Stamp(0, (1, 1), 2, ME)


def test_a_removal_is_a_write_and_removes_nothing_that_is_not_there() -> None:
    o = Owner()
    o.written(X)
    assert set(o.own.write({X: None, Y: None})) == {X}
    assert o.own.nodes[X].removed and o.own.nodes[X].stamp.version == 2
    assert Y not in o.own.nodes
    o.logged()
    assert o.own.write({Y: None}) == {} and o.logged() == []


def test_a_write_tells_when_all_holders_have_it() -> None:
    o = Owner()
    told: list[str] = []
    o.own.write({X: 1}, lambda: told.append("x"))
    o.own.write({Y: None}, lambda: told.append("nothing"))
    o.log.advance()
    assert told == []
    o.acked()
    assert told == ["x"]


def test_granted_nodes_are_not_written() -> None:
    o = Owner()
    o.written(X)
    o.own.grant([X], OTHER)
    with pytest.raises(AssertionError, match="granted"):
        o.own.write({X: 2})
    assert o.own.nodes[X].value == 1


def test_nodes_are_read_only_for_everybody_else() -> None:
    o = Owner()
    o.written(X)
    with pytest.raises(TypeError):
        o.own.nodes[X] = node_of(OTHER)  # type: ignore[index]
    with pytest.raises(TypeError):
        del o.own.nodes[X]  # type: ignore[attr-defined]


# --- hand-over


def test_a_grant_gives_the_next_epoch_and_is_not_logged() -> None:
    o = Owner()
    o.written(X)
    before = o.own.nodes[X]
    assert o.own.may_grant(X)
    assert o.own.grant([X], OTHER) == [(X, before, (1, 1))]
    assert o.own.nodes[X].to == (OTHER, (1, 1)) and o.own.nodes[X].epoch == (1, 0)
    assert o.logged() == [] and o.counts() == (1, 1)
    assert o.own.mine(X) is None and o.own.owned() == []


def test_a_grant_waits_for_the_holders_and_for_the_former_owner() -> None:
    o = Owner()
    o.own.write({X: 1})
    assert not o.own.may_grant(X), "the holder lacks it"
    o.acked()
    assert o.own.may_grant(X)
    o.own.take_over(OTHER, [(Y, node_of(OTHER), (1, 1))], lambda paths: None)
    o.acked()
    assert not o.own.may_grant(Y), "it is still with its former owner"
    with pytest.raises(AssertionError, match="former owner"):
        o.own.grant([Y], THIRD)


def test_a_node_is_granted_once_and_never_without_its_value() -> None:
    o = Owner()
    o.written(X, Y)
    o.own.grant([X], OTHER)
    with pytest.raises(AssertionError, match="granted already"):
        o.own.grant([X], THIRD)
    o.own.passivate(Y)
    with pytest.raises(AssertionError, match="not in memory"):
        o.own.grant([Y], OTHER)


def test_a_node_that_is_taken_over_has_a_giver_until_that_is_confirmed() -> None:
    o = Owner()
    told: list[Path] = []
    grant: Grant = (X, node_of(OTHER, to=(ME, (1, 1))), (1, 1))
    o.own.take_over(OTHER, [grant], told.extend)
    node = o.own.nodes[X]
    assert (node.epoch, node.giver, node.to) == ((1, 1), OTHER, None)
    assert node.stamp == grant[1].stamp, "the value is the same"
    assert o.counts() == (1, 0) and told == []
    o.acked()
    assert told == [X]
    o.logged()
    o.own.confirm(X)
    assert o.own.nodes[X].giver is None and o.counts() == (0, 0)
    assert [op.wrote for op in o.logged()] == [False]
    with pytest.raises(AssertionError, match="no giver"):
        o.own.confirm(X)


def test_forgotten_nodes_raise_the_floor_for_nodes_to_come() -> None:
    o = Owner()
    o.written(X)
    o.own.grant([X], OTHER)
    o.own.forget([X])
    assert X not in o.own.nodes and o.counts() == (0, 0)
    assert o.own.floor == (1, 1), "that of the next owner"
    assert o.logged() == [Op(2, ((X, None),))]
    o.own.write({X: 1})
    assert o.own.nodes[X].epoch == (1, 2)


def test_epochs_begin_above_those_that_another_member_has_dropped() -> None:
    o = Owner()
    o.own.raise_floor((1, 4))
    o.own.raise_floor((1, 2))
    o.own.write({X: 1})
    assert o.own.nodes[X].epoch == (1, 5)


def test_a_removed_node_is_purged_when_nobody_can_need_it() -> None:
    o = Owner(sites=("S",))
    o.written(X)
    assert not o.own.may_purge(X), "it is there"
    o.own.write({X: None})
    assert not o.own.may_purge(X), "the holder lacks the removal"
    o.acked()
    assert not o.own.may_purge(X), "the other site lacks it"
    assert o.own.acknowledged("S", 2, X)
    assert o.own.may_purge(X)
    o.own.grant([X], OTHER)
    assert not o.own.may_purge(X), "somebody takes it"


# --- values in a store


def test_a_value_leaves_memory_and_comes_back() -> None:
    o = Owner()
    o.written(X)
    o.own.passivate(X)
    assert o.own.nodes[X].passive and o.own.nodes[X].value is None
    assert o.logged() == [], "holders keep the value"
    o.own.activate(X, 1)
    assert not o.own.nodes[X].passive and o.own.nodes[X].value == 1
    o.own.activate(X, "old")
    o.own.activate(Y, "unknown")
    assert o.own.nodes[X].value == 1 and Y not in o.own.nodes


def test_a_write_needs_no_value_and_ends_passivity() -> None:
    o = Owner()
    o.written(X)
    o.own.passivate(X)
    o.own.write({X: 2})
    assert not o.own.nodes[X].passive and o.own.nodes[X].value == 2


def test_a_value_stays_in_memory_while_somebody_needs_it() -> None:
    o = Owner()
    o.own.write({X: 1})
    assert not o.own.may_passivate(X), "the holder lacks it"
    with pytest.raises(AssertionError, match="must stay"):
        o.own.passivate(X)
    o.acked()
    assert o.own.may_passivate(X) and not o.own.may_passivate(Y)
    o.own.grant([X], OTHER)
    assert not o.own.may_passivate(X), "it moves"
    o.own.take_over(OTHER, [(Y, node_of(OTHER), (1, 1))], lambda paths: None)
    o.acked()
    assert not o.own.may_passivate(Y), "it is still with its former owner"
    removed = Owner()
    removed.written(X)
    removed.own.write({X: None})
    removed.acked()
    assert not removed.own.may_passivate(X), "it is removed"
    across = Owner(sites=("S",))
    across.written(X)
    across.own.acknowledged("S", 1, X)
    assert not across.own.may_passivate(X), "it may have to be sent"


# --- across sites


def test_a_write_is_one_event_for_each_site() -> None:
    o = Owner(sites=("S", "T"))
    o.own.write({X: 1, Y: 1})
    assert o.own.nodes[X].unsent == o.own.nodes[Y].unsent == (("S", 1), ("T", 1))
    assert o.outboxes["S"].todo == {1: ((X, Y), 1)}


def test_an_acknowledgement_clears_its_own_number_only() -> None:
    o = Owner(sites=("S",))
    o.written(X)
    o.own.write({X: 2})
    assert not o.own.acknowledged("S", 1, X), "that value is not here any more"
    assert o.own.nodes[X].unsent == (("S", 2),)
    assert o.own.acknowledged("S", 2, X) and o.own.nodes[X].unsent == ()
    assert not o.own.acknowledged("S", 2, Y)
    o.acked()
    o.own.grant([X], OTHER)
    assert not o.own.acknowledged("S", 2, X)


def test_holders_are_told_of_nodes_that_are_still_ours() -> None:
    o = Owner(sites=("S",))
    o.written(X, Y)
    o.own.grant([Y], OTHER)
    o.own.tell([X, Y, ("z",)])
    (op,) = o.logged()
    assert op.changes == ((X, o.own.nodes[X]),) and not op.wrote
    o.own.tell([Y])
    assert o.logged() == []


def test_a_node_that_is_taken_over_gets_numbers_of_its_new_owner() -> None:
    o = Owner(sites=("S",))
    o.written(X)
    theirs = node_of(OTHER, unsent=(("S", 40), ("gone", 3)))
    o.own.take_over(OTHER, [(Y, theirs, (1, 1))], lambda paths: None)
    assert o.own.nodes[Y].unsent == (("S", 2),)


def test_missing_numbers_of_a_site_are_marked_in_entries_of_a_limited_size() -> None:
    o = Owner(sites=("S",), chunk_nodes=2)
    o.written(X, Y, ("z",))
    for path in o.own.nodes:
        o.own.acknowledged("S", 1, path)
    o.own.mark_unsent("S", [X, Y, ("z",)])
    assert [node.unsent for node in o.own.nodes.values()] == [(("S", n),) for n in (2, 3, 4)]
    assert [op.seq for op in o.logged()] == [2, 3]


def test_messages_that_are_given_up_for_a_site_stay_unsent_to_the_others() -> None:
    o = Owner(sites=("S", "T"))
    o.written(X, Y)
    o.own.give_up("S", [X])
    assert o.own.nodes[X].unsent == (("T", 1),)
    assert o.own.nodes[Y].unsent == (("S", 1), ("T", 1))
    assert len(o.logged()) == 1
    o.own.give_up("S", [])
    assert o.logged() == []


def sent(version: int, path: Path = X, **more: Any) -> Sent:
    stamp = Stamp(0, (9, 0), version, THIRD)
    return Sent(path, f"v{version}", stamp, more.pop("removed", False), ())


def test_a_value_of_another_site_keeps_its_stamp() -> None:
    o = Owner(sites=("S", "T"))
    o.own.accept("S", [(sent(1), [])])
    node = o.own.nodes[X]
    assert (node.value, node.came, node.epoch, node.unsent) == ("v1", "S", (1, 0), ())
    o.own.accept("S", [(sent(2), ["T"])])
    node = o.own.nodes[X]
    assert node.stamp == sent(2).stamp and node.unsent == (("T", 1),)
    assert [op.wrote for op in o.logged()] == [True, True]
    with pytest.raises(AssertionError, match="as new here"):
        o.own.accept("S", [(sent(2), [])])
    o.own.accept("S", [])
    assert o.logged() == []


def test_a_value_of_another_site_takes_the_place_of_one_unsent_to_it() -> None:
    o = Owner(sites=("S", "T"))
    o.written(X)
    o.own.accept("S", [(sent(1), [])])
    assert o.own.nodes[X].unsent == (("T", 1),)


def test_a_write_outranks_the_value_of_another_site() -> None:
    o = Owner(sites=("S",))
    o.own.accept("S", [(sent(5), [])])
    o.own.write({X: "mine"})
    node = o.own.nodes[X]
    assert node.stamp > sent(5).stamp and node.epoch == (1, 0), "epochs of ownership are ours"
    assert node.came == ""


def test_a_write_after_a_promotion_outranks_all_epochs() -> None:
    o = Owner(sites=("S",))
    o.own.accept("S", [(sent(5), [])])
    o.known.epoch = 1
    o.own.write({X: "mine"})
    assert o.own.nodes[X].stamp == Stamp(1, (1, 0), 6, ME)


def test_nodes_that_only_another_site_has_are_buried_above_their_value() -> None:
    o = Owner(sites=("S",))
    node = o.own.bury(X, sent(3).stamp)
    assert node.removed and node.stamp > sent(3).stamp and node.unsent == (("S", 1),)
    assert o.own.nodes[X] == node and len(o.logged()) == 1
    with pytest.raises(AssertionError, match="owned here"):
        o.own.bury(X, sent(3).stamp)


# --- views


def test_a_grant_without_effect_is_ours_again_at_the_next_epoch() -> None:
    o = Owner()
    o.written(X)
    o.own.grant([X], OTHER)
    o.view(2, ME, THIRD)
    settle(o, Settle())
    node = o.own.nodes[X]
    assert node.to is None and node.epoch == (2, 0) and o.counts() == (0, 0)
    assert [op.changes for op in o.logged()] == [((X, node),)]


def test_a_grant_that_took_goes_to_the_present_owner_of_the_node() -> None:
    o = Owner()
    o.written(X)
    o.own.grant([X], OTHER)
    o.view(2, ME, THIRD)
    settle(o, Settle(unconfirmed=((X, (1, 1), THIRD),)))
    assert o.own.nodes[X].to == (THIRD, (1, 1)) and o.counts() == (1, 1)
    assert o.logged() == []


def test_a_grant_named_by_an_older_ownership_had_no_effect() -> None:
    o = Owner()
    o.written(X)
    o.own.grant([X], OTHER)
    o.view(2, ME, THIRD)
    settle(o, Settle(unconfirmed=((X, (1, 0), THIRD),)))
    assert o.own.nodes[X].to is None


def test_a_guardian_owns_adopted_nodes_at_the_next_epoch() -> None:
    o = Owner(sites=("S",))
    o.view(2, ME, OTHER)
    safe: list[Adoptions] = []
    theirs = node_of(DEAD, unsent=(("S", 9),))
    verdict = MergeVerdict(Settle(guardians=((DEAD, ME),)), o.membership)
    backup = copy(x=theirs)
    backup.adopted = {THIRD: (1, 3)}
    o.own.settle(verdict, {DEAD: backup}, safe.append)
    node = o.own.nodes[X]
    assert (node.epoch, node.stamp, node.unsent) == ((2, 0), theirs.stamp, (("S", 1),))
    assert o.own.adopted == {THIRD: (2, 3), DEAD: (2, 7)} and o.own.adopted_from == {X: DEAD}
    (op,) = o.logged()
    assert op.adopted == ((THIRD, 2, 3), (DEAD, 2, 7))
    assert not o.own.adopted_safely and not safe
    o.acked()
    assert list(o.own.adopted_safely) == [THIRD, DEAD] and len(safe) == 1


def test_a_guardian_keeps_a_spare_of_a_living_members_node() -> None:
    o = Owner()
    o.view(2, ME, OTHER)
    message = Settle(guardians=((DEAD, ME),), unconfirmed=((X, (1, 5), OTHER),))
    settle(o, message, dead=copy(x=node_of(DEAD)))
    assert o.own.nodes[X].to == (OTHER, (1, 5))


def test_a_guardian_skips_the_older_of_two_copies() -> None:
    o = Owner()
    o.view(2, ME, OTHER)
    message = Settle(guardians=((DEAD, ME),), unconfirmed=((X, (1, 5), ME),))
    settle(o, message, dead=copy(x=node_of(DEAD), y=node_of(DEAD)))
    assert list(o.own.nodes) == [Y]


def test_a_giver_that_is_gone_and_has_no_heir_is_not_waited_for() -> None:
    o = Owner()
    o.own.take_over(OTHER, [(X, node_of(OTHER), (1, 1))], lambda paths: None)
    o.own.take_over(THIRD, [(Y, node_of(THIRD), (1, 1))], lambda paths: None)
    o.view(2, ME)
    settle(o, Settle(adopted_by=((THIRD, DEAD),)))
    assert o.own.nodes[X].giver is None
    assert o.own.nodes[Y].giver == THIRD, "its heir will confirm"


def test_the_winner_of_a_merge_takes_its_epoch_and_the_loser_forgets() -> None:
    o = Owner()
    o.written(X, Y)
    lost = o.own.nodes[Y]
    o.view(2, ME, OTHER)
    stamp = Stamp(0, (1, 0), 1, ME)
    winners = (Winner(X, (2, 3), stamp, ME), Winner(Y, (2, 3), stamp, OTHER))
    settled = settle(o, Settle(unmerged=True, winners=winners))
    assert o.own.nodes[X].epoch == (2, 3) and Y not in o.own.nodes
    assert settled == ({(Y, lost.stamp): 1}, [Y])
    (op,) = o.logged()
    assert op.changes == ((X, o.own.nodes[X]), (Y, None))


def test_an_adopted_copy_may_lose_a_merge() -> None:
    o = Owner()
    o.view(2, ME, OTHER)
    theirs = node_of(DEAD)
    winners = (
        Winner(X, (2, 1), theirs.stamp, OTHER),
        Winner(Y, (2, 1), theirs.stamp, ME, DEAD),
    )
    message = Settle(guardians=((DEAD, ME),), unmerged=True, winners=winners)
    settled = settle(o, message, dead=copy(x=theirs, y=theirs))
    assert settled == ({(X, theirs.stamp): "theirs"}, [])
    assert {path: node.epoch for path, node in o.own.nodes.items()} == {Y: (2, 1)}


def test_an_adoption_is_void_when_its_owner_is_there_again() -> None:
    o = Owner(departed_max=1)
    o.own.adopted = {DEAD: (1, 0), OTHER: (1, 0), THIRD: (1, 0)}
    o.own.adopted_safely = {DEAD: None, THIRD: None}
    o.own.new_view((ME,))
    assert list(o.own.adopted) == [THIRD] and list(o.own.adopted_safely) == [THIRD]
    o.own.new_view((ME, THIRD))
    assert not o.own.adopted and not o.own.adopted_safely


def test_every_change_is_reported_with_the_former_node() -> None:
    o = Owner()
    o.own.write({X: 1})
    first = o.own.nodes[X]
    o.acked()
    o.own.grant([X], OTHER)
    second = o.own.nodes[X]
    o.own.forget([X])
    assert o.seen == [(X, None, first), (X, first, second), (X, second, None)]
