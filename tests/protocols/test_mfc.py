"""MFC between a fake above and a fake below: credits of multicasts."""

from __future__ import annotations

from typing import Any

import pytest

from jgroups_py.errors import ConfigError
from jgroups_py.protocols.flow.credits import LATE_SECONDS, LEAK_SECONDS
from jgroups_py.protocols.flow.mfc import MFC
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch, Credit
from jgroups_py.values.events import (
    Consumed,
    FlowBlocked,
    FlowOpened,
    HeldSenders,
    IncompleteBytes,
    LacksCredit,
    ViewChange,
)
from jgroups_py.values.message import Flag, MessageType, Transient
from jgroups_py.values.view import MergeView, View, ViewId
from jgroups_py.wire.headers import FcHeader, FcType

A, B, C, D = (make_address(n) for n in range(1, 5))
ID = 30


def view(number: int, *members: Address) -> View:
    return View(ViewId(members[0], number), members)


def fake(**config: Any) -> FakeStack:
    """Three members, 100 bytes of credit; a member gives credit back after it has consumed 60 bytes or more."""
    stack = FakeStack(MFC(**{"max_credits": 100, "max_block_time": 5.0, **config}), address=A)
    stack.event_up(ViewChange(view(1, A, B, C), None))
    stack.take_up_events()
    return stack


def control(kind: FcType, src: Address, amount: Any) -> Batch:
    batch = Batch.of(A, ID, FcHeader(kind), payload=amount, type=MessageType.LONG, flags=3)
    batch.src = src
    return batch


def replenish(stack: FakeStack, amount: int, *members: Address) -> None:
    for member in members or (B, C):
        stack.up(control(FcType.REPLENISH, member, amount))
    if not members:
        stack.event_down(Consumed((Credit(A, True, amount),)))


def sizes(stack: FakeStack) -> list[int]:
    """Lengths of the messages that went out."""
    return [
        len(payload)
        for batch in stack.take_down()
        if ID not in batch.headers
        for payload in batch.payloads
    ]


def said(stack: FakeStack) -> list[tuple[Address | None, str, int, int]]:
    out = []
    for batch in stack.take_down():
        header = batch.header(ID, FcHeader)
        if header is not None:
            out.append((batch.dest, header.type.name, batch.payloads[0], batch.flags))
    return out


def send(stack: FakeStack, *lengths: int, flags: int = 0) -> None:
    stack.down(Batch(None, [bytes(n) for n in lengths], {}, flags=flags))


def count(stack: FakeStack, name: str) -> float:
    return stack.protocol.statistics()[name]


# --- sending


def test_messages_go_as_long_as_there_is_credit() -> None:
    stack = fake()
    send(stack, 50, 50)
    assert sizes(stack) == [50, 50]
    send(stack, 1)
    assert sizes(stack) == []
    assert stack.take_up_events() == [FlowBlocked("MFC", None, (A, B, C))]


def test_the_part_of_a_run_that_fits_goes_and_the_rest_waits() -> None:
    stack = fake()
    send(stack, 40, 40, 40, 40)
    assert sizes(stack) == [40, 40]
    assert count(stack, "queued") == 80


def test_of_a_run_that_is_one_byte_too_long_the_last_message_waits() -> None:
    stack = fake()
    send(stack, 50, 50, 1)
    assert sizes(stack) == [50, 50]
    send(stack, 5)
    replenish(stack, 100)
    send(stack, 50, 45)
    assert sizes(stack) == [1, 5, 50]


def test_the_slowest_member_decides() -> None:
    stack = fake()
    send(stack, 100)
    send(stack, 30)
    replenish(stack, 60, B)
    stack.event_down(Consumed((Credit(A, True, 100),)))
    assert sizes(stack) == [100]
    replenish(stack, 60, C)
    assert sizes(stack) == [30]
    assert stack.take_up_events()[-1] == FlowOpened("MFC", None)


def test_the_channel_is_told_once_for_whose_credit_it_waits() -> None:
    stack = fake()
    send(stack, 100)
    replenish(stack, 100, B)
    send(stack, 20)
    send(stack, 20)
    assert stack.take_up_events() == [FlowBlocked("MFC", None, (A, C))]
    assert stack.protocol.texts() == {
        "waits_for": ", ".join(stack.protocol.name_of(member) for member in (A, C))
    }, "people who look inside see it, too"


