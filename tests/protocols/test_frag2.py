"""FRAG2 between a fake above and a fake below."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jgroups_py.errors import ConfigError
from jgroups_py.protocols.frag2 import FRAG2
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.values.address import UUID, Address
from jgroups_py.values.batch import Batch, Credit
from jgroups_py.values.events import Consumed, IncompleteBytes, SharedAttribute, ViewChange
from jgroups_py.values.message import Flag, MessageType
from jgroups_py.values.payloads import Streamable
from jgroups_py.values.view import View, ViewId
from jgroups_py.wire.headers import (
    PROTOCOL_IDS,
    CorrelatorHeader,
    CorrelatorType,
    FragHeader,
    NakAckHeader2,
    NakAckType,
    UnicastHeader3,
    UnicastType,
)
from jgroups_py.wire.single import encode_nested

A, B, C = (make_address(n) for n in range(1, 4))
ID = 4
NAKACK, UNICAST = PROTOCOL_IDS["NAKACK2"], PROTOCOL_IDS["UNICAST3"]
UPPER = CorrelatorHeader(CorrelatorType.REQ, 0, 200)  # the same for all messages of a run


def fake(**config: Any) -> FakeStack:
    return FakeStack(FRAG2(**{"frag_size": 10, **config}), address=A)


def fragment(
    number: int,
    index: int,
    of: int,
    payload: Any,
    src: Address = B,
    owed: int = 0,
    flags: int = int(Flag.OOB),
) -> Batch:
    """Out-of-band messages may come in any order."""
    batch = Batch(None, (payload,), {ID: FragHeader(number, index, of)}, src, flags)
    if owed:
        batch.credits = (Credit(src, True, owed),)
    return batch


def looped(stack: FakeStack, reverse: bool = False) -> list[Batch]:
    """Return the sent batches as they arrive."""
    sent = stack.take_down()
    for batch in reversed(sent) if reverse else sent:
        stack.up(batch)
    return stack.take_up()


def count(stack: FakeStack, name: str) -> float:
    return stack.protocol.statistics()[name]


def test_small_messages_pass_untouched() -> None:
    stack = fake()
    run = Batch(B, [bytes(10)], {})
    stack.down(run)
    assert stack.take_down() == [run]
    assert ID not in run.headers


def test_one_byte_too_many_is_cut() -> None:
    stack = fake()
    stack.down(Batch(B, [bytes(11)], {}))
    assert [len(batch.payloads[0]) for batch in stack.take_down()] == [10, 1]


def test_a_large_message_is_cut_and_only_the_first_part_has_the_headers_from_above() -> None:
    stack = fake()
    stack.down(Batch(B, [b"0123456789abcdefghijXYZ"], {200: UPPER}, flags=1))
    sent = stack.take_down()
    assert [bytes(batch.payloads[0]) for batch in sent] == [b"0123456789", b"abcdefghij", b"XYZ"]
    assert [batch.headers for batch in sent] == [
        {200: UPPER, ID: FragHeader(1, 0, 3)},
        {ID: FragHeader(1, 1, 3)},
        {ID: FragHeader(1, 2, 3)},
    ]
    assert {(batch.dest, batch.flags) for batch in sent} == {(B, 1)}


def test_only_messages_of_a_run_that_are_too_large_are_cut() -> None:
    stack = fake()
    stack.down(Batch(None, [b"a", b"b", bytes(11), b"c", bytes(20), None, b"d"], {}))
    shape = [[0 if p is None else len(p) for p in b.payloads] for b in stack.take_down()]
    assert shape == [[1, 1], [10], [1], [1], [10], [10], [0, 1]]


def test_a_message_of_the_size_itself_is_not_cut_beside_a_larger_one_either() -> None:
    stack = fake()
    stack.down(Batch(None, [bytes(10), bytes(11)], {}))
    assert [ID in batch.headers for batch in stack.take_down()] == [False, True, True]


def test_a_message_comes_out_as_it_went_in() -> None:
    stack = fake()
    sent = Batch(None, [b"0123456789abcdefghijXYZ"], {200: UPPER}, A, flags=128)
    stack.down(sent)
    (got,) = looped(stack)
    assert (got.dest, got.src, got.flags, got.headers) == (None, A, 128, {200: UPPER})
    assert bytes(got.payloads[0]) == sent.payloads[0]


def test_messages_that_are_not_bytes_are_serialised() -> None:
    stack = fake()
    payload = Streamable(16, "a text that is longer than ten bytes")
    stack.down(Batch(B, [payload], {200: UPPER}, A, type=MessageType.OBJECT))
    for batch in stack.down_batches:
        header = batch.header(ID, FragHeader)
        assert header is not None and header.needs_deserialization
        assert list(batch.headers) == [ID]
        assert batch.type == MessageType.BYTES
    (got,) = looped(stack)
    assert (got.dest, got.src, got.type, got.headers) == (B, A, MessageType.OBJECT, {200: UPPER})
    assert list(got.payloads) == [payload]


def test_fragments_may_come_in_any_order() -> None:
    stack = fake()
    stack.down(Batch(B, [bytes(range(100))], {200: UPPER}, flags=int(Flag.OOB)))
    (got,) = looped(stack, reverse=True)
    assert got.payloads == (bytes(range(100)),)
    assert got.headers == {200: UPPER}


def test_fragments_in_order_without_their_beginning_are_not_kept() -> None:
    """A merge has moved the sender's window into the message: its first fragments never come."""
    stack = fake()
    for index in (1, 2):
        stack.up(fragment(1, index, 3, b"x", owed=5, flags=0))
    assert stack.take_down_events(Consumed) == [Consumed((Credit(B, True, 5),))] * 2
    assert (count(stack, "incomplete"), count(stack, "torn")) == (0, 2)
    stack.up(fragment(2, 0, 2, b"ab", flags=0))
    stack.up(fragment(2, 1, 2, b"cd", flags=0))
    assert [batch.payloads for batch in stack.take_up()] == [(b"abcd",)]


