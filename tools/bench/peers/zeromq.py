"""A mesh of ZeroMQ sockets, which repeats nothing and knows no members.

    python -m jgroups_py.tools.bench.peers.zeromq ARGUMENT    one process; ARGUMENT is JSON

Messages: each process publishes to all over TCP, itself included, with no limit of messages in a queue (the
default of 1,000 drops). Calls: each caller is a thread with a REQ socket, and one ROUTER answers.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

import trio

from jgroups_py.tools.bench.peers.figures import call_figures
from jgroups_py.tools.bench.peers.missing import need_module
from jgroups_py.tools.bench.peers.plain import TAKEN_MAX, PlainMember
from jgroups_py.tools.child_side import say
from jgroups_py.tools.children import start_process
from jgroups_py.tools.commands.mperf_ports import free_block
from jgroups_py.tools.commands.mperf_run import MperfPlan
from jgroups_py.tools.commands.rpcperf_run import RpcperfPlan

MODULE: Final = "jgroups_py.tools.bench.peers.zeromq"
HOST: Final = "tcp://127.0.0.1"


class ZeroMqPeer:
    """Starts processes of the mesh. It has no members, so it has no groups. Raises ``PeerMissing`` without pyzmq."""

    name = "pyzmq mesh"
    measures = frozenset({"messages", "calls"})

    def __init__(self) -> None:
        need_module("zmq")
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


class MeshMember(PlainMember):
    """One process of the mesh."""

    sent_at_once = 16

    def open(self) -> None:
        zmq = self._zmq = importlib.import_module("zmq")
        context = zmq.Context()
        self._out, self._in = context.socket(zmq.XPUB), context.socket(zmq.SUB)
        self._out.set_hwm(0)
        self._out.xpub_verbose = 1  # report each subscription, not only the first of a topic
        self._in.set_hwm(0)
        self._out.bind(f"{HOST}:{self.first + self.number}")
        self._in.subscribe(b"")
        for other in range(self.plan["members"]):
            self._in.connect(f"{HOST}:{self.first + other}")
        for _ in range(self.plan["members"]):
            self._out.recv()  # the subscription of one process

    def publish(self, payloads: Sequence[bytes]) -> None:
        for payload in payloads:
            self._out.send(payload)

    def take(self, wait: float) -> None:
        if not self._in.poll(1000 * wait):
            return
        got: list[bytes] = []
        try:
            while len(got) < TAKEN_MAX:
                got.append(self._in.recv(self._zmq.NOBLOCK))
        except self._zmq.Again:
            pass
        self.arrived(got)


def answer(first: int) -> None:
    """Send back each message, until standard input ends."""
    zmq = importlib.import_module("zmq")
    router = zmq.Context().socket(zmq.ROUTER)
    router.bind(f"{HOST}:{first}")
    say(event="ready")
    sys.stdin.readline()
    # ZeroMQ's own poll does not notice that a pipe has ended while it waits.
    threading.Thread(target=_end_with_input, daemon=True).start()
    while True:
        router.send_multipart(router.recv_multipart())


def _end_with_input() -> None:
    """End the process when standard input ends."""
    sys.stdin.read()
    os._exit(0)


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
    os._exit(0)  # messages that ZeroMQ still keeps for others are of no use


if __name__ == "__main__":
    main(sys.argv[1])
