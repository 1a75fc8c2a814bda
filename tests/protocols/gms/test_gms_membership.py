"""GMS: joining, leaving, crashes, coordinator changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from gms_rounds import rounds

from jgroups_py.protocols.membership.gms.excluded import WHY
from jgroups_py.protocols.membership.gms.protocol import GMS
from jgroups_py.protocols.membership.gms.wire import AGREE_ID, RoundKind, encode_freeze
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.testing.check.tables import named_in
from jgroups_py.values.address import UUID, IpAddress
from jgroups_py.values.batch import Batch, Credit
from jgroups_py.values.events import (
    Connect,
    Consumed,
    Disconnected,
    Expel,
    Failed,
    FindMembers,
    FlowBlocked,
    FoundMember,
    GetView,
    IsCoordinator,
    MembersFound,
    MergeViews,
    PrepareView,
    SetDigest,
    Suspect,
    TransportReady,
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

A, B, C = make_address(1), make_address(2), make_address(3)
JAVA = UUID(bytes(range(16)))
READY = TransportReady(IpAddress("127.0.0.1", 1))


def found(address: Any, *, server: bool = False, coordinator: bool = False) -> FoundMember:
    return FoundMember(address, None, None, server or coordinator, coordinator)


def message(src: Any, kind: GmsType, payload: bytes | None = None, **fields: Any) -> Batch:
    batch = Batch.of(None, GMS.protocol_id, GmsHeader(kind, **fields), payload=payload)
    batch.src = src
    return batch


def kinds(fake: FakeStack) -> list[tuple[Any, GmsType]]:
    headers = [(b.dest, b.header(GMS.protocol_id, GmsHeader)) for b in fake.take_down()]
    return [(dest, header.type) for dest, header in headers if header is not None]


def joined(*members: Any, me: Any = A, **config: Any) -> FakeStack:
    """A member whose view is ``members``, joined at the first of them."""
    fake = FakeStack(GMS(**config), address=me)
    fake.event_down(Connect("test"))
    fake.event_up(READY)
    first = members[0]
    if first == me:
        fake.event_up(MembersFound("GMS", ()))
        assert members == (me,)
    else:
        fake.event_up(MembersFound("GMS", (found(first, coordinator=True),)))
        view = View(ViewId(first, 5), members)
        answer = JoinRsp(view, Digest({m: (3, 4) for m in members}))
        fake.up(message(first, GmsType.JOIN_RSP, encode_whole(write_join_rsp, answer)))
    fake.take_down()
    fake.take_up_events()
    fake.take_down_events()
    return fake


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
    """That one has gone since (membership 1..40)."""
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
    """A is to make the group, but its own discovery takes its time."""
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


def test_an_answer_of_somebody_who_was_not_asked_is_ignored() -> None:
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
    """The rest asks again."""
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


# --- what the coordinator sends


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


def test_the_joiners_digest_is_what_the_coordinator_delivered(net: Any) -> None:
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


# --- leaving


def test_a_member_leaves(net: Any) -> None:
    a, b, c = net.group("ABC")
    net.leave("B")
    net.run(0.1)
    assert a.view == c.view == ("A", "C")
    assert b.left and Disconnected() in b.events
    assert net.gms_messages(GmsType.LEAVE_REQ) == [("B", "A")]


def test_a_leaver_that_does_not_see_the_view_is_answered(net: Any) -> None:
    _, b, _ = net.group("ABC", leave_timeout=30.0)
    net.lose = lambda src, dest, batch: dest is b and net.is_view(batch)
    net.leave("B")
    net.run(0.1)
    assert b.left


def test_the_coordinator_leaves_and_the_second_takes_over(net: Any) -> None:
    a, b, c = net.group("ABC")
    net.leave("A")
    net.run(0.1)
    assert a.left and b.view == c.view == ("B", "C")
    assert net.gms_messages(GmsType.LEAVE_REQ) == [("A", "B")]
    assert b.gms.is_coordinator


def ended(node: Any) -> list[tuple[Any, ...]]:
    return [e.ended for e in node.events if isinstance(e, ViewChange) and e.ended]


def test_the_maker_of_the_view_knows_the_leavers(net: Any) -> None:
    a, b, c = net.group("ABC")
    net.leave("B")
    net.run(0.1)
    assert (ended(a), ended(c)) == ([(b.address,)], [])
    net.leave("A")
    net.run(0.1)
    assert ended(c) == [(a.address,)]


@pytest.mark.parametrize("silent_first", [False, True])
def test_a_death_that_is_proved_is_told_with_the_view_and_silence_is_not(
    net: Any, silent_first: bool
) -> None:
    a, b, c, d = net.group("ABCD")
    b.dead = c.dead = True
    if silent_first:
        net.suspect("A", "B")
    net.suspect("A", "B", gone=True)
    net.suspect("A", "B", "C")
    net.run(0.5)
    assert a.view == d.view == ("A", "D")
    assert (ended(a), ended(d)) == ([(b.address,)], [])
    assert Suspect((c.address,)) in a.events
    assert Suspect((b.address,), not silent_first) in a.events


def test_two_members_and_the_coordinator_among_them_leave_at_once(net: Any) -> None:
    a, b, c, d = net.group("ABCD")
    net.leave("A")
    net.leave("B")
    net.run(0.5)
    assert a.left and b.left and c.view == d.view == ("C", "D")


def test_a_group_whose_members_all_leave_at_once_ends_in_order(net: Any) -> None:
    nodes = net.group("ABCDE")
    for node in nodes:
        net.leave(node.name)
    net.run(1.1)
    assert all(node.left for node in nodes)


def test_a_leaver_does_not_wait_longer_than_leave_timeout(net: Any) -> None:
    a, b = net.group("AB")
    a.dead = True
    net.leave("B")
    net.run(0.9)
    assert not b.left
    net.run(0.2)
    assert b.left


def test_a_leaver_tells_the_next_one_when_the_coordinator_dies(net: Any) -> None:
    a, b, c = net.group("ABC")
    a.dead = True
    net.leave("C")
    net.run(0.1)
    net.suspect("B", "A")
    net.suspect("C", "A")
    net.run(0.2)
    assert c.left and b.view == ("B",)


def test_a_member_that_never_joined_leaves_at_once() -> None:
    fake = FakeStack(GMS(), address=A)
    fake.event_down(Connect("test"))
    fake.stack.disconnect()
    assert Disconnected() in fake.take_up_events()
    fake.event_up(READY)
    fake.advance(20)
    assert fake.stack.ask(GetView()) is None


def test_a_java_leaver_is_answered_at_once() -> None:
    fake = joined(A)
    fake.up(message(JAVA, GmsType.JOIN_REQ, member=JAVA))
    fake.advance(0.1)
    fake.take_down()
    fake.up(message(JAVA, GmsType.LEAVE_REQ, member=JAVA))
    out = fake.take_down()
    assert out[0].dest == JAVA and out[0].headers[12] == GmsHeader(GmsType.LEAVE_RSP)
    assert out[0].flags == Flag.OOB | Flag.NO_RELIABILITY


# --- crashes


def test_a_crashed_member_is_removed(net: Any) -> None:
    a, b, c = net.group("ABC")
    c.dead = True
    net.suspect("A", "C")
    net.run(0.1)
    assert a.view == b.view == ("A", "B")


def test_only_the_acting_coordinator_acts(net: Any) -> None:
    a, b, _ = net.group("ABC")
    net.suspect("B", "C")
    net.run(0.5)
    assert a.view == b.view == ("A", "B", "C")


def test_the_coordinator_crashes(net: Any) -> None:
    a, b, c = net.group("ABC")
    a.dead = True
    net.suspect("C", "A")
    net.suspect("B", "A")
    net.run(0.1)
    assert b.view == c.view == ("B", "C")
    assert b.gms.view.id == 3


def test_coordinator_and_second_crash_together_and_it_is_one_view(net: Any) -> None:
    a, b, c, d = net.group("ABCD")
    a.dead = b.dead = True
    net.suspect("C", "A", "B")
    net.suspect("D", "A", "B")
    net.run(0.1)
    assert c.view == d.view == ("C", "D")
    assert [v.id for v in c.views] == [2, 3, 4]


def test_suspicions_one_after_the_other_add_up(net: Any) -> None:
    a, b, c, d = net.group("ABCD")
    a.dead = b.dead = True
    net.suspect("C", "A")
    net.run(0.3)
    assert c.view == ("A", "B", "C", "D")
    net.suspect("C", "B")
    net.run(0.1)
    assert c.view == d.view == ("C", "D")


def test_a_member_that_turns_out_alive_stays(net: Any) -> None:
    a, b, _ = net.group("ABC")
    net.suspect("B", "A")
    net.unsuspect("B", "A")
    net.suspect("B", "C")
    net.run(0.2)
    assert b.view == a.view == ("A", "B", "C")


def test_a_crash_and_a_join_are_one_view(net: Any) -> None:
    a, b, c = net.group("ABC")
    c.dead = True
    d = net.connect("D")
    net.pump()
    net.suspect("A", "C")
    net.run(0.1)
    assert a.view == b.view == d.view == ("A", "B", "D")
    assert a.gms.view.id == 3


def test_a_view_that_only_some_got_is_overtaken(net: Any) -> None:
    """A removes D, reaches C only, and crashes."""
    a, b, c, d = net.group("ABCD")
    d.dead = True
    net.lose = lambda src, dest, batch: dest is b and net.is_view(batch)
    net.suspect("A", "D")
    net.run(0.05)
    assert c.view == ("A", "B", "C") and b.view == ("A", "B", "C", "D")
    net.lose = lambda src, dest, batch: False
    a.dead = True
    net.suspect("B", "A", "D")
    net.suspect("C", "A")
    net.run(0.1)
    assert b.view == c.view == ("B", "C")
    assert b.gms.view == c.gms.view and b.gms.view.id == 5


# --- excluded


def test_a_view_without_us_is_ignored_and_we_do_not_act() -> None:
    fake = joined(B, A, C, me=A)
    view = View(ViewId(B, 6), (B, C))
    fake.up(message(B, GmsType.VIEW, encode_whole(write_view_digest, ViewDigest(view))))
    blocked = [FlowBlocked("GMS", dest, (B, C), WHY) for dest in (None, B, C)]
    assert fake.take_up_events() == blocked and fake.stack.ask(GetView()).id == 5
    assert kinds(fake) == []
    assert fake.protocol.excluding == view  # type: ignore[attr-defined]


def test_a_member_that_is_excluded_in_the_middle_of_its_round_lets_those_go_whom_it_asked(
    net: Any,
) -> None:
    a, b, _c = net.group("ABC")
    b.deaf = True  # A's round waits for it
    net.suspect("A", "C")
    net.pump()
    assert ("A", "B", RoundKind.FREEZE) in rounds(net)
    view = View(ViewId(b.address, a.gms.view.id + 1), (b.address,))
    a.fake.up(message(b.address, GmsType.VIEW, encode_whole(write_view_digest, ViewDigest(view))))
    net.pump()
    assert ("A", "B", RoundKind.THAW) in rounds(net)


def test_a_coordinator_that_was_excluded_lets_nobody_in(net: Any) -> None:
    a, b, c = net.group("ABC")
    net.suspect("B", "A")
    net.suspect("C", "A")
    net.run(0.1)
    assert b.view == c.view == ("B", "C") and a.view == ("A", "B", "C")
    assert a.fake.stack.ask(IsCoordinator()) is False
    d = net.connect("D")
    net.run(0.3)
    assert d.view == b.view == ("B", "C", "D")


def test_a_member_that_was_excluded_makes_no_view_while_the_others_may_be_alive(net: Any) -> None:
    a, b, c = net.group("ABC")
    net.suspect("B", "A")
    net.suspect("C", "A")
    net.run(0.1)
    net.suspect("A", "B")
    net.run(5)
    assert a.view == ("A", "B", "C") and b.view == c.view == ("B", "C")
    net.suspect("A", "C")
    net.run(5)
    assert a.view == ("A",), "nobody is left of those who went on without it"


def test_a_member_that_was_excluded_makes_no_view_with_java_members_that_may_have_gone_on(
    net: Any,
) -> None:
    """They cannot be asked whether they have it."""
    a, b, c = net.group("ABC")
    plain = UUID(c.address[:12] + bytes(4))
    a.gms.group.view = View(a.gms.view.view_id, (a.address, b.address, plain))
    b.dead = c.dead = True
    last = View(ViewId(b.address, a.gms.view.id + 1), (b.address, plain))
    a.fake.up(message(b.address, GmsType.VIEW, encode_whole(write_view_digest, ViewDigest(last))))
    assert a.gms.excluding == last
    net.suspect("A", "B")
    net.run(5)
    assert len(a.gms.view) == 3
    a.fake.event_up(Suspect((plain,)))
    net.run(5)
    assert a.view == ("A",)


@pytest.mark.parametrize("paused", [False, True])
def test_a_member_that_was_excluded_goes_on_with_those_who_did_not_go(
    net: Any, paused: bool
) -> None:
    """C went on with D, which did not hear of it, and died (all 4695). D may be slow to answer."""
    a, b, c, d = net.group("ABCD")
    net.lose = lambda src, dest, batch: src is c and dest is d
    net.suspect("C", "A", "B")
    net.run(2.1)
    assert c.view == ("C", "D") and a.gms.excluding is not None is not b.gms.excluding
    c.dead = True
    d.deaf = paused
    for name in "ABD":
        net.suspect(name, "C")
    net.run(2.1)
    assert a.view == (("A", "B", "C", "D") if paused else ("A", "B", "D"))
    d.deaf = False
    net.run(2.1)
    assert a.view == b.view == d.view == ("A", "B", "D")


def test_a_member_that_hears_late_that_a_dead_member_excluded_it_begins_its_round_again(
    net: Any,
) -> None:
    """A and B agree already on a view without C when C's last view comes (membership 20066)."""
    a, b, c = net.group("ABC")
    c.dead = b.deaf = True
    net.suspect("A", "C")
    net.suspect("B", "C")
    net.run(0.1)
    last = View(ViewId(c.address, a.gms.view.id + 1), (c.address,))
    payload = encode_whole(write_view_digest, ViewDigest(last))
    a.fake.up(message(c.address, GmsType.VIEW, payload))
    assert a.gms.excluding == last
    b.deaf = False
    net.run(5)
    assert a.view == b.view == ("A", "B")