@pytest.mark.parametrize("cut", [True, False])
def test_the_next_message_in_order_ends_an_incomplete_one(cut: bool) -> None:
    stack = fake()
    stack.up(fragment(1, 0, 2, b"ab", owed=5, flags=0))
    stack.up(fragment(9, 0, 2, b"ab"))  # out-of-band messages have nothing to do with it
    unicast = Batch(A, (b"x",), {}, B)
    stack.up(unicast)
    assert count(stack, "incomplete") == 2
    stack.take_down_events()
    stack.up(fragment(2, 0, 2, b"ef", flags=0) if cut else Batch(None, (b"x",), {}, B))
    assert stack.take_down_events(Consumed) == [Consumed((Credit(B, True, 5),))]
    assert count(stack, "incomplete") == (2 if cut else 1)


def numbered(batch: Batch, seqno: int, conn: int | None = None) -> Batch:
    """A multicast, or a unicast on a connection, as it comes up from below."""
    if conn is None:
        return batch.with_header(NAKACK, NakAckHeader2(NakAckType.MSG, seqno))
    header = UnicastHeader3(UnicastType.DATA, seqno, conn)
    return replace(batch, dest=A).with_header(UNICAST, header)


@pytest.mark.parametrize("conn", [None, 0])
def test_the_next_message_in_order_ends_those_out_of_band_that_were_sent_before_it(
    conn: int | None,
) -> None:
    """A joiner never gets the beginning of the first one; it gets all of the second one (all 1266)."""
    stack = fake()
    stack.up(numbered(fragment(1, 1, 2, b"ab", owed=5), 7, conn))
    stack.up(numbered(fragment(2, 1, 2, b"ef"), 10, conn))
    stack.up(numbered(Batch(None, (b"x",), {}, B), 8, conn))
    assert stack.take_down_events(Consumed) == [Consumed((Credit(B, True, 5),))]
    stack.up(numbered(fragment(2, 0, 2, b"cd"), 9, conn))
    assert [batch.payloads for batch in stack.take_up()] == [(b"x",), (b"cdef",)]
    assert count(stack, "incomplete") == 0


