"""Opening and closing: refusals, errors, and leftovers."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio
import trio.lowlevel
from test_channel_stream import from_below, take, toy_of
from toy import TOY

from jgroups_py import (
    Channel,
    ChannelLimits,
    ConfigError,
    JoinError,
    LocalProtocolError,
    StateTransferError,
    open_channel,
)
from jgroups_py.channel.open import configure
from jgroups_py.values.batch import Batch, Credit
from jgroups_py.values.events import Failed


async def test_a_channel_shows_its_state(open_toy: Any, autojump_clock: Any) -> None:
    async with open_toy(name="A", seed=7) as a:
        first = a.address
        assert (a.name, a.cluster, a.name_of(a.address)) == ("A", "test", "A")
        assert a.view.coordinator == a.address
        assert a.physical_address is not None
        assert str(a.physical_address).startswith("127.0.0.1:")
        assert a.relay is None
        assert "TOY" in a.statistics().protocols
        assert repr(a) == "<Channel A in test>"
        with pytest.raises(AttributeError):
            a.statistics().sent = 3
    async with open_toy(name="A", seed=7) as again:
        assert again.address == first
    async with open_toy() as nameless:
        assert "-" in nameless.name
        assert nameless.address != first


async def test_an_error_in_the_block_comes_out_as_it_is(open_toy: Any, autojump_clock: Any) -> None:
    error = ValueError("mine")
    with pytest.raises(ValueError, match="mine") as caught:
        async with open_toy(name="A"):
            raise error
    assert caught.value is error
    assert caught.value.__context__ is None


async def test_several_errors_are_a_group(open_toy: Any, autojump_clock: Any) -> None:
    async def fail() -> None:
        raise KeyError("other")

    with pytest.raises(ExceptionGroup) as caught:  # noqa: PT012
        async with open_toy(name="A"), trio.open_nursery() as nursery:
            nursery.start_soon(fail)
            raise ValueError("mine")
    assert {type(e) for e in caught.value.exceptions} == {ValueError, KeyError}


async def test_a_bug_in_a_protocol_ends_the_block(open_toy: Any, autojump_clock: Any) -> None:
    def broken() -> None:
        raise AssertionError("a bug")

    with pytest.raises(AssertionError, match="a bug"):  # noqa: PT012
        async with open_toy(name="A") as a:
            toy_of(a).timer(broken, "broken").start(1.0)
            await trio.sleep(10)


async def test_cancelling_leaves_the_group(open_toy: Any, autojump_clock: Any) -> None:
    async with open_toy(name="A") as a:
        with trio.move_on_after(1) as scope:
            async with open_toy(name="B"):
                await trio.sleep(0.1)
                assert len(a.view) == 2
                await trio.sleep_forever()
        assert scope.cancelled_caught
        await trio.sleep(0.1)
        assert a.view.members == (a.address,)


@pytest.mark.parametrize("after", [0, 0.5])
async def test_cancelling_while_it_opens_leaves_nothing(
    open_toy: Any, autojump_clock: Any, monkeypatch: pytest.MonkeyPatch, network: Any, after: float
) -> None:
    monkeypatch.setattr(TOY, "install", lambda self: None)  # no view ever comes
    tasks = trio.lowlevel.current_statistics().tasks_living
    with trio.fail_after(20), trio.move_on_after(after) as scope:
        async with open_toy(name="A"):
            pytest.fail("it opened")
    assert scope.cancelled_caught
    assert trio.lowlevel.current_statistics().tasks_living == tasks
    assert not network.udp


async def test_leaving_takes_no_longer_than_its_limit(
    open_toy: Any, autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    started = trio.current_time()
    async with open_toy(name="A", limits=ChannelLimits(leave_timeout=2)) as a:
        toy_of(a).pass_event_up = lambda event: None  # Disconnected never comes
    assert trio.current_time() - started == 2
    assert "did not let us go" in caplog.text


async def test_a_stack_that_cannot_start_is_a_join_error(
    open_toy: Any, autojump_clock: Any
) -> None:
    async with open_toy(name="A", attributes={"TOY.bind_port": "5000"}):
        with pytest.raises(JoinError, match="already in use"):
            async with open_toy(name="B", attributes={"TOY.bind_port": "5000"}):
                pytest.fail("it opened")


async def test_no_view_in_time_is_a_join_error(
    open_toy: Any, autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TOY, "install", lambda self: None)
    limits = ChannelLimits(leave_timeout=1)
    with pytest.raises(JoinError, match="no view of test within 7 s"):
        async with open_toy(name="A", join_timeout=7, limits=limits):
            pytest.fail("it opened")


async def test_a_stack_that_fails_later_expels(open_toy: Any, autojump_clock: Any) -> None:
    async with open_toy(name="A") as a:
        from_below(a, Failed("the network is gone"))
        with pytest.raises(trio.BrokenResourceError, match="the network is gone"):
            await a.send(b"x")


async def test_mistakes_are_found_before_anything_is_started(open_toy: Any) -> None:
    with pytest.raises(ConfigError):
        async with open_channel("no-such-stack.xml", cluster="test"):
            pytest.fail("it opened")
    with pytest.raises(ConfigError, match="numeric address"):
        async with open_toy(bind_addr="localhost"):
            pytest.fail("it opened")
    with pytest.raises(ConfigError, match=r"TOY\.colour"):
        async with open_toy(attributes={"TOY.colour": "red"}):
            pytest.fail("it opened")


def test_the_address_it_binds_to(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.delenv("JGROUPS_BIND_ADDR", raising=False)
    named, silent = tmp_path / "named.xml", tmp_path / "silent.xml"
    named.write_text('<config><toy.TOY bind_addr="127.0.0.9"/></config>')
    silent.write_text("<config><toy.TOY/></config>")

    def bound(file: Any, bind_addr: str | None = None) -> str | None:
        config, host = configure(file, bind_addr)
        return config.protocols[0].get("bind_addr") or host

    assert bound(silent) == "127.0.0.1"
    assert bound(named) == "127.0.0.9"
    monkeypatch.setenv("JGROUPS_BIND_ADDR", "127.0.0.3")
    assert bound(silent) == "127.0.0.3"
    assert bound(named) == "127.0.0.3"
    assert bound(named, "127.0.0.4") == "127.0.0.4"


async def test_timers_fire_when_they_are_due_earlier_ones_set_later_included(
    open_toy: Any, autojump_clock: Any
) -> None:
    async with open_toy(name="A") as a:
        fired: list[tuple[str, float]] = []
        toy, begin = toy_of(a), trio.current_time()

        def timer(name: str) -> Any:
            return toy.timer(lambda: fired.append((name, trio.current_time() - begin)), name)

        a.stack.machine.enter(begin)
        timer("late").start(0.5)
        timer("early").start(0.05)
        cancelled = timer("cancelled")
        cancelled.start(0.1)
        cancelled.cancel()
        a.stack.machine.leave()
        a.driver.wake()
        await trio.sleep(2)
        assert [what for what, _ in fired] == ["early", "late"]
        assert [after for _, after in fired] == pytest.approx([0.05, 0.5])


# --- state


async def chunks() -> AsyncIterator[bytes]:
    yield b"some "
    await trio.lowlevel.checkpoint()
    yield b"state"


async def read_all(channel: Channel) -> None:
    async for _ in channel:
        pass


async def test_state_is_made_where_the_reader_reaches_the_request(
    open_toy: Any, autojump_clock: Any
) -> None:
    made: list[float] = []

    async def state() -> AsyncIterator[bytes]:
        made.append(trio.current_time())
        async for chunk in chunks():
            yield chunk

    async with (
        open_toy(name="A", state=state) as a,
        open_toy(name="B") as b,
        trio.open_nursery() as nursery,
    ):
        await trio.sleep(0.1)
        begin = trio.current_time()

        async def read_late() -> None:
            await trio.sleep(5)
            await read_all(a)

        nursery.start_soon(read_late)
        assert b"".join([chunk async for chunk in b.fetch_state()]) == b"some state"
        assert made == [begin + 5]
        nursery.cancel_scope.cancel()


async def test_a_fetched_state_replaces_unread_multicasts(
    open_toy: Any, autojump_clock: Any
) -> None:
    async with (
        open_toy(name="A", state=chunks) as a,
        open_toy(name="B") as b,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(read_all, a)
        await trio.sleep(0.1)
        await a.send(b"in the state")
        await a.send(b"to b alone", to=b.address)
        await trio.sleep(0.1)
        async for _ in b.fetch_state(a.address):
            await a.send(b"after it")
        assert await take(b, 3) == [["A", "B"], ("A", b"to b alone"), ("A", b"after it")]
        nursery.cancel_scope.cancel()


async def test_credits_of_messages_that_a_state_replaces_go_back_to_their_senders(
    open_toy: Any, autojump_clock: Any
) -> None:
    async with (
        open_toy(name="A", state=chunks) as a,
        open_toy(name="B") as b,
        trio.open_nursery() as nursery,
    ):
        toy = b.stack.protocols[0]
        toy.credited = True
        nursery.start_soon(read_all, a)
        await trio.sleep(0.1)
        await a.send(b"in the state")
        await trio.sleep(0.1)
        assert toy.consumed == 0
        async for _ in b.fetch_state(a.address):
            pass
        await trio.sleep(0.1)
        assert toy.consumed == len(b"in the state")
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("alone", [True, False])
async def test_a_state_replaces_the_unread_rest_of_a_multicast_run(
    open_toy: Any, autojump_clock: Any, alone: bool
) -> None:
    async with (
        open_toy(name="A", state=chunks) as a,
        open_toy(name="B") as b,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(read_all, a)
        await trio.sleep(0.1)
        dest = b.address if alone else None
        credit = (Credit(a.address, not alone, 4),)
        from_below(b, Batch(dest, (b"1", b"2"), {}, a.address, credits=credit))
        assert (await take(b, 2))[-1] == ("A", b"1")
        async for _ in b.fetch_state(a.address):
            pass
        await trio.sleep(0.1)
        assert toy_of(b).consumed == (0 if alone else 4)
        await a.send(b"after it")
        left = [("A", b"2")] if alone else []
        assert await take(b, 1 + len(left)) == [*left, ("A", b"after it")]
        nursery.cancel_scope.cancel()


async def test_a_provider_that_does_not_read_makes_it_fail_and_is_named(
    open_toy: Any, autojump_clock: Any
) -> None:
    async with open_toy(name="A", state=chunks) as a, open_toy(name="B") as b:
        await trio.sleep(0.1)
        with pytest.raises(StateTransferError, match="provider A"):
            async for _ in b.fetch_state(a.address, timeout=4):
                pass
        await b.send(b"still works")


async def test_asking_oneself_for_the_state_is_refused(open_toy: Any, autojump_clock: Any) -> None:
    async with open_toy(name="A") as a:
        with pytest.raises(LocalProtocolError):
            async for _ in a.fetch_state():
                pass


async def test_a_trace_that_raises_ends_nothing(
    open_toy: Any, autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def trace(*args: Any) -> None:
        raise ValueError("boom")

    async with open_toy(name="A", trace=trace) as a:
        for _ in range(5):
            a.stack.protocols[0].trace("something")
        assert a.statistics().trace_failures == 5
        await a.send(b"still here")
    lines = [r for r in caplog.records if "trace= raised" in r.message]
    assert len(lines) == 1
    assert "ValueError: boom" in lines[0].message


# --- what stays behind


def _channels() -> list[Channel]:
    gc.collect()
    return [o for o in gc.get_objects() if type(o) is Channel]


async def test_opening_and_closing_leaves_no_task_and_no_object(
    open_toy: Any, autojump_clock: Any, network: Any
) -> None:
    tasks = trio.lowlevel.current_statistics().tasks_living
    others = _channels()  # channels of earlier tests, kept by raised errors
    for _ in range(20):
        async with open_toy(name="A"):
            pass
    assert trio.lowlevel.current_statistics().tasks_living == tasks
    assert not network.udp
    assert not any(network.groups.values())
    assert not [o for o in _channels() if not any(o is e for e in others)]
