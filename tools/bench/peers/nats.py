"""Core NATS: one server, and processes that publish and subscribe with nats-py.

    python -m jgroups_py.tools.bench.peers.nats ARGUMENT    one process of mperf; ARGUMENT is JSON

Nothing is repeated or kept. A process publishes 64 messages, flushes, and takes arrived messages. A client keeps any
number of them.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

import trio

from jgroups_py.tools.bench.peers.missing import need_module, need_program
from jgroups_py.tools.bench.peers.plain import START_SECONDS, PlainMember
from jgroups_py.tools.children import start_process
from jgroups_py.tools.commands.mperf_ports import free_block
from jgroups_py.tools.commands.mperf_run import MperfPlan

MODULE: Final = "jgroups_py.tools.bench.peers.nats"
HOST: Final = "127.0.0.1"


class NatsPeer:
    """Starts processes that publish through NATS. Raises ``PeerMissing`` without nats-py or nats-server."""

    name = "NATS"
    measures = frozenset({"messages"})
    stacks = frozenset({"tcp.xml"})

    def __init__(self) -> None:
        need_module("nats")
        need_program("nats-server", "nats-server")
        self._first = 0

    async def messages(self, plan: MperfPlan, number: int) -> trio.Process:
        """Start a process of mperf. The first one starts the server."""
        if number == 0:
            self._first = free_block(1)
        argument = {"number": number, "first": self._first, "warm_up": plan.warm_up}
        return await start_process(MODULE, argument | {"plan": asdict(plan)})


class NatsMember(PlainMember):
    """One process of mperf."""

    def open(self) -> None:
        if self.number == 0:
            self.serve("nats-server", "-a", HOST, "-p", str(self.first))
        self._heard: set[bytes] = set()
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self._open())

    async def _open(self) -> None:
        nats = importlib.import_module("nats")
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                self._client = await nats.connect(
                    f"nats://{HOST}:{self.first}", allow_reconnect=False, error_cb=_quiet
                )
                break
            except (OSError, nats.errors.Error):
                if time.monotonic() > end:
                    raise
                await asyncio.sleep(0.05)
        no_limit = {"pending_msgs_limit": -1, "pending_bytes_limit": -1}
        await self._client.subscribe("bench", cb=self._take_one, **no_limit)
        await self._client.subscribe("hello", cb=self._hello)
        await self._client.flush()
        await self._client.publish("hello", b"%d" % self.number)
        while len(self._heard) < self.plan["members"]:
            if time.monotonic() > end:
                raise TimeoutError(f"not all have subscribed within {START_SECONDS:g} s")
            await asyncio.sleep(0.02)
        await self._client.flush()

    async def _hello(self, message: Any) -> None:
        # A later process has not received this process's greeting, so answer it.
        if message.data not in self._heard:
            self._heard.add(message.data)
            await self._client.publish("hello", b"%d" % self.number)

    async def _take_one(self, message: Any) -> None:
        self.check.take([message.data])

    def publish(self, payloads: Sequence[bytes]) -> None:
        self._loop.run_until_complete(self._publish(payloads))

    async def _publish(self, payloads: Sequence[bytes]) -> None:
        for payload in payloads:
            await self._client.publish("bench", payload)
        await self._client.flush()

    def take(self, wait: float) -> None:
        self._loop.run_until_complete(asyncio.sleep(wait))


async def _quiet(error: Exception) -> None:
    """Ignore the error: a server that does not run yet is asked again."""


if __name__ == "__main__":
    NatsMember(**json.loads(sys.argv[1])).run()