def test_an_incomplete_message_of_a_former_connection_stays_incomplete() -> None:
    stack = fake()
    stack.up(numbered(fragment(1, 1, 2, b"ab"), 70, 0))
    stack.up(numbered(Batch(None, (b"x",), {}, B), 1, 1))
    assert count(stack, "incomplete") == 0


def test_multicasts_in_order_end_no_unicast_and_those_of_others_nothing() -> None:
    stack, java = fake(), UUID(bytes(16))
    stack.up(numbered(fragment(1, 1, 2, b"ab"), 7, 0))
    stack.up(numbered(fragment(1, 0, 2, b"ab", C), 7))
    stack.up(numbered(fragment(1, 0, 2, b"ab", java), 7))
    stack.up(fragment(2, 0, 2, b"ab", flags=int(Flag.OOB | Flag.NO_RELIABILITY)))
    stack.up(numbered(Batch(None, (b"x",), {}, B), 8))
    stack.up(numbered(Batch(None, (b"x",), {}, java), 8))
    assert count(stack, "incomplete") == 4


def test_a_member_that_asks_is_told_which_ordered_multicasts_are_incomplete() -> None:
    stack = fake()
    stack.up(fragment(1, 0, 2, b"ab", flags=0))
    stack.up(fragment(2, 0, 2, b"ab"))
    stack.up(fragment(3, 0, 2, b"ab", C, flags=0))
    stack.up(fragment(3, 1, 2, b"ab", C, flags=0))
    asked = stack.protocol.answer(SharedAttribute("incomplete_multicasts"))
    assert asked == frozenset({(B, 1)})


@pytest.mark.parametrize("flag", [Flag.NO_FC, Flag.NO_RELIABILITY, Flag.OOB])
def test_messages_that_may_overtake_end_no_incomplete_message(flag: Flag) -> None:
    """The last fragment of the incomplete message waits for credits at the sender."""
    stack = fake()
    stack.up(fragment(1, 0, 2, b"ab", flags=0))
    stack.up(Batch(None, (b"quick",), {}, B, int(flag)))
    stack.up(fragment(2, 1, 2, b"gh", flags=int(flag)))
    stack.up(fragment(2, 0, 2, b"ef", flags=int(flag)))
    stack.up(fragment(1, 1, 2, b"cd", flags=0))
    got = [batch.payloads for batch in stack.take_up()]
    assert got == [(b"quick",), (b"efgh",), (b"abcd",)]


def test_messages_in_order_of_others_may_be_mixed() -> None:
    """Threads of a Java member cut their messages at the same time."""
    stack, java = fake(), UUID(bytes(16))
    for number, index in ((1, 0), (2, 0), (1, 1), (2, 1)):
        stack.up(fragment(number, index, 2, b"%d%d" % (number, index), java, flags=0))
    assert [batch.payloads for batch in stack.take_up()] == [(b"1011",), (b"2021",)]


def test_messages_of_several_senders_do_not_mix() -> None:
    stack = fake()
    stack.up(fragment(1, 0, 2, b"b1"))
    stack.up(fragment(1, 0, 2, b"c1", C))
    stack.up(fragment(2, 0, 2, b"B1"))
    stack.up(fragment(1, 1, 2, b"c2", C))
    stack.up(fragment(2, 1, 2, b"B2"))
    stack.up(fragment(1, 1, 2, b"b2"))
    got = [(batch.src, batch.payloads[0]) for batch in stack.take_up()]
    assert got == [(C, b"c1c2"), (B, b"B1B2"), (B, b"b1b2")]
    assert count(stack, "incomplete") == 0


def test_the_message_owes_the_credits_of_its_fragments() -> None:
    stack = fake()
    stack.up(fragment(1, 0, 2, b"ab", owed=30))
    stack.up(fragment(1, 1, 2, b"cd", owed=20))
    assert stack.take_down_events(Consumed) == []
    assert stack.take_up()[0].credits == (Credit(B, True, 50),)


