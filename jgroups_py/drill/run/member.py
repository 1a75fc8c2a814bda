"""One member of a real drill: a process that joins, sends, reads and logs by commands.

    python -m jgroups_py.drill.run.member    the first line of standard input is its ``Task`` (JSON)

Further lines are commands, one JSON object each: ``join``, ``start`` (with ``zero``), ``cut`` (with
``ports``), ``vanish``, ``promote``, ``reconcile``, ``tables``, ``leave``. Standard output reports to the runner:
``ready``, ``view``, ``bridge``, ``tables``, ``ended``. The process ends with its standard input, so a dead runner
leaves no processes. Times are those of the host's monotonic clock.
"""

from __future__ import annotations

import gc
import json
import os
import random
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec
import trio

from jgroups_py.channel.channel import Channel
from jgroups_py.channel.open import open_channel
from jgroups_py.drill import log
from jgroups_py.drill.file import stacks
from jgroups_py.drill.file.plan import FaultFigures
from jgroups_py.drill.log import DrillRecord, LogWriter, Payload
from jgroups_py.drill.run.port_faults import PortFaults
from jgroups_py.drill.run.user import User
from jgroups_py.driver import SocketTransport
from jgroups_py.errors import ChannelClosed, Expelled, JGroupsError
from jgroups_py.values.batch import Batch
from jgroups_py.values.view import View

SAMPLE_SECONDS = 0.1
JOIN_SECONDS_MAX = 30.0
"""The longest time for joining on an idle machine."""
SEND_RUN_MAX = 100
"""The most messages that a late load generator sends at once."""


class MemberTraffic(msgspec.Struct):
    """``Load`` of the plan, for this member."""

    rate: float
    size: int
    start: float
    stop: float
    phase: float
    asks: dict[str, Any] = {}
    """The fields of a line of traffic of other workloads than messages."""


class Task(msgspec.Struct):
    """The instructions for a member."""

    site: str
    name: str
    incarnation: int
    site_index: int
    member_index: int
    names: list[list[str]]
    """Per site, the names of its members: payloads carry indexes into it."""
    site_names: list[str]
    log: str
    stack: str
    attributes: dict[str, str]
    properties: dict[str, str]
    cluster: str
    seed: str
    traffic: list[MemberTraffic]
    inject: bool
    inside: list[float]
    between: list[float]
    bridge_ports: list[int]
    known_ports: list[int]
    sample_seconds: float = SAMPLE_SECONDS
    join_seconds: float = JOIN_SECONDS_MAX
    cache: str = ""
    """The cache file, of caches (cache_member.py)."""
    cache_properties: dict[str, str] = {}
    identifier: int = 0
    """Counted from 1, over all sites."""
    folder: str = ""
    """The folder for files that outlive a member: its next incarnation has the same."""
    settings: dict[str, Any] = {}
    """The settings of the workload."""


