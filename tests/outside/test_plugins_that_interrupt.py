"""Objects of a bucket store whose methods raise what ends programs, and a real Ctrl-C while a method runs."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import trio

from jgroups_py import MemoryNetwork
from jgroups_py.buckets import BucketNode, EntryFailed
from jgroups_py.buckets.deployed import open_deployed
from jgroups_py.buckets.deployment import parse_deployment
from jgroups_py.buckets.objects import Objects, modifies, object_plugin

INSTANCE = parse_deployment(
    "{name: seats, buckets: 3, nodes: {n1: {}, n2: {}, n3: {}}, stack: sim.xml}"
)


class Stopped(BaseException):
    """An error that ``except Exception`` does not catch."""


ERRORS = {
    "interrupt": KeyboardInterrupt,
    "exit": SystemExit,
    "cancelled": asyncio.CancelledError,
    "own": Stopped,
    "generator": GeneratorExit,
}


@dataclass
class Seat:
    uses: int = 0

    @modifies
    async def use(self) -> int:
        self.uses += 1
        return self.uses

    @modifies
    async def fail(self, which: str) -> int:
        self.uses += 100
        raise ERRORS[which]("on purpose")

    @modifies
    async def press_ctrl_c(self) -> int:
        self.uses += 1
        signal.raise_signal(signal.SIGINT)
        return self.uses


SEATS = object_plugin(Seat, application="seats")


@contextlib.asynccontextmanager
async def _client() -> AsyncIterator[BucketNode]:
    network = MemoryNetwork()
    async with contextlib.AsyncExitStack() as nodes:
        for name in ("n1", "n2", "n3", None):
            node = await nodes.enter_async_context(
                open_deployed(INSTANCE, name, plugin=SEATS, transport=network)
            )
        await node.wait_ready()
        yield node


@pytest.mark.parametrize("which", ERRORS)
def test_a_method_that_raises_what_ends_programs_ends_no_node(which: str) -> None:
    async def main() -> list[int]:
        async with _client() as client:
            seat = Objects(client, Seat)["12A"]
            before = await seat.use()
            with pytest.raises(EntryFailed, match=f"{ERRORS[which].__name__}: on purpose"):
                await seat.fail(which)
            return [before, await seat.use()]

    assert trio.run(main) == [1, 2]


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_while_a_method_runs_ends_the_program_and_not_the_request() -> None:
    found: list[object] = []

    async def main() -> None:
        async with _client() as client:
            seat = Objects(client, Seat)["12A"]
            try:
                found.append(await seat.press_ctrl_c())
            except EntryFailed as error:
                found.append(error)
            await trio.sleep_forever()

    async def bounded() -> None:
        with trio.fail_after(60):
            await main()

    with pytest.raises(KeyboardInterrupt):
        trio.run(bounded)
    assert not [one for one in found if isinstance(one, EntryFailed)]
