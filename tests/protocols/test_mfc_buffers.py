"""MFC with a receive buffer that holds fewer bytes than all credits."""

from __future__ import annotations

from typing import Any

import pytest

from jgroups_py.protocols.flow.credits import SOON_SECONDS
from jgroups_py.protocols.flow.mfc import MFC
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch, Credit
from jgroups_py.values.events import Consumed, ReceiveBuffer, ViewChange
from jgroups_py.values.message import MessageType
from jgroups_py.values.view import View, ViewId
from jgroups_py.wire.headers import FcHeader, FcType

A, B, C = (make_address(n) for n in range(1, 4))
ID = 30


def view(number: int, *members: Address) -> View:
    return View(ViewId(members[0], number), members)


def send(stack: FakeStack, *lengths: int) -> None:
    stack.down(Batch(None, [bytes(n) for n in lengths], {}))


def replenish(stack: FakeStack, amount: int, *members: Address) -> None:
    """Let members, by default all of them, give credits."""
    for member in members or (A, B, C):
        if member == A:
            stack.event_down(Consumed((Credit(A, True, amount),)))
        else:
            header = FcHeader(FcType.REPLENISH)
            batch = Batch.of(A, ID, header, payload=amount, type=MessageType.LONG, flags=3)
            batch.src = member
            stack.up(batch)


def read(stack: FakeStack, length: int) -> None:
    """Deliver a message of B, and let the application take it."""
    stack.up(Batch(None, [bytes(length)], {}, B))
    stack.event_down(Consumed(stack.up_batches.pop(0).credits))


def sizes(stack: FakeStack) -> list[int]:
    """Return the lengths of the messages that went out."""
    return [
        len(p) for batch in stack.take_down() if ID not in batch.headers for p in batch.payloads
    ]


def said(stack: FakeStack) -> list[tuple[Address | None, str, int]]:
    """Return what went out for flow control."""
    found = []
    for batch in stack.take_down():
        header = batch.header(ID, FcHeader)
        if header is not None:
            found.append((batch.dest, header.type.name, batch.payloads[0]))
    return found


def fitted(buffer: int | None, **config: Any) -> FakeStack:
    stack = FakeStack(
        MFC(**{"max_credits": 100, "max_block_time": 5.0, **config}),
        address=A,
        answers={ReceiveBuffer: buffer},
    )
    stack.event_up(ViewChange(view(1, A, B, C), None))
    stack.take_up_events()
    return stack


@pytest.mark.parametrize(
    ("buffer", "config", "sent", "told"),
    [
        (50, {}, 50, 50),
        (100, {}, 100, 0),
        (5000, {}, 100, 0),
        (None, {}, 100, 0),
        (50, {"fit_receive_buffer": False}, 100, 0),
    ],
)
def test_no_more_is_under_way_than_the_receive_buffer_holds(
    buffer: int | None, config: dict[str, Any], sent: int, told: int
) -> None:
    stack = fitted(buffer, **config)
    send(stack, *[10] * 20)
    assert sum(sizes(stack)) == sent
    assert stack.protocol.statistics()["fitted_credits"] == told


def test_a_receiver_with_a_small_buffer_gives_less_at_a_time() -> None:
    stack = fitted(50, min_credits=40)
    read(stack, 29)
    assert said(stack) == []
    read(stack, 1)
    assert said(stack) == [(B, "REPLENISH", 30)], "60 of 100 would be given with all credits"


def test_a_member_that_counts_longer_is_asked_soon_and_then_at_once() -> None:
    stack = fitted(50)
    send(stack, 50)
    send(stack, 10)
    stack.advance(SOON_SECONDS - 0.01)
    replenish(stack, 50, A, C)
    assert said(stack) == []
    stack.advance(0.01)
    assert said(stack) == [(B, "CREDIT_REQUEST", 50)]
    stack.advance(4.9)
    assert said(stack) == [], "then after max_block_time"
    stack.advance(0.1)
    assert said(stack) == [(B, "CREDIT_REQUEST", 50)]
    replenish(stack, 50, B)
    assert sizes(stack) == [10]
    send(stack, 40)
    stack.take_down()
    send(stack, 10)
    assert said(stack) == [(B, "CREDIT_REQUEST", 50)]


def test_a_member_that_comes_back_is_waited_for_first() -> None:
    stack = fitted(50)
    send(stack, 50)
    send(stack, 10)
    stack.advance(SOON_SECONDS)
    stack.event_up(ViewChange(view(2, A), view(1, A, B, C)))
    stack.event_up(ViewChange(view(3, A, B), view(2, A)))
    stack.event_down(Consumed((Credit(A, True, 60),)))
    replenish(stack, 10, B)
    stack.take_down()
    send(stack, 50)
    send(stack, 10)
    stack.event_down(Consumed((Credit(A, True, 50),)))
    assert said(stack) == []


def test_with_all_credits_nobody_is_asked_before_max_block_time() -> None:
    stack = fitted(None)
    send(stack, 100)
    send(stack, 10)
    stack.advance(4.9)
    assert said(stack) == []


def test_a_buffer_that_shrinks_gives_back_what_it_owes() -> None:
    stack = fitted(None)
    read(stack, 40)
    assert said(stack) == []
    send(stack, 80)
    stack.answers[ReceiveBuffer] = 50
    stack.event_up(ViewChange(view(2, A, B, C), view(1, A, B, C)))
    assert said(stack) == [(B, "REPLENISH", 40)]
    send(stack, 10)
    replenish(stack, 30)
    assert sizes(stack) == []
    replenish(stack, 10)
    assert sizes(stack) == [10]