class DrillMember:
    """See the module's docstring."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.log = LogWriter(task.log)
        self.channel: Channel | None = None
        self.zero: float | None = None
        self.seqno = 0
        self.leaving = False
        self.faults = (
            PortFaults(
                task.seed,
                FaultFigures(*task.inside),
                FaultFigures(*task.between),
                task.bridge_ports,
                task.known_ports,
                lambda: self._bridge() is not None,
            )
            if task.inject
            else None
        )
        self._sending = trio.Lock()
        self._started = trio.Event()
        self._joined = trio.Event()
        self._bridge_seen: View | None = None

    # telling

    def tell(self, what: str, **details: Any) -> None:
        """Report to the runner, which always reads, so the pipe cannot block for long."""
        line = json.dumps({"what": what, "t": time.monotonic(), **details}) + "\n"
        os.write(1, line.encode())

    def write(
        self, event: str, origin: str | None = None, seqno: int | None = None, **detail: Any
    ) -> None:
        """Write a record with the present time to the log."""
        self.log.write([self.record(event, origin, seqno, **detail)])

    def record(
        self, event: str, origin: str | None = None, seqno: int | None = None, **detail: Any
    ) -> DrillRecord:
        return DrillRecord.of_member(time.monotonic(), self.task, event, origin, seqno, **detail)

    # the member's course

    async def run(self, commands: _Lines) -> None:
        self.tell("ready")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._obey, commands)
            await self._joined.wait()
            await self.live()
            self.tell("ended", how="left")
            nursery.cancel_scope.cancel()

    async def live(self) -> None:
        """Join, and carry out the task until the member is to leave."""
        async with self._channel() as channel:
            self._has_joined(channel)
            channel.driver.before_flush.append(self._watch_bridge)
            async with trio.open_nursery() as inner:
                inner.start_soon(self._read, channel)
                inner.start_soon(self._sample, channel)
                for traffic in self.task.traffic:
                    inner.start_soon(self._load, channel, traffic)
                inner.start_soon(self._wait_leave, inner.cancel_scope)

    def _channel(self) -> AbstractAsyncContextManager[Channel]:
        task = self.task
        return open_channel(task.stack, cluster=task.cluster, **self.channel_options())

    def channel_options(self) -> dict[str, Any]:
        """Return the arguments of ``open_channel`` for this member, besides stack and cluster."""
        task = self.task
        return {
            "name": f"{task.name}#{task.incarnation}",
            "attributes": task.attributes,
            "properties": task.properties,
            "transport": SocketTransport(faults=self.faults),
            "join_timeout": task.join_seconds,
            "trace": self._on_trace,
        }

    def _has_joined(self, channel: Channel) -> None:
        self.channel = channel
        self.tell("joined", address=bytes(channel.address).hex())
        self.log.write([self.record("join", incarnation=self.task.incarnation)])

    @property
    def origin(self) -> str:
        return f"{self.task.name}#{self.task.incarnation}"

    @property
    def chance(self) -> random.Random:
        """Return the random stream of this member's requests."""
        return random.Random(f"{self.task.seed}:requests")

    async def serve(
        self,
        user: User[Any, Any],
        asks: Callable[..., Any],
        *beside: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        """Make the requests of the task, each line made by ``asks``, and run ``beside``, until the member must
        leave."""
        async with trio.open_nursery() as inner:
            for task in (user.watch, *beside):
                inner.start_soon(task)
            for traffic in self.task.traffic:
                inner.start_soon(self._requests, user, asks(**traffic.asks), traffic)
            inner.start_soon(self._wait_leave, inner.cancel_scope)

    async def _requests(self, user: User[Any, Any], load: Any, traffic: MemberTraffic) -> None:
        """Make the requests of a line of traffic, once the drill has begun."""
        await self._started.wait()
        assert self.zero is not None
        zero = trio.current_time() - (time.monotonic() - self.zero)
        start = traffic.start + traffic.phase
        await user.requests(load, traffic.rate, start, traffic.stop, zero)

    async def _wait_leave(self, scope: trio.CancelScope) -> None:
        while not self.leaving:  # noqa: ASYNC110 - at most once a drill
            await trio.sleep(0.01)
        scope.cancel()

    async def _obey(self, commands: _Lines) -> None:
        while (line := await commands.next()) is not None:
            command = json.loads(line)
            match command["do"]:
                case "join":
                    self._joined.set()
                case "start":
                    self.zero = command["zero"]
                    self._started.set()
                case "cut":
                    assert self.faults is not None, "a cut needs faults"
                    self.faults.cut = dict.fromkeys(command["ports"])
                case "vanish":
                    assert self.faults is not None, "vanishing needs faults"
                    self.before_end()
                    self.faults.vanish()
                    detail = {name: command[name] for name in ("by", "role") if command.get(name)}
                    self.log.write([self.record("vanish", **detail)])
                    self.tell("vanished")
                case "promote":
                    self.promote()
                case "reconcile":
                    if self.channel is not None:
                        stacks.reconcile(self.channel.stack, self.task.site_names)
                case "tables":
                    self.tell("tables", tables=self._tables())
                case "leave":
                    self.leaving = True
                case _:
                    await self.obey(command)
        os._exit(3)  # the runner is gone; a goodbye has no use

    async def obey(self, command: dict[str, Any]) -> None:
        """Obey a command that only some kinds of members know."""

    def before_end(self) -> None:
        """Log the last words of a member that vanishes."""

    def promote(self) -> None:
        assert self.channel is not None, "promote before joining"
        stacks.promote(self.channel.stack)
        self.channel.driver.wake()

    # reading

    async def _read(self, channel: Channel) -> None:
        async for item in channel.batches():
            if isinstance(item, View):
                self._on_view(item)
            elif isinstance(item, Batch):
                self.log.write(list(self._delivered(item)))

    def _on_view(self, view: View) -> None:
        members = [bytes(member).hex() for member in view.members]
        creator = bytes(view.view_id.creator).hex()
        self.log.write([self.record("view", id=f"{creator}|{view.view_id.id}", members=members)])
        self.tell("view", members=members)

    def _delivered(self, batch: Batch) -> Iterator[DrillRecord]:
        task = self.task
        for run in log.runs(p for p in batch.payloads if p is not None):
            detail: dict[str, Any] = {"count": run.length} if run.length > 1 else {}
            if run.site != task.site_index:
                detail["from"] = task.site_names[run.site]
            origin = f"{task.names[run.site][run.member]}#{run.incarnation}"
            yield self.record("deliver", origin, run.first, **detail)

    # sending

    async def _load(self, channel: Channel, traffic: MemberTraffic) -> None:
        await self._started.wait()
        assert self.zero is not None
        if traffic.rate <= 0:
            return
        interval = 1 / traffic.rate
        due = traffic.start + traffic.phase
        now = time.monotonic() - self.zero
        if due < now and self.task.incarnation > 1:
            due = now + traffic.phase  # the messages of its absence are not made up for
        while due < traffic.stop:
            now = time.monotonic() - self.zero
            if due > now:
                await trio.sleep(due - now)
                now = time.monotonic() - self.zero
            count = 0
            while due <= now and due < traffic.stop and count < SEND_RUN_MAX:
                count += 1
                due += interval
            if count:
                await self._send(channel, traffic.size, count)

    async def _send(self, channel: Channel, size: int, count: int) -> None:
        """Send and number messages in the order of sending, even if several loads of a member wait."""
        async with self._sending:
            await self._send_next(channel, size, count)

    async def _send_next(self, channel: Channel, size: int, count: int) -> None:
        task = self.task
        first = self.seqno + 1
        self.seqno += count
        assert self.zero is not None
        sent = time.monotonic() - self.zero
        payloads = [
            Payload(task.site_index, task.member_index, task.incarnation, seqno, sent).pack(size)
            for seqno in range(first, first + count)
        ]
        detail = {"count": count} if count > 1 else {}
        self.log.write([self.record("send", f"{task.name}#{task.incarnation}", first, **detail)])
        await channel.send_many(payloads)

    # watching

    async def _sample(self, channel: Channel) -> None:
        while True:
            found = stacks.sample(channel.stack)
            if found is None:
                return
            self.log.write([self.record("buffer", **found)])
            await trio.sleep(self.task.sample_seconds)

    def _on_trace(
        self, _t: float, _name: str, protocol: str, what: str, details: dict[str, Any]
    ) -> None:
        found = stacks.traced(protocol, what, details)
        if found is None:
            return
        event, origin, seqno, detail = found
        if event == "suspect":
            detail["members"] = [bytes(member).hex() for member in detail["members"]]
        self.log.write([self.record(event, origin, seqno, **detail)])

    def _tables(self) -> dict[str, tuple[int, int]]:
        """Return entries and bytes of every table of this process; empty before it has joined."""
        from jgroups_py.drill.soak import samples, tables

        gc.collect()
        found = samples.plain(tables.of_process())
        if self.channel is not None:
            driver = self.channel.driver
            roots = {**tables.roots_of(driver.machine), "driver": driver, "channel": self.channel}
            found.update(samples.plain(tables.walk(roots, (self, self.log))))
        return found

    def _bridge(self) -> Any:
        if self.channel is None:
            return None
        return stacks.bridge_stack(self.channel.stack)

    def _watch_bridge(self) -> None:
        child = self._bridge()
        if child is None:
            return
        view = stacks.bridge_view(child)
        if view is self._bridge_seen or view is None:
            return
        self._bridge_seen = view
        self.tell(
            "bridge",
            id=str(view.view_id.id),
            address=bytes(child.address).hex(),
            members=[bytes(member).hex() for member in view.members],
        )


class _Lines:
    """Reads lines of a stream."""

    def __init__(self, stream: trio.abc.ReceiveStream) -> None:
        self._stream = stream
        self._buffer = b""

    async def next(self) -> bytes | None:
        """Return the next line without its end; ``None`` at the end of the stream."""
        while b"\n" not in self._buffer:
            data = await self._stream.receive_some()
            if not data:
                return None
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return bytes(line)


async def main(kind: type[DrillMember] = DrillMember) -> None:
    commands = _Lines(trio.lowlevel.FdStream(os.dup(0)))
    first = await commands.next()
    if first is None:
        return
    member = kind(msgspec.json.decode(first, type=Task))
    try:
        await member.run(commands)
    except* (Expelled, ChannelClosed) as group:
        member.before_end()
        member.tell("ended", how="expelled", problem=str(group.exceptions[0]))
    except* JGroupsError as group:
        member.tell("ended", how="failed", problem=str(group.exceptions[0]))
        sys.exit(1)


if __name__ == "__main__":
    trio.run(main)
