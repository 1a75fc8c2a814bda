"""GMS: groups that found each other become one."""

from __future__ import annotations

from typing import Any

import pytest

from jgroups_py.protocols.membership.gms.merge import merge_leader, merged, participants_of
from jgroups_py.protocols.membership.gms.protocol import GMS
from jgroups_py.testing import make_address
from jgroups_py.testing.check.tables import named_in
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import GetDeparted, HoldStability, MergeViews
from jgroups_py.values.message import Flag
from jgroups_py.values.payloads import MergeId, ViewDigest
from jgroups_py.values.view import Digest, MergeView, View, ViewId
from jgroups_py.wire.headers import GmsHeader, GmsType
from jgroups_py.wire.primitives import Writer, encode_whole
from jgroups_py.wire.values import write_view_digest

A, B, C, D, E, F = (make_address(n) for n in range(1, 7))


def split(net: Any, *groups: str) -> None:
    """Cuts the network and lets each side remove the others."""
    net.groups = [set(group) for group in groups]
    everybody = "".join(groups)
    for group in groups:
        for name in group:
            net.suspect(name, *[n for n in everybody if n not in group])
    net.run(0.2)
    for group in groups:
        assert net.nodes[group[0]].view == tuple(group)


def heal(net: Any) -> None:
    net.groups = None


def test_two_halves_of_a_group_become_one(net: Any) -> None:
    nodes = net.group("ABCD")
    split(net, "AB", "CD")
    net.delivered("A", A=20, B=19)
    net.delivered("D", C=7, D=8)
    heal(net)
    net.merge("A", "C")
    net.run(0.2)
    views = {n.gms.view for n in nodes}
    assert len(views) == 1
    (view,) = views
    assert isinstance(view, MergeView)
    assert [net.name_of(m) for m in view.members] == list("ABCD")
    assert [len(g) for g in view.subgroups] == [2, 2]
    assert view.view_id == ViewId(nodes[0].address, 5)
    assert nodes[2].delivered[nodes[0].address] == 20, "what A itself says it has sent"
    assert nodes[0].delivered[nodes[3].address] == 8
    assert all(n.gms.merges == 1 for n in nodes)


def test_windows_of_the_own_subgroup_are_not_moved(net: Any) -> None:
    """B still misses three messages of A: a jump would lose them."""
    a, b, c, d = net.group("ABCD")
    split(net, "AB", "CD")
    net.delivered("A", A=20, B=17)
    net.delivered("D", C=6, D=8)
    heal(net)
    net.merge("A", "C")
    net.run(0.2)
    assert (b.delivered[a.address], c.delivered[d.address]) == (17, 6)
    assert (d.delivered[a.address], a.delivered[d.address]) == (20, 8)


def test_the_view_goes_to_each_subgroup_with_its_digest(net: Any) -> None:
    net.group("ABCD")
    split(net, "AB", "CD")
    heal(net)
    net.sent.clear()
    net.merge("A", "C")
    net.run(0.2)
    assert net.gms_messages(GmsType.MERGE_REQ) == [("A", "C")]
    assert net.gms_messages(GmsType.MERGE_RSP) == [("C", "A")]
    assert net.gms_messages(GmsType.GET_DIGEST_REQ) == [("A", None), ("C", None)]
    assert net.gms_messages(GmsType.INSTALL_MERGE_VIEW) == [("A", "C")]
    assert net.gms_messages(GmsType.VIEW) == [("A", None), ("C", None)]
    assert sorted(net.gms_messages(GmsType.VIEW_ACK)) == [("B", "A"), ("D", "C")]
    flags = [b.flags for s, d, b in net.sent if d is None and b.flags & Flag.NO_TOTAL_ORDER]
    assert flags == [Flag.NO_FC | Flag.NO_RELAY | Flag.NO_TOTAL_ORDER] * 2


