"""STATE_TRANSFER: the state first, then every multicast that is not in it, once."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from jgroups_py.errors import ConfigError
from jgroups_py.protocols.state_transfer import STATE_TRANSFER
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.values.address import UUID
from jgroups_py.values.batch import Batch, Credit
from jgroups_py.values.events import (
    Connect,
    Consumed,
    Covered,
    GetDigest,
    GetState,
    SetDigest,
    SharedAttribute,
    StateAwaited,
    StateFailed,
    StateReady,
    StateReceived,
    StateRequested,
    ViewChange,
)
from jgroups_py.values.message import Flag, MessageType
from jgroups_py.values.view import Digest, View, ViewId
from jgroups_py.wire.header_codec import encode_header, read_header
from jgroups_py.wire.headers import NakAckHeader2, NakAckType, StateHeader, StateType
from jgroups_py.wire.primitives import Reader

A, B, C, D = (make_address(n) for n in (1, 2, 3, 4))
JAVA = UUID(bytes(range(16)))
ID = STATE_TRANSFER.protocol_id


def digest(**numbers: int) -> Digest:
    members = {"A": A, "B": B, "C": C, "D": D}
    return Digest({members[name]: (n, n) for name, n in numbers.items()})


def stack(
    *members: Any, connect: bool = False, delivered: Digest | None = None, **config: Any
) -> FakeStack:
    fake = FakeStack(
        STATE_TRANSFER(**config), address=A, answers={GetDigest: delivered or digest(A=0, B=0)}
    )
    fake.event_down(Connect("test", connect))
    fake.event_up(ViewChange(View(ViewId((members or (B,))[0], 3), members or (B, C, A)), None))
    fake.take_down_events()
    fake.take_up_events()
    return fake


def multicast(src: Any, seqno: int, *payloads: bytes, flags: int = 0) -> Batch:
    header = NakAckHeader2(NakAckType.MSG, seqno)
    return Batch(None, list(payloads), {41: header}, src, flags)


def message(src: Any, kind: StateType, payload: bytes | None = None, d: Any = None) -> Batch:
    batch = Batch.of(A, ID, StateHeader(kind, d), payload=payload, type=MessageType.BYTES)
    batch.src = src
    return batch


def state(src: Any, payload: bytes | None, **numbers: int) -> Batch:
    return message(src, StateType.STATE_RSP, payload, digest(**numbers))


def sent(fake: FakeStack) -> list[tuple[Any, StateHeader]]:
    headers = [(b.dest, b.header(ID, StateHeader)) for b in fake.take_down()]
    return [(dest, header) for dest, header in headers if header is not None]


def texts(fake: FakeStack) -> list[bytes]:
    return [bytes(p) for b in fake.take_up() for p in b.payloads]


def test_the_digest_is_that_of_the_moment_between_two_handlers() -> None:
    fake = stack(delivered=digest(B=1))
    fake.machine.enter()
    fake.stack.protocols[0].pass_up(message(B, StateType.STATE_REQ))
    fake.answers[GetDigest] = digest(B=2)  # the running handler has more to hand up
    fake.machine.leave()
    (asked,) = fake.take_up_events(StateRequested)
    fake.event_down(StateReady(asked.token, b"state"))
    assert sent(fake) == [(B, StateHeader(StateType.STATE_RSP, digest(B=2)))]


@pytest.mark.parametrize("completed", [True, False])
def test_the_state_contains_messages_that_had_come_in_part_when_its_receiver_joined(
    completed: bool,
) -> None:
    """D joins in the middle of a large multicast of B: it never gets the beginning."""
    fake = stack(B, C, A, catch_up_timeout=2.0)
    fake.answers[SharedAttribute] = frozenset({(B, 1)})
    old = View(ViewId(B, 3), (B, C, A))
    fake.event_up(ViewChange(View(ViewId(B, 4), (B, C, A, D)), old))
    fake.take_up_events()
    fake.up(message(D, StateType.STATE_REQ))
    fake.advance(1.0)
    assert fake.take_up_events(StateRequested) == [] == sent(fake)
    if completed:
        fake.answers[SharedAttribute] = frozenset({(B, 2)})  # B began it after D had joined
        fake.up(multicast(B, 7, b"large"))
        assert [e.requester for e in fake.take_up_events(StateRequested)] == [D]
    else:
        fake.advance(2.0)
        assert [(to, h.type) for to, h in sent(fake)] == [(D, StateType.STATE_EX)]
    fake.answers[SharedAttribute] = frozenset({(B, 3)})
    fake.up(message(C, StateType.STATE_REQ))
    assert [e.requester for e in fake.take_up_events(StateRequested)] == [C], "it was there before"


def test_a_member_that_joined_in_the_middle_of_a_multicast_still_lacks_it_in_the_next_view() -> (
    None
):
    fake = stack(B, C, A, catch_up_timeout=2.0)
    fake.answers[SharedAttribute] = frozenset({(B, 1)})
    views = [View(ViewId(B, 3), (B, C, A)), View(ViewId(B, 4), (B, C, A, D))]
    views.append(View(ViewId(B, 5), (B, A, D)))
    for old, new in pairwise(views):
        fake.event_up(ViewChange(new, old))
    fake.take_up_events()
    fake.up(message(D, StateType.STATE_REQ))
    assert fake.take_up_events(StateRequested) == []
    fake.answers[SharedAttribute] = frozenset()
    fake.up(multicast(B, 7, b"large"))
    assert [e.requester for e in fake.take_up_events(StateRequested)] == [D]


@pytest.mark.parametrize("in_time", [True, False])
def test_a_member_that_awaits_a_state_itself_gives_none(in_time: bool) -> None:
    """Messages that are held back meanwhile count as delivered, but the reader has not got them."""
    fake = stack(B, C, A, delivered=digest(B=1), catch_up_timeout=2.0)
    fake.event_down(GetState(B, 10.0))
    fake.up(multicast(B, 2, b"held"))
    fake.answers[GetDigest] = digest(B=2)
    fake.up(message(C, StateType.STATE_REQ))
    assert fake.take_up_events(StateRequested) == []
    sent(fake)
    if in_time:
        fake.up(message(B, StateType.STATE_RSP, b"state", digest(B=1)))
        assert [type(e) for e in fake.take_up_events()] == [StateReceived, StateRequested]
        assert texts(fake) == [b"held"]
    else:
        fake.advance(2.0)
        assert [(to, h.type) for to, h in sent(fake)] == [(C, StateType.STATE_EX)]


# --- requester


def test_on_joining_the_coordinator_is_asked() -> None:
    fake = stack(connect=True, delivered=digest(B=5))
    (request,) = fake.take_down()
    assert request.dest == B and request.type == MessageType.EMPTY
    assert request.flags == Flag.OOB | Flag.DONT_BUNDLE | Flag.SKIP_BARRIER
    asked = Digest({B: (5, 5), A: (0, 1)})
    assert request.headers[ID] == StateHeader(StateType.STATE_REQ, asked)


@pytest.mark.parametrize("kind", [StateType.STATE_RSP, StateType.STATE_EX])
def test_an_answer_to_a_request_that_was_given_up_is_none_to_the_next_one(kind: StateType) -> None:
    """Explored: state 76. Our messages had not reached a provider for a long time; it answered our second request
    with a state as old as the first one."""
    fake = stack(delivered=digest(A=3, B=7))
    fake.event_down(GetState(B, 1.0))
    fake.advance(1.0)
    assert [type(e) for e in fake.take_up_events()] == [StateFailed]
    fake.event_down(GetState(B, 1.0))
    asked = [header.digest for _, header in sent(fake)]
    assert asked == [Digest({B: (7, 7), A: (3, 4)}), Digest({B: (7, 7), A: (3, 5)})]
    payload = b"old" if kind == StateType.STATE_RSP else b""
    fake.up(message(B, kind, payload, Digest({B: (2, 2), A: (1, 2)})))
    assert fake.take_up_events() == []
    fake.up(message(B, StateType.STATE_RSP, b"new", Digest({B: (7, 7), A: (3, 5)})))
    assert fake.take_up_events() == [StateReceived(B, b"new")]
    assert fake.protocol.statistics()["answers_late"] == 1


def test_no_number_is_expected_of_a_java_provider() -> None:
    fake = stack(JAVA, A, delivered=digest(A=3))
    fake.event_down(GetState(JAVA, 1.0))
    fake.up(message(JAVA, StateType.STATE_RSP, b"state", Digest({A: (3, 9)})))
    assert fake.take_up_events() == [StateReceived(JAVA, b"state")]


@pytest.mark.parametrize("refused", [False, True])
def test_an_answer_repeats_the_number_of_its_request(refused: bool) -> None:
    fake = stack(delivered=digest(A=4, B=5))
    fake.up(message(B, StateType.STATE_REQ, None, Digest({A: (4, 4), B: (5, 8)})))
    (asked,) = fake.take_up_events(StateRequested)
    fake.event_down(StateReady(asked.token, b"state", "no" if refused else None))
    if refused:
        expected = StateHeader(StateType.STATE_EX, Digest({B: (0, 3)}))
    else:
        expected = StateHeader(StateType.STATE_RSP, Digest({A: (4, 4), B: (5, 8)}))
    assert sent(fake) == [(B, expected)]


@pytest.mark.parametrize(
    ("number", "told"), [(2**63 - 6, 2**63 - 6), (2**63 - 5, 0), (2**63 - 1, 0)]
)
def test_a_number_that_no_digest_has_room_for_is_not_repeated(number: int, told: int) -> None:
    fake = stack(delivered=digest(B=5))
    fake.up(message(B, StateType.STATE_REQ, None, Digest({B: (0, number)})))
    (asked,) = fake.take_up_events(StateRequested)
    fake.event_down(StateReady(asked.token, b"state", None))
    ((_, header),) = sent(fake)
    assert header == StateHeader(StateType.STATE_RSP, Digest({B: (5, 5 + told)}))
    assert read_header(Reader(encode_header(ID, header))) == (ID, header)


def test_a_member_that_is_alone_does_not_ask() -> None:
    fake = stack(A, connect=True)
    assert fake.take_down() == []
    fake.event_down(GetState(None, 1.0))
    (failed,) = fake.take_up_events(StateFailed)
    assert failed.provider is None and "nobody" in failed.problem


def test_a_java_provider_does_not_get_our_digest() -> None:
    fake = stack(JAVA, A, connect=True)
    assert sent(fake) == [(JAVA, StateHeader(StateType.STATE_REQ))]


def test_the_first_view_comes_up_and_then_the_state_before_everything_else() -> None:
    fake = FakeStack(STATE_TRANSFER(), address=A, answers={GetDigest: digest()})
    fake.event_down(Connect("test", True))
    first = ViewChange(View(ViewId(B, 3), (B, A)), None)
    fake.event_up(first)
    later = ViewChange(View(ViewId(B, 4), (B, A, C)), first.view)
    fake.up(multicast(B, 1, b"1"))
    fake.event_up(later)
    fake.up(Batch(A, (b"to you",), {}, B))
    assert fake.take_up() == [] and fake.take_up_events() == [first]
    fake.up(state(B, b"state", B=0))
    assert fake.take_up_events() == [StateReceived(B, b"state"), later]
    assert texts(fake) == [b"1", b"to you"]


def test_messages_in_the_state_are_not_delivered() -> None:
    fake = stack(connect=True, delivered=digest(B=0))
    fake.up(multicast(B, 1, b"1", b"2", b"3"))
    fake.up(multicast(B, 4, b"4", b"5", b"6"))
    fake.up(multicast(C, 1, b"c1"))
    fake.up(multicast(A, 1, b"own"))
    fake.answers[GetDigest] = digest(A=1, B=6, C=1)
    fake.up(state(B, b"state", A=0, B=5, C=3))
    assert texts(fake) == []
    fake.advance(2.1)  # as long as B lives, its messages of C are not lost
    assert texts(fake) == [b"6", b"own"]
    fake.up(multicast(C, 2, b"c2", b"c3", b"c4"))
    fake.up(multicast(C, 5, b"c5"))
    assert texts(fake) == [b"c4", b"c5"], "what the state contains and comes later is dropped, too"
    assert fake.protocol.statistics()["messages_covered"] == 5 + 3  # of B and of C


@pytest.mark.parametrize(("views", "got"), [(1, [b"3"]), (3, [b"3"]), (4, [b"1", b"2", b"3"])])
def test_messages_in_the_state_from_a_member_of_a_later_view_are_not_delivered(
    views: int, got: list[bytes]
) -> None:
    """The provider's view was ahead of ours. The departed member is remembered for three views, not for ever."""
    fake = stack(connect=True, delivered=digest(B=0))
    fake.up(state(B, b"state", B=0, D=2))
    old = View(ViewId(B, 3), (B, C, A))
    for number in range(1, views + 1):
        view = View(ViewId(B, 3 + number), (*old.members, D) if number == views else old.members)
        fake.event_up(ViewChange(view, old))
        old = view
    fake.up(multicast(D, 1, b"1", b"2", b"3"))
    assert texts(fake) == got


