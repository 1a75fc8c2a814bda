"""Snapshots are limited, including those that are being opened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import trio
import trio.testing

from jgroups_py.errors import StoreError
from jgroups_py.export.errors import Busy
from jgroups_py.export.limits import ExportLimits
from jgroups_py.export.messages import Offset
from jgroups_py.export.snapshots import Snapshots
from jgroups_py.export.source import Frozen


class Slow:
    """A source whose snapshots are ready when ``go`` is set, or whose store ``fails``."""

    def __init__(self) -> None:
        self.go = trio.Event()
        self.fails = False

    async def freeze(self, under: Sequence[str]) -> Frozen:
        await self.go.wait()
        if self.fails:
            raise StoreError("no disk")
        return Frozen([], Offset("log", 0, {}))


async def test_snapshots_that_are_being_opened_count(autojump_clock: Any) -> None:
    source: Any = Slow()
    snapshots = Snapshots(ExportLimits(snapshots_max=2))
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(snapshots.open, source, (), trio.current_time)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(Busy, match="2 snapshots are open"):
            await snapshots.open(source, (), trio.current_time)
        source.go.set()
    assert len(snapshots) == 2


async def test_a_snapshot_that_could_not_be_opened_leaves_its_place(autojump_clock: Any) -> None:
    source: Any = Slow()
    source.fails = True
    source.go.set()
    snapshots = Snapshots(ExportLimits(snapshots_max=1))
    with pytest.raises(StoreError):
        await snapshots.open(source, (), trio.current_time)
    source.fails = False
    await snapshots.open(source, (), trio.current_time)
    assert len(snapshots) == 1