def test_a_blocked_flow_opens_when_less_than_half_waits() -> None:
    stack = fake()
    send(stack, 100)
    for _ in range(4):
        send(stack, 30)
    stack.take_up_events()
    replenish(stack, 60)
    assert count(stack, "queued") == 60
    assert stack.take_up_events() == []
    replenish(stack, 60)
    assert count(stack, "queued") == 0
    assert stack.take_up_events() == [FlowOpened("MFC", None)]


def test_order_is_kept_even_for_messages_without_bytes() -> None:
    stack = fake()
    send(stack, 100)
    send(stack, 90)
    send(stack, 0)
    send(stack, 5)
    assert sizes(stack) == [100]
    replenish(stack, 100)
    assert sizes(stack) == [90, 0, 5]


def test_exempt_messages_cost_nothing_and_do_not_wait() -> None:
    stack = fake()
    send(stack, 500, flags=Flag.NO_FC)
    stack.down(Batch(B, [bytes(500)], {}))
    send(stack, 100)
    send(stack, 1)
    send(stack, 500, flags=Flag.NO_FC)
    assert sizes(stack) == [500, 500, 100, 500]


def test_before_the_first_view_nothing_waits() -> None:
    stack = FakeStack(MFC(max_credits=100), address=A)
    send(stack, 1000)
    assert sizes(stack) == [1000]
    stack.event_up(ViewChange(view(1, A), None))
    send(stack, 100)
    assert sizes(stack) == [100]


def test_a_message_larger_than_all_credits_goes_when_nothing_is_under_way() -> None:
    stack = fake()
    send(stack, 10)
    send(stack, 250)
    assert sizes(stack) == [10]
    replenish(stack, 10)
    assert sizes(stack) == [250]
    send(stack, 1)
    replenish(stack, 100)
    assert sizes(stack) == []
    replenish(stack, 150)
    assert sizes(stack) == [1]


def test_credits_never_exceed_the_maximum() -> None:
    stack = fake()
    send(stack, 10)
    replenish(stack, 1000)
    send(stack, 100)
    send(stack, 1)
    assert sizes(stack) == [10, 100]


def test_own_multicasts_that_do_not_come_back_cost_nothing_here() -> None:
    stack = fake()
    stack.event_up(ViewChange(view(2, A), view(1, A, B, C)))
    for _ in range(5):
        stack.down(Batch(None, [bytes(60)], {}, transient=Transient.DONT_LOOPBACK))
    assert sizes(stack) == [60] * 5


def test_a_member_that_does_not_read_its_own_messages_stops_itself() -> None:
    stack = fake()
    stack.event_up(ViewChange(view(2, A), view(1, A, B, C)))
    send(stack, 100)
    send(stack, 1)
    assert sizes(stack) == [100]
    stack.event_down(Consumed((Credit(A, True, 1),)))
    assert sizes(stack) == [1]


# --- asking for credits


def test_credits_are_asked_for_after_a_long_wait() -> None:
    stack = fake()
    send(stack, 100)
    send(stack, 1)
    stack.take_down()
    stack.advance(4.9)
    assert said(stack) == []
    stack.advance(0.2)
    assert said(stack) == [(B, "CREDIT_REQUEST", 100, 3), (C, "CREDIT_REQUEST", 100, 3)]
    stack.advance(5)
    assert len(said(stack)) == 2
    replenish(stack, 100)
    stack.take_down()
    stack.advance(20)
    assert said(stack) == []


def test_credits_that_would_not_come_by_themselves_are_asked_for_at_once() -> None:
    stack = fake()
    send(stack, 50)
    send(stack, 80)
    assert said(stack) == [(B, "CREDIT_REQUEST", 50, 3), (C, "CREDIT_REQUEST", 50, 3)]


# --- receiving


def deliver(stack: FakeStack, length: int, src: Address = B, flags: int = 0) -> None:
    stack.up(Batch(None, [bytes(length)], {}, src, flags))


def consume(stack: FakeStack, batches: int = 1) -> None:
    for _ in range(batches):
        stack.event_down(Consumed(stack.up_batches.pop(0).credits))