def test_a_member_that_was_excluded_does_not_go_on_with_those_who_went(net: Any) -> None:
    """D has C's view and does not know that C died."""
    a, b, c, d = net.group("ABCD")
    net.suspect("C", "A", "B")
    net.run(0.1)
    assert c.view == d.view == ("C", "D")
    c.dead = True
    net.suspect("A", "C")
    net.suspect("B", "C")
    net.run(10.0)
    assert a.view == b.view == ("A", "B", "C", "D")
    net.lose = lambda src, dest, batch: net.is_view(batch) and dest is a
    net.suspect("D", "C")
    net.run(0.1)
    assert a.gms.excluding.id < d.gms.view.id, "a merge is what is left"
    net.lose = lambda src, dest, batch: False
    net.merge("A", "D")
    net.run(5.0)
    assert a.gms.view == b.gms.view == d.gms.view and len(a.view) == 3


def test_a_member_that_was_excluded_does_not_wait_for_members_it_has_never_known(net: Any) -> None:
    """D joined B and C after they had gone on without A; now all three are dead."""
    a, b, c = net.group("ABC")
    net.suspect("B", "A")
    net.suspect("C", "A")
    net.run(0.1)
    d = net.connect("D")
    net.run(0.3)
    assert a.gms.excluding is not None and d.address in b.gms.view
    a.gms.group.excluding = b.gms.view
    for node in (b, c, d):
        node.dead = True
    net.suspect("A", "B", "C")
    net.run(5)
    assert a.view == ("A",)


def test_excluded_may_mean_expelled() -> None:
    fake = joined(B, A, C, me=A, excluded="expel")
    view = View(ViewId(B, 6), (B, C))
    fake.up(message(B, GmsType.VIEW, encode_whole(write_view_digest, ViewDigest(view))))
    (expel,) = fake.take_up_events(Expel)
    assert expel.view == view


# --- hostile or late


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
def test_nobody_is_let_in_at_the_request_of_somebody_else(kind: GmsType, named: Any) -> None:
    fake = joined(A)
    fake.up(message(B, kind, member=named))
    fake.advance(1.0)
    assert fake.stack.ask(GetView()).members == (A,)
    assert fake.protocol.statistics()["bad_messages"] == 1
    fake.up(message(C, kind, member=C))
    fake.advance(1.0)
    assert fake.stack.ask(GetView()).members == (A, C)


def test_a_request_to_leave_names_who_leaves() -> None:
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
