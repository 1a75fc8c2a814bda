"""A store in a dict that fails on demand, before or after it has done its work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import trio

from jgroups_py.cache import Fqn, Row, Store
from jgroups_py.cache.node import Node, node_bytes
from jgroups_py.cache.store import StorePicture
from jgroups_py.errors import StoreError

Fault = Literal["", "before", "after"]


class FaultyStore(Store):
    """``fault()`` is asked at each call: with "" the call works; with "before" it fails; with
    "after" it works, then fails."""

    def __init__(self, fault: Callable[[], Fault] = lambda: "") -> None:
        self.rows: dict[Fqn, Node] = {}
        self.fault = fault
        self.calls: list[str] = []
        self.is_open = False
        self.slow = 0.0

    async def _call(self, name: str) -> Fault:
        assert self.is_open
        self.calls.append(name)
        await trio.sleep(self.slow)
        fault = self.fault()
        if fault == "before":
            raise StoreError("the disk is full")
        return fault

    async def open(self) -> None:
        self.is_open = True

    async def aclose(self) -> None:
        self.is_open = False

    async def load(self, path: Fqn) -> Node | None:
        await self._read("load")
        return self.rows.get(path)

    async def load_within(self, path: Fqn, limit: int) -> Sequence[tuple[Fqn, Node]]:
        await self._read("load_within")
        return [(p, node) for p, node in self.rows.items() if p.is_within(path)][:limit]

    async def names(self, path: Fqn) -> Sequence[str]:
        await self._read("names")
        depth = len(path)
        return sorted({p[depth] for p in self.rows if p.is_within(path) and len(p) > depth})

    async def _read(self, name: str) -> None:
        if await self._call(name):
            raise StoreError("the disk cannot be read")

    async def apply(self, rows: Sequence[Row]) -> None:
        fault = await self._call("apply")
        for path, node in rows:
            if node is None:
                self.rows.pop(path, None)
            else:
                self.rows[path] = node
        if fault:
            raise StoreError("the disk is gone")

    async def picture(self) -> StorePicture:
        await self._read("picture")
        picture = _Rows(dict(self.rows))
        await trio.sleep(self.slow)
        return picture

    async def purge(self) -> None:
        await self._call("purge")
        self.rows.clear()


class _Rows(StorePicture):
    def __init__(self, rows: dict[Fqn, Node]) -> None:
        self._rows = sorted(rows.items())

    async def page(
        self, path: Fqn, after: Fqn | None, limit: int, *, values: bool = True
    ) -> Sequence[tuple[Fqn, bytes]]:
        await trio.lowlevel.checkpoint()
        found = [
            (p, n) for p, n in self._rows if p.is_within(path) and (after is None or p > after)
        ]
        return [(p, node_bytes(n) if values else b"") for p, n in found[:limit]]

    async def aclose(self) -> None:
        pass
