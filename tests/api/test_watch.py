"""Waiting for a condition: the time limit, a condition that holds when it is over, and views."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from jgroups_py import Channel, MemoryNetwork, open_channel
from jgroups_py.channel.watch import Watch
from jgroups_py.errors import WaitTimeout
from jgroups_py.testing import make_address
from jgroups_py.values.events import ViewChange
from jgroups_py.values.view import View


async def test_a_condition_that_holds_when_the_time_is_over_is_no_timeout(
    autojump_clock: MockClock,
) -> None:
    start = trio.current_time()
    await Watch().until(lambda: trio.current_time() >= start + 1, 1, lambda: "never described")
    with pytest.raises(WaitTimeout, match=r"it is missing \(waited 1 s\)"):
        await Watch().until(lambda: False, 1, lambda: "it is missing")


async def test_a_task_hears_of_a_view_that_comes_without_a_turn(autojump_clock: MockClock) -> None:
    """As in the step of a caller that looks for its answer, if nothing is to be sent."""
    seen: list[float] = []

    async def wait(channel: Channel) -> None:
        await channel.wait_view(2)
        seen.append(trio.current_time())

    async with (
        open_channel("sim.xml", cluster="watch", name="A", transport=MemoryNetwork()) as channel,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(wait, channel)
        await trio.testing.wait_all_tasks_blocked()
        view, turns, now = channel.view, channel.driver.turns, trio.current_time()
        channel.notify(ViewChange(View(view.view_id, (*view.members, make_address(9))), view))
        await trio.testing.wait_all_tasks_blocked()
        assert seen == [now] and channel.driver.turns == turns


async def test_a_task_hears_of_the_name_of_a_member(autojump_clock: MockClock) -> None:
    seen: list[float] = []

    async def wait(channel: Channel) -> None:
        await channel.wait_members(["A", "B"])
        seen.append(trio.current_time())

    async with (
        open_channel("sim.xml", cluster="watch", name="A", transport=MemoryNetwork()) as channel,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(wait, channel)
        view, now, new = channel.view, trio.current_time(), make_address(9)
        channel.notify(ViewChange(View(view.view_id, (*view.members, new)), view))
        await trio.testing.wait_all_tasks_blocked()
        assert seen == []
        channel.stack.names[new] = "B"
        channel.driver.wake()  # as the message with the name does
        await trio.testing.wait_all_tasks_blocked()
        assert seen == [now]
