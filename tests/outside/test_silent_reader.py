"""A member whose application never reads: senders and the member itself log its name, and in the end it leaves."""

from __future__ import annotations

import logging
import math
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import pytest
import trio
from trio.testing import MockClock

from jgroups_py import Channel, ChannelLimits, Expelled, MemoryNetwork, open_channel, open_rpc

SIZE = 10_000


@dataclass
class Sending:
    """The number of messages that a member could send, and the time when the last one left."""

    sent: int = 0
    last: float = field(default_factory=trio.current_time)


async def read(channel: Channel) -> None:
    async for _ in channel:
        pass


async def send(channel: Channel, sending: Sending) -> None:
    while True:
        await channel.send(bytes(SIZE))
        await trio.sleep(0.01)  # the clock stands still while any task runs
        sending.sent += 1
        sending.last = trio.current_time()


async def waits(sending: Sending) -> None:
    """Wait until no message was sent for a second."""
    while trio.current_time() - sending.last < 1:  # noqa: ASYNC110 - nobody could tell
        await trio.sleep(0.5)


def lines(caplog: pytest.LogCaptureFixture, member: str, part: str) -> list[str]:
    return [
        r.getMessage()
        for r in caplog.records
        if r.levelno >= logging.WARNING
        and getattr(r, "member", "") == member
        and part in r.getMessage()
    ]


@asynccontextmanager
async def members(names: str) -> AsyncIterator[tuple[list[Channel], trio.Nursery]]:
    """The members of a group in memory, and a nursery that ends before they leave."""
    network = MemoryNetwork()
    async with AsyncExitStack() as stack:
        opening = [
            open_channel("udp.xml", cluster="demo", name=name, transport=network) for name in names
        ]
        channels = [await stack.enter_async_context(channel) for channel in opening]
        nursery = await stack.enter_async_context(trio.open_nursery())
        yield channels, nursery
        nursery.cancel_scope.cancel()