def test_the_base_of_delta_views_goes_with_its_view(net: Any) -> None:
    """A made the merge view, C sent it to its side, and A has left since (membership 4062)."""
    net.group("ABCD")
    split(net, "AB", "CD")
    heal(net)
    net.merge("A", "C")
    net.run(0.2)
    a, c = net.nodes["A"], net.nodes["C"]
    assert c.gms.sent._delta_base == c.gms.view.view_id
    a.dead = True
    net.suspect("B", "A")
    net.run(1)
    assert c.view == ("B", "C", "D")
    assert a.address not in [address for _, address in named_in(c.gms)]


@pytest.mark.parametrize("leader_first", [True, False])
def test_three_groups_become_one_at_once(net: Any, leader_first: bool) -> None:
    nodes = net.group("ABCDE")
    split(net, "AB", "CD", "E")
    heal(net)
    net.sent.clear()
    net.merge(*("ACE" if leader_first else "ECA"))
    net.run(0.2)
    assert len({n.gms.view for n in nodes}) == 1
    assert nodes[4].view == tuple("ABCDE")
    assert all(n.gms.merges == 1 for n in nodes)


def test_the_leader_is_the_lowest_coordinator(net: Any) -> None:
    for name, number in (("A", 9), ("B", 5), ("C", 3)):
        net.connect(name, number)
        net.run(0.3)
    split(net, "AB", "C")
    heal(net)
    net.merge("A", "C")
    net.run(0.2)
    assert net.nodes["B"].view == ("C", "A", "B")


def test_members_that_others_went_on_without_come_back(net: Any) -> None:
    """A was wrongly suspected: it still has the old view, and B has a newer one."""
    a, b, c = net.group("ABC")
    net.suspect("B", "A")
    net.suspect("C", "A")
    net.run(0.1)
    assert a.view == ("A", "B", "C") and b.view == ("B", "C")
    net.merge("A", "B")
    net.run(0.2)
    assert a.gms.view == b.gms.view == c.gms.view
    assert set(a.view) == {"A", "B", "C"}
    assert a.gms.is_coordinator


def test_a_stale_member_that_is_no_coordinator_comes_back(net: Any) -> None:
    a, b, c = net.group("ABC")
    net.suspect("A", "C")
    net.run(0.1)
    assert a.view == ("A", "B") and c.view == ("A", "B", "C")
    net.merge("A", "C")
    net.run(0.2)
    assert a.gms.view == b.gms.view == c.gms.view and c.view == ("A", "B", "C")
    assert isinstance(c.gms.view, MergeView)


def test_a_member_that_has_come_after_the_others_by_itself_is_not_merged(net: Any) -> None:
    """C got A's view during the merge, and both answered with it. C is not a second subgroup then; as one, it would
    lose messages (merge 21318)."""
    a, b, c, d = net.group("ABCD")
    net.lose = lambda src, dest, batch: dest is c and net.is_view(batch)
    d.dead = True
    net.suspect("A", "D")
    net.run(0.1)
    assert a.view == ("A", "B", "C") and c.view == ("A", "B", "C", "D")
    net.delivered("C", A=3, B=3, C=4)
    views = {a.address: a.gms.view, c.address: c.gms.view}
    net.lose = lambda src, dest, batch: False
    net.hand_over(c)
    a.fake.event_up(MergeViews(views))
    net.run(0.2)
    assert a.gms.merges_cancelled == 1 and not a.gms.merger.busy and not c.gms.merger.busy
    assert a.view == b.view == c.view == ("A", "B", "C")
    assert a.delivered[c.address] == 3, "it is still to come"


@pytest.mark.parametrize(
    ("number", "departed", "taken"), [(5, "C", False), (4, "C", True), (5, "", True)]
)
def test_a_view_that_a_merge_went_before_is_not_taken(
    net: Any, number: int, departed: str, taken: bool
) -> None:
    """C had left B's view, and comes back in one of A's: A has merged with C meanwhile, and B does not
    know at which number C's messages go on (merge 24273)."""
    a, b, c = net.group("ABC")
    c.dead = True
    net.suspect("A", "C")
    net.run(0.1)
    assert b.view == ("A", "B") and b.gms.view.id == 3
    asked: list[tuple[Address, ...]] = []

    def gone(query: GetDeparted) -> tuple[Address, ...]:
        asked.append(query.members)
        return tuple(net.nodes[name].address for name in departed)

    b.fake.answers[GetDeparted] = gone
    view = View(ViewId(a.address, number), (a.address, b.address, c.address))
    b.gms.view_received(a.address, ViewDigest(view))
    assert (b.gms.view == view) == taken
    assert asked == ([] if number == 4 else [(c.address,)])