def test_dropped_messages_give_their_credits_back() -> None:
    fake = stack(connect=True)
    batch = multicast(B, 1, b"1")
    batch.credits = (Credit(B, True, 1),)
    fake.up(batch)
    fake.answers[GetDigest] = digest(B=5)
    fake.up(state(B, b"state", B=5))
    assert fake.take_down_events(Consumed) == [Consumed((Credit(B, True, 1),))]


def test_fragments_of_the_state_are_no_concern_of_ours_and_it_may_be_null() -> None:
    fake = stack(connect=True)
    fake.answers[GetDigest] = digest(B=1)
    fake.up(message(B, StateType.STATE_RSP, None, digest(B=1)))
    assert fake.take_up_events() == [StateReceived(B, None)]


def test_an_older_state_sets_the_windows_back_and_nothing_is_twice() -> None:
    """A Java provider lags behind: the state has 1..3 of B, but we already have 1..5."""
    fake = stack(connect=False, delivered=digest(A=2, B=5, C=1))
    fake.event_down(GetState(C, 5.0))
    fake.up(multicast(B, 6, b"6"))
    fake.up(multicast(C, 2, b"c2"))
    fake.answers[GetDigest] = digest(A=2, B=6, C=2)
    fake.up(state(C, b"state", A=1, B=3, C=1))
    assert [e for e in fake.take_down_events() if type(e) in (SetDigest, StateAwaited)] == [
        StateAwaited(True),
        SetDigest(digest(B=3), replace=True),
        StateAwaited(False),
    ]
    assert texts(fake) == [b"c2"], "6 comes again, with 4 and 5, from NAKACK2"
    fake.up(multicast(B, 4, b"4", b"5", b"6"))
    assert texts(fake) == [b"4", b"5", b"6"]


