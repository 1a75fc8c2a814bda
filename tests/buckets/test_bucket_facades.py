"""Objects for threads and for asyncio: three members in one process, on a network in memory."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, ExitStack
from typing import Any

import pytest
from seats import Seat, SeatTaken, seats
from seed_instance import PLACEMENT, seed_settings

from jgroups_py import MemoryNetwork, aio, blocking
from jgroups_py.buckets import BucketsClosed, Refused
from jgroups_py.buckets.opening import FAST_DETECTION
from jgroups_py.buckets.parts import NodeParts


def options(network: MemoryNetwork, name: str) -> dict[str, Any]:
    settings = seed_settings()
    return {
        "cluster": "test",
        "name": name,
        "plugin": seats(),
        "settings": settings,
        "parts": NodeParts.of(name, settings),
        "placement": PLACEMENT,
        "attributes": FAST_DETECTION,
        "transport": network,
    }


@pytest.mark.timeout(180)
def test_threads_call_methods_of_objects() -> None:
    network = MemoryNetwork()
    with ExitStack() as opened:
        nodes = [
            opened.enter_context(blocking.open_buckets("sim.xml", **options(network, name)))
            for name in ("n1", "n2", "n3")
        ]
        for node in nodes:
            node.wait_ready(timeout=60)
        mine = nodes[0].objects(Seat, timeout=60)
        assert mine.call("12A", Seat.book, "Ann") == 1
        assert mine["12A"].all(last=3) == ["Ann"]
        with pytest.raises(SeatTaken):
            nodes[1].objects(Seat, timeout=60).call("12A", Seat.book, "Bob")
        n1, n3 = nodes[0].manager_at("n1"), nodes[0].manager_at("n3")
        row = nodes[0].migrate_master_bucket(n1, n3, bucket=0, timeout=60)
        assert row.master == n3 and nodes[2].statistics()["m/n3.parcels"] > 0
        with pytest.raises(Refused):
            nodes[0].recreate_bucket(n1, bucket=1, timeout=60)
        assert len(nodes[0].state.rows) == 9
    with pytest.raises(BucketsClosed):
        mine.call("12A", Seat.holder)


@pytest.mark.timeout(180)
def test_asyncio_tasks_call_methods_of_objects() -> None:
    async def main() -> None:
        network = MemoryNetwork()
        async with AsyncExitStack() as opened:
            nodes = [
                await opened.enter_async_context(
                    aio.open_buckets("sim.xml", **options(network, name))
                )
                for name in ("n1", "n2", "n3")
            ]
            async with asyncio.timeout(60):
                for node in nodes:
                    await node.wait_ready()
                mine = nodes[0].objects(Seat)
                assert await mine["12A"].book("Ann") == 1
                seat = nodes[1].objects(Seat)["12A"]
                assert set(await asyncio.gather(seat.holder(), seat.holder())) == {"Ann"}
                with pytest.raises(SeatTaken):
                    await seat.book("Bob")
                n1, n3 = nodes[0].manager_at("n1"), nodes[0].manager_at("n3")
                row = await nodes[0].migrate_master_bucket(n1, n3, bucket=0)
                assert row.master == n3
                while nodes[0].state.rows[0] != row:  # noqa: ASYNC110 - a busy member may see it later
                    await asyncio.sleep(0.01)

    asyncio.run(main())