def test_groups_that_answer_with_the_same_view_are_one() -> None:
    mine, other = ViewId(A, 3), ViewId(D, 3)
    answers: dict[Address, ViewDigest] = {
        A: ViewDigest(View(mine, (A, B)), Digest({A: (1, 1), B: (2, 2)})),
        C: ViewDigest(View(mine, (C,)), Digest({C: (3, 3)})),
        D: ViewDigest(View(other, (D,)), Digest({D: (4, 4)})),
    }
    view, digest = merged(A, answers, 3)
    assert view.members == (A, B, C, D)
    assert view.subgroups == (View(mine, (A, B, C)), View(other, (D,)))
    assert digest == Digest({A: (1, 1), B: (2, 2), C: (3, 3), D: (4, 4)})


def test_equal_views_are_not_merged(net: Any) -> None:
    a, _b, _c = net.group("ABC")
    net.sent.clear()
    net.merge("A", "B", "C")
    net.run(6.0)
    assert net.sent == [] and a.gms.view.id == 2


def test_a_group_that_does_not_answer_is_left_out(net: Any) -> None:
    nodes = net.group("ABCDE", merge_timeout=1.0)
    split(net, "AB", "CD", "E")
    heal(net)
    nodes[4].deaf = True
    net.merge("A", "C", "E")
    net.run(0.9)
    assert nodes[0].view == ("A", "B")
    net.run(0.2)
    assert nodes[0].view == nodes[3].view == tuple("ABCD")


def test_a_merge_without_answers_ends_and_joins_go_on(net: Any) -> None:
    a, b = net.group("AB", merge_timeout=1.0)
    split(net, "A", "B")
    heal(net)
    b.deaf = True
    net.merge("A", "B")
    net.run(0.1)
    c = net.connect("C")
    net.run(0.5)
    assert c.view is None, "joins wait for the end of the merge"
    net.run(0.7)
    assert a.gms.merges_cancelled == 1
    assert a.view == c.view == ("A", "C")


@pytest.mark.parametrize("answered", [True, False])
def test_no_message_is_declared_stable_while_a_merge_runs(net: Any, answered: bool) -> None:
    """The rule holds from the digests to the view: members of the other subgroup begin at the numbers of the
    digests."""
    net.group("ABCD")
    split(net, "AB", "CD")
    heal(net)
    held: dict[str, list[bool]] = {}
    event = net._event

    def spy(node: Any, what: Any) -> None:
        if isinstance(what, HoldStability):
            held.setdefault(node.name, []).append(what.held)
        event(node, what)

    net._event = spy
    if not answered:
        net.lose = lambda src, dest, batch: src.name == "C"
    net.merge("A", "C")
    net.run(0.2)
    assert net.nodes["A"].view == (("A", "B", "C", "D") if answered else ("A", "B"))
    net.run(15)
    assert {name: (h[0], h[-1]) for name, h in held.items()} == {
        "A": (True, False),
        "C": (True, False),
    }


def test_only_the_leader_of_a_merge_can_cancel_it(net: Any) -> None:
    a, b, c, _d = net.group("ABCD")
    split(net, "AB", "CD")
    heal(net)
    net.lose = lambda src, dest, batch: src is c  # it takes part, but is not heard
    net.merge("A", "C")
    net.run(0.1)
    for source, busy in ((b, True), (a, False)):
        header = GmsHeader(GmsType.CANCEL_MERGE, merge_id=c.gms.merger._id)
        cancel = Batch.of(c.address, GMS.protocol_id, header)
        cancel.src = source.address
        c.fake.up(cancel)
        assert c.gms.merger.busy is busy