def test_out_of_band_messages_are_compared_as_well() -> None:
    fake = stack(connect=True)
    fake.up(multicast(B, 7, b"7", flags=Flag.OOB))
    fake.up(multicast(B, 3, b"3"))
    fake.answers[GetDigest] = digest(B=3)
    fake.up(state(B, b"state", B=3))
    assert texts(fake) == [b"7"]


def test_a_state_waits_for_its_providers_own_multicasts() -> None:
    """Explored: state 1203. If B dies now, no other member has its messages 6 and 7."""
    fake = stack(delivered=digest(A=0, B=5, C=1))
    fake.event_down(GetState(B, 5.0))
    fake.up(state(B, b"state", B=7, C=1))
    fake.advance(3.0)
    assert fake.take_up_events() == []
    fake.answers[GetDigest] = digest(A=0, B=7, C=1)
    fake.up(multicast(B, 6, b"6", b"7"))
    assert [type(e) for e in fake.take_up_events()] == [StateReceived, Covered]
    assert texts(fake) == []


def test_a_protocol_that_keeps_copies_sees_a_states_messages() -> None:
    """Explored: all 7806. This includes messages of members that left meanwhile (all 9), and messages
    after the state."""
    fake = stack(delivered=digest(A=0, B=5, C=1, D=3))
    fake.event_down(GetState(B, 5.0))
    fake.up(multicast(B, 6, b"6", b"7", b"8"))
    fake.up(multicast(D, 4, b"d4"))
    fake.answers[GetDigest] = digest(A=0, B=8, C=1)
    old, new = View(ViewId(B, 3), (B, C, D, A)), View(ViewId(B, 4), (B, C, A))
    fake.event_up(ViewChange(new, old))
    fake.up(state(B, b"state", B=7, C=2))
    fake.advance(2.1)
    fake.up(multicast(C, 2, b"c2"))
    covered = [e.batch for e in fake.take_up_events() if isinstance(e, Covered)]
    assert [(b.src, b.payloads) for b in covered] == [
        (B, [b"6", b"7"]),
        (D, [b"d4"]),
        (C, [b"c2"]),
    ]
    assert texts(fake) == [b"8"]


