"""Tests of a member that is expelled: its channel reports the expulsion to the application."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from test_channel_stream import from_below, take

from jgroups_py import Batch, Excluded, Expelled, Lost, View
from jgroups_py.protocols.membership.gms.excluded import WHY
from jgroups_py.testing import make_address
from jgroups_py.values.events import Exclude, Expel, FlowBlocked, FlowOpened, ViewChange
from jgroups_py.values.lost import Numbers, lost_of
from jgroups_py.values.view import ViewId

A, B, C = (make_address(n) for n in (1, 2, 3))


async def test_an_exclusion_is_an_item_of_the_stream_and_sending_waits(
    open_toy: Any, autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_toy(name="A") as a:
        await a.send_many([b"1", b"2", b"3"])
        await take(a, 4)
        others = View(ViewId(B, 5), (B, C))
        lost = (Batch(None, (b"2", b"3"), {}, a.address, number=2),)
        wait = [FlowBlocked("GMS", None, (B, C), WHY)]
        from_below(a, *wait, Exclude(others, B, lost, True))
        item = await anext(a)
        assert item == Excluded(others, B, (Lost(None, ((2, 3),)),), True)
        assert item.lost_count == 2
        assert (a.statistics().excluded, a.statistics().lost) == (1, 2)
        assert "2 messages to <all> (numbers 2..3) are lost" in caplog.text
        with pytest.raises(trio.WouldBlock):
            a.send_nowait(b"4")
        with trio.move_on_after(5) as waited:
            await a.send(b"4")
        assert waited.cancelled_caught
        from_below(a, FlowOpened("GMS", None))
        await a.send(b"4")
        assert await take(a, 1) == [("A", b"4")]


async def test_an_exclusion_is_not_merged_away_with_views(
    open_toy: Any, autojump_clock: Any
) -> None:
    async with open_toy(name="A") as a:
        others = View(ViewId(B, 5), (B, C))
        view = View(ViewId(a.address, 7), (a.address,))
        from_below(a, Exclude(others, B, (), True), ViewChange(view, a.view))
        items = [await anext(a) for _ in range(3)]
        assert [type(item) for item in items] == [View, Excluded, View]
        from_below(a, Exclude(others, B, (), False))
        assert isinstance(await a.next_batch(), Excluded), "and in batches"


async def test_expelled_for_good_it_names_possible_losses(
    open_toy: Any, autojump_clock: Any
) -> None:
    async with open_toy(name="A") as a:
        await take(a, 1)
        lost = (Batch(None, (b"2",), {}, a.address, number=2), Batch(B, (b"x",), {}, number=9))
        from_below(a, Expel(None, "they forgot us", lost))
        with pytest.raises(Expelled, match="may be lost") as caught:
            await anext(a)
        assert caught.value.lost == (Lost(None, ((2, 2),)), Lost(B, ((9, 9),)))


def test_lost_messages_are_named_by_destination_in_ranges() -> None:
    def run(number: int, count: int = 1, to: Any = None) -> Batch:
        return Batch(to, (b"",) * count, {}, A, number=number)

    runs = [run(4, 3), run(7), run(7), run(0, 5), run(12, 2), run(1, 2, B), run(10, 2)]
    assert lost_of(runs) == (
        Lost(None, ((4, 7), (10, 11), (12, 13))),
        Lost(B, ((1, 2),)),
    )
    assert lost_of([run(0)]) == ()
    assert run(4, 3).slice(1, 3).number == 5 and run(0, 3).slice(1, 3).number == 0


def test_numbers_are_counted_for_each_destination_and_forgotten_with_members() -> None:
    numbers = Numbers()
    assert [numbers.take(to, 2) for to in (None, B, None, B, C)] == [1, 1, 3, 3, 1]
    numbers.view_changed(View(ViewId(A, 1), (A, B)))
    assert [numbers.take(to, 1) for to in (None, B, C)] == [5, 5, 1]
