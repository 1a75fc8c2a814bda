"""Redis: pub/sub between processes, and values with one replica.

    python -m jgroups_py.tools.bench.peers.redis ARGUMENT    one process of mperf; ARGUMENT is JSON

One server without persistence, whose buffers for subscribers have no limit (the default disconnects slow ones). A
process publishes 64 messages in a pipeline and takes arrived messages, with redis-py and hiredis. Values:
``bench.cache_peers``.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

import trio

from jgroups_py.tools.bench import cache_peers
from jgroups_py.tools.bench.cache_perf import CachePerfPlan
from jgroups_py.tools.bench.peers.missing import need_module, need_program
from jgroups_py.tools.bench.peers.plain import START_SECONDS, TAKEN_MAX, PlainMember
from jgroups_py.tools.bench.peers.plan import PeersPlan
from jgroups_py.tools.children import ChildError, start_process
from jgroups_py.tools.commands.mperf_ports import free_block
from jgroups_py.tools.commands.mperf_run import MperfPlan

MODULE: Final = "jgroups_py.tools.bench.peers.redis"
HOST: Final = "127.0.0.1"
TOPIC: Final = "bench"


class RedisPeer:
    """Starts processes that publish through Redis. Raises ``PeerMissing`` without redis-py, hiredis or redis-server."""

    name = "Redis"
    measures = frozenset({"messages", "caches"})
    stacks = frozenset({"tcp.xml"})

    def __init__(self) -> None:
        need_module("redis")
        need_module("hiredis")
        need_program("redis-server", "redis-server")
        self._first = 0

    async def messages(self, plan: MperfPlan, number: int) -> trio.Process:
        """Start a process of mperf. The first one starts the server."""
        if number == 0:
            self._first = free_block(1)
        argument = {"number": number, "first": self._first, "warm_up": plan.warm_up}
        return await start_process(MODULE, argument | {"plan": asdict(plan)})

    async def caches(self, plan: PeersPlan, stack: str) -> Sequence[dict[str, Any]]:
        """Measure SET and WAIT 1 in one pipeline, and GET, with a server and one replica."""
        measured = CachePerfPlan(plan.cache_sizes, plan.cache_callers, plan.seconds)
        command = cache_peers.command("redis", measured)
        done = await trio.run_process(
            command, capture_stdout=True, capture_stderr=True, check=False
        )
        if done.returncode:
            lines = done.stderr.decode(errors="replace").strip().splitlines()
            raise ChildError(lines[-1] if lines else f"exit code {done.returncode}")
        found: list[dict[str, Any]] = json.loads(done.stdout)
        return found


class RedisMember(PlainMember):
    """One process of mperf."""

    def open(self) -> None:
        redis = importlib.import_module("redis")
        if self.number == 0:
            options = [
                "--port",
                str(self.first),
                "--bind",
                HOST,
                "--save",
                "",
                "--appendonly",
                "no",
            ]
            self.serve(
                "redis-server", *options, "--client-output-buffer-limit", "pubsub", "0", "0", "0"
            )
        self._client = redis.Redis(HOST, self.first)
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                self._client.ping()
                break
            except redis.exceptions.ConnectionError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)
        self._topic = self._client.pubsub(ignore_subscribe_messages=True)
        self._topic.subscribe(TOPIC)
        while self._client.pubsub_numsub(TOPIC)[0][1] < self.plan["members"]:
            if time.monotonic() > end:
                raise TimeoutError(f"not all have subscribed within {START_SECONDS:g} s")
            time.sleep(0.02)

    def publish(self, payloads: Sequence[bytes]) -> None:
        pipeline = self._client.pipeline(transaction=False)
        for payload in payloads:
            pipeline.publish(TOPIC, payload)
        pipeline.execute()

    def take(self, wait: float) -> None:
        got: list[bytes] = []
        message = self._topic.get_message(timeout=wait)
        while message is not None and len(got) < TAKEN_MAX:
            got.append(message["data"])
            message = self._topic.get_message(timeout=0)
        if message is not None:
            got.append(message["data"])
        self.arrived(got)


if __name__ == "__main__":
    RedisMember(**json.loads(sys.argv[1])).run()