@pytest.mark.parametrize("others", [True, False])
def test_a_state_with_messages_that_survivors_lack_is_dropped(others: bool) -> None:
    fake = stack(delivered=digest(A=0, B=5, C=1))
    fake.event_down(GetState(None if others else B, 5.0))
    sent(fake)
    fake.up(state(B, b"state", B=7, C=1))
    old = View(ViewId(B, 3), (B, C, A))
    fake.event_up(ViewChange(View(ViewId(C, 4), (C, A)), old))
    if others:
        assert [dest for dest, _ in sent(fake)] == [C]
        fake.up(state(C, b"theirs", B=5, C=1))
        assert [type(e) for e in fake.take_up_events()] == [StateReceived, ViewChange]
    else:
        failed, view = fake.take_up_events()
        assert failed == StateFailed(B, "its state has multicasts that it took along", 0)
        assert isinstance(view, ViewChange)


def test_a_state_outlives_its_provider_when_all_its_messages_are_here() -> None:
    fake = stack(delivered=digest(A=0, B=5, C=1))
    fake.event_down(GetState(B, 5.0))
    fake.up(state(B, b"state", B=7, C=1))
    fake.answers[GetDigest] = digest(A=0, B=7, C=1)
    fake.event_up(ViewChange(View(ViewId(C, 4), (C, A)), View(ViewId(B, 3), (B, C, A))))
    assert [type(e) for e in fake.take_up_events()] == [StateReceived, ViewChange]


