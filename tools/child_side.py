"""A member's process, as the member sees it (children.py is the parent's side): JSON lines to the parent and from it."""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVarTuple

import trio

from jgroups_py.driver.unwrap import leaves
from jgroups_py.errors import JGroupsError

Arguments = TypeVarTuple("Arguments")


def say(**what: Any) -> None:
    """Say one line to the parent."""
    os.write(1, json.dumps(what).encode() + b"\n")


async def lines_of(stream: trio.abc.ReceiveStream) -> AsyncGenerator[bytes, None]:
    """Yield lines without their ends."""
    buffer = b""
    async for data in stream:
        *lines, buffer = (buffer + data).split(b"\n")
        for line in lines:
            yield line


@asynccontextmanager
async def heard_lines() -> AsyncIterator[AsyncIterator[bytes]]:
    """Give the parent's lines. They end when the parent closes this process's standard input, so that it leaves."""
    async with trio.lowlevel.FdStream(os.dup(0)) as stream:
        yield lines_of(stream)


async def set_at_first_line(begin: trio.Event, leave: trio.CancelScope) -> None:
    """Set ``begin`` at the parent's first line. Cancel ``leave`` when there are no more."""
    async with heard_lines() as lines:
        async for _ in lines:
            begin.set()
    leave.cancel()


async def forward_lines(
    told: trio.MemorySendChannel[dict[str, Any]], leave: trio.CancelScope
) -> None:
    """Forward the parent's lines. Cancel ``leave`` when there are no more lines, even during an order."""
    async with heard_lines() as lines:
        async for line in lines:
            await told.send(json.loads(line))
    leave.cancel()


def run_child(main: Callable[[*Arguments], Awaitable[object]], *arguments: *Arguments) -> None:
    """Run a member's process. An error ends it with exit code 2, and its last line on standard error tells the error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets the signal and tells us
    try:
        trio.run(main, *arguments)
    except JGroupsError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    except BaseExceptionGroup as group:
        traceback.print_exc()
        first = leaves(group)[0]  # the parent shows the last line
        print(f"{type(first).__name__}: {first}", file=sys.stderr)
        sys.exit(2)