def test_flow_control_hears_how_many_credits_incomplete_messages_hold() -> None:
    stack = fake()
    stack.up(fragment(1, 0, 3, b"ab", owed=30))
    stack.up(fragment(2, 0, 2, b"ab", owed=7))
    stack.up(replace(fragment(3, 0, 2, b"ab"), dest=A, credits=(Credit(B, False, 4),)))
    stack.up(fragment(1, 0, 3, b"ab", C, owed=1))
    stack.up(fragment(1, 1, 3, b"ab", owed=20))
    assert stack.take_down_events() == [
        IncompleteBytes(B, True, 30),
        IncompleteBytes(B, True, 37),
        IncompleteBytes(B, False, 4),
        IncompleteBytes(C, True, 1),
        IncompleteBytes(B, True, 57),
    ]
    stack.up(fragment(1, 2, 3, b"ab", owed=5))
    assert stack.take_down_events() == [IncompleteBytes(B, True, 7)], "never 62: it is complete"


def test_flow_control_hears_of_a_dropped_message_before_its_credits_go_back() -> None:
    """Otherwise the same bytes would be given back as incomplete ones and as read ones."""
    stack = fake(max_messages=1)
    stack.up(fragment(1, 0, 2, b"ab", owed=5))
    stack.up(fragment(2, 0, 2, b"ab"))
    assert stack.take_down_events() == [
        IncompleteBytes(B, True, 5),
        IncompleteBytes(B, True, 0),
        Consumed((Credit(B, True, 5),)),
    ]


def test_messages_without_credits_are_not_told_to_flow_control() -> None:
    stack = fake()
    stack.up(fragment(1, 0, 2, b"ab"))
    stack.up(fragment(1, 1, 2, b"ab"))
    assert stack.take_down_events() == []


def test_duplicates_are_dropped() -> None:
    stack = fake()
    stack.up(fragment(1, 0, 2, b"ab"))
    stack.up(fragment(1, 0, 2, b"ab", owed=2))
    assert count(stack, "duplicates") == 1
    assert len(stack.take_down_events(Consumed)) == 1
    stack.up(fragment(1, 1, 2, b"cd"))
    assert stack.take_up()[0].payloads == (b"abcd",)


def test_a_message_that_is_too_large_is_refused_and_the_next_one_comes() -> None:
    stack = fake(max_bytes=1000)
    for index in range(50):
        stack.up(fragment(1, index, 50, bytes(10), owed=10))
    assert stack.take_up() == []
    assert len(stack.take_down_events(Consumed)) == 50
    assert (count(stack, "refused"), count(stack, "incomplete")) == (1, 0)
    stack.up(fragment(2, 0, 2, b"ab"))
    stack.up(fragment(2, 1, 2, b"cd"))
    assert stack.take_up()[0].payloads == (b"abcd",)


def test_the_oldest_incomplete_message_makes_room() -> None:
    stack = fake(max_messages=2)
    for number in (1, 2, 3):
        stack.up(fragment(number, 0, 2, b"ab", owed=5))
    assert count(stack, "dropped") == 1
    assert stack.take_down_events(Consumed) == [Consumed((Credit(B, True, 5),))]
    stack.up(fragment(2, 1, 2, b"cd"))
    assert len(stack.take_up()) == 1


def test_an_incomplete_message_of_a_member_that_left_is_dropped() -> None:
    stack = fake()
    stack.up(fragment(1, 0, 2, b"ab"))
    abc, ac = View(ViewId(A, 1), (A, B, C)), View(ViewId(A, 2), (A, C))
    stack.event_up(ViewChange(ac, abc))
    assert count(stack, "incomplete") == 0


def test_senders_outside_the_view_are_limited() -> None:
    stack = fake(max_strangers=3)
    for number in range(10, 20):
        stack.up(fragment(1, 0, 2, b"ab", make_address(number)))
    assert count(stack, "incomplete") == 3