def test_messages_of_others_that_a_gone_provider_had_are_waited_for() -> None:
    fake = stack(delivered=digest(A=0, B=5, C=1))
    fake.event_down(GetState(B, 5.0))
    fake.up(state(B, b"state", B=5, C=3))
    fake.event_up(ViewChange(View(ViewId(C, 4), (C, A)), View(ViewId(B, 3), (B, C, A))))
    fake.advance(4.0)
    assert fake.take_up_events() == []
    fake.advance(1.0)
    failed, _ = fake.take_up_events()
    assert failed == StateFailed(B, "no answer within 5 s", 0)


def test_a_silent_provider_is_replaced_and_the_last_one_named() -> None:
    fake = stack(B, C, D, A, connect=True, join_state_timeout=1.0)
    fake.up(multicast(B, 1, b"1"))
    fake.advance(1.0)
    fake.advance(1.0)
    assert [dest for dest, _ in sent(fake)] == [B, C, D]
    assert fake.take_up_events() == []
    fake.advance(1.0)
    assert fake.take_up_events() == [StateFailed(D, "no answer within 1 s", 0)]
    assert texts(fake) == [b"1"], "the channel goes on without the state"


def test_a_named_provider_is_the_only_one() -> None:
    fake = stack()
    fake.event_down(GetState(C, 2.0))
    assert [dest for dest, _ in sent(fake)] == [C]
    fake.advance(2.0)
    (failed,) = fake.take_up_events()
    assert failed == StateFailed(C, "no answer within 2 s", 0)


def test_a_provider_that_leaves_is_replaced_at_once() -> None:
    fake = stack(connect=True)
    change = ViewChange(View(ViewId(C, 4), (C, A)), None)
    fake.event_up(change)
    assert [dest for dest, _ in sent(fake)] == [B, C]
    assert fake.take_up_events() == []
    fake.up(state(C, b"state", C=0))
    assert fake.take_up_events() == [StateReceived(C, b"state"), change]


def test_a_problem_of_the_provider_is_told() -> None:
    provider = stack()
    provider.up(message(B, StateType.STATE_REQ))
    (asked,) = provider.take_up_events(StateRequested)
    provider.event_down(StateReady(asked.token, None, "no disk"))
    (answer,) = provider.take_down()
    fake = stack()
    fake.event_down(GetState(C, 2.0))
    answer.src = C
    fake.up(answer)
    assert fake.take_up_events() == [StateFailed(C, "no disk", 0)]
    assert fake.protocol.statistics()["states_failed"] == 1


