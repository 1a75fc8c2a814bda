"""A state provider that misbehaves: the joiner is refused, the provider's member goes on."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import pytest
import trio

from jgroups_py import (
    Channel,
    ChannelClosed,
    ChannelLimits,
    MemoryNetwork,
    StateTransferError,
    open_channel,
)

LIMITS = ChannelLimits(state_max=1000, state_timeout=3.0)


class Provider:
    """A provider whose behaviour is chosen by ``how``. It notes whether its generator was closed."""

    def __init__(self, how: Callable[[], Any]) -> None:
        self.how = how
        self.begun = self.closed = 0

    async def __call__(self) -> AsyncIterator[Any]:
        self.begun += 1
        try:
            yield b"one "
            what = self.how()
            if what is not None:
                await what if hasattr(what, "__await__") else None
            yield b"two" if what is None or hasattr(what, "__await__") else what
        finally:
            self.closed += 1


class Odd(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text either")


def raises(make: Callable[[], BaseException]) -> Callable[[], Any]:
    """Make a new provider each time: a traceback keeps the channels that it passed through."""

    def raise_it() -> None:
        raise make()

    return raise_it


@pytest.fixture
def open_sim() -> Any:
    return partial(
        open_channel, "sim.xml", cluster="test", transport=MemoryNetwork(), limits=LIMITS
    )


async def fetched(joiner: Channel, provider: Channel, timeout: float = 1.0) -> None:
    async for _ in joiner.fetch_state(provider.address, timeout=timeout):
        pass


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - nobody tells
        await trio.sleep(0.1)


async def read(channel: Channel) -> None:
    async for _ in channel:
        pass


@pytest.mark.parametrize(
    ("how", "told"),
    [
        (raises(lambda: ValueError("boom")), "ValueError: boom"),
        (raises(lambda: ExceptionGroup("two", [OSError(), OSError()])), "ExceptionGroup: two"),
        (raises(lambda: ValueError("file \udcff")), "ValueError: file \\udcff"),
        (raises(lambda: Odd()), "Odd: (its text cannot be made)"),
        (lambda: 7, "yielded int"),
        (lambda: "text", "yielded str"),
        (lambda: bytes(2000), "larger than 1000 bytes (state_max)"),
        (trio.sleep_forever, "longer than 3 s (state_timeout)"),
    ],
    ids=["raises", "group", "surrogate", "odd", "number", "text", "large", "hangs"],
)
async def test_the_joiner_is_told_and_the_member_goes_on(
    open_sim: Any, how: Any, told: str, autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    provider = Provider(how)
    async with open_sim(name="A", state=provider) as a, trio.open_nursery() as nursery:
        nursery.start_soon(read, a)
        with pytest.raises(StateTransferError) as caught:
            async with open_sim(name="B", get_state=True):
                raise AssertionError("it has no state")
        assert told in str(caught.value)
        assert "provider A" in str(caught.value)
        assert provider.begun == provider.closed == 1
        assert a.statistics().state_failures == 1
        (line,) = [r for r in caplog.records if "state provider" in r.message or told in r.message]
        assert line.levelno == logging.WARNING
        provider.how = lambda: None
        async with open_sim(name="C", get_state=True) as c:
            assert (await anext(c)).payload == b"one two"
        nursery.cancel_scope.cancel()


async def test_a_repeated_line_is_logged_once_in_an_interval(
    open_sim: Any, autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        open_sim(name="A", state=Provider(raises(lambda: ValueError("boom")))) as a,
        trio.open_nursery() as nursery,
        open_sim(name="B") as b,
    ):
        nursery.start_soon(read, a)
        for wanted in (1, 1, 1, 2):
            for _ in range(3):
                with pytest.raises(StateTransferError, match="ValueError: boom"):
                    await fetched(b, a)
            lines = [r.message for r in caplog.records if "boom" in r.message]
            assert len(lines) == wanted
            await trio.sleep(4)
        assert "8 more like this left out" in lines[-1]
        assert a.statistics().state_failures == 12
        nursery.cancel_scope.cancel()


async def test_the_reader_after_a_cancelled_one_makes_the_state(
    open_sim: Any, autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    provider = Provider(partial(trio.sleep, 1.0))
    got: list[Any] = []

    async def join() -> None:
        async with open_sim(name="B", get_state=True) as b:
            got.append(await anext(b))

    async with open_sim(name="A", state=provider) as a, trio.open_nursery() as nursery:
        nursery.start_soon(join)
        while provider.begun == 0:
            with trio.move_on_after(0.5):
                await anext(a)
        assert provider.closed == 1
        assert got == []
        with trio.move_on_after(5):
            await read(a)
        assert provider.begun == provider.closed == 2
    assert got[0].payload == b"one two"
    assert "A/test: the reader was ended while it made the state" in caplog.text


async def test_a_second_reader_that_waits_makes_the_state_that_the_first_one_left(
    open_sim: Any, autojump_clock: Any
) -> None:
    """No other item arrives that would wake the channel."""
    provider = Provider(partial(trio.sleep, 1.0))
    first = trio.CancelScope()

    async def read_until_cancelled(a: Channel) -> None:
        with first:
            await read(a)

    async with open_sim(name="A", state=provider) as a, trio.open_nursery() as nursery:
        nursery.start_soon(read_until_cancelled, a)
        async with open_sim(name="B") as b:
            await b.wait_members(2)
            nursery.start_soon(fetched, b, a, 30.0)
            with trio.fail_after(60):
                await until(lambda: provider.begun == 1)
                nursery.start_soon(read, a)
                await trio.sleep(0.1)
                first.cancel()
                await until(lambda: provider.begun == 2)
            assert provider.closed == 1
            await trio.sleep(1.5)
            assert provider.closed == 2
        nursery.cancel_scope.cancel()


async def test_a_request_that_no_reader_takes_again_is_refused_at_the_end(
    open_sim: Any, autojump_clock: Any
) -> None:
    provider = Provider(trio.sleep_forever)

    async def join() -> None:
        with pytest.raises(StateTransferError, match="the provider is leaving"):
            async with open_sim(name="B", get_state=True):
                pass

    async with trio.open_nursery() as nursery, open_sim(name="A", state=provider) as a:
        nursery.start_soon(join)
        while provider.begun == 0:
            with trio.move_on_after(0.5):
                await anext(a)


async def test_a_state_that_is_ready_after_the_end_of_its_channel_goes_nowhere(
    open_sim: Any, autojump_clock: Any
) -> None:
    ready, failed = trio.Event(), trio.Event()

    async def join() -> None:
        with pytest.raises(StateTransferError):
            async with open_sim(name="B", get_state=True):
                pass
        failed.set()

    async def read_to_the_end(a: Channel) -> None:
        with pytest.raises(ChannelClosed):
            await read(a)

    async with trio.open_nursery() as nursery:
        provider = Provider(ready.wait)
        async with open_sim(name="A", state=provider) as a:
            nursery.start_soon(join)
            nursery.start_soon(read_to_the_end, a)
            await until(lambda: provider.begun == 1)
        await failed.wait()
        counted = a.statistics().protocols
        ready.set()
        with trio.fail_after(60):
            await until(lambda: provider.closed == 1)
        assert a.statistics().protocols == counted, "no protocol was asked to send it"


async def test_an_exception_that_is_no_error_ends_the_block_of_the_reader(
    open_sim: Any, autojump_clock: Any
) -> None:
    """KeyboardInterrupt and SystemExit end the program, as everywhere, and the joiner is refused."""

    async def serve_badly(a: Channel) -> None:
        async with (
            open_sim(name="B", state=Provider(raises(lambda: SystemExit(3)))) as b,
            trio.open_nursery() as inner,
        ):
            inner.start_soon(read, b)
            await fetched(a, b)

    async with open_sim(name="A") as a, trio.open_nursery() as nursery:
        nursery.start_soon(read, a)
        with pytest.raises(BaseExceptionGroup) as caught:
            await serve_badly(a)
        assert caught.group_contains(SystemExit)
        await trio.sleep(2)
        assert len(a.view) == 1
        nursery.cancel_scope.cancel()