def test_an_incomplete_message_from_outside_the_view_is_dropped_when_nothing_more_comes() -> None:
    """The sender may have left a group to which we did not belong (all 7879)."""
    stack = fake(stranger_timeout=10.0)
    stack.event_up(ViewChange(View(ViewId(A, 1), (A, B)), None))
    stack.up(fragment(1, 0, 3, b"ab", B))
    stack.up(fragment(1, 0, 3, b"ab", C, owed=5))
    stack.advance(9.0)
    stack.up(fragment(1, 1, 3, b"cd", C))
    stack.advance(9.0)
    assert count(stack, "incomplete") == 2
    stack.take_down_events()
    stack.advance(2.0)
    assert stack.take_down_events(Consumed) == [Consumed((Credit(C, True, 5),))]
    assert count(stack, "incomplete") == 1 and count(stack, "dropped") == 1
    stack.up(fragment(2, 0, 3, b"ab", C))
    stack.advance(11.0)
    assert count(stack, "incomplete") == 1, "again and again"


@pytest.mark.parametrize(
    "bad",
    [
        fragment(1, 2, 2, b"x"),
        fragment(1, -1, 2, b"x"),
        fragment(1, 0, 0, b"x"),
        fragment(1, 0, 2, b""),
        fragment(1, 0, 2, None),
        Batch(None, (b"x",), {ID: UPPER}, B),
    ],
)
def test_rubbish_is_counted_and_dropped(bad: Batch) -> None:
    stack = fake()
    stack.up(bad)
    assert count(stack, "bad") == 1
    assert count(stack, "incomplete") == 0
    assert stack.take_up() == []


def test_a_serialised_message_that_is_none_is_dropped() -> None:
    stack = fake()
    header = FragHeader(1, 0, 1, True)
    stack.up(Batch(None, (b"\x00\x00rubbish",), {ID: header}, B, credits=(Credit(B, True, 3),)))
    assert count(stack, "bad") == 1
    assert stack.take_down_events(Consumed) == [Consumed((Credit(B, True, 3),))]


def test_a_count_that_changes_is_refused() -> None:
    stack = fake()
    stack.up(fragment(1, 0, 3, b"ab"))
    stack.up(fragment(1, 1, 2, b"cd"))
    assert count(stack, "bad") == 1


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.binary(max_size=60), min_size=1, max_size=5), max_size=5),
    st.integers(1, 25),
)
def test_items_come_out_in_the_order_in_which_they_went_in(
    runs: list[list[bytes]], size: int
) -> None:
    stack = fake(frag_size=size)
    for run in runs:
        stack.down(Batch(None, run, {200: UPPER}))
    got = looped(stack)
    assert [bytes(p) for batch in got for p in batch.payloads] == [p for run in runs for p in run]
    assert all(batch.headers == {200: UPPER} for batch in got)


def test_the_bytes_of_a_serialised_message_are_type_and_message() -> None:
    stack = fake(frag_size=1000)
    batch = Batch(B, [Streamable(16, "x" * 2000)], {}, A, type=MessageType.OBJECT)
    stack.down(batch)
    joined = b"".join(bytes(part.payloads[0]) for part in stack.take_down())
    assert joined == encode_nested(batch)
    assert joined[:2] == b"\x00\x03"


def test_values_out_of_range_are_refused() -> None:
    with pytest.raises(ConfigError, match="frag_size"):
        FRAG2(frag_size=0)


def test_a_message_has_the_seqno_of_its_last_fragment_and_the_headers_of_its_first() -> None:
    stack = fake()
    for index in range(3):
        part = fragment(1, index, 3, b"ab")
        part.headers[41] = NakAckHeader2(NakAckType.MSG, 7 + index)
        if index == 0:
            part.headers[200] = UPPER
        stack.up(part)
    assert stack.take_up()[0].headers == {200: UPPER, 41: NakAckHeader2(NakAckType.MSG, 9)}
