"""Sending: order, natural batching, back-pressure."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio
from test_channel_stream import from_below, take, toy_of

from jgroups_py import Batch, ChannelClosed, ChannelLimits, Flag, LocalProtocolError
from jgroups_py.channel.outbox import Outbox
from jgroups_py.values.events import FlowBlocked, FlowOpened


async def test_messages_of_one_turn_go_down_as_runs_in_order(
    open_toy: Any, autojump_clock: Any
) -> None:
    async with open_toy(name="A") as a:
        seen: list[Batch] = []
        toy = toy_of(a)
        a.stack._send = seen.append  # the messages that the top protocol gets
        for n in range(3):
            a.send_nowait(b"all %d" % n)
            a.send_nowait(b"one %d" % n, a.address)
        a.send_nowait(b"oob", flags=Flag.OOB)
        a.send_nowait(b"again")
        a.send_nowait(b"not to me", loopback=False)
        assert seen == []
        await trio.sleep(0.1)
        assert [(b.dest, int(b.flags), b.transient, list(b.payloads)) for b in seen] == [
            (None, 0, 0, [b"all 0", b"all 1", b"all 2"]),
            (None, 1, 0, [b"oob"]),
            (None, 0, 0, [b"again"]),
            (None, 0, 2, [b"not to me"]),
            (a.address, 0, 0, [b"one 0", b"one 1", b"one 2"]),
        ]
        assert all(b.src == toy.local_address for b in seen)


async def test_send_many_keeps_the_order_and_cuts_large_lists(
    open_toy: Any, autojump_clock: Any
) -> None:
    async with open_toy(name="A", limits=ChannelLimits(turn_bytes=1000)) as a:
        payloads = [n.to_bytes(4, "big") * (n % 50 + 1) for n in range(500)]
        await a.send_many(iter(payloads))
        await a.send_many([bytearray(b"last")])
        got = await take(a, 502)
        assert [payload for _, payload in got[1:]] == [*payloads, b"last"]


@pytest.mark.parametrize("limits", [{"turn_messages": 10}, {"turn_bytes": 10}])
async def test_many_sends_let_others_run(
    limits: dict[str, int], open_toy: Any, autojump_clock: Any
) -> None:
    async with open_toy(name="A", limits=ChannelLimits(**limits)) as a:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(count)
            for _ in range(100):
                await a.send(b"x")
            assert turns >= 9
            nursery.cancel_scope.cancel()


async def test_send_waits_while_flow_control_says_so(open_toy: Any, autojump_clock: Any) -> None:
    async with open_toy(name="A") as a, open_toy(name="B") as b:
        await trio.sleep(0.1)
        await take(a, 1)
        from_below(a, FlowBlocked("UFC", b.address, (b.address,)))
        with pytest.raises(trio.WouldBlock):
            a.send_nowait(b"x", b.address)
        await a.send(b"others may")  # the group is not blocked
        started = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(a.send, b"waited", b.address)
            await trio.sleep(3)
            assert await take(b, 2) == [["A", "B"], ("A", b"others may")]
            from_below(a, FlowOpened("UFC", b.address))
        assert trio.current_time() - started == 3
        assert await take(b, 1) == [("A", b"waited")]
        assert a.statistics().send_waits == 1


async def test_two_members_that_block_must_both_open(open_toy: Any, autojump_clock: Any) -> None:
    async with open_toy(name="A") as a:
        from_below(a, FlowBlocked("MFC", None, ()), FlowBlocked("RELAY", None, (), "buffer full"))
        from_below(a, FlowOpened("MFC", None))
        with pytest.raises(trio.WouldBlock):
            a.send_nowait(b"x")
        from_below(a, FlowOpened("RELAY", None))
        a.send_nowait(b"x")


async def test_a_send_that_waits_long_names_the_slow_member(
    open_toy: Any, autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_toy(name="A") as a, open_toy(name="B") as b:
        await trio.sleep(0.1)
        await a.send(b"unread by ourselves")
        await trio.sleep(0.1)
        from_below(a, FlowBlocked("MFC", None, (b.address, a.address)))
        with caplog.at_level(logging.WARNING), trio.move_on_after(6):
            await a.send(b"x")
        assert len(caplog.records) == 1
        record = caplog.records[0]
        assert record.name == "jgroups_py.channel.channel"
        assert (record.__dict__["member"], record.__dict__["cluster"]) == ("A", "test")
        assert "MFC: no credit from B: its application does not read" in record.message
        assert "this member's own reader (1 messages unread)" in record.message


async def test_the_send_buffer_is_bounded(open_toy: Any, autojump_clock: Any) -> None:
    async with open_toy(name="A", limits=ChannelLimits(send_buffer_max=1000)) as a:
        a.send_nowait(bytes(600))
        with pytest.raises(trio.WouldBlock):
            a.send_nowait(bytes(600))
        await a.send(bytes(600))  # waits one turn
        await trio.sleep(0.1)
        a.send_nowait(bytes(5000))  # larger than the buffer, which is empty
        assert len(await take(a, 4)) == 4


async def test_a_cancelled_send_sent_nothing(open_toy: Any, autojump_clock: Any) -> None:
    async with open_toy(name="A") as a:
        from_below(a, FlowBlocked("MFC", None, ()))
        with trio.move_on_after(1):
            await a.send(b"never")
        from_below(a, FlowOpened("MFC", None))
        await a.send(b"now")
        assert await take(a, 2) == [["A"], ("A", b"now")]


async def test_a_message_that_cannot_be_sent_is_refused_at_once(
    open_toy: Any, autojump_clock: Any
) -> None:
    async with open_toy(name="A") as a:
        with pytest.raises(TypeError, match="bytes, not str"):
            await a.send("text")
        with pytest.raises(LocalProtocolError, match="unknown flags"):
            await a.send(b"x", flags=1 << 14)
        await a.send(memoryview(b"view"))
        assert await take(a, 2) == [["A"], ("A", b"view")]


async def test_leaving_waits_for_credit_and_reports_losses(
    open_toy: Any, autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_toy(name="B") as b:
        async with open_toy(name="A") as a:
            await trio.sleep(0.1)
            a.send_nowait(b"in time")
            from_below(a, FlowBlocked("MFC", None, ()))

            def open_later() -> None:
                from_below(a, FlowOpened("MFC", None))

            a.stack.machine.timer(open_later, "open_later").start(2.0)
        assert await take(b, 2) == [["A", "B"], ("A", b"in time")]
        async with open_toy(name="A") as a:
            await trio.sleep(0.1)
            a.send_nowait(b"too late")
            from_below(a, FlowBlocked("MFC", None, ()))
    assert "8 bytes were still waiting for credit" in caplog.text


async def test_after_the_end_nothing_is_taken_though_a_run_was_begun(
    open_toy: Any, autojump_clock: Any
) -> None:
    async with open_toy(name="A") as a:
        a.send_nowait(b"taken")
    with pytest.raises(ChannelClosed):
        a.send_nowait(b"not taken")
    outbox = Outbox(ChannelLimits(), lambda: None, lambda to, seconds: None)
    assert outbox.put(b"taken", None, 0, True)
    outbox.end(ChannelClosed("closed"))
    with pytest.raises(ChannelClosed):
        outbox.put(b"not taken", None, 0, True)


async def test_a_closed_channel_gives_back_unread_credits(
    open_toy: Any, autojump_clock: Any
) -> None:
    async with open_toy(name="A") as a:
        async with open_toy(name="B") as b:
            toy = toy_of(b)
            toy.credited = True
            await a.send(b"unread")
            await trio.sleep(0.1)
            assert toy.consumed == 0
        assert toy.consumed == len(b"unread")


async def test_a_message_that_is_sent_at_once_waits_for_no_turn_of_the_loop(
    open_toy: Any, autojump_clock: Any
) -> None:
    async with open_toy(name="A") as a:
        await trio.sleep(0.1)
        seen: list[Batch] = []
        a.stack._send = seen.append
        a.send_nowait(b"before")
        assert a.send_at_once(b"now", loopback=False)
        assert [(list(b.payloads), b.transient) for b in seen] == [([b"before"], 0), ([b"now"], 2)]
        from_below(a, FlowBlocked("MFC", None, ()))
        assert not a.send_at_once(b"blocked")
        from_below(a, FlowOpened("MFC", None))
        await trio.sleep(0.1)
        assert len(seen) == 2, "a message that had to wait is not sent"
        with pytest.raises(LocalProtocolError):
            a.send_at_once(b"x", flags=1 << 14)


async def test_a_message_sent_at_once_within_a_step_of_the_stack_leaves_after_the_step(
    open_toy: Any, autojump_clock: Any
) -> None:
    async with open_toy(name="A") as a:
        await trio.sleep(0.1)
        seen: list[Batch] = []
        a.stack._send = seen.append
        a.stack.machine.enter()
        assert a.send_at_once(b"x")
        assert seen == [], "a turn of the driver does not begin within a step"
        a.stack.machine.leave()
        await trio.sleep(0.1)
        assert [list(b.payloads) for b in seen] == [[b"x"]]
