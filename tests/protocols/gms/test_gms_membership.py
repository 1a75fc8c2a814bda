"""GMS: joining, leaving, crashes, coordinator changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from gms_member import JAVA, READY, A, B, C, found, joined, kinds, message

from jgroups_py.protocols.membership.gms.protocol import GMS
from jgroups_py.protocols.membership.gms.wire import AGREE_ID, RoundKind, encode_freeze
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.testing.check.tables import named_in
from jgroups_py.values.batch import Batch, Credit
from jgroups_py.values.events import (
    Connect,
    Consumed,
    Disconnected,
    Failed,
    FindMembers,
    GetView,
    IsCoordinator,
    MembersFound,
    MergeViews,
    PrepareView,
    SetDigest,
    ViewChange,
    WentOn,
)
from jgroups_py.values.message import Flag, MessageType
from jgroups_py.values.payloads import JoinRsp, ViewDigest
from jgroups_py.values.view import DeltaView, Digest, MergeView, View, ViewId
from jgroups_py.wire.headers import FragHeader, GmsHeader, GmsType
from jgroups_py.wire.primitives import decode_whole, encode_whole
from jgroups_py.wire.values import (
    read_join_rsp,
    read_view_digest,
    write_join_rsp,
    write_view_digest,
)

# --- alone


def test_alone_the_first_view_comes_at_once() -> None:
    fake = FakeStack(GMS(join_timeout=2.0), address=A)
    fake.event_down(Connect("test"))
    assert FindMembers("GMS", 2.0) not in fake.take_down_events()  # the sockets are not open yet
    fake.event_up(READY)
    assert FindMembers("GMS", 2.0) in fake.take_down_events()
    fake.event_up(MembersFound("GMS", (), alone=True))
    view = View(ViewId(A, 0), (A,))
    assert fake.take_down_events() == [
        SetDigest(Digest({A: (0, 0)})),
        PrepareView(view),
        ViewChange(view, None),
    ]
    assert fake.take_up_events() == [READY, ViewChange(view, None)]
    assert fake.take_down() == []
    assert fake.stack.ask(GetView()) == view
    assert fake.stack.ask(IsCoordinator()) is True


def test_without_a_discovery_in_the_stack_the_member_is_alone_after_a_while() -> None:
    fake = FakeStack(GMS(join_timeout=2.0), address=A)
    fake.event_down(Connect("test"))
    fake.event_up(READY)
    fake.advance(3.1)
    assert fake.stack.ask(GetView()).members == (A,)


# --- joining


def test_a_joiner_asks_the_coordinator_and_installs_its_view() -> None:
    fake = FakeStack(GMS(), address=A)
    fake.event_down(Connect("test"))
    fake.event_up(READY)
    fake.take_down_events()
    fake.event_up(MembersFound("GMS", (found(C, server=True), found(B, coordinator=True))))
    (request,) = fake.take_down()
    assert request.dest == B and request.flags == Flag.OOB
    assert request.type == MessageType.BYTES and list(request.payloads) == [None]
    assert request.headers[12] == GmsHeader(GmsType.JOIN_REQ, A)
    view = View(ViewId(B, 7), (B, C, A))
    digest = Digest({B: (10, 12), C: (1, 1), A: (0, 0)})
    payload = encode_whole(write_join_rsp, JoinRsp(view, digest))
    fake.up(message(B, GmsType.JOIN_RSP, payload))
    assert fake.take_down_events() == [SetDigest(digest), ViewChange(view, None)]
    assert kinds(fake) == [(B, GmsType.VIEW_ACK)]
    assert fake.stack.ask(IsCoordinator()) is False


def test_a_member_that_has_joined_remembers_no_coordinator_it_had_asked(net: Any) -> None:
    """The asked coordinator has left since (membership 1..40)."""
    net.group("AB")
    net.lose = lambda src, dest, batch: src.name == "C" and dest.name == "A"
    c = net.connect("C")
    net.run(1)
    assert (c.view, net.gms_messages(GmsType.JOIN_REQ)[-1:]) == (None, [("C", "A")])
    net.nodes["A"].dead = True
    net.suspect("B", "A")
    net.run(20)
    assert c.view == ("B", "C")
    assert net.nodes["A"].address not in [a for _, a in named_in(c.gms)]


def test_with_state_the_request_says_so() -> None:
    fake = FakeStack(GMS(), address=A)
    fake.event_down(Connect("test", with_state=True))
    fake.event_up(READY)
    fake.event_up(MembersFound("GMS", (found(B, coordinator=True),)))
    assert kinds(fake) == [(B, GmsType.JOIN_REQ_WITH_STATE_TRANSFER)]


def test_looking_quickly_for_others_that_join_uses_up_no_attempts() -> None:
    """A should make the group, but its own discovery takes long."""
    fake = FakeStack(GMS(join_timeout=1.0, max_join_attempts=3, give_up="fail"), address=C)
    fake.event_down(Connect("test"))
    fake.event_up(READY)
    for _ in range(25):  # 0.1 s each
        assert len(fake.take_down_events(FindMembers)) == 1
        fake.event_up(MembersFound("GMS", (found(A),)))
        assert fake.take_up_events(Failed) == []
        fake.advance(0.1)
    for _ in range(10):
        fake.event_up(MembersFound("GMS", (found(A),)))
        fake.advance(0.1)
    assert "3 attempts" in fake.take_up_events(Failed)[0].problem


def test_every_retry_discovers_anew_and_then_gives_up() -> None:
    fake = FakeStack(GMS(join_timeout=1.0, max_join_attempts=3, give_up="fail"), address=A)
    fake.event_down(Connect("test"))
    fake.event_up(READY)
    for _ in range(3):
        assert [e.requester for e in fake.take_down_events(FindMembers)] == ["GMS"]
        fake.event_up(MembersFound("GMS", (found(B, coordinator=True),)))
        assert kinds(fake) == [(B, GmsType.JOIN_REQ)]
        fake.advance(1.0)
    assert fake.take_down_events(FindMembers) == []
    (failed,) = fake.take_up_events(Failed)
    assert "3 attempts" in failed.problem
    fake.advance(10.0)
    assert fake.take_down() == []


def test_a_dead_coordinator_does_not_keep_us_out() -> None:
    fake = FakeStack(GMS(join_timeout=1.0), address=A)
    fake.event_down(Connect("test"))
    fake.event_up(READY)
    fake.event_up(MembersFound("GMS", (found(B, coordinator=True), found(C, server=True))))
    fake.advance(1.0)
    fake.take_down()
    fake.event_up(MembersFound("GMS", (found(C, server=True),)))  # B is being replaced
    assert fake.stack.ask(GetView()) is None
    fake.advance(1.0)
    fake.event_up(MembersFound("GMS", (found(C, coordinator=True),)))
    assert kinds(fake) == [(C, GmsType.JOIN_REQ)]


def test_of_two_coordinators_the_other_one_is_asked_after_a_silent_one() -> None:
    fake = FakeStack(GMS(join_timeout=1.0), address=A)
    fake.event_down(Connect("test"))
    fake.event_up(READY)
    both = (found(B, coordinator=True), found(C, coordinator=True))
    for asked in (B, C, B):
        fake.event_up(MembersFound("GMS", both))
        assert kinds(fake) == [(asked, GmsType.JOIN_REQ)]
        fake.advance(1.0)


def test_an_answer_of_an_unasked_member_is_ignored() -> None:
    fake = FakeStack(GMS(join_timeout=1.0), address=A)
    fake.event_down(Connect("test"))
    fake.event_up(READY)
    fake.event_up(MembersFound("GMS", (found(B, coordinator=True),)))
    view = View(ViewId(C, 5), (C, A))
    answer = JoinRsp(view, Digest({m: (3, 4) for m in view}))
    fake.up(message(C, GmsType.JOIN_RSP, encode_whole(write_join_rsp, answer)))
    assert fake.stack.ask(GetView()) is None
    assert fake.protocol.statistics()["views_ignored"] == 1


def test_an_answer_without_the_joiner_is_counted_and_the_next_one_is_taken() -> None:
    fake = FakeStack(GMS(join_timeout=1.0), address=A)
    fake.event_down(Connect("test"))
    fake.event_up(READY)
    fake.event_up(MembersFound("GMS", (found(B, coordinator=True),)))
    wrong = JoinRsp(View(ViewId(B, 7), (B, C)), Digest({m: (0, 0) for m in (B, C)}))
    fake.up(message(B, GmsType.JOIN_RSP, encode_whole(write_join_rsp, wrong)))
    assert fake.stack.ask(GetView()) is None
    assert fake.protocol.statistics()["bad_messages"] == 1
    right = JoinRsp(View(ViewId(B, 8), (B, C, A)), Digest({m: (0, 0) for m in (A, B, C)}))
    fake.up(message(B, GmsType.JOIN_RSP, encode_whole(write_join_rsp, right)))
    assert fake.stack.ask(GetView()).id == 8


def test_a_refused_join_fails() -> None:
    fake = FakeStack(GMS(), address=A)
    fake.event_down(Connect("test"))
    fake.event_up(READY)
    fake.event_up(MembersFound("GMS", (found(B, coordinator=True),)))
    payload = encode_whole(write_join_rsp, JoinRsp(fail_reason="who are you?"))
    fake.up(message(B, GmsType.JOIN_RSP, payload))
    (failed,) = fake.take_up_events(Failed)
    assert "who are you?" in failed.problem


def test_messages_of_members_before_the_first_view_come_after_it() -> None:
    fake = FakeStack(GMS(), address=A)
    fake.event_down(Connect("test"))
    fake.event_up(READY)
    fake.event_up(MembersFound("GMS", (found(B, coordinator=True),)))
    early = Batch(A, (b"hello",), {}, C)
    fake.up(early)
    newer = ViewDigest(View(ViewId(B, 8), (B, A)))
    fake.up(message(B, GmsType.VIEW, encode_whole(write_view_digest, newer)))
    assert fake.take_up() == []
    view = View(ViewId(B, 7), (B, C, A))
    answer = JoinRsp(view, Digest({m: (0, 0) for m in view}))
    fake.up(message(B, GmsType.JOIN_RSP, encode_whole(write_join_rsp, answer)))
    assert fake.take_up() == [early]
    assert fake.stack.ask(GetView()).id == 8


def test_messages_before_the_first_view_are_bounded() -> None:
    fake = FakeStack(GMS(max_early=2), address=A)
    fake.event_down(Connect("test"))
    fake.event_up(READY)
    fake.event_up(MembersFound("GMS", (found(B, coordinator=True),)))
    early = [Batch(A, (b"1", b"2"), {}, C) for _ in range(3)]
    for batch in early:
        fake.up(batch)
    assert fake.protocol.statistics()["early_dropped"] == 2
    answer = JoinRsp(View(ViewId(B, 7), (B, C, A)), Digest({m: (0, 0) for m in (A, B, C)}))
    fake.up(message(B, GmsType.JOIN_RSP, encode_whole(write_join_rsp, answer)))
    assert fake.take_up() == early[:2]


def test_joiners_that_wait_are_bounded() -> None:
    """The other members ask again."""
    fake = joined(A, max_waiting=1)
    for member in (B, C, B):
        fake.up(message(member, GmsType.JOIN_REQ, member=member))
    assert fake.protocol.statistics()["joins_dropped"] == 1
    fake.advance(1.0)
    assert fake.stack.ask(GetView()).members == (A, B)
    fake.advance(5.0)
    fake.up(message(C, GmsType.JOIN_REQ, member=C))
    fake.advance(1.0)
    assert fake.stack.ask(GetView()).members == (A, B, C)


def test_two_that_start_at_once_make_one_group(net: Any) -> None:
    b, a = net.add("B", 2), net.add("A", 1)
    net.connect("B"), net.connect("A")
    net.run(1.0)
    assert a.view == b.view == ("A", "B")


@pytest.mark.parametrize("names", ["ABCDE", "EDCBA", "CAEBD"])
def test_five_that_start_at_once_make_one_group_in_few_views(net: Any, names: str) -> None:
    for name in names:
        net.add(name, ord(name) - 64)
    for name in names:
        net.connect(name)
    net.run(2.0)
    views = {node.gms.view for node in net.nodes.values()}
    assert len(views) == 1
    assert set(views.pop().members) == {node.address for node in net.nodes.values()}
    assert net.nodes["A"].gms.view.id == 1, "the four others joined in one view"


def test_joins_that_come_close_together_are_one_view(net: Any) -> None:
    (a,) = net.group("A")
    net.connect("B")
    net.run(0.03)
    net.connect("C")
    net.run(0.1)
    assert a.view == ("A", "B", "C") and a.gms.view.id == 1


def test_a_member_that_is_about_to_be_removed_is_not_told_that_it_is_a_member(net: Any) -> None:
    a, b, c = net.group("ABC")
    net.lose = lambda src, dest, batch: dest is c  # the round takes its time
    net.suspect("A", "B")
    net.run(0.05)
    assert a.view == ("A", "B", "C")
    net.sent.clear()
    a.fake.up(message(b.address, GmsType.JOIN_REQ, member=b.address))
    net.run(0.05)
    assert net.gms_messages(GmsType.JOIN_RSP) == []


def test_a_member_that_is_a_member_already_gets_the_view_again(net: Any) -> None:
    a, b = net.group("AB")
    net.sent.clear()
    b_again = message(b.address, GmsType.JOIN_REQ, member=b.address)
    a.fake.up(b_again)
    net.run(0.2)
    assert net.gms_messages(GmsType.JOIN_RSP) == [("A", "B")]
    assert net.gms_messages(GmsType.VIEW) == []
    assert a.view == b.view == ("A", "B")


# --- messages of the coordinator


def test_the_first_view_is_full_and_the_next_ones_tell_the_difference(net: Any) -> None:
    net.group("ABC")
    views = [decode_whole(read_view_digest, p).view for p in net.payloads(GmsType.VIEW)]
    assert isinstance(views[0], View) and isinstance(views[1], DeltaView)
    assert views[1].joined == (net.nodes["C"].address,) and views[1].left == ()


def test_without_delta_views_every_view_is_full(net: Any) -> None:
    net.group("ABC", use_delta_views=False)
    views = [decode_whole(read_view_digest, p).view for p in net.payloads(GmsType.VIEW)]
    assert len(views) == 2 and all(type(view) is View for view in views)


def test_a_view_is_reliable_but_neither_flow_controlled_nor_relayed(net: Any) -> None:
    net.group("AB")
    (view,) = [b for _, _, b in net.sent if b.headers[12].type == GmsType.VIEW]
    assert view.flags == Flag.NO_FC | Flag.NO_RELAY


def test_the_joiners_digest_has_the_coordinators_deliveries(net: Any) -> None:
    a, b = net.group("AB")
    net.delivered("A", A=10, B=10)
    net.delivered("B", A=4, B=5)
    c = net.connect("C")
    net.run(0.3)
    assert c.delivered == {a.address: 10, b.address: 4, c.address: 0}


def test_a_joiner_is_answered_before_anything_sent_in_its_view(net: Any) -> None:
    (a,) = net.group("A")
    up = a.gms.pass_event_up
    waiting: list[Any] = []

    def spy(event: Any) -> None:
        waiting.extend(kinds(a.fake) if isinstance(event, ViewChange) else ())
        up(event)

    a.gms.pass_event_up = spy
    net.connect("B")
    net.run(0.1)
    assert (net.nodes["B"].address, GmsType.JOIN_RSP) in waiting


def test_a_member_that_misses_a_view_asks_for_the_current_one(net: Any) -> None:
    _, b, _ = net.group("ABC")
    net.lose = lambda src, dest, batch: dest is b  # NAKACK2 would repair it
    net.connect("D")
    net.run(0.3)
    assert b.view == ("A", "B", "C")
    net.lose = lambda src, dest, batch: False
    net.connect("E")
    net.run(3.0)
    assert b.view == ("A", "B", "C", "D", "E")
    assert ("B", "A") in net.gms_messages(GmsType.GET_CURRENT_VIEW)


def test_joins_wait_for_acknowledgements_but_not_for_ever(net: Any) -> None:
    _, b, c = net.group("ABC")
    b.deaf = True
    net.connect("D")
    net.run(0.2)
    net.connect("E")
    net.run(0.2)
    assert c.view == ("A", "B", "C", "D")
    net.run(2.5)
    assert c.view == ("A", "B", "C", "D", "E")
    assert net.nodes["A"].gms.view_acks_missing >= 1


# --- hostile or late messages


@pytest.mark.parametrize("payload", [b"", b"\xff" * 7, bytes(40), b"\x00\x11" + bytes(30)])
@pytest.mark.parametrize("kind", list(GmsType))
def test_garbage_is_counted_and_dropped(kind: GmsType, payload: bytes) -> None:
    fake = joined(B, A, C, me=A)
    fake.up(message(B, kind, payload))
    fake.up(message(C, kind, payload))
    fake.advance(10.0)
    assert fake.stack.ask(GetView()).members == (B, A, C)


@pytest.mark.parametrize("kind", [GmsType.JOIN_REQ, GmsType.JOIN_REQ_WITH_STATE_TRANSFER])
@pytest.mark.parametrize("named", [C, None])
def test_a_member_is_not_let_in_at_the_request_of_another_one(kind: GmsType, named: Any) -> None:
    fake = joined(A)
    fake.up(message(B, kind, member=named))
    fake.advance(1.0)
    assert fake.stack.ask(GetView()).members == (A,)
    assert fake.protocol.statistics()["bad_messages"] == 1
    fake.up(message(C, kind, member=C))
    fake.advance(1.0)
    assert fake.stack.ask(GetView()).members == (A, C)


def test_a_request_to_leave_names_the_leaver() -> None:
    fake = joined(A)
    for member in (B, C):
        fake.up(message(member, GmsType.JOIN_REQ, member=member))
    fake.advance(1.0)
    fake.up(message(B, GmsType.LEAVE_REQ))
    fake.advance(10.0)
    assert fake.stack.ask(GetView()).members == (A, B, C)
    assert fake.protocol.statistics()["bad_messages"] == 1
    fake.up(message(JAVA, GmsType.LEAVE_REQ, member=C))
    fake.advance(10.0)
    assert fake.stack.ask(GetView()).members == (A, B, C), "a stranger's word"
    assert fake.protocol.statistics()["turned_away_foreign_leave"] == 1
    fake.up(message(B, GmsType.LEAVE_REQ, member=C))
    fake.advance(10.0)
    assert fake.stack.ask(GetView()).members == (A, B), "passed on by another leaver"


def test_views_from_strangers_and_old_views_are_ignored() -> None:
    fake = joined(B, A, me=A)
    for src, number in ((C, 9), (B, 5), (B, 4), (B, 2**62 + 1)):
        view = View(ViewId(src, number), (B, A, C))
        fake.up(message(src, GmsType.VIEW, encode_whole(write_view_digest, ViewDigest(view))))
    assert fake.stack.ask(GetView()).id == 5
    assert kinds(fake) == [], "neither installed nor acknowledged"


def test_a_merge_view_is_told_to_a_member_as_a_plain_one() -> None:
    fake = joined(B, A, me=A)
    merge = MergeView(ViewId(B, 6), (A, B), (View(ViewId(B, 5), (B, A)),))
    content = ViewDigest(merge, Digest({A: (0, 0), B: (0, 0)}))
    fake.up(message(B, GmsType.VIEW, encode_whole(write_view_digest, content)))
    fake.take_down()
    fake.up(message(B, GmsType.JOIN_REQ, member=B))
    (answer,) = fake.take_down()
    told = decode_whole(read_join_rsp, answer.payloads[0])
    assert told is not None and type(told.view) is View


def test_messages_of_others_pass_through() -> None:
    fake = joined(B, A, me=A)
    batch = Batch(None, (b"x",), {}, B)
    fake.up(batch)
    assert fake.take_up() == [batch]


def test_a_transport_that_is_ready_again_begins_no_second_search() -> None:
    fake = FakeStack(GMS(), address=A)
    fake.event_down(Connect("test"))
    fake.event_up(READY)
    fake.event_up(READY)
    fake.event_down(Connect("test"))
    assert len(fake.take_down_events(FindMembers)) == 1


def test_an_answer_to_a_leave_that_nobody_asked_for_ends_nothing(net: Any) -> None:
    a, b = net.group("AB")
    answer = message(a.address, GmsType.LEAVE_RSP)
    answer.dest = b.address
    b.fake.up(answer)
    net.pump()
    assert not b.left and b.view == ("A", "B")
    net.lose = lambda src, dest, batch: True
    net.leave("B")
    stranger = message(make_address(9), GmsType.LEAVE_RSP)
    stranger.dest = b.address
    b.fake.up(stranger)
    net.pump()
    assert not b.left, "only a member of the view can answer"


def test_a_member_that_has_left_merges_with_nobody_and_answers_no_round() -> None:
    fake = joined(B, A, C, me=A)
    mine = fake.stack.ask(GetView())
    fake.stack.disconnect()
    fake.up(message(B, GmsType.LEAVE_RSP))
    assert Disconnected() in fake.take_up_events()
    fake.take_down()
    other = View(ViewId(C, 9), (C,))
    fake.event_up(MergeViews({A: mine, C: other}))
    fake.event_up(WentOn(B, View(ViewId(B, 6), (B, C))))
    freeze = Batch.of(
        A, AGREE_ID, FragHeader(1, int(RoundKind.FREEZE), 0), payload=encode_freeze(6, (B, A))
    )
    freeze.src = B
    fake.up(freeze)
    assert fake.take_down() == [] and fake.take_up_events() == []


@pytest.mark.parametrize(
    "batch",
    [
        message(B, GmsType.VIEW, b"garbage"),
        message(B, GmsType.GET_DIGEST_REQ),
        Batch(A, [b""], {AGREE_ID: FragHeader(1, RoundKind.DONE, 0)}, B),
        Batch(A, [b"x"], {}, C, int(Flag.NO_RELIABILITY)),
    ],
    ids=["garbage", "request", "round", "stranger"],
)
def test_a_message_that_ends_here_gives_its_credits_back(batch: Batch) -> None:
    """Flow control may stand below GMS."""
    fake = joined(B, A)
    credits = (Credit(B, False, 7),)
    fake.up(replace(batch, credits=credits))
    assert fake.take_up() == [] and fake.take_down_events(Consumed) == [Consumed(credits)]