def test_answers_to_another_merge_than_the_one_that_runs_are_ignored(net: Any) -> None:
    a, _b, c, d = net.group("ABCD")
    split(net, "AB", "CD")
    heal(net)
    net.lose = lambda src, dest, batch: src is c or dest is c  # it waits for D's digest
    net.merge("A", "C")
    request = GmsHeader(GmsType.MERGE_REQ, a.address, merge_id=MergeId(a.address, 7))

    def say(src: Any, header: GmsHeader, payload: bytes | None = None) -> None:
        batch = Batch.of(c.address, GMS.protocol_id, header, payload=payload)
        batch.src = src.address
        c.fake.up(batch)

    say(a, request, encode_whole(Writer.addrs, (c.address, d.address)))
    net.pump()
    assert c.gms.merger._id == MergeId(a.address, 7)
    say(a, GmsHeader(GmsType.CANCEL_MERGE, merge_id=MergeId(a.address, 6)))
    assert c.gms.merger.busy
    known = encode_whole(write_view_digest, ViewDigest(None, Digest({d.address: (5, 5)})))
    say(d, GmsHeader(GmsType.GET_DIGEST_RSP, merge_id=MergeId(a.address, 6)), known)
    net.pump()
    assert ("C", "A") not in net.gms_messages(GmsType.MERGE_RSP)
    say(d, GmsHeader(GmsType.GET_DIGEST_RSP), known)  # a member in Java names no merge
    net.pump()
    assert net.gms_messages(GmsType.MERGE_RSP)[-1:] == [("C", "A")]


def test_a_member_that_does_not_lead_the_merge_installs_nothing(net: Any) -> None:
    a, b, c, d = net.group("ABCD")
    split(net, "AB", "CD")
    heal(net)
    net.lose = lambda src, dest, batch: src is c
    net.merge("A", "C")
    net.run(0.1)
    groups = (a.gms.view, c.gms.view)
    everybody = (a.address, b.address, c.address, d.address)
    view = MergeView(ViewId(a.address, 99), everybody, groups)
    content = ViewDigest(view, Digest({m: (0, 0) for m in everybody}))
    for source, installed in ((b, False), (a, True)):
        header = GmsHeader(GmsType.INSTALL_MERGE_VIEW, merge_id=c.gms.merger._id)
        payload = encode_whole(write_view_digest, content)
        batch = Batch.of(c.address, GMS.protocol_id, header, payload=payload)
        batch.src = source.address
        c.fake.up(batch)
        assert (c.gms.view == view) is installed


def test_a_member_that_is_just_replacing_a_member_refuses_a_merge(net: Any) -> None:
    a, _, c, d, _ = net.group("ABCDE")
    split(net, "AB", "CDE")
    heal(net)
    net.lose = lambda src, dest, batch: dest is d  # the round takes its time
    net.suspect("C", "E")
    net.run(0.05)
    net.merge("A", "C")
    net.run(0.1)
    assert c.gms.merges_refused == 1 and not c.gms.merger.busy and not a.gms.merger.busy
    assert a.view == ("A", "B")


def test_the_leader_dies_in_the_merge(net: Any) -> None:
    a, b, c = net.group("ABC", merge_timeout=1.0)
    split(net, "A", "BC")
    heal(net)
    net.lose = lambda src, dest, batch: dest is a
    net.merge("A", "B")
    net.run(0.1)
    assert b.gms.merger.busy
    a.dead = True
    net.run(2.0)
    assert not b.gms.merger.busy
    c.dead = True
    net.suspect("B", "C")
    net.run(0.1)
    assert b.view == ("B",)


def test_a_member_of_a_subgroup_vanishes_in_the_merge(net: Any) -> None:
    nodes = net.group("ABCD", merge_timeout=1.0)
    split(net, "AB", "CD")
    heal(net)
    nodes[3].dead = True
    net.merge("A", "C")
    net.run(1.5)
    assert nodes[0].view == nodes[2].view == tuple("ABCD")
    net.suspect("A", "D")
    net.run(0.2)
    assert nodes[0].view == nodes[2].view == tuple("ABC")


def test_a_crash_that_is_noticed_in_the_merge_is_dealt_with_after_it(net: Any) -> None:
    nodes = net.group("ABCD", merge_timeout=1.0)
    split(net, "ABD", "C")
    heal(net)
    nodes[3].dead = True
    net.merge("A", "C")
    net.run(0.01)
    net.suspect("A", "D")
    net.run(2.5)
    assert nodes[0].view == nodes[1].view == nodes[2].view == tuple("ABC")


