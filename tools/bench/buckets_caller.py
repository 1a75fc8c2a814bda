"""A client process of the bucket store's load bench: requests at fixed times, over the text protocol of memcached or that of Redis.

    python -m jgroups_py.tools.bench.buckets_caller PLAN    PLAN is a JSON object with the fields of ``CallPlan``; prints the figures as JSON

A request begins when it is due, whether earlier ones have ended or not, and is measured from the time at which it was due. Half of them read a value, half
store one of ``size`` bytes. The client's own share of that time stands beside it: ``late``, from the time at which a request was due until the client has noticed
it (its timer counts in milliseconds, and it waits for a core as others do), and ``wait_us``, how long the client process waited for a core, for each request.
"""

from __future__ import annotations

import json
import math
import os
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import trio

from jgroups_py.tools.bench.latencies import figures

WAIT_MS: Final = 1_000
"""Redis: milliseconds for which a SET waits for the replica."""


@dataclass(frozen=True)
class CallPlan:
    """``ports``: a server each; connections go round. ``rate``: requests a second. ``confirmed``: a stored value is answered when a replica has it (Redis)."""

    protocol: str
    ports: list[int]
    rate: float
    seconds: float
    connections: int = 16
    keys: int = 1_000
    size: int = 100
    confirmed: bool = False
    seed: int = 1


class Memcached:
    """Requests and their whole answers."""

    def __init__(self, plan: CallPlan) -> None:
        self._value = b"x" * plan.size
        self._found = plan.size

    def store(self, key: int) -> bytes:
        return b"set k%d 0 0 %d\r\n%b\r\n" % (key, self._found, self._value)

    def stored(self, answer: bytes) -> bool:
        return answer == b"STORED\r\n"

    def read(self, key: int) -> bytes:
        return b"get k%d\r\n" % key

    def found(self, answer: bytes) -> bool:
        return answer.endswith(self._value + b"\r\nEND\r\n")

    def is_whole(self, answer: bytes, reads: bool) -> bool:
        if answer.startswith((b"SERVER_ERROR", b"ERROR", b"CLIENT_ERROR")):
            return answer.endswith(b"\r\n")
        return answer.endswith(b"END\r\n" if reads else b"\r\n")


class Redis:
    """Redis requests and their whole answers. SET and WAIT 1 leave together."""

    def __init__(self, plan: CallPlan) -> None:
        self._value = b"x" * plan.size
        self._waits = plan.confirmed
        self._lines = 2 if plan.confirmed else 1

    def store(self, key: int) -> bytes:
        name = b"k%d" % key
        line = b"*3\r\n$3\r\nSET\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % (
            len(name), name, len(self._value), self._value,
        )  # fmt: skip
        wait = b"*3\r\n$4\r\nWAIT\r\n$1\r\n1\r\n$4\r\n%d\r\n" % WAIT_MS
        return line + wait if self._waits else line

    def stored(self, answer: bytes) -> bool:
        return answer == (b"+OK\r\n:1\r\n" if self._waits else b"+OK\r\n")

    def read(self, key: int) -> bytes:
        name = b"k%d" % key
        return b"*2\r\n$3\r\nGET\r\n$%d\r\n%b\r\n" % (len(name), name)

    def found(self, answer: bytes) -> bool:
        return answer.endswith(b"\r\n" + self._value + b"\r\n")

    def is_whole(self, answer: bytes, reads: bool) -> bool:
        lines = 1 if answer.startswith((b"$-1", b"-")) else 2 if reads else self._lines
        return answer.count(b"\r\n") >= lines


PROTOCOLS: Final[dict[str, Callable[[CallPlan], Memcached | Redis]]] = {
    "memcached": Memcached,
    "redis": Redis,
}


def waited_seconds(pid: int) -> float:
    """Return the seconds so far in which threads of a process were ready to run and had no core (Linux). 0 on other
    systems."""
    found = 0
    try:
        for file in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            found += int(file.read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0.0
    return found / 1e9


class DueCaller:
    """Connections that take requests when they are due."""

    def __init__(self, plan: CallPlan) -> None:
        self._plan, self._chance = plan, random.Random(plan.seed)
        self._speaks = PROTOCOLS[plan.protocol](plan)
        self.took: dict[str, list[float]] = {"reads": [], "changes": [], "late": []}
        self.wrong = 0

    async def run(self) -> dict[str, Any]:
        plan = self._plan
        send, receive = trio.open_memory_channel[tuple[float, bool, int]](math.inf)
        streams = [
            await trio.open_tcp_stream("127.0.0.1", plan.ports[n % len(plan.ports)])
            for n in range(plan.connections)
        ]
        await self._fill(streams[0])
        waited = waited_seconds(os.getpid())
        used = time.process_time()
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            for stream in streams:
                nursery.start_soon(self._work, stream, receive.clone())
            due = began
            while due < began + plan.seconds:
                await trio.sleep_until(due)
                self.took["late"].append(trio.current_time() - due)
                reads = self._chance.random() < 0.5
                send.send_nowait((due, reads, self._chance.randrange(plan.keys)))
                due += 1 / plan.rate
            send.close()
        seconds = trio.current_time() - began
        for stream in streams:
            await stream.aclose()
        done = len(self.took["reads"]) + len(self.took["changes"])
        return {
            "requests": done,
            "a_second": round(done / seconds, 1),
            "wrong": self.wrong,
            "cpu_us": round(1e6 * (time.process_time() - used) / max(1, done), 1),
            "wait_us": round(1e6 * (waited_seconds(os.getpid()) - waited) / max(1, done), 1),
            **{kind: figures(took) for kind, took in self.took.items()},
        }

    async def _fill(self, stream: trio.SocketStream) -> None:
        """Store every key, so that each read finds one."""
        for key in range(self._plan.keys):
            line = self._speaks.store(key)
            while True:
                if self._speaks.stored(await self._ask(stream, line, False)):
                    break
                await trio.sleep(0.05)

    async def _work(
        self, stream: trio.SocketStream, due: trio.MemoryReceiveChannel[tuple[float, bool, int]]
    ) -> None:
        speaks = self._speaks
        async with due:
            async for at, reads, key in due:
                line = speaks.read(key) if reads else speaks.store(key)
                answer = await self._ask(stream, line, reads)
                self.took["reads" if reads else "changes"].append(trio.current_time() - at)
                if not (speaks.found(answer) if reads else speaks.stored(answer)):
                    self.wrong += 1

    async def _ask(self, stream: trio.SocketStream, line: bytes, reads: bool) -> bytes:
        await stream.send_all(line)
        answer = b""
        while not answer or not self._speaks.is_whole(answer, reads):
            data = await stream.receive_some(65_536)
            if not data:
                raise ConnectionError("the server has closed the connection")
            answer += data
        return answer


def main() -> None:
    plan = CallPlan(**json.loads(sys.argv[1]))
    print(json.dumps(trio.run(DueCaller(plan).run)))


if __name__ == "__main__":
    main()
