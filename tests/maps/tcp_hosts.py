"""Hosts of maps in memory, with real ports or with streams in memory, for tests of links over TCP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio
import trio.testing

from jgroups_py.maps.digests import Side
from jgroups_py.maps.entry import MapEntry, origin_of
from jgroups_py.maps.links import Link, Medium
from jgroups_py.maps.orders import CloseLink, SendAll, SendToPeer, Told
from jgroups_py.maps.replica import Replica
from jgroups_py.maps.replica_settings import ReplicaSettings
from jgroups_py.maps.stamp import HybridClock, MapStamp
from jgroups_py.maps.table import MemoryTable
from jgroups_py.maps.tcp import TcpPort


class Recorded:
    """A LinkHost that only records its calls."""

    compared: Side | None = None

    def __init__(self) -> None:
        self.links: dict[int, Link] = {}
        self.got: list[bytes] = []
        self.opened = 0

    def link_opened(self, link: Link, medium: Medium | None = None) -> int:
        self.opened += 1
        self.links[self.opened] = link
        return self.opened

    def received(self, number: int, data: bytes, *, shared: bool = False) -> None:
        assert number in self.links
        self.got.append(data)

    def link_closed(self, number: int) -> None:
        del self.links[number]

    def overheard(self, data: bytes) -> None:
        self.got.append(data)

    def send(self, data: bytes) -> None:
        for link in self.links.values():
            link.send(data)


class TableHost:
    """A table in memory and its replica. Run until cancelled."""

    compared: Side | None = None

    def __init__(self, node: int, life: int = 1, **settings: Any) -> None:
        self.node, self.origin = node, origin_of(node, life)
        self.table = MemoryTable()
        self.clock = HybridClock(lambda: int((1_000_000 + trio.current_time()) * 1e9))
        self.settings = ReplicaSettings(
            map="fx", node=node, origin=self.origin, file=bytes([node, life]), **settings
        )
        self.replica = Replica(self.settings, self.table, self.clock, trio.current_time())
        self.links: dict[int, Link] = {}
        self.told: list[Told] = []
        self.last = 0
        self.medium: Medium | None = None

    def link_opened(self, link: Link, medium: Medium | None = None) -> int:
        self.last += 1
        self.links[self.last] = link
        self.medium = medium
        self.replica.link_opened(self.last, shared=medium is not None)
        self._carry_out()
        return self.last

    def received(self, number: int, data: bytes, *, shared: bool = False) -> None:
        self.replica.received(number, data, trio.current_time(), shared=shared)
        self._carry_out()

    def link_closed(self, number: int) -> None:
        if self.links.pop(number, None) is not None:
            self.replica.link_closed(number)
            self._carry_out()

    def overheard(self, data: bytes) -> None:
        self.replica.overheard(data, trio.current_time())
        self._carry_out()

    def _carry_out(self) -> None:
        for out in self.replica.take():
            if isinstance(out, SendToPeer):
                if out.link in self.links or out.link == self.last:
                    self.links[out.link].send(out.data)
            elif isinstance(out, SendAll):
                assert self.medium is not None
                self.medium.send_all(out.data)
            elif isinstance(out, CloseLink):
                self.links.pop(out.link).close()
            elif isinstance(out, Told):
                self.told.append(out)

    def put(self, key: bytes, value: bytes | None) -> None:
        self.table.change(
            self.origin, key, MapEntry(value, MapStamp(self.clock.next(), self.node), {}, 0, 0)
        )
        self.replica.changed()

    @property
    def values(self) -> dict[bytes, bytes]:
        return {k: e.value for k, e in self.table.entries.items() if e.value is not None}

    async def run(self) -> None:
        while True:
            due = self.replica.tick(trio.current_time())
            self._carry_out()
            await trio.sleep_until(due)


class MemoryNetwork:
    """Ports by number, reached through streams in memory. ``down``: numbers of unreachable hosts."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.nursery = nursery
        self.ports: dict[int, TcpPort] = {}
        self.down: set[int] = set()
        self.tries: list[float] = []
        self.streams: list[trio.StapledStream[Any, Any]] = []

    async def connect(self, host: str, number: int) -> trio.abc.Stream:
        self.tries.append(trio.current_time())
        if number in self.down or number not in self.ports:
            raise ConnectionRefusedError("nobody listens")
        await trio.lowlevel.checkpoint()
        ours, theirs = trio.testing.memory_stream_pair()
        self.streams += [ours, theirs]
        self.nursery.start_soon(self.ports[number].visited, theirs, host)
        return ours

    def cut(self) -> None:
        """Break all connections."""
        for stream in self.streams:
            stream.send_stream.close()
            stream.receive_stream.close()
        self.streams.clear()


async def until(condition: Callable[[], Any], limit: float = 60.0) -> None:
    """Wait until a condition holds."""
    with trio.fail_after(limit):
        while not condition():  # noqa: ASYNC110
            await trio.sleep(0.01)
