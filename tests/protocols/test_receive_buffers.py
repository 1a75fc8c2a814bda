"""A member with a small receive buffer: no more is under way than it holds, and large messages still arrive."""

from __future__ import annotations

from typing import Any

import pytest

from jgroups_py.protocols.flow.credits import PATIENCE
from jgroups_py.protocols.flow.mfc import MFC
from jgroups_py.protocols.frag2 import FRAG2
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.testing.sim.member import Member
from jgroups_py.testing.sim.world import World
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch, Credit
from jgroups_py.values.events import (
    Consumed,
    CreditWanted,
    ReceiveBuffer,
    SharedAttribute,
    ViewChange,
)
from jgroups_py.values.message import MessageType
from jgroups_py.values.view import View, ViewId
from jgroups_py.wire.headers import PROTOCOL_IDS, FcHeader, FcType, FragHeader

A, B, C = make_address(1), make_address(2), make_address(3)
MFC_ID, FRAG2_ID = PROTOCOL_IDS["MFC"], PROTOCOL_IDS["FRAG2"]


def view(number: int) -> View:
    return View(ViewId(A, number), (A, B, C))


def with_buffer(size: int | None, **config: Any) -> FakeStack:
    """Three members, 100 bytes of credit, above sockets that hold ``size`` unread bytes."""
    asked: list[ReceiveBuffer] = []

    def answer(query: ReceiveBuffer) -> int | None:
        asked.append(query)
        return size

    protocol = MFC(**{"max_credits": 100, "receive_buffer_min": 20, **config})
    stack = FakeStack(protocol, address=A, answers={ReceiveBuffer: answer})
    stack.event_up(ViewChange(view(1), None))
    stack.event_up(ViewChange(view(2), view(1)))
    stack.take_up_events()
    assert asked == [ReceiveBuffer(True)]
    return stack


def control(kind: FcType, src: Address, amount: int) -> Batch:
    batch = Batch.of(A, MFC_ID, FcHeader(kind), payload=amount, type=MessageType.LONG, flags=3)
    batch.src = src
    return batch


def message(size: int, *, fragment: int = 0) -> Batch:
    """A multicast of B; ``fragment``: the number of the message that it is the first fragment of."""
    headers: Any = {FRAG2_ID: FragHeader(fragment, 0, 2)} if fragment else {}
    return Batch(None, [bytes(size)], headers, B)


def take(stack: FakeStack, amount: int) -> None:
    """The application takes so many bytes of B."""
    stack.event_down(Consumed((Credit(B, True, amount),)))


def sent(stack: FakeStack) -> int:
    """The bytes of multicasts that went out."""
    return sum(len(p) for batch in stack.take_down() if batch.dest is None for p in batch.payloads)


def requests(stack: FakeStack) -> int:
    """Count the members that were asked for credits."""
    headers = [batch.header(MFC_ID, FcHeader) for batch in stack.take_down()]
    return sum(header is not None and header.type == FcType.CREDIT_REQUEST for header in headers)


def give(stack: FakeStack, amount: int) -> None:
    """All members give credits back."""
    for member in (B, C):
        stack.up(control(FcType.REPLENISH, member, amount))
    stack.event_down(Consumed((Credit(A, True, amount),)))


def given_back(stack: FakeStack) -> list[int]:
    return [batch.payloads[0] for batch in stack.take_down() if batch.dest == B]


@pytest.mark.parametrize(
    ("buffer", "most"), [(50, 50), (100, 100), (1000, 100), (5, 20), (0, 100), (None, 100)]
)
def test_no_more_is_under_way_than_a_receive_buffer_holds(buffer: int | None, most: int) -> None:
    stack = with_buffer(buffer)
    assert stack.protocol.statistics()["under_way_max"] == most
    assert stack.stack.ask(SharedAttribute("max_credits", "MFC")) == most
    stack.down(Batch(None, [b"x"] * 200, {}))
    assert sent(stack) == most


def test_a_member_with_a_small_buffer_gives_credits_back_sooner() -> None:
    """60 % of what may be under way: its senders have buffers as small."""
    stack = with_buffer(50)
    stack.up(message(29))
    take(stack, 29)
    assert given_back(stack) == []
    stack.up(message(1))
    take(stack, 1)
    assert given_back(stack) == [30]


def test_min_credits_counts_where_the_buffer_does_not() -> None:
    for buffer, owed in ((1000, 10), (50, 30)):
        stack = with_buffer(buffer, min_credits=90)
        stack.up(message(owed))
        take(stack, owed - 1)
        assert given_back(stack) == []
        take(stack, 1)
        assert given_back(stack) == [owed]


