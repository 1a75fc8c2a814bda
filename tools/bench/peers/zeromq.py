"""A mesh of ZeroMQ sockets, which repeats nothing and knows no members.

    python -m jgroups_py.tools.bench.peers.zeromq ARGUMENT    one process; ARGUMENT is JSON

Messages: each process publishes to all over TCP, itself included, with no limit of messages in a queue (the
default of 1,000 drops). Calls: each caller is a thread with a REQ socket, and one ROUTER answers.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
import threading
import time
from dataclasses import asdict
from itertools import pairwise
from typing import Any, Final

import trio

from jgroups_py.tools.bench.peers.figures import call_figures, say
from jgroups_py.tools.children import start_process
from jgroups_py.tools.commands.mperf_ports import free_block
from jgroups_py.tools.commands.mperf_run import HEAD, SEQNO_BITS, WINDOWS, Check, MperfPlan
from jgroups_py.tools.commands.rpcperf_run import RpcperfPlan

MODULE: Final = "jgroups_py.tools.bench.peers.zeromq"
HOST: Final = "tcp://127.0.0.1"
SENT_AT_ONCE: Final = 16
"""Messages between two looks at what came."""
LAST_WAIT: Final = 10.0


class ZeroMqPeer:
    """Starts processes of the mesh. It has no members, so it has no groups. Raises ``ModuleNotFoundError`` without pyzmq."""

    name = "pyzmq mesh"
    measures = frozenset({"messages", "calls"})

    def __init__(self) -> None:
        if importlib.util.find_spec("zmq") is None:
            raise ModuleNotFoundError("pyzmq is not installed (pip install 'jgroups_py[bench]')")
        self._first = 0

    async def messages(self, plan: MperfPlan, number: int) -> trio.Process:
        """Start a process of mperf."""
        return await self._start("messages", number, plan.members, plan.warm_up, asdict(plan))

    async def calls(self, plan: RpcperfPlan, number: int) -> trio.Process:
        """Start a process of rpcperf."""
        return await self._start("calls", number, 1, plan.warm_up, asdict(plan))

    async def _start(
        self, kind: str, number: int, ports: int, warm_up: float, plan: dict[str, Any]
    ) -> trio.Process:
        if number == 0:
            self._first = free_block(ports)
        argument = {"kind": kind, "number": number, "first": self._first, "warm_up": warm_up}
        return await start_process(MODULE, argument | {"plan": plan})


class MeshMember:
    """One process of the mesh."""

    def __init__(self, number: int, first: int, warm_up: float, plan: dict[str, Any]) -> None:
        zmq = self._zmq = importlib.import_module("zmq")
        self.number, self.warm_up, self.plan = number, warm_up, plan
        self.check = Check(plan["senders"])
        self.sent = 0
        context = zmq.Context()
        self._out, self._in = context.socket(zmq.XPUB), context.socket(zmq.SUB)
        self._out.set_hwm(0)
        self._out.xpub_verbose = 1  # each subscription is heard, not only the first of a topic
        self._in.set_hwm(0)
        self._out.bind(f"{HOST}:{first + number}")
        self._in.subscribe(b"")
        for other in range(plan["members"]):
            self._in.connect(f"{HOST}:{first + other}")

    def run(self) -> None:
        """Hear and say the lines of a member of mperf."""
        for _ in range(self.plan["members"]):
            self._out.recv()  # somebody's subscription
        say(event="ready")
        start = json.loads(sys.stdin.readline())["start"]
        cpu = time.process_time()
        rates = self._measure(start)
        say(event="sent", sent=self.sent)
        totals = json.loads(sys.stdin.readline())["totals"]
        since = time.monotonic()
        while self.check.total < sum(totals) and time.monotonic() - since < LAST_WAIT:
            if self._take():
                since = time.monotonic()
        say(
            event="done",
            name=f"M{self.number + 1}",
            sent=self.sent,
            delivered=self.check.total,
            duplicates=self.check.duplicates,
            out_of_order=self.check.out_of_order,
            lost=sum(totals) - self.check.total,
            rates=rates,
            cpu_s=time.process_time() - cpu,
            statistics={},
        )
        sys.stdin.readline()

    def _measure(self, start: float) -> list[float]:
        clock, seconds = time.monotonic, self.plan["seconds"]
        due = [start + self.warm_up + seconds * n / WINDOWS for n in range(WINDOWS + 1)]
        samples: list[tuple[float, int]] = []
        rest, base = bytes(self.plan["size"] - HEAD.size), self.number << SEQNO_BITS
        sends = self.number < self.plan["senders"]
        time.sleep(max(0.0, start - clock()))
        while len(samples) < len(due):
            if clock() >= due[len(samples)]:
                samples.append((clock(), self.check.total))
            if sends:
                for _ in range(SENT_AT_ONCE):
                    self._out.send(HEAD.pack(base + self.sent) + rest)
                    self.sent += 1
            self._take(0 if sends else 10)
        return [
            (after - before) / (end - begin) for (begin, before), (end, after) in pairwise(samples)
        ]

    def _take(self, wait_ms: int = 10) -> int:
        """Take all that is there, and return how many messages it was."""
        taken = 0
        if not self._in.poll(wait_ms):
            return 0
        try:
            while True:
                self.check.take([self._in.recv(self._zmq.NOBLOCK)])
                taken += 1
        except self._zmq.Again:
            return taken


def answer(first: int) -> None:
    """Send back what comes, until standard input ends."""
    zmq = importlib.import_module("zmq")
    router = zmq.Context().socket(zmq.ROUTER)
    router.bind(f"{HOST}:{first}")
    poller = zmq.Poller()
    poller.register(router)
    poller.register(sys.stdin.fileno(), zmq.POLLIN)
    say(event="ready")
    sys.stdin.readline()
    while sys.stdin.fileno() not in (ready := dict(poller.poll())):
        if router in ready:
            router.send_multipart(router.recv_multipart())


def ask(first: int, warm_up: float, plan: dict[str, Any]) -> None:
    """Measure calls with each number of callers."""
    zmq = importlib.import_module("zmq")
    context = zmq.Context()
    say(event="ready")
    sys.stdin.readline()
    data = os.urandom(plan["size"])
    wrong: list[int] = []
    for callers in plan["callers"]:
        begin = time.perf_counter() + warm_up
        end = begin + plan["seconds"]
        took: list[float] = []

        def call(begin: float = begin, end: float = end, took: list[float] = took) -> None:
            socket = context.socket(zmq.REQ)
            socket.connect(f"{HOST}:{first}")
            at = time.perf_counter()
            while at < end:
                socket.send(data)
                if socket.recv() != data:
                    wrong.append(1)
                now = time.perf_counter()
                if at >= begin:
                    took.append(now - at)
                at = now
            socket.close()

        threads = [threading.Thread(target=call) for _ in range(callers)]
        for thread in threads:
            thread.start()
        time.sleep(max(0.0, begin - time.perf_counter()))
        cpu = time.process_time()
        for thread in threads:
            thread.join()
        cpu = time.process_time() - cpu
        say(event="measured", **call_figures(callers, took, cpu, plan["seconds"], len(wrong)))
    sys.stdin.read()


def main(text: str) -> None:
    """Entry point of a process."""
    argument = json.loads(text)
    kind = argument.pop("kind")
    if kind == "messages":
        MeshMember(**argument).run()
    elif argument.pop("number"):
        answer(argument["first"])
    else:
        ask(**argument)
    os._exit(0)  # what ZeroMQ still keeps for others is of no use


if __name__ == "__main__":
    main(sys.argv[1])
