"""UFC between a fake above and a fake below: credits of unicasts, per destination."""

from __future__ import annotations

from typing import Any

from jgroups_py.protocols.flow.ufc import UFC
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch, Credit
from jgroups_py.values.events import Consumed, Exclude, FlowBlocked, FlowOpened, ViewChange
from jgroups_py.values.message import MessageType
from jgroups_py.values.view import MergeView, View, ViewId
from jgroups_py.wire.headers import FcHeader, FcType

A, B, C, D = (make_address(n) for n in range(1, 5))
ID = 31


def view(number: int, *members: Address) -> View:
    return View(ViewId(members[0], number), members)


def fake(**config: Any) -> FakeStack:
    stack = FakeStack(UFC(**{"max_credits": 100, **config}), address=A)
    stack.event_up(ViewChange(view(1, A, B, C), None))
    stack.take_up_events()
    return stack


def control(kind: FcType, src: Address, amount: int) -> Batch:
    batch = Batch.of(A, ID, FcHeader(kind), payload=amount, type=MessageType.LONG, flags=3)
    batch.src = src
    return batch


def sent(stack: FakeStack) -> list[tuple[Address | None, int]]:
    return [
        (batch.dest, len(payload))
        for batch in stack.take_down()
        if ID not in batch.headers
        for payload in batch.payloads
    ]


def send(stack: FakeStack, dest: Address, *lengths: int) -> None:
    stack.down(Batch(dest, [bytes(n) for n in lengths], {}))


def test_each_destination_has_its_own_credits() -> None:
    stack = fake()
    send(stack, B, 100, 10)
    send(stack, C, 50)
    assert sent(stack) == [(B, 100), (C, 50)]
    assert stack.take_up_events() == [FlowBlocked("UFC", B, (B,))]
    stack.up(control(FcType.REPLENISH, C, 50))
    assert sent(stack) == []
    stack.up(control(FcType.REPLENISH, B, 60))
    assert sent(stack) == [(B, 10)]
    assert stack.take_up_events() == [FlowOpened("UFC", B)]


def test_multicasts_and_unicasts_to_others_than_members_pass() -> None:
    stack = fake()
    stack.down(Batch(None, [bytes(500)], {}))
    send(stack, D, 500)
    assert [length for _, length in sent(stack)] == [500, 500]


def test_consumed_credits_are_replenished() -> None:
    stack = fake()
    stack.up(Batch(A, [bytes(30), bytes(40)], {}, B))
    batch = stack.take_up()[0]
    assert batch.credits == (Credit(B, False, 70),)
    stack.event_down(Consumed(batch.credits))
    answer = stack.take_down()[0]
    assert (answer.dest, answer.headers, answer.payloads) == (
        B,
        {ID: FcHeader(FcType.REPLENISH)},
        (70,),
    )


def test_a_unicast_that_comes_before_its_senders_view_is_replenished_too() -> None:
    stack = fake()
    stack.up(Batch(A, [bytes(70)], {}, D))
    stack.event_up(ViewChange(view(2, A, B, C, D), view(1, A, B, C)))
    stack.event_down(Consumed(stack.take_up()[0].credits))
    assert [batch.dest for batch in stack.take_down()] == [D]


def test_unicasts_to_itself_are_limited_by_its_own_reading() -> None:
    stack = fake()
    send(stack, A, 100)
    send(stack, A, 10)
    assert sent(stack) == [(A, 100)]
    stack.event_down(Consumed((Credit(A, False, 100),)))
    assert sent(stack) == [(A, 10)]


def test_messages_that_wait_for_a_member_that_left_are_dropped_and_their_senders_go_on() -> None:
    stack = fake()
    send(stack, B, 100, 10, 10)
    stack.take_up_events()
    stack.event_up(ViewChange(view(2, A, C), view(1, A, B, C)))
    assert stack.protocol.statistics()["queue_dropped"] == 2
    assert FlowOpened("UFC", B) in stack.take_up_events()
    stack.event_up(ViewChange(view(3, A, C, B), view(2, A, C)))
    stack.take_down()
    send(stack, B, 100)
    assert sent(stack) == [(B, 100)]


def test_waiting_input_is_limited_by_the_channel_and_counted_beyond_a_limit() -> None:
    stack = fake(max_queue=50)
    send(stack, B, 100, 60)
    send(stack, B, 10)
    assert stack.protocol.statistics()["queue_overflows"] == 2
    stack.up(control(FcType.REPLENISH, B, 100))
    assert sent(stack) == [(B, 100), (B, 60), (B, 10)]


def merged(*others: Address) -> ViewChange:
    """A alone, and the others, who went on without A."""
    parts = (View(ViewId(A, 1), (A,)), View(ViewId(B, 2), others))
    return ViewChange(MergeView(ViewId(B, 3), (A, B, C), parts), view(1, A, B, C))


def test_members_that_went_on_without_this_one_owe_it_nothing_after_the_merge() -> None:
    """B has dropped the account of A with the 60 bytes that its application had taken. It never gives them back."""
    stack = fake()
    send(stack, B, 60)
    stack.event_up(Exclude(view(2, B, C), B, (), True))
    send(stack, B, 90)
    assert sent(stack) == [(B, 60)]
    stack.event_up(merged(B, C))
    assert sent(stack) == [(B, 90)]
    send(stack, B, 20)
    assert sent(stack) == [], "credits are those of one member that is new"


def test_a_merge_alone_gives_no_credits() -> None:
    """Members that have not left this one out remember what they owe."""
    stack = fake()
    send(stack, B, 60)
    stack.event_up(merged(B, C))
    send(stack, B, 90)
    stack.event_up(Exclude(view(4, B, C), B, (), True))
    stack.event_up(ViewChange(view(5, A, B, C), view(3, A, B, C)))
    stack.event_up(merged(B, C))
    assert sent(stack) == [(B, 60)], "the word of an earlier view"