def test_a_member_that_is_busy_with_another_merge_does_not_answer(net: Any) -> None:
    nodes = net.group("ABC", merge_timeout=1.0)
    split(net, "A", "B", "C")
    heal(net)
    net.lose = lambda src, dest, batch: {src.name, dest.name} == {"A", "C"}
    net.merge("B", "C")  # it does not know A
    net.merge("A", "B")
    net.run(2.5)
    assert nodes[1].gms.view == nodes[2].gms.view
    assert nodes[0].view == ("A",)
    net.lose = lambda src, dest, batch: False
    net.merge("A", "B")
    net.run(0.2)
    assert nodes[0].view == nodes[1].view == nodes[2].view == tuple("ABC")


def test_view_ids_only_grow(net: Any) -> None:
    nodes = net.group("ABCD")
    for _ in range(3):
        split(net, "AB", "CD")
        heal(net)
        net.merge("A", "C")
        net.run(0.2)
    for node in nodes:
        ids = [v.id for v in node.views]
        assert ids == sorted(set(ids))
        assert node.view == tuple("ABCD")


# --- participants


def view(number: int, *members: Any) -> View:
    return View(ViewId(members[0], number), members)


def test_participants_share_no_member() -> None:
    """B's view is newer: C belongs to the newer view, and A is the rest of the older one."""
    views: dict[Address, Any] = {A: view(4, A, B, C), B: view(5, B, C)}
    assert participants_of(views) == {A: (A,), B: (B, C)}
    assert merge_leader(views, participants_of(views)) == A


def test_a_stale_member_is_a_group_of_its_own() -> None:
    views: dict[Address, Any] = {A: view(5, A, B), C: view(4, A, B, C), B: view(5, A, B)}
    assert participants_of(views) == {A: (A, B), C: (C,)}
    assert merge_leader(views, participants_of(views)) == A


def passed_over(net: Any, follows: str) -> list[Any]:
    """A is dead. Its last view would have made C replace A, but C did not get that view and waits for B, which got it.
    ``follows``: the coordinator in C's view."""
    a, b, c, d = net.group("ABCD")
    first = [b] if follows == "B" else [a, b]
    old = View(ViewId(first[0].address, 9), tuple(node.address for node in (*first, c)))
    c.gms.install(old)
    members = tuple(node.address for node in (a, c, d, b))
    groups = tuple(View(n.gms.view.view_id, (n.address,)) for n in (a, c, d, b))
    for node in (a, b, d):
        node.gms.install(MergeView(ViewId(a.address, 10), members, groups))
    a.dead = True
    net.suspect("B", "A")
    net.suspect("C", *(["A"] if follows == "A" else []))
    net.suspect("D", "A")
    net.run(1.0)
    assert d.view == ("A", "C", "D", "B"), "nobody acts"
    return [b, c, d]


@pytest.mark.parametrize("follows", ["B", "A"])
def test_a_group_whose_next_coordinator_never_had_its_view_comes_together(
    net: Any, follows: str
) -> None:
    """Two groups wait for each other: each has a member whose coordinator is in the other one (all 3180, 3786)."""
    b, c, d = nodes = passed_over(net, follows)
    net.merge("B", "C", "D")
    net.run(0.1)
    assert [node.view for node in nodes] == [("B",), ("C",), ("D",)]
    net.merge("B", "C", "D")
    net.run(0.1)
    assert b.view == c.view == d.view and len(b.view) == 3


@pytest.mark.parametrize("follows", ["B", "A"])
def test_a_lone_member_beside_a_group_with_a_coordinator_comes_together_with_it(
    net: Any, follows: str
) -> None:
    """E could lead, but it does not count a member that follows another one."""
    b, c, d = passed_over(net, follows)
    net.groups = [set("BCD"), set("E")]
    e = net.connect("E")
    net.run(3.0)
    assert e.view == ("E",)
    heal(net)
    for _ in range(2):
        net.merge("B", "C", "D", "E")
        net.run(0.1)
    assert e.view == b.view == c.view == d.view and len(b.view) == 4


