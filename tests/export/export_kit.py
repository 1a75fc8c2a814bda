"""A port in this loop, and clients of it in threads; rows staged, committed, read, and changes played."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import trio

from jgroups_py.cache import TreeCache, open_tree_cache
from jgroups_py.cache.node import Node, node_bytes, node_from_bytes
from jgroups_py.export import ExportClient, ExportLimits, ExportPort, Offset, open_export
from jgroups_py.export.columns import CHANGES, STATE, WRITES, pack, unpack
from jgroups_py.export.log import ChangeLog
from jgroups_py.export.messages import Committed, StageRows
from jgroups_py.export.source import RowWrite

TOKEN = "a token for the tests"
Tree = dict[str, dict[str, bytes]]


async def in_thread(function: Callable[..., Any], *args: Any) -> Any:
    with trio.fail_after(180):
        return await trio.to_thread.run_sync(lambda: function(*args), abandon_on_cancel=True)


@asynccontextmanager
async def exported(**limits: Any) -> AsyncIterator[tuple[TreeCache, ExportPort]]:
    async with (
        open_tree_cache("local.xml") as cache,
        open_export(cache, token=TOKEN, limits=ExportLimits(**limits)) as port,
    ):
        yield cache, port


@asynccontextmanager
async def client_of(port: ExportPort) -> AsyncIterator[ExportClient]:
    client: ExportClient = await in_thread(ExportClient, port.address, TOKEN)
    try:
        yield client
    finally:
        client.close()


def state_of(client: ExportClient, id: str, start: int = 0, stop: int = 10**9) -> Tree:
    return {
        key: dict(node_from_bytes(data).attributes)
        for rows, sizes, body in client.read_snapshot(id, start, stop)
        for key, data in unpack(STATE, rows, sizes, body)
    }


def changes_of(client: ExportClient, start: Offset, stop: Offset) -> list[tuple[Any, ...]]:
    return [
        row
        for rows, sizes, body in client.read_changes("cache", start, stop)
        for row in unpack(CHANGES, rows, sizes, body)
    ]


def played(tree: Tree, changes: Iterable[tuple[Any, ...]]) -> Tree:
    """Return a tree after changes of a log."""
    after = dict(tree)
    for _, _, _, key, _, removed, data in changes:
        if removed:
            after.pop(key, None)
        else:
            after[key] = dict(node_from_bytes(data).attributes)
    return after


def log_of(port: ExportPort) -> ChangeLog:
    log = port.sources["cache"].log_at(None)
    assert isinstance(log, ChangeLog)
    return log


def tree_of(cache: TreeCache) -> Tree:
    return {str(path): dict(node.attributes) for path, node in cache.tree.container.nodes().items()}


def stage(
    client: ExportClient, job: str, task: int, attempt: int, writes: Iterable[RowWrite]
) -> tuple[int, int]:
    rows = list(writes)
    sizes, body = pack(WRITES, [list(column) for column in zip(*rows, strict=True)] or [[], [], []])
    count = client.stage(StageRows("cache", job, task, attempt, len(rows), sizes, True), body)
    assert count == len(rows)
    return task, attempt


def commit(client: ExportClient, job: str, parts: Any, **options: Any) -> Committed:
    *_, last = client.commit("cache", job, parts, **options)
    assert isinstance(last, Committed)
    return last


def write(number: int, value: bytes = b"\x01") -> RowWrite:
    return RowWrite(f"/n/{number}", False, node_bytes(Node({"v": value})))