def test_a_state_that_is_no_bytes_is_counted_and_the_true_one_is_taken() -> None:
    fake = stack()
    fake.event_down(GetState(C, 2.0))
    fake.up(replace(state(C, None, C=0), payloads=(5,)))
    assert fake.protocol.statistics()["bad_messages"] == 1 and fake.take_up_events() == []
    fake.up(state(C, b"right", C=0))
    assert fake.take_up_events() == [StateReceived(C, b"right")]
    counted = fake.protocol.statistics()
    assert (counted["states_received"], counted["state_bytes_received"]) == (1, 5)


def test_answers_of_others_and_late_ones_are_ignored() -> None:
    fake = stack(connect=True, join_state_timeout=1.0)
    fake.up(state(C, b"wrong", C=0))
    fake.advance(1.0)
    fake.up(state(B, b"late", B=0))
    fake.up(state(C, b"right", C=0))
    assert fake.take_up_events() == [StateReceived(C, b"right")]
    fake.up(state(C, b"again", C=0))
    assert fake.take_up_events() == []


def test_only_one_transfer_runs_at_a_time() -> None:
    fake = stack(connect=True)
    fake.event_down(GetState(C, 2.0))
    (failed,) = fake.take_up_events()
    assert failed.provider == C and "another transfer" in failed.problem


@pytest.mark.parametrize(
    ("provider", "problem"),
    [(None, "not in the group"), (C, "not in the group")],
)
def test_without_a_view_there_is_nobody_to_ask(provider: Any, problem: str) -> None:
    fake = FakeStack(STATE_TRANSFER(), address=A)
    fake.event_down(GetState(provider, 2.0))
    (failed,) = fake.take_up_events()
    assert (failed.provider, problem in failed.problem) == (provider, True)
    assert fake.take_down() == []


@pytest.mark.parametrize(
    ("members", "provider", "problem"),
    [
        ((B, C, A), D, "not in the group"),
        ((B, C, A), A, "nobody else to ask"),
        ((A,), None, "nobody else to ask"),
    ],
)
def test_a_member_that_cannot_be_asked_is_told_at_once(
    members: Any, provider: Any, problem: str
) -> None:
    fake = stack(*members)
    fake.event_down(GetState(provider, 2.0))
    (failed,) = fake.take_up_events()
    assert (failed.provider, problem in failed.problem) == (provider, True)
    assert sent(fake) == []


def test_held_back_messages_are_bounded() -> None:
    fake = stack(connect=True, max_held_bytes=1000, max_providers=1)
    for seqno in range(1, 20):
        fake.up(multicast(B, seqno, bytes(100)))
    (failed,) = fake.take_up_events()
    assert "max_held_bytes" in failed.problem
    assert len(texts(fake)) == 19


def test_bytes_held_back_have_a_limit() -> None:
    fake = stack(connect=True, max_held_bytes=1000, max_providers=1)
    for seqno in range(1, 11):
        fake.up(multicast(B, seqno, bytes(100)))
    assert fake.take_up_events() == [] and texts(fake) == []
    fake.up(multicast(B, 11, b"x"))
    assert len(fake.take_up_events(StateFailed)) == 1 and len(texts(fake)) == 11


@pytest.mark.parametrize("payload", [None, b"", b"\xff" * 9])
def test_garbage_is_survived(payload: bytes | None) -> None:
    fake = stack(connect=True, max_providers=1)
    fake.up(message(B, StateType.STATE_EX, payload))
    (failed,) = fake.take_up_events()
    assert failed.provider == B


# --- provider


def test_the_request_is_an_item_of_the_stream_and_the_digest_of_that_point() -> None:
    fake = stack(delivered=digest(B=3))
    fake.up(message(B, StateType.STATE_REQ))
    (asked,) = fake.take_up_events()
    assert isinstance(asked, StateRequested) and asked.requester == B
    fake.answers[GetDigest] = digest(B=9)
    fake.up(multicast(B, 4, b"later"))
    fake.event_down(StateReady(asked.token, b"state"))
    (answer,) = fake.take_down()
    assert answer.dest == B and answer.payloads == (b"state",) and answer.flags == 0
    assert answer.headers[ID] == StateHeader(StateType.STATE_RSP, digest(B=3))