def test_a_message_carries_the_credit_it_owes() -> None:
    stack = fake()
    deliver(stack, 30)
    assert stack.take_up()[0].credits == (Credit(B, True, 30),)


def test_exempt_messages_carry_none() -> None:
    stack = fake()
    deliver(stack, 30, flags=Flag.NO_FC)
    deliver(stack, 0)
    stack.up(Batch(A, [bytes(10)], {}, B))
    assert [batch.credits for batch in stack.take_up()] == [(), (), ()]


def test_only_consumed_credits_are_replenished_and_not_before_it_is_worth_it() -> None:
    stack = fake()
    for _ in range(4):
        deliver(stack, 25)
    assert said(stack) == []
    consume(stack, 2)
    assert said(stack) == []
    consume(stack)
    assert said(stack) == [(B, "REPLENISH", 75, 3)]
    consume(stack)
    assert said(stack) == []


def test_credits_of_unicasts_are_not_given_back_as_those_of_multicasts() -> None:
    stack = fake()
    deliver(stack, 70)
    stack.event_down(Consumed((Credit(B, False, 70),)))
    assert said(stack) == []
    consume(stack)
    assert said(stack) == [(B, "REPLENISH", 70, 3)]


def test_debts_to_a_member_that_left_are_forgotten() -> None:
    stack = fake()
    deliver(stack, 50)
    assert count(stack, "held") == 50
    stack.event_up(ViewChange(view(2, A, C), view(1, A, B, C)))
    assert count(stack, "held") == 0
    consume(stack)
    assert said(stack) == []


def test_a_request_is_answered_with_consumed_credits_and_the_rest_later() -> None:
    stack = fake()
    for _ in range(4):
        deliver(stack, 25)
    consume(stack, 2)
    stack.up(control(FcType.CREDIT_REQUEST, B, 100))
    assert said(stack) == [(B, "REPLENISH", 50, 3)]
    consume(stack)
    assert said(stack) == []
    consume(stack)
    assert said(stack) == [(B, "REPLENISH", 50, 3)]


def test_a_request_never_gets_credits_for_unconsumed_messages() -> None:
    stack = fake()
    deliver(stack, 25)
    for _ in range(5):
        stack.up(control(FcType.CREDIT_REQUEST, B, 25))
        stack.advance(5)
    assert said(stack) == []


def test_lost_credits_are_replaced_while_a_part_of_a_message_waits_for_the_rest() -> None:
    """25 bytes have arrived, perhaps fragments; the sender has 100 under way, and nothing more comes."""
    stack = fake()
    merge(stack)
    deliver(stack, 25)
    stack.up(control(FcType.CREDIT_REQUEST, B, 100))
    stack.advance(5)
    deliver(stack, 10)
    stack.up(control(FcType.CREDIT_REQUEST, B, 100))
    assert said(stack) == [], "something came in between"
    stack.advance(5)
    stack.up(control(FcType.CREDIT_REQUEST, B, 100))
    assert said(stack) == [(B, "REPLENISH", 65, 3)]
    stack.advance(5)
    stack.up(control(FcType.CREDIT_REQUEST, B, 35))
    assert said(stack) == [], "the rest is here to be consumed"


def test_lost_credits_are_replaced_though_the_few_that_are_left_come_and_go() -> None:
    """80 of 100 are lost; a request brings the other 20, and they are used at once (all 20134)."""
    stack = fake()
    merge(stack)
    deliver(stack, 20)
    consume(stack)
    stack.up(control(FcType.CREDIT_REQUEST, B, 100))
    assert said(stack) == [(B, "REPLENISH", 20, 3)]
    deliver(stack, 20)
    consume(stack)
    stack.up(control(FcType.CREDIT_REQUEST, B, 100))
    assert said(stack) == [(B, "REPLENISH", 20, 3)], "the rest may be on its way"
    deliver(stack, 20)
    stack.advance(5)
    stack.up(control(FcType.CREDIT_REQUEST, B, 100))
    assert said(stack) == [(B, "REPLENISH", 80, 3)]
    consume(stack)
    assert said(stack) == [(B, "REPLENISH", 20, 3)]


