"""Nodes in processes of their own, killed under load; the clients are here. Real sockets."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from bucket_group import ask
from seed_instance import BUSY_DETECTION_MAX, BUSY_MACHINE, PAIRS, key_in, seed_settings

from jgroups_py.buckets import (
    BucketNode,
    Cep,
    NodeParts,
    OutcomeUnknown,
    Refused,
    Request,
    open_buckets,
)
from jgroups_py.buckets.upgrade import move_all
from jgroups_py.config.settings import load_stack
from jgroups_py.testing.explorer.buckets.ledger import NEW, OLD, ledger
from jgroups_py.tools.commands.mperf_ports import private_attributes

pytestmark = [pytest.mark.sockets, pytest.mark.timeout(360)]
CLIENTS = 18
PEER = str(Path(__file__).parent / "bucket_peer.py")


class Processes:
    """Node processes by name."""

    def __init__(self, stack: str, attributes: dict[str, str]) -> None:
        self._stack, self._attributes = stack, attributes
        self.running: dict[str, trio.Process] = {}

    async def start(self, name: str, version: int = OLD, *, beside: bool = False) -> str:
        """Start a process. Return the name of the process."""
        arguments = json.dumps([name, self._stack, self._attributes, version, beside])
        name = f"{name}-{version}" if beside else name
        self.running[name] = await trio.lowlevel.open_process(
            [sys.executable, PEER, arguments], stdout=subprocess.PIPE
        )
        return name

    async def ready(self, name: str) -> None:
        out = self.running[name].stdout
        assert out is not None
        said = b""
        while not said.endswith(b"\n"):
            data = await out.receive_some(100)
            assert data, f"{name} has ended and said {said!r}"
            said += data
        assert said == b"ready\n"

    async def kill(self, name: str) -> None:
        process = self.running.pop(name)
        process.kill()
        await process.wait()

    async def end(self) -> None:
        with trio.CancelScope(shield=True):
            for name in list(self.running):
                await self.kill(name)


class Load:
    """Clients that add tokens. ``answered``: key -> tokens whose addition was answered. ``longest``: seconds between two answers."""

    def __init__(self, node: BucketNode) -> None:
        self._node = node
        self.answered: dict[str, list[str]] = {}
        self.longest = 0.0

    async def client(self, number: int) -> None:
        key = key_in(1 + number % PAIRS, number)
        last = trio.current_time()
        for n in range(1_000_000):
            try:
                await ask(self._node, key, f"+{n}")
            except OutcomeUnknown:
                continue
            self.longest = max(self.longest, trio.current_time() - last)
            last = trio.current_time()
            self.answered.setdefault(key, []).append(str(n))
            await trio.sleep(0.002)

    async def goes_on(self) -> None:
        """Wait until each client has another answer."""
        keys = [key_in(1 + number % PAIRS, number) for number in range(CLIENTS)]
        before = {key: len(self.answered.get(key, ())) for key in keys}
        while any(len(self.answered.get(key, ())) == before[key] for key in keys):  # noqa: ASYNC110
            await trio.sleep(0.01)


@asynccontextmanager
async def opened_client(
    stack: str, attributes: dict[str, str], processes: Processes
) -> AsyncIterator[BucketNode]:
    """Three nodes in processes, and a client here."""
    for name in ("n1", "n2", "n3"):
        await processes.start(name)
    async with open_buckets(
        stack,
        cluster="buckets",
        name="client",
        plugin=ledger(),
        settings=seed_settings(detection_max=BUSY_DETECTION_MAX),
        parts=NodeParts(node="client"),
        attributes={**BUSY_MACHINE, **attributes},
    ) as node:
        yield node


async def check(node: BucketNode, load: Load) -> None:
    """Check that each answered change is present exactly once."""
    for key, tokens in load.answered.items():
        (found,) = await node.request(Request(b"?", key))
        assert set(tokens) <= set(found.decode().split()), key
        assert len(set(found.split())) == len(found.split()), "nothing was done twice"
    assert len(load.answered) == CLIENTS and load.longest < 30.0


async def recreate(node: BucketNode, bucket: int, at: Cep) -> None:
    """Recreate a slave. Members may see the new process later than the client does, and refuse until then."""
    while True:
        try:
            await node.recreate_bucket(at, bucket=bucket)
            return
        except Refused as refusal:
            if node.state.rows[bucket].slave == at:
                return
            print(f"bucket {bucket}: {refusal}")  # pytest shows it if the test fails
            await trio.sleep(0.2)


async def kill_one_after_the_other(stack: str, names: Sequence[str], seconds: float) -> Load:
    """Kill processes under load; each is started again and gets its copies before the next one is killed. Check the
    answers that clients got."""
    attributes = private_attributes(load_stack(stack), 4)
    processes = Processes(stack, attributes)
    try:
        async with opened_client(stack, attributes, processes) as node:
            with trio.fail_after(seconds):
                await node.wait_ready()
                load = Load(node)
                async with trio.open_nursery() as nursery:
                    for number in range(CLIENTS):
                        nursery.start_soon(load.client, number)
                    for name in names:
                        await trio.sleep(1)
                        gone = node.manager_at(name)
                        await processes.kill(name)
                        await node.wait_until(
                            lambda s, gone=gone: all(  # type: ignore[misc]
                                gone not in (r.master, r.slave) for r in s.rows.values()
                            )
                        )
                        await processes.start(name)
                        await processes.ready(name)
                        await node.wait_until(lambda state: len(state.managers) == 3)
                        back = node.manager_at(name)
                        for bucket, row in node.state.rows.items():
                            if row.slave is None:
                                await recreate(node, bucket, back)
                    await load.goes_on()
                    nursery.cancel_scope.cancel()
                await check(node, load)
                return load
    finally:
        await processes.end()


@pytest.mark.parametrize("stack", ["tcp.xml", "udp.xml"])
async def test_nodes_are_killed_one_after_the_other_and_nothing_answered_is_lost(
    stack: str,
) -> None:
    await kill_one_after_the_other(stack, ("n1", "n2"), 300)


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_twenty_kills_lose_nothing_that_was_answered() -> None:
    load = await kill_one_after_the_other("tcp.xml", ("n1", "n2", "n3") * 6 + ("n1", "n2"), 580)
    print(f"{sum(map(len, load.answered.values()))} answered, {load.longest:.2f} s at most")


async def test_a_process_with_the_new_version_takes_over_from_the_old_one() -> None:
    attributes = private_attributes(load_stack("tcp.xml"), 5)
    processes = Processes("tcp.xml", attributes)
    try:
        async with opened_client("tcp.xml", attributes, processes) as node:
            with trio.fail_after(300):
                await node.wait_ready()
                load = Load(node)
                async with trio.open_nursery() as nursery:
                    for number in range(CLIENTS):
                        nursery.start_soon(load.client, number)
                    new_one = await processes.start("n1", NEW, beside=True)
                    await processes.ready(new_one)
                    await node.wait_until(lambda state: len(state.managers) == 4)
                    old, new = node.manager_at("m/n1"), node.manager_at("m/n1-81")
                    few = await move_all(node, old, new, at_most=3)
                    await trio.sleep(0.5)
                    back = await move_all(node, new, old)
                    assert few.moved == back.moved and len(few.moved) == 3
                    rest = await move_all(node, old, new)
                    assert len(rest.moved) == 6 and not rest.refused
                    await processes.kill("n1")
                    await node.wait_until(
                        lambda state: len(state.managers) == 3 and len(state.copies) == 3
                    )
                    await load.goes_on()
                    nursery.cancel_scope.cancel()
                versions = {m.cep.component: m.info.version for m in node.managers}
                assert versions == {"m/n1-81": NEW, "m/n2": OLD, "m/n3": OLD}
                assert all(row.slave is not None for row in node.state.rows.values())
                await check(node, load)
    finally:
        await processes.end()