def test_a_state_contains_the_messages_of_its_providers_own_state() -> None:
    """The state also contains messages that have not reached the provider itself yet."""
    fake = stack(connect=True, delivered=digest(B=3, C=1))
    fake.up(state(B, b"theirs", B=3, C=4))
    fake.advance(2.1)
    fake.take_up_events()
    sent(fake)
    fake.up(message(C, StateType.STATE_REQ, None, digest(B=3, C=4)))
    (asked,) = fake.take_up_events(StateRequested)
    fake.event_down(StateReady(asked.token, b"ours"))
    assert sent(fake) == [(C, StateHeader(StateType.STATE_RSP, digest(B=3, C=4)))]


def test_a_failed_further_transfer_leaves_covered_numbers_covered() -> None:
    fake = stack(connect=True, delivered=digest(B=3, C=1))
    fake.up(state(B, b"theirs", B=3, C=4))
    fake.advance(2.1)
    fake.event_down(GetState(B, 1.0))
    fake.up(multicast(C, 2, b"c2", b"c3"))
    fake.advance(1.0)
    assert fake.take_up_events(StateFailed) != []
    fake.up(multicast(C, 4, b"c4", b"c5"))
    assert texts(fake) == [b"c5"]


def test_a_provider_waits_for_the_requesters_messages() -> None:
    fake = stack(delivered=digest(B=3, C=1))
    fake.up(message(B, StateType.STATE_REQ, None, digest(B=4, C=1)))
    assert fake.take_up_events() == []
    batch = multicast(B, 4, b"4")
    fake.answers[GetDigest] = digest(B=4, C=1)
    fake.up(batch)
    assert fake.take_up() == [batch]
    assert [type(e) for e in fake.take_up_events()] == [StateRequested]


def test_a_provider_does_not_wait_for_ever() -> None:
    fake = stack(delivered=digest(B=4, C=3), catch_up_timeout=2.0)
    fake.up(message(B, StateType.STATE_REQ, None, digest(B=4, C=4)))
    fake.advance(1.9)
    assert fake.take_up_events() == []
    fake.advance(0.2)
    assert len(fake.take_up_events()) == 1


def test_a_provider_that_lacks_multicasts_of_the_requester_refuses() -> None:
    """The missing multicasts would never be delivered to the requester again (found by ``simulate --profile all``)."""
    fake = stack(delivered=digest(B=3, C=4), catch_up_timeout=2.0)
    fake.up(message(B, StateType.STATE_REQ, None, digest(B=4, C=4)))
    fake.advance(2.1)
    assert fake.take_up_events() == []
    assert [(d, h.type) for d, h in sent(fake)] == [(B, StateType.STATE_EX)]


def test_strangers_get_no_state() -> None:
    fake = stack()
    fake.up(message(D, StateType.STATE_REQ))
    assert fake.take_up_events() == [] and fake.take_down() == []


def test_a_member_that_has_left_gets_no_state() -> None:
    fake = stack()
    fake.up(message(B, StateType.STATE_REQ))
    (asked,) = fake.take_up_events()
    fake.event_up(ViewChange(View(ViewId(C, 4), (C, A)), None))
    fake.event_down(StateReady(asked.token, b"state"))
    assert fake.take_down() == []


def test_requests_are_bounded() -> None:
    fake = stack(B, C, D, A, max_requests=2)
    for member in (B, C, D):
        fake.up(message(member, StateType.STATE_REQ))
    assert len(fake.take_up_events()) == 2
    assert [(d, h.type) for d, h in sent(fake)] == [(D, StateType.STATE_EX)]
    assert fake.protocol.statistics()["requests_refused"] == 1
    fake.up(message(B, StateType.STATE_REQ))
    assert len(fake.take_up_events()) == 1, "asking again takes no second place"


@pytest.mark.parametrize("wrong", [{"max_requests": 0}, {"join_state_timeout": 0}])
def test_impossible_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        STATE_TRANSFER(**wrong)