def test_a_member_that_waits_for_a_silent_coordinator_that_may_come_back_makes_no_view(
    net: Any,
) -> None:
    """B has received messages only from C, whose coordinator A may just be slow."""
    a, b, c = net.group("ABC")
    now, older = b.gms.view, View(ViewId(a.address, 1), (a.address, c.address))
    b.fake.event_up(MergeViews({b.address: now, c.address: older}))
    net.run(0.2)
    assert b.gms.view is now


@pytest.mark.parametrize("silent", ["A", "C"])
def test_a_member_that_waits_for_a_coordinator_that_hears_nothing_makes_a_view_of_its_own(
    net: Any, silent: str
) -> None:
    """A announces another view for a long time and answers no member (all 6891). C must not put B into its
    next view."""
    _, b, _, _ = net.group("ABCD")
    b.fake.event_up(MergeViews({b.address: b.gms.view}, (net.nodes[silent].address,)))
    net.run(0.1)
    assert b.view == (("B",) if silent == "A" else ("A", "B", "C", "D"))


def test_a_coordinator_that_finds_nobody_to_merge_with_makes_no_view(net: Any) -> None:
    a, b = net.group("AB")
    now = a.gms.view
    others = View(ViewId(C, 9), (C, D))
    a.fake.event_up(MergeViews({a.address: now, D: others}))
    net.run(0.2)
    assert a.gms.view is now and b.gms.view == now


def test_members_whose_coordinator_said_nothing_are_left_to_it() -> None:
    """Coordinators of D and B were not heard: taking part alone would split their groups."""
    views: dict[Address, Any] = {A: view(6, A), B: view(5, C, B), D: view(4, E, D)}
    assert participants_of(views) == {A: (A,)}


def test_a_member_whose_coordinator_died_belongs_to_the_members_that_went_on() -> None:
    views: dict[Address, Any] = {A: view(6, A), B: view(5, C, A, B)}
    assert participants_of(views) == {A: (A,), B: (B,)}


def test_the_digest_is_the_highest_of_all_answers() -> None:
    answers: dict[Address, Any] = {
        B: ViewDigest(view(5, B, C), Digest({B: (3, 4), C: (9, 9)})),
        A: ViewDigest(view(9, A), Digest({A: (1, 1)})),
    }
    result, digest = merged(A, answers, 20)
    assert result == MergeView(ViewId(A, 21), (A, B, C), (view(9, A), view(5, B, C)))
    assert digest == Digest({A: (1, 1), B: (3, 4), C: (9, 9)})


def test_a_merge_view_is_taken_only_from_the_view_it_continues(net: Any) -> None:
    """A member whose view we left behind still counts us among its members."""
    a, b, c = net.group("ABC")
    now = b.gms.view.view_id

    def merge(mine: ViewId) -> MergeView:
        ours, other = View(mine, (a.address, b.address)), View(ViewId(c.address, 7), (c.address,))
        members = (a.address, b.address, c.address)
        return MergeView(ViewId(a.address, 9), members, (ours, other))

    b.gms.view_received(a.address, ViewDigest(merge(ViewId(a.address, now.id - 1))))
    assert b.gms.view.view_id == now and b.gms.views_ignored == 1
    b.gms.view_received(a.address, ViewDigest(merge(now)))
    assert b.gms.view.view_id == ViewId(a.address, 9)


@pytest.mark.parametrize("theirs_first", [True, False])
def test_a_merge_view_may_list_an_older_view_of_ours_beside_the_one_we_have(
    net: Any, theirs_first: bool
) -> None:
    """Java's leader was paused; it lists its old view and ours, in any order."""
    a, b, c = net.group("ABC")
    mine = b.gms.view
    theirs = View(ViewId(c.address, mine.id - 1), (c.address, b.address))
    groups = (theirs, mine) if theirs_first else (mine, theirs)
    view = MergeView(ViewId(c.address, 9), (c.address, a.address, b.address), groups)
    b.gms.view_received(a.address, ViewDigest(view))
    assert b.gms.view == view
