"""The load of the bench of live and backup with bare tasks. It shows the limit of one interpreter for
each side.

The same clients wait for the same objects (``trio.Lock``) with the same waits. With a backup, eight bytes of each operation go to it through a
TCP connection; it makes each object's changes in their order, and four bytes answer the client. All waiting bytes go in one piece. All
other work of a live node is left out: contexts, undo, copies, the group, and the report of errors.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import trio

from jgroups_py.tools.bench.waits import Waits

HOST: Final = "127.0.0.1"
TOGETHER: Final = 8
"""So many records wait for no others."""
_OPERATION: Final = struct.Struct(">II")
_ANSWER: Final = struct.Struct(">I")
_waits: Final = Waits()


class BareLoad(NamedTuple):
    """So many clients make so many changes of objects in turn, each with a wait of ``seconds``."""

    operations: int
    objects: int
    clients: int
    seconds: float


class BareRate(NamedTuple):
    """Operations a second, and seconds of processor time that each takes in the process that measures."""

    rate: float
    cpu: float


class _Sleeper:
    """A task that sleeps until it is woken."""

    def __init__(self) -> None:
        self._task: trio.lowlevel.Task | None = None

    def wake(self) -> None:
        if self._task is not None:
            trio.lowlevel.reschedule(self._task)
            self._task = None

    async def sleep(self) -> None:
        def abort(_: Any) -> trio.lowlevel.Abort:
            self._task = None
            return trio.lowlevel.Abort.SUCCEEDED

        self._task = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(abort)


class _Sending:
    """Records that wait to be sent. ``TOGETHER`` of them leave at once, so that the other side has work before this turn of
    the loop is over. Fewer leave at the end of the turn."""

    def __init__(self, stream: trio.abc.SendStream) -> None:
        self._stream = stream
        self._socket: socket.socket | None = None
        if isinstance(stream, trio.SocketStream):
            self._socket = socket.socket(fileno=os.dup(stream.socket.fileno()))
            self._socket.setblocking(False)
        self._records: list[bytes] = []
        self._sleeper = _Sleeper()
        self._is_sending = False

    def add(self, record: bytes) -> None:
        self._records.append(record)
        if len(self._records) >= TOGETHER and self._socket is not None and not self._is_sending:
            self._send_now(self._socket)
        else:
            self._sleeper.wake()

    def _send_now(self, to: socket.socket) -> None:
        data = b"".join(self._records)
        try:
            sent = to.send(data)
        except BlockingIOError:
            sent = 0
        self._records = [data[sent:]] if sent < len(data) else []

    async def run(self) -> None:
        """Send for ever."""
        try:
            while True:
                while self._records:
                    data = b"".join(self._records)
                    self._records.clear()
                    self._is_sending = True
                    await self._stream.send_all(data)
                    self._is_sending = False
                await self._sleeper.sleep()
        finally:
            if self._socket is not None:
                self._socket.close()


async def _receive(
    stream: trio.abc.ReceiveStream, form: struct.Struct, take: Callable[..., None]
) -> None:
    """Call ``take`` with the fields of each record, until the other side closes."""
    rest = b""
    async for part in stream:
        data = rest + part
        whole = len(data) // form.size * form.size
        for fields in form.iter_unpack(data[:whole]):
            take(*fields)
        rest = data[whole:]


async def run_bare(load: BareLoad, stream: trio.abc.Stream | None = None) -> BareRate:
    """Run the load. ``stream`` leads to the backup."""
    locks = [trio.Lock() for _ in range(load.objects)]
    changes = [0] * load.objects
    numbers = iter(range(load.operations))
    waiting: dict[int, _Sleeper] = {}
    sending = None if stream is None else _Sending(stream)

    async def client() -> None:
        sleeper = _Sleeper()
        for number in numbers:
            place = number % load.objects
            async with locks[place]:
                if load.seconds:
                    await _waits.wait(load.seconds)
                changes[place] += 1
                if sending is not None:
                    waiting[number] = sleeper
                    sending.add(_OPERATION.pack(place, number))
            if sending is not None:
                await sleeper.sleep()

    def answered(number: int) -> None:
        waiting.pop(number).wake()

    began, cpu = time.perf_counter(), time.process_time()
    async with trio.open_nursery() as others:
        if stream is not None and sending is not None:
            others.start_soon(sending.run)
            others.start_soon(_receive, stream, _ANSWER, answered)
        async with trio.open_nursery() as clients:
            for _ in range(load.clients):
                clients.start_soon(client)
        others.cancel_scope.cancel()
    seconds, used = time.perf_counter() - began, time.process_time() - cpu
    assert sum(changes) == load.operations and not waiting
    return BareRate(load.operations / seconds, used / load.operations)


async def back_up_bare(load: BareLoad, stream: trio.abc.Stream) -> None:
    """Make the changes of the live side again, until it closes the stream."""
    queues: list[deque[int]] = [deque() for _ in range(load.objects)]
    sleepers = [_Sleeper() for _ in queues]
    changes = [0] * load.objects
    sending = _Sending(stream)

    async def change(place: int) -> None:
        while True:
            while queues[place]:
                number = queues[place].popleft()
                if load.seconds:
                    await _waits.wait(load.seconds)
                changes[place] += 1
                sending.add(_ANSWER.pack(number))
            await sleepers[place].sleep()

    def came(place: int, number: int) -> None:
        queues[place].append(number)
        sleepers[place].wake()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(sending.run)
        for place in range(load.objects):
            nursery.start_soon(change, place)
        await _receive(stream, _OPERATION, came)
        nursery.cancel_scope.cancel()


async def run_bare_together(load: BareLoad, *, backup: bool) -> BareRate:
    """Run the load with both sides in this process."""
    if not backup:
        return await run_bare(load)
    ours, theirs = trio.socket.socketpair()
    async with trio.open_nursery() as nursery:
        other = trio.SocketStream(theirs)
        nursery.start_soon(back_up_bare, load, other)
        async with other, trio.SocketStream(ours) as stream:
            found = await run_bare(load, stream)
            nursery.cancel_scope.cancel()
    return found
