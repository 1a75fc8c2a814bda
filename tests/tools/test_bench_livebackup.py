"""The bench of live and backup measures the right figures."""

from __future__ import annotations

import trio
import trio.testing

from jgroups_py.tools.bench.livebackup import BARE, Load, Rate, _bare_cells, limit, measure
from jgroups_py.tools.bench.livebackup_bare import BareLoad, back_up_bare, run_bare


def test_the_limit_is_the_longest_row_of_changes() -> None:
    assert limit(Load(100, 1, 0.01), 2) == 100 / (101 * 0.01)
    assert limit(Load(100, 10, 0.01), 2) == 100 / (11 * 0.01)
    assert limit(Load(640, 640, 0.01), 2) == 640 / (21 * 0.01), "64 clients wait for both sides"


def test_changes_that_compute_are_limited_by_the_processors_of_both_sides() -> None:
    assert limit(Load(640, 64, 0.01, cpu=True), 2) == 2 / 0.02
    assert limit(Load(100, 1, 0.01, cpu=True), 64) == 100 / (101 * 0.01)


def test_the_bench_compares_both_modes() -> None:
    found = measure(20, [2], 0.0, together=True)
    (row,) = found["rows"]
    assert row["objects"] == 2 and row["one_at_a_time"] > 0 and row["parallel"] > 0
    assert row["busy"] > 0 and row["share_of_both"] >= row["share_of_limit"]
    assert (
        found["order_us"] > 0 and row["lag_p99_ms"] >= row["lag_p50_ms"] >= 0 and row["cpu_us"] > 0
    )
    assert row["bare"] > 0 and row["bare_alone"] > 0
    assert row["share_of_bare"] > 0


def test_shares_of_the_bare_rates_are_of_the_same_kind_of_load() -> None:
    async def find(mode: str, load: Load, *, backup: bool) -> Rate:
        assert mode == BARE
        return Rate(50.0, 0.002) if backup else Rate(200.0, 0.001)

    found = _bare_cells(find, Load(100, 1, 0.01), Rate(150.0, 0.0), Rate(30.0, 0.0))
    assert (found["bare_alone"], found["bare"], found["bare_cost"]) == (200, 50, 0.75)
    assert (found["share_of_bare_alone"], found["share_of_bare"]) == (0.75, 0.6)
    assert (found["bare_cpu_alone_us"], found["bare_cpu_us"]) == (1000, 2000)


def test_bare_clients_wait_for_the_backup() -> None:
    """Fifty changes of one object come to the backup in order, and the last client is answered after the last
    change."""
    load = BareLoad(operations=50, objects=1, clients=8, seconds=0.0)
    places: list[int] = []

    async def main() -> None:
        ours, theirs = trio.testing.memory_stream_pair()
        seen = trio.testing.memory_stream_pair()

        async def watch() -> None:
            """Hand on the clients' requests."""
            async for data in theirs:
                places.extend(
                    int.from_bytes(data[n + 4 : n + 8], "big") for n in range(0, len(data), 8)
                )
                await seen[0].send_all(data)

        async def answer() -> None:
            async for data in seen[0]:
                await theirs.send_all(data)

        async with trio.open_nursery() as nursery:
            for task in (watch, answer):
                nursery.start_soon(task)
            nursery.start_soon(back_up_bare, load, seen[1])
            rate = await run_bare(load, ours)
            assert rate.rate > 0
            nursery.cancel_scope.cancel()

    trio.run(main)
    assert places == list(range(50))
