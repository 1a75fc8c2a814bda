"""Bytes that are no call, replies that cannot be read, and members that need another form."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from rpc_nodes import Open, Target, nodes, replies

from jgroups_py import (
    UUID,
    Batch,
    ReplyLost,
    Suspected,
    View,
    ViewId,
    open_rpc,
)
from jgroups_py.rpc.correlator import GROUP_IDS
from jgroups_py.values.events import Exclude, ViewChange
from jgroups_py.values.header import Header
from jgroups_py.values.message import MessageType
from jgroups_py.wire.headers import CorrelatorHeader, CorrelatorType, FcHeader, FcType


async def test_bytes_that_are_no_call_are_counted_and_dropped(
    open_sim: Open, autojump_clock: Any
) -> None:
    traced: list[str] = []

    def trace(now: float, member: str, protocol: str, what: str, details: Any) -> None:
        if protocol == "RPC":
            traced.append(what)

    async with open_sim(name="A") as a, open_sim(name="B", trace=trace) as b:
        target = Target()
        async with open_rpc(b, target) as rpc:

            def send(header: Header, payload: Any = b"\xc1garbage", type: int = 0) -> None:
                a.stack.send(Batch(b.address, (payload,), {200: header}, type=type))
                a.driver.wake()

            header = CorrelatorHeader
            req, rsp, error = CorrelatorType.REQ, CorrelatorType.RSP, CorrelatorType.EXC_RSP
            for one in (
                header(req, 0),
                header(req, 1),
                header(rsp, 0),
                header(rsp, -5),
                header(req, -5),
                header(req, (1 << 63) - 1),
                header(req, 1, 77),
                FcHeader(FcType.REPLENISH),
            ):
                send(one)
            send(header(req, 1), None)
            send(header(req, 1), b"")
            send(header(req, 1), b"\3add")
            send(header(req, 1), b"\3add\x91\xff\xff")
            send(header(req, 1), None, 2)
            send(header(req, 1), 5, 4)
            send(header(rsp, 1), b"nobody asked")
            send(header(error, GROUP_IDS + 1), b"nobody asked")
            send(header(req, 0, 77), b"\4note\x91\xa2no")
            send(header(req, 0), b"\4note\x91\xa3yes")
            await trio.sleep(1)
            counters = rpc.statistics().counters
            assert target.seen == ["yes"]
            assert counters.malformed == 15 and counters.late == 2
            assert traced.count("malformed") == 15


async def test_a_reply_that_cannot_be_read_is_lost_not_awaited(
    open_sim: Open, autojump_clock: Any
) -> None:
    class Odd:
        def encode(self, value: Any) -> bytes:
            return b"\xc1"

        def decode(self, data: bytes | memoryview) -> Any:
            return []

    async with (
        open_sim(name="A") as a,
        open_sim(name="B") as b,
        open_rpc(a) as rpc,
        open_rpc(b, {"odd": lambda: 1}, codec=Odd()),
    ):
        with pytest.raises(ReplyLost, match="cannot be read"):
            await rpc.call(b.address, "odd")


async def test_a_reply_of_a_type_that_carries_none_is_lost_not_awaited(
    open_sim: Open, autojump_clock: Any
) -> None:
    async with open_sim(name="A") as a, open_sim(name="B") as b:

        async def odd() -> None:
            header = CorrelatorHeader(CorrelatorType.RSP, 1)
            b.stack.send(Batch(a.address, (None,), {200: header}, type=MessageType.EMPTY))
            b.driver.wake()
            await trio.sleep(5)

        async with open_rpc(a) as rpc, open_rpc(b, {"odd": odd}):
            with pytest.raises(ReplyLost, match="a message of type 2 is no reply"):
                await rpc.call(b.address, "odd")
            assert rpc.statistics().counters.malformed == 1


@pytest.mark.parametrize("how", ["cast", "call_all"])
async def test_a_member_that_joins_while_a_request_waits_decides_its_form(
    open_sim: Open, how: str, autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with nodes(open_sim) as (a, _b):
        rpc, waited, sent = a.rpc, 0, []
        room, send = rpc._room, rpc._send

        async def waits(dest: Any, size: int) -> None:
            nonlocal waited
            waited += 1
            rpc._all_ours = False  # as if the view had a Java member now
            await room(dest, size)

        def noted(dest: Any, header: Any, encoded: Any, flags: int, **more: Any) -> None:
            sent.append(encoded.type)
            send(dest, header, encoded, flags, **more)

        monkeypatch.setattr(rpc, "_room", waits)
        monkeypatch.setattr(rpc, "_send", noted)
        if how == "cast":
            await rpc.cast("add", 1, 2)
        else:
            await replies(rpc, "add", 1, 2)
        assert waited == 2 and sent == [MessageType.OBJECT]


async def test_each_view_decides_anew_whether_a_java_member_must_read_messages_to_all(
    open_sim: Open, autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with nodes(open_sim) as (a, b):
        sent: list[int] = []

        def noted(dest: Any, header: Any, encoded: Any, flags: int, **more: Any) -> None:
            sent.append(encoded.type)

        monkeypatch.setattr(a.rpc, "_send", noted)
        ours = (a.address, b.address)
        for number, members in ((50, ours), (51, (*ours, UUID(bytes(16)))), (52, ours)):
            a.channel.notify(ViewChange(View(ViewId(b.address, number), members), a.channel.view))
            await a.rpc.cast("add", 1, 2)
            await a.rpc.cast("add", 1, 2)
        assert sent == [MessageType.BYTES] * 2 + [MessageType.OBJECT] * 2 + [MessageType.BYTES] * 2


async def test_calls_under_way_end_and_may_have_run_when_the_group_goes_on_without_us(
    open_sim: Open, autojump_clock: Any
) -> None:
    """The answer may have been lost with the connection, and the merge view has all members: nothing
    else would end the call."""
    async with nodes(open_sim) as (a, b):
        caught: list[Suspected] = []

        async def call() -> None:
            try:
                await a.rpc.call(b.address, "slowly", 50)
            except Suspected as error:
                caught.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            await trio.sleep(1)
            others = View(ViewId(b.address, 99), (b.address,))
            a.channel.notify(Exclude(others, b.address, (), certain=True))
        assert [error.member for error in caught] == [b.address]
        assert not caught[0].definite
        assert await a.rpc.call(b.address, "add", 1, 2) == 3
