"""Two processes with one UDP socket each on trio, without any protocol: the least cost of a call.

    python -m jgroups_py.tools.bench.peers.bare ARGUMENT    one process; ARGUMENT is JSON

One sends back each datagram. The other has a task that reads and wakes callers, as a driver does. There is no member,
order, repetition or encoding, so a call costs only the time of the kernel and trio.

"Bundled": the calls that begin in one round of the loop are one datagram, as are their answers. That is the floor of calls of
several tasks.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from dataclasses import asdict
from typing import Any, Final

import trio

from jgroups_py.tools.bench.peers.figures import call_figures
from jgroups_py.tools.child_side import say, set_at_first_line
from jgroups_py.tools.children import start_process
from jgroups_py.tools.commands.mperf_ports import free_block
from jgroups_py.tools.commands.rpcperf_run import RpcperfPlan

MODULE: Final = "jgroups_py.tools.bench.peers.bare"
HOST: Final = "127.0.0.1"
NUMBER_SIZE: Final = 4
"""Each call begins with the number of its caller."""
DATAGRAM_MAX: Final = 64_000
"""Bytes of calls in one datagram, unless one call has more."""


class BarePeer:
    """Starts the two processes."""

    name = "bare trio"
    measures = frozenset({"calls"})
    bundled = False

    def __init__(self) -> None:
        self._first = 0

    async def calls(self, plan: RpcperfPlan, number: int) -> trio.Process:
        """Start a process of rpcperf."""
        if number == 0:
            self._first = free_block(2)
        argument = {"number": number, "first": self._first, "warm_up": plan.warm_up}
        more = {"plan": asdict(plan), "bundled": self.bundled}
        return await start_process(MODULE, argument | more)


class BundledBarePeer(BarePeer):
    """Calls of one round of the loop leave together."""

    name = "bundled bare trio"
    stacks = frozenset({"udp.xml"})
    bundled = True


def _socket(port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setblocking(False)
    sock.bind((HOST, port))
    return sock


def parts(data: bytes, size: int) -> list[bytes]:
    """Return the calls of a datagram, each of ``size`` bytes."""
    return [data[start : start + size] for start in range(0, len(data), size)]


async def _answer(first: int, size: int, bundled: bool) -> None:
    sock = _socket(first + 1)
    say(event="ready")
    while True:
        await trio.lowlevel.wait_readable(sock)
        try:
            while True:
                data, source = sock.recvfrom(65535)
                sock.sendto(b"".join(parts(data, size)) if bundled else data, source)
        except BlockingIOError:
            pass


class CallingProcess:
    """The process that calls."""

    def __init__(self, first: int, plan: dict[str, Any], bundled: bool = False) -> None:
        self._bundled = bundled
        self._out: list[bytes] = []
        self._sender: trio.lowlevel.Task | None = None  # while it waits for calls
        self._size = plan["size"]
        self._sock = _socket(first)
        self._dest = (HOST, first + 1)
        self._data = os.urandom(plan["size"] - NUMBER_SIZE)
        self._waiting: dict[bytes, trio.lowlevel.Task] = {}
        self._got: dict[bytes, bytes] = {}
        self.took: list[float] = []
        self.wrong = 0

    async def read(self) -> None:
        """Wake the callers whose answers have come."""
        sock = self._sock
        while True:
            await trio.lowlevel.wait_readable(sock)
            try:
                while True:
                    datagram, _ = sock.recvfrom(65535)
                    for data in parts(datagram, self._size):
                        number = data[:NUMBER_SIZE]
                        task = self._waiting.pop(number, None)
                        if task is not None:
                            self._got[number] = data
                            trio.lowlevel.reschedule(task)
            except BlockingIOError:
                pass

    async def send(self) -> None:
        """Send the calls of each round."""
        at_once = max(1, DATAGRAM_MAX // self._size)

        def abort(_: object) -> trio.lowlevel.Abort:
            self._sender = None
            return trio.lowlevel.Abort.SUCCEEDED

        while True:
            if not self._out:
                self._sender = trio.lowlevel.current_task()
                await trio.lowlevel.wait_task_rescheduled(abort)
            out, self._out = self._out, []
            for start in range(0, len(out), at_once):
                self._sock.sendto(b"".join(out[start : start + at_once]), self._dest)

    async def call(self, caller: int) -> None:
        """Call again and again, until cancelled."""
        number = caller.to_bytes(NUMBER_SIZE, "big")
        data = number + self._data
        clock = time.perf_counter

        def abort(_: object) -> trio.lowlevel.Abort:
            del self._waiting[number]
            return trio.lowlevel.Abort.SUCCEEDED

        while True:
            began = clock()
            self._waiting[number] = trio.lowlevel.current_task()
            if not self._bundled:
                self._sock.sendto(data, self._dest)
            else:
                self._out.append(data)
                if self._sender is not None:
                    sender, self._sender = self._sender, None
                    trio.lowlevel.reschedule(sender)
            await trio.lowlevel.wait_task_rescheduled(abort)
            self.wrong += self._got.pop(number) != data
            self.took.append(clock() - began)


async def _ask(first: int, warm_up: float, plan: dict[str, Any], bundled: bool) -> None:
    for callers in plan["callers"]:
        caller = CallingProcess(first, plan, bundled)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(caller.read)
            if bundled:
                nursery.start_soon(caller.send)
            for number in range(callers):
                # No caller waits for an answer to an earlier measurement.
                nursery.start_soon(caller.call, callers << 16 | number)
            await trio.sleep(warm_up)
            caller.took.clear()
            cpu = time.process_time()
            await trio.sleep(plan["seconds"])
            cpu = time.process_time() - cpu
            nursery.cancel_scope.cancel()
        caller._sock.close()
        figures = call_figures(callers, caller.took, cpu, plan["seconds"], caller.wrong)
        say(event="measured", **figures)


async def _run(
    number: int, first: int, warm_up: float, plan: dict[str, Any], bundled: bool
) -> None:
    async with trio.open_nursery() as nursery:
        begin = trio.Event()
        nursery.start_soon(set_at_first_line, begin, nursery.cancel_scope)
        if number:
            await _answer(first, plan["size"], bundled)
        say(event="ready")
        await begin.wait()
        await _ask(first, warm_up, plan, bundled)


if __name__ == "__main__":
    trio.run(lambda: _run(**json.loads(sys.argv[1])))