def test_messages_under_way_at_one_request_only_are_not_lost() -> None:
    stack = fake()
    merge(stack)
    stack.up(control(FcType.CREDIT_REQUEST, B, 60))
    deliver(stack, 50)
    stack.advance(5)
    stack.up(control(FcType.CREDIT_REQUEST, B, 100))
    assert said(stack) == [(B, "REPLENISH", 50, 3)]
    stack.up(control(FcType.CREDIT_REQUEST, B, 100))
    assert said(stack) == [], "50 are held"


def merge(stack: FakeStack) -> None:
    """A with C, and B."""
    parts = (View(ViewId(A, 3), (A, C)), View(ViewId(B, 3), (B,)))
    view = MergeView(ViewId(A, 4), (A, B, C), parts)
    stack.event_up(ViewChange(view, parts[0]))


def test_an_answer_that_a_sender_waits_for_may_be_on_its_way_for_long() -> None:
    """Packets were lost, or a link is slow: the same bytes must not give credit twice."""
    stack = fake()
    for _ in range(11):
        stack.up(control(FcType.CREDIT_REQUEST, B, 100))
        assert said(stack) == []
        stack.advance(LEAK_SECONDS / 11 + 0.01)
    stack.up(control(FcType.CREDIT_REQUEST, B, 100))
    assert said(stack) == [(B, "REPLENISH", 100, 3)]


def test_a_merge_loses_credits_once() -> None:
    stack = fake()
    merge(stack)
    stack.up(control(FcType.CREDIT_REQUEST, B, 100))
    stack.up(control(FcType.CREDIT_REQUEST, C, 100))
    stack.advance(5)
    stack.up(control(FcType.CREDIT_REQUEST, B, 100))
    stack.up(control(FcType.CREDIT_REQUEST, C, 100))
    assert said(stack) == [(B, "REPLENISH", 100, 3)], "C was on our side"
    for _ in range(2):
        stack.up(control(FcType.CREDIT_REQUEST, B, 100))
        stack.advance(5)
    assert said(stack) == []


def test_credits_that_got_lost_are_replaced_when_asked_for_twice() -> None:
    stack = fake()
    merge(stack)
    stack.up(control(FcType.CREDIT_REQUEST, B, 100))
    stack.up(control(FcType.CREDIT_REQUEST, B, 100))
    assert said(stack) == []
    stack.advance(5)
    stack.up(control(FcType.CREDIT_REQUEST, B, 100))
    assert said(stack) == [(B, "REPLENISH", 100, 3)]
    assert count(stack, "leaks_repaired") == 1


def test_a_message_larger_than_all_credits_that_got_lost_is_replaced_at_once() -> None:
    """Its credits do not come back only at max_credits a minute; it may be the only message that B ever has under way
    (all 1303)."""
    stack = fake()
    merge(stack)
    stack.up(control(FcType.CREDIT_REQUEST, B, 550))
    stack.advance(5)
    stack.up(control(FcType.CREDIT_REQUEST, B, 550))
    assert said(stack) == [(B, "REPLENISH", 550, 3)]


def test_the_caller_gets_the_rest_as_soon_as_all_is_read() -> None:
    stack = fake()
    deliver(stack, 30)
    stack.up(control(FcType.CREDIT_REQUEST, B, 100))
    assert said(stack) == []
    consume(stack)
    assert said(stack) == [(B, "REPLENISH", 30, 3)]


def test_credit_is_asked_for_again_when_it_was_not_enough() -> None:
    stack = fake()
    send(stack, 90)
    send(stack, 80)
    assert said(stack) == []
    replenish(stack, 65)
    assert said(stack) == [(B, "CREDIT_REQUEST", 25, 3), (C, "CREDIT_REQUEST", 25, 3)]


def test_held_messages_that_are_read_later_are_no_lost_credit() -> None:
    stack = fake()
    deliver(stack, 25)
    consume(stack)
    stack.up(control(FcType.CREDIT_REQUEST, B, 25))
    assert said(stack) == [(B, "REPLENISH", 25, 3)]
    deliver(stack, 10)
    consume(stack)
    stack.up(control(FcType.CREDIT_REQUEST, B, 10))
    assert stack.protocol.statistics()["held"] == 0
    assert said(stack) == [(B, "REPLENISH", 10, 3)]