async def test_the_reader_is_named_and_leaves_so_that_others_can_send(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with members("ABC") as ((a, b, c), nursery):
        sending = Sending()
        nursery.start_soon(read, a)
        nursery.start_soon(read, c)
        for _ in range(100):  # a hundred waiting tasks do not log a hundred lines
            nursery.start_soon(send, a, sending)
        await waits(sending)
        held_at = trio.current_time()

        await trio.sleep(11)
        (line,) = lines(caplog, "A", "no credit from B")
        assert "its application does not read" in line
        await trio.sleep(9)
        (line,) = lines(caplog, "B", "nobody takes items from this channel")
        assert "A cannot send" in line
        assert f"{b.statistics().waiting} messages" in line
        assert "leaves the group in 1" in line  # a hundred and some seconds

        await a.wait_view(2, timeout=None)
        assert 115 < trio.current_time() - held_at < 140
        await trio.sleep(1)
        assert sending.sent > 1000
        assert len(lines(caplog, "A", "no credit from B")) <= 5
        assert len(lines(caplog, "B", "nobody takes items")) <= 5
        with pytest.raises(Expelled, match=r"took nothing for 12\d s while A could not send"):
            await b.send(b"x")
        with pytest.raises(Expelled, match="took nothing"):
            await read(b)


async def test_a_member_that_does_not_read_itself_is_told_so(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with members("A") as ((a,), nursery):
        nursery.start_soon(send, a, Sending())
        await trio.sleep(60)
        assert "this member's own reader" in lines(caplog, "A", "no credit from")[0]
        assert "A cannot send" in lines(caplog, "A", "nobody takes items from this channel")[0]


@pytest.mark.parametrize("reads", ["one an hour", "one a minute"])
async def test_a_reader_that_is_slow_or_holds_nobody_up_stays(
    reads: str, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A little unread traffic does no harm; a message a minute is slow, not silent."""
    async with members("AB") as ((a, b), nursery):
        nursery.start_soon(read, a)
        if reads == "one an hour":
            for _ in range(50):
                await a.send(bytes(SIZE))
            await trio.sleep(3600)
            assert lines(caplog, "B", "nobody takes items") == []
        else:
            nursery.start_soon(send, a, Sending())
            for _ in range(60):
                await trio.sleep(60)
                await anext(b)
        assert len(a.view.members) == 2


async def test_an_rpc_of_which_nobody_reads_the_rest_is_named_too(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with members("AB") as ((a, b), nursery), open_rpc(b, {"now": trio.current_time}):
        nursery.start_soon(read, a)
        nursery.start_soon(send, a, Sending())
        await trio.sleep(60)
        assert "A cannot send" in lines(caplog, "B", "nobody takes items from this channel")[0]


async def never(limits: ChannelLimits | None, timeout: float | None, seconds: float) -> int:
    """Return the members of A's view after B has not read for some time."""
    network = MemoryNetwork()
    async with (
        open_channel("udp.xml", cluster="demo", name="A", transport=network) as a,
        open_channel(
            "udp.xml",
            cluster="demo",
            name="B",
            transport=network,
            limits=limits,
            slow_reader_timeout=timeout,
        ),
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(read, a)
        nursery.start_soon(send, a, Sending())
        await trio.sleep(seconds)
        members = len(a.view.members)
        nursery.cancel_scope.cancel()
        return members


async def test_the_rule_can_be_changed(autojump_clock: MockClock) -> None:
    assert await never(ChannelLimits(hold_senders_max=math.inf), None, 2000) == 2
    assert await never(ChannelLimits(hold_senders_max=30), None, 90) == 1
    assert await never(None, 15, 30) == 1
    assert await never(None, 500, 300) == 2


async def test_a_member_that_reads_is_not_named(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """All members lack credit at the moment when a burst begins to wait."""
    network = MemoryNetwork()
    async with (
        open_channel(
            "udp.xml",
            cluster="demo",
            name="A",
            transport=network,
            limits=ChannelLimits(send_buffer_max=10_000_000),
        ) as a,
        open_channel("udp.xml", cluster="demo", name="B", transport=network),
        open_channel("udp.xml", cluster="demo", name="C", transport=network) as c,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(read, a)
        nursery.start_soon(read, c)
        for _ in range(900):
            a.send_nowait(bytes(SIZE))
        await trio.sleep(1)
        nursery.start_soon(a.send, b"waits")
        await trio.sleep(8)
        (line,) = lines(caplog, "A", "no credit from")
        assert "no credit from B: its application does not read" in line
        nursery.cancel_scope.cancel()


SILENT = """
import trio
from jgroups_py import ChannelLimits, Expelled, open_channel

async def main():
    async with open_channel(
        "udp.xml", cluster="silent", name="B",
        limits=ChannelLimits(hold_senders_max=13),
    ) as channel:
        while True:
            await trio.sleep(0.2)
            try:
                channel.send_nowait(b"", to=channel.address)
            except Expelled as error:
                print("expelled:", error, flush=True)
                return

trio.run(main)
"""


@pytest.mark.sockets
async def test_two_real_processes_without_any_logging_set_up() -> None:
    """An operator sees a line on standard error, and the sender goes on."""
    command = [sys.executable, "-c", SILENT]
    async with (
        open_channel("udp.xml", cluster="silent", name="A") as a,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(read, a)
        run = partial(trio.run_process, command, capture_stdout=True, capture_stderr=True)
        done: list[subprocess.CompletedProcess[bytes]] = []

        async def other() -> None:
            done.append(await run())

        nursery.start_soon(other)
        with trio.fail_after(120):
            await a.wait_members(2)
            sending = Sending()
            nursery.start_soon(send, a, sending)
            while not done:  # noqa: ASYNC110 - a process
                await trio.sleep(0.1)
            before = sending.sent
            while sending.sent < before + 100:  # noqa: ASYNC110 - the sender goes on
                await trio.sleep(0.1)
        told = done[0].stderr.decode()
        assert "B/silent: nobody takes items from this channel" in told
        assert "A cannot send; this member leaves the group in" in told
        said = done[0].stdout.decode()
        assert re.match(r"expelled: the application took nothing for \d+ s", said), said
        nursery.cancel_scope.cancel()
