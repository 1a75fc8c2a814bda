"""A user's own protocol raises: this ends its own member, with an error that names the protocol; the others go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from jgroups_py import Channel, ChannelClosed, MemoryNetwork, ProtocolFailed, open_channel

POISON = b"poison"


def stack(folder: Path, at: str) -> Path:
    file = folder / f"{at}.xml"
    file.write_text(
        '<config xmlns="urn:org:jgroups"><include file="sim.xml"/>'
        f'<raising_protocols.BOOM at="{at}"/></config>'
    )
    return file


async def read(channel: Channel, into: list[Any]) -> None:
    async for item in channel:
        into.append(item)


@pytest.mark.parametrize("at", ["up", "junk", "timer", "down", "event_down", "leave", "stop"])
@pytest.mark.parametrize("shielded", [False, True])
async def test_an_error_of_an_own_protocol_ends_its_member_and_is_named(
    tmp_path: Path, autojump_clock: Any, at: str, shielded: bool
) -> None:
    network = MemoryNetwork()

    def opened(name: str, file: str = "sim.xml") -> Any:
        return open_channel(file, cluster="own", name=name, transport=network)

    async def bad(task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
        async with opened("B", str(stack(tmp_path, at))) as b:
            task_status.started()
            seen = 0
            async for item in b.batches():
                seen += POISON in getattr(item, "payloads", ())
                if seen:
                    await b.send(b"an answer")
                    if at in ("leave", "stop"):
                        return
                    with trio.CancelScope(shield=shielded):
                        await trio.sleep(5)

    async def check(task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
        with pytest.raises(ProtocolFailed) as caught:
            await bad(task_status)
        error = caught.value
        assert "own" in str(error)
        if at == "junk":  # items that it handed up harm the channel, not a protocol
            assert error.protocol == "BOOM"
        else:
            assert error.protocol == "BOOM"
            assert f"BOOM raised ValueError: boom at {at} (raising_protocols.py:" in str(error)
            assert isinstance(error.__cause__, ValueError)

    got: list[Any] = []
    async with opened("A") as a, opened("C") as c, trio.open_nursery() as nursery:
        nursery.start_soon(read, a, [])
        nursery.start_soon(read, c, got)
        with trio.fail_after(60):
            async with trio.open_nursery() as inner:
                await inner.start(check)
                await a.send(POISON)
            for channel in (a, c):
                await channel.wait_view(lambda view: len(view) <= 2)
            await a.send(b"still here")
            while not got or getattr(got[-1], "payload", b"") != b"still here":  # noqa: ASYNC110
                await trio.sleep(0.1)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("at", ["start", "view"])
async def test_a_channel_with_a_protocol_that_raises_at_once_cannot_be_opened(
    tmp_path: Path, autojump_clock: Any, at: str
) -> None:
    network = MemoryNetwork()

    def opened(name: str, file: str = "sim.xml") -> Any:
        return open_channel(file, cluster="own", name=name, transport=network)

    async with opened("A") as a, opened("C") as c:
        with trio.fail_after(60), pytest.raises(ProtocolFailed, match=f"BOOM raised .* at {at}"):
            await opened("B", str(stack(tmp_path, at))).__aenter__()
        for channel in (a, c):
            await channel.wait_view(lambda view: len(view) <= 2)


async def test_a_task_elsewhere_that_waits_for_members_is_told_of_the_end(
    tmp_path: Path, autojump_clock: Any
) -> None:
    ended: list[Exception] = []

    async def wait(channel: Channel) -> None:
        try:
            await channel.wait_members(2, timeout=None)
        except ChannelClosed as error:
            ended.append(error)

    async def fail(nursery: trio.Nursery) -> None:
        file = str(stack(tmp_path, "up"))
        async with open_channel(file, cluster="own", transport=MemoryNetwork()) as b:
            nursery.start_soon(wait, b)
            await b.send(POISON)
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        with trio.fail_after(60), pytest.raises(ProtocolFailed):
            await fail(nursery)
        with trio.fail_after(5):
            while not ended:  # noqa: ASYNC110
                await trio.sleep(0.1)