def test_credits_of_the_other_flow_control_are_left_alone() -> None:
    stack = fake()
    stack.event_down(Consumed((Credit(B, False, 100),)))
    assert said(stack) == []
    assert stack.take_down_events() == [Consumed((Credit(B, False, 100),))]


@pytest.mark.parametrize("amount", [None, -1, "x", 1.5])
def test_rubbish_is_counted_and_dropped(amount: Any) -> None:
    stack = fake()
    stack.up(control(FcType.REPLENISH, B, amount))
    assert count(stack, "bad") == 1
    assert stack.take_up() == []


# --- incomplete messages


def incomplete(stack: FakeStack, amount: int, src: Address = B) -> None:
    """FRAG2 holds this many bytes of incomplete messages."""
    stack.event_down(IncompleteBytes(src, True, amount))


def test_bytes_of_incomplete_messages_are_given_back_in_advance_when_it_is_worth_it() -> None:
    stack = fake()
    deliver(stack, 59)
    incomplete(stack, 59)
    assert said(stack) == []
    deliver(stack, 1)
    incomplete(stack, 60)
    assert said(stack) == [(B, "REPLENISH", 60, 3)]
    assert stack.take_down_events() == [], "it is not for those below"


def test_credits_given_in_advance_are_not_given_again_for_a_read_message() -> None:
    stack = fake()
    deliver(stack, 80)
    incomplete(stack, 80)
    assert said(stack) == [(B, "REPLENISH", 80, 3)]
    deliver(stack, 70)
    incomplete(stack, 0)
    stack.up(control(FcType.CREDIT_REQUEST, B, 70))
    assert said(stack) == [], "it is complete now, and unread"
    consume(stack)
    assert said(stack) == []
    consume(stack)
    assert said(stack) == [(B, "REPLENISH", 70, 3)]


def test_a_sender_with_few_credits_gets_those_of_its_incomplete_message_when_it_asks() -> None:
    stack = fake()
    deliver(stack, 20)
    incomplete(stack, 20)
    stack.up(control(FcType.CREDIT_REQUEST, B, 20))
    assert said(stack) == [(B, "REPLENISH", 20, 3)]
    assert stack.stack.ask(HeldSenders()) == {}, "there is nothing to read"


def test_a_request_that_overtakes_a_fragment_is_answered_when_it_has_come() -> None:
    stack = fake()
    stack.up(control(FcType.CREDIT_REQUEST, B, 20))
    deliver(stack, 20)
    assert said(stack) == []
    incomplete(stack, 20)
    assert said(stack) == [(B, "REPLENISH", 20, 3)]


def test_a_sender_that_waits_with_few_credits_is_given_less_at_a_time_from_then_on() -> None:
    """60 of 100 bytes are given back before a request; with 20 bytes of credit it is 12."""
    stack = fake()
    deliver(stack, 20)
    consume(stack)
    stack.advance(LATE_SECONDS)
    stack.up(control(FcType.CREDIT_REQUEST, B, 20))
    assert said(stack) == [(B, "REPLENISH", 20, 3)]
    deliver(stack, 11)
    consume(stack)
    assert said(stack) == []
    deliver(stack, 1)
    consume(stack)
    assert said(stack) == [(B, "REPLENISH", 12, 3)]
    stack.up(control(FcType.CREDIT_REQUEST, B, 60))
    deliver(stack, 59)
    stack.take_down()
    consume(stack)
    stack.up(control(FcType.CREDIT_REQUEST, B, 0))
    said(stack)
    deliver(stack, 12)
    consume(stack)
    assert said(stack) == [], "it has had 60 bytes under way, so it has no fewer credits"


def test_a_sender_that_asks_at_once_does_not_lack_credits() -> None:
    stack = fake()
    deliver(stack, 20)
    consume(stack)
    stack.up(control(FcType.CREDIT_REQUEST, B, 20))
    assert said(stack) == [(B, "REPLENISH", 20, 3)]
    deliver(stack, 59)
    consume(stack)
    assert said(stack) == []


