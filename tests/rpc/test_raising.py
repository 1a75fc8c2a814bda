"""Methods and codecs that raise: the caller gets the error, the callee goes on and logs one line."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from jgroups_py import Channel, LocalProtocolError, Refused, RemoteError, Suspected, open_rpc
from jgroups_py.stack.raised import loggable

Open = Callable[..., AbstractAsyncContextManager[Channel]]


class Odd(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text either")


ERRORS: dict[str, Callable[[], Exception]] = {
    "plain": lambda: ValueError("boom"),
    "group": lambda: ExceptionGroup("two", [OSError(), OSError()]),
    "surrogate": lambda: ValueError("file \udcff"),
    "odd": Odd,
    "recursion": lambda: RecursionError("deep"),
}
"""Make new ones each time: a traceback keeps the channels that it passed through."""


class Target:
    def add(self, a: int, b: int) -> int:
        return a + b

    def sync(self, what: str) -> None:
        raise ERRORS[what]()

    async def later(self, what: str) -> None:
        await trio.sleep(0.1)
        raise ERRORS[what]()

    def leave(self) -> None:
        raise SystemExit(3)

    async def leave_later(self) -> None:
        await trio.sleep(0.1)
        raise SystemExit(3)


def lines(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name == "jgroups_py.rpc"]


@pytest.mark.parametrize("method", ["sync", "later"])
@pytest.mark.parametrize(
    ("what", "kind", "text"),
    [
        ("plain", "ValueError", "boom"),
        ("group", "ExceptionGroup", "two (2 sub-exceptions)"),
        ("surrogate", "ValueError", "file \\udcff"),
        ("odd", "Odd", "(its text cannot be made)"),
        ("recursion", "RecursionError", "deep"),
    ],
)
async def test_the_caller_gets_it_and_the_callee_logs_it(
    open_sim: Open,
    autojump_clock: Any,
    caplog: pytest.LogCaptureFixture,
    method: str,
    what: str,
    kind: str,
    text: str,
) -> None:
    async with open_sim(name="A") as a, open_sim(name="B") as b:
        async with open_rpc(a) as rpc, open_rpc(b, Target()) as callee:
            with pytest.raises(RemoteError) as caught:
                await rpc.call(b.address, method, what)
            assert (caught.value.type, caught.value.text) == (kind, text)
            assert await rpc.call(b.address, "add", 1, 2) == 3
            assert callee.statistics().counters.raised == 1
        (line,) = lines(caplog)
        assert line.message == f"B: the method {method}, called by A, raised {kind}: {text}"
        assert line.exc_info is not None
        assert type(line.exc_info[1]).__name__ == kind


async def test_a_repeated_error_is_logged_once_in_an_interval_with_the_number(
    open_sim: Open, autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_sim(name="A") as a, open_sim(name="B") as b:
        async with open_rpc(a) as rpc, open_rpc(b, Target()) as callee:
            for again in range(2):
                for _ in range(50):
                    with pytest.raises(RemoteError):
                        await rpc.call(b.address, "sync", "plain")
                assert len(lines(caplog)) == 1 + again
                await trio.sleep(11)
            assert callee.statistics().counters.raised == 100
        assert lines(caplog)[1].message.endswith("boom (49 more like this left out)")


@pytest.mark.parametrize("method", ["leave", "leave_later"])
async def test_an_exception_that_is_no_error_ends_the_callee_alone(
    open_sim: Open, autojump_clock: Any, method: str
) -> None:
    """SystemExit or KeyboardInterrupt: the member leaves, and its caller is told so."""

    async def serve(task_status: Any) -> None:
        async with open_sim(name="B") as b, open_rpc(b, Target()):
            task_status.started(b.address)
            await trio.sleep_forever()

    async def callee(task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
        with pytest.raises((SystemExit, BaseExceptionGroup)):
            await serve(task_status)

    async with open_sim(name="A") as a, open_sim(name="C") as c, trio.open_nursery() as nursery:
        address = await nursery.start(callee)
        async with open_rpc(a) as rpc, open_rpc(c, Target()):
            with pytest.raises(Suspected):
                await rpc.call(address, method)
            assert await rpc.call(c.address, "add", 1, 2) == 3


class Codec:
    """A codec that makes ``made`` of the text "bad", or raises it if it is an exception."""

    def __init__(self, made: Any) -> None:
        self.made = made

    def encode(self, value: Any) -> Any:
        if value == "bad":
            if isinstance(self.made, type):
                raise self.made("boom")
            return self.made
        return msgspec.msgpack.encode(value)

    def decode(self, data: Any) -> Any:
        value = msgspec.msgpack.decode(data)
        if value == ["raise"]:
            raise Odd
        return value


@pytest.mark.parametrize("made", [ValueError, Odd, "text", None, [1]])
async def test_a_codec_that_cannot_harms_one_call(
    open_sim: Open, autojump_clock: Any, made: Any
) -> None:
    codec = Codec(made)
    async with (
        open_sim(name="A") as a,
        open_sim(name="B") as b,
        open_rpc(a, codec=codec) as rpc,
        open_rpc(b, {"same": lambda value: value, "bad": lambda: "bad"}, codec=codec),
    ):
        with pytest.raises(RemoteError, match="LocalProtocolError"):
            await rpc.call(b.address, "bad")  # the value cannot be encoded, at the callee
        with pytest.raises(Refused, match="cannot be read"):
            await rpc.call(b.address, "same", "raise")
        assert await rpc.call(b.address, "same", 5) == 5


async def test_arguments_that_a_codec_makes_no_bytes_of_are_not_sent(
    open_sim: Open, autojump_clock: Any
) -> None:
    class Texts(Codec):
        def encode(self, value: Any) -> Any:
            return "text"

    async with open_sim(name="A") as a, open_rpc(a, codec=Texts(None)) as rpc:
        with pytest.raises(LocalProtocolError, match="the codec made str of the arguments"):
            await rpc.call(a.address, "same", 5)


def test_a_text_without_an_encoding_can_be_written_to_a_log_file(tmp_path: Path) -> None:
    """pytest's own log of a test goes through UTF-8, too."""
    handler = logging.FileHandler(tmp_path / "log", encoding="utf-8")
    try:
        raise ValueError("file \udcff")
    except ValueError as error:
        written = loggable(error)
        record = logging.LogRecord(
            "x", 30, "", 1, "it", None, (type(written), written, written.__traceback__)
        )
    handler.emit(record)
    handler.close()
    assert "ValueError: file \\udcff" in (tmp_path / "log").read_text()
    fine = ValueError("boom")
    assert loggable(fine) is fine