def test_a_member_that_gives_nothing_back_by_itself_is_asked_soon_and_then_at_once() -> None:
    """It has a larger buffer, so it gives less than that back when it is asked only."""
    stack = with_buffer(50)
    stack.down(Batch(None, [bytes(50), b"a"], {}))
    assert requests(stack) == 0
    stack.advance(PATIENCE)
    assert requests(stack) == 2
    stack.advance(2 * PATIENCE - 0.01)
    assert requests(stack) == 0
    stack.advance(0.02)
    assert requests(stack) == 2
    give(stack, 50)
    stack.down(Batch(None, [bytes(49), b"b"], {}))
    assert requests(stack) == 2
    give(stack, 50)
    give(stack, 1)
    stack.down(Batch(None, [bytes(50), b"c"], {}))
    assert requests(stack) == 0, "they gave the last byte back by themselves"


def test_with_a_large_buffer_nobody_is_asked_so_soon() -> None:
    stack = with_buffer(100)
    for _ in range(2):
        stack.down(Batch(None, [bytes(100), b"a"], {}))
        stack.advance(4.9)
        assert requests(stack) == 0
        stack.advance(0.2)
        assert requests(stack) == 2
        give(stack, 100)
        give(stack, 1)


def test_incomplete_messages_hear_of_a_sender_without_credits() -> None:
    """It may have fewer credits than this member, and its large message holds all of them."""
    stack = with_buffer(None)
    stack.up(message(30))
    stack.up(control(FcType.CREDIT_REQUEST, B, 30))
    assert stack.take_up_events() == [CreditWanted(B, True)]
    take(stack, 30)
    assert given_back(stack) == [30]
    stack.up(control(FcType.CREDIT_REQUEST, B, 0))
    assert stack.take_up_events() == []


def test_they_hear_of_it_again_when_a_fragment_comes_after_the_request() -> None:
    stack = with_buffer(None)
    stack.up(control(FcType.CREDIT_REQUEST, B, 30))
    assert stack.take_up_events() == []
    stack.up(message(10))
    assert stack.take_up_events() == []
    stack.up(message(20, fragment=1))
    assert stack.take_up_events() == [CreditWanted(B, True)]
    take(stack, 30)
    stack.up(message(20, fragment=2))
    assert stack.take_up_events() == []


def test_the_credits_of_incomplete_messages_are_given_back_when_they_are_wanted() -> None:
    stack = FakeStack(FRAG2(frag_size=10), address=A)
    for src, multicast in ((B, True), (B, False), (C, True)):
        part = Batch(None, [b"ab"], {FRAG2_ID: FragHeader(1 + multicast, 0, 2)}, src)
        part.credits = (Credit(src, multicast, 7),)
        stack.up(part)
    stack.event_up(CreditWanted(B, True))
    assert stack.take_down_events() == [Consumed((Credit(B, True, 7),))]
    assert stack.take_up_events() == []
    stack.event_up(CreditWanted(B, True))
    assert stack.take_down_events() == []


def test_incomplete_messages_hold_less_than_the_credits_that_the_buffer_left() -> None:
    most = 1000
    answers: Any = {SharedAttribute: lambda query: most if query.argument == "MFC" else None}
    stack = FakeStack(FRAG2(frag_size=10), address=A, answers=answers)
    most = 40
    stack.event_up(ViewChange(view(1), None))
    for index, expected in ((0, 0), (1, 1)):
        part = Batch(None, [b"ab"], {FRAG2_ID: FragHeader(1, index, 3)}, B)
        part.credits = (Credit(B, True, 10),)
        stack.up(part)
        assert len(stack.take_down_events(Consumed)) == expected


@pytest.mark.parametrize("small", ["A", "B"], ids=["of the sender", "of the receiver"])
def test_a_message_larger_than_a_small_buffer_arrives_at_once(small: str) -> None:
    """Members need not have buffers of one size: a sender may have fewer credits than its receivers' incomplete messages hold."""
    world = World(1, check=False)
    arrived: list[int] = []
    members: list[Member] = []
    for name in "AB":
        world.receive_buffer = 100_000 if name == small else 0
        members.append(world.start(name, "udp.xml", "buffers"))
        assert world.run_until(lambda: world.views_agree(members), limit=10)
    members[1].on_batch = lambda _, batch: arrived.extend(map(len, batch.payloads))
    began = world.now
    for _ in range(3):
        members[0].send(bytes(2_000_000))
    assert world.run_until(lambda: len(arrived) == 3, limit=1.0), world.now - began
    assert arrived == [2_000_000] * 3
    world.close()
