"""Messages that wait for the reader: order, limits, packing of small messages."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

import jgroups_py.channel.stream
from jgroups_py.channel.backlog import PackedRuns
from jgroups_py.channel.stream import ItemStream
from jgroups_py.testing import make_address
from jgroups_py.values.batch import Batch, Credit
from jgroups_py.values.message import MessageType
from jgroups_py.values.view import MergeView, View, ViewId

A, B = make_address(1), make_address(2)
Put = Callable[..., None]


def run(src: Any, *payloads: bytes | None, credit: int = 0, **more: Any) -> Batch:
    credits = (Credit(src, True, credit),) if credit else ()
    return Batch(None, payloads, {}, src, credits=credits, **more)


def view(number: int) -> View:
    return View(ViewId(A, number), (A,))


def taken(stream: ItemStream) -> list[Any]:
    """Take all items: views by number, messages as (sender, payload, flags)."""
    items: list[Any] = []
    while (item := stream.take()) is not None:
        if isinstance(item, Batch):
            items += [(item.src, p if p is None else bytes(p), item.flags) for p in item.payloads]
        else:
            items.append(item.id)
    return items


@pytest.fixture
def always_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jgroups_py.channel.stream, "PACK_ITEMS", -1)


async def test_packed_or_not_the_order_is_the_same(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(stream: ItemStream) -> None:
        for number in range(200):
            stream.put_batch(run((A, B)[number % 3 == 0], b"%d" % number, b"x" * (number % 7)))
            if number % 10 == 0:
                stream.put(view(number))
            if number % 13 == 0:
                stream.put_batch(run(A, b"oob", flags=1))
            if number % 17 == 0:
                stream.put_batch(run(B, None, b"null before"))
            if number % 19 == 0:
                stream.put_batch(run(B, bytes(5000)))

    plain, packed = ItemStream(10**9), ItemStream(10**9)
    fill(plain)
    monkeypatch.setattr(jgroups_py.channel.stream, "PACK_ITEMS", 20)
    fill(packed)
    assert any(type(item) is PackedRuns for item in packed._items)
    assert packed.length == plain.length
    assert packed.uncredited == plain.uncredited
    assert taken(packed) == taken(plain)
    assert packed.length == packed.uncredited == 0


async def test_packed_runs_return_every_credit_once(
    autojump_clock: Any, always_packed: None
) -> None:
    stream = ItemStream(0)
    for number in range(30):
        stream.put_batch(run((A, B)[number % 2], b"ab", b"cd", credit=4))
    stream.put_batch(run(A, b"ef", credit=2))
    stream.put_batch(run(A, b"gh", credit=2))
    owed = {A: 0, B: 0}
    while (batch := stream.take()) is not None:
        assert sum(c.amount for c in batch.credits) == batch.length
        for credit in batch.credits:
            owed[credit.sender] += credit.amount
    assert owed == {A: 64, B: 60}


async def test_a_buffer_that_is_read_can_be_added_to(
    autojump_clock: Any, always_packed: None
) -> None:
    stream = ItemStream(10**9)
    numbers = itertools.count()
    got = []
    for _ in range(50):
        for _ in range(3):
            stream.put_batch(run(A, b"%d" % next(numbers)))
            stream.put_batch(run(B, b"%d" % next(numbers)))
        batch = stream.take()
        got += [int(bytes(p)) for p in batch.payloads]
    got += [int(payload) for _, payload, _ in taken(stream)]
    assert got == list(range(300))


async def test_other_kinds_of_payload_are_left_alone(
    autojump_clock: Any, always_packed: None
) -> None:
    stream = ItemStream(10**9)
    stream.put_batch(run(A, b"x"))
    number = Batch(None, (7,), {}, A, type=MessageType.LONG)
    stream.put_batch(number)
    stream.take()
    assert stream.take() is number


async def test_clearing_gives_everything_back(autojump_clock: Any, always_packed: None) -> None:
    stream = ItemStream(10**9)
    for _ in range(10):
        stream.put_batch(run(A, b"1", credit=1))
        stream.put_batch(run(B, b"2", credit=1))
    assert sum(len(batch) for batch in stream.clear()) == 20
    assert stream.take() is None
    assert (stream.length, stream.uncredited) == (0, 0)


async def test_the_end_comes_after_everything_else(autojump_clock: Any) -> None:
    stream = ItemStream(10**9)
    stream.put(view(1))
    stream.end(ValueError("first"))
    stream.end(ValueError("second"))
    assert stream.take().id == 1
    with pytest.raises(ValueError, match="first"):
        stream.take()


async def test_a_cancelled_reader_misses_nothing(autojump_clock: Any) -> None:
    stream = ItemStream(10**9)
    with trio.move_on_after(1):
        await stream.wait()
    stream.put(view(1))
    assert stream.take().id == 1


async def test_a_reader_that_waits_is_told_of_the_end(autojump_clock: Any) -> None:
    stream = ItemStream(1000)

    async def read() -> None:
        await stream.wait()
        with pytest.raises(ValueError, match="over"):
            stream.take()

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await trio.testing.wait_all_tasks_blocked()
            stream.end(ValueError("over"))


async def test_a_merge_view_stays_though_other_views_follow_it_at_once(autojump_clock: Any) -> None:
    """Only the merge view tells which member was on which side. When a later view took the place of the merge view, the
    merge stayed hidden, and each side kept its own tree."""

    def merge(number: int) -> MergeView:
        return MergeView(ViewId(A, number), (A, B), (view(number - 1),))

    stream = ItemStream(0)
    for item in (view(1), view(2), merge(3), view(4), view(5), merge(6), merge(7), view(8)):
        stream.put(item)
    assert stream.merged_views == 4
    assert taken(stream) == [3, 6, 7, 8]