def test_own_incomplete_messages_get_their_credits_at_once_and_only_once() -> None:
    stack = fake()
    send(stack, 90)
    replenish(stack, 90, B, C)
    send(stack, 80)
    assert sizes(stack) == [90]
    deliver(stack, 90, A)
    incomplete(stack, 90, A)
    assert sizes(stack) == [80]
    incomplete(stack, 0, A)
    replenish(stack, 80, B, C)
    send(stack, 30)
    consume(stack)
    assert sizes(stack) == [], "what was given in advance is paid first"
    deliver(stack, 80, A)
    consume(stack)
    assert sizes(stack) == [30]


def test_incomplete_unicasts_are_not_for_multicasts() -> None:
    stack = fake()
    deliver(stack, 80)
    stack.event_down(IncompleteBytes(B, False, 80))
    assert said(stack) == []
    assert stack.take_down_events() == [IncompleteBytes(B, False, 80)]
    incomplete(stack, 80, D)
    assert said(stack) == [], "nothing came from D"


# --- views


def test_a_member_that_left_is_not_waited_for() -> None:
    stack = fake()
    send(stack, 100)
    send(stack, 50)
    replenish(stack, 60, B)
    stack.event_down(Consumed((Credit(A, True, 100),)))
    assert sizes(stack) == [100]
    stack.event_up(ViewChange(view(2, A, B), view(1, A, B, C)))
    assert sizes(stack) == [50]


def test_a_joiner_begins_with_all_credits() -> None:
    stack = fake()
    send(stack, 90)
    replenish(stack, 90)
    stack.event_up(ViewChange(view(2, A, B, C, D), view(1, A, B, C)))
    send(stack, 100)
    assert sizes(stack) == [90, 100]


def test_replenishments_of_others_than_members_are_ignored() -> None:
    stack = fake()
    send(stack, 100)
    send(stack, 1)
    replenish(stack, 100, D)
    assert sizes(stack) == [100]


def test_senders_outside_the_view_are_limited() -> None:
    stack = fake(max_strangers=3)
    for number in range(10, 20):
        deliver(stack, 10, make_address(number))
    assert count(stack, "strangers_dropped") == 7


@pytest.mark.parametrize(
    "bad",
    [{"max_credits": 0}, {"min_threshold": 1.0}, {"min_credits": 100}, {"max_block_time": 0}],
)
def test_values_out_of_range_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(bad))):
        MFC(**{"max_credits": 100, **bad})


# --- blocked senders, and the members that block them


def test_a_sender_is_held_from_when_it_asks_until_something_of_it_is_taken() -> None:
    stack = fake()
    deliver(stack, 50)
    deliver(stack, 50)
    assert stack.stack.ask(HeldSenders()) == {}
    stack.advance(7)
    stack.up(control(FcType.CREDIT_REQUEST, B, 100))
    stack.advance(1)
    stack.up(control(FcType.CREDIT_REQUEST, B, 100))
    assert stack.stack.ask(HeldSenders()) == {B: 7.0}
    consume(stack)
    assert stack.stack.ask(HeldSenders()) == {}
    stack.advance(1)
    stack.up(control(FcType.CREDIT_REQUEST, B, 100))
    assert stack.stack.ask(HeldSenders()) == {B: 9.0}
    stack.event_up(ViewChange(view(2, A, C), view(1, A, B, C)))
    assert stack.stack.ask(HeldSenders()) == {}


def test_a_sender_whose_own_application_does_not_read_is_held_by_itself() -> None:
    stack = fake()
    stack.advance(3)
    send(stack, 60, 60)
    assert stack.stack.ask(LacksCredit(None)) == (A, B, C)
    replenish(stack, 60, B, C)
    assert stack.stack.ask(LacksCredit(None)) == (A,)
    stack.advance(20)
    assert stack.stack.ask(HeldSenders()) == {A: 3.0}
    stack.event_down(Consumed((Credit(A, True, 60),)))
    assert stack.stack.ask(HeldSenders()) == {}
    assert stack.stack.ask(LacksCredit(None)) is None


@pytest.mark.parametrize(("first", "asked"), [(59, [B, C]), (60, [])])
def test_a_member_that_owes_as_much_as_it_gives_back_by_itself_is_not_asked(
    first: int, asked: list[Address]
) -> None:
    stack = fake()
    send(stack, first)
    send(stack, 101 - first)
    assert [dest for dest, kind, _, _ in said(stack) if kind == "CREDIT_REQUEST"] == asked
