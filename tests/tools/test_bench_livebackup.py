"""The bench of live and backup measures what it says."""

from __future__ import annotations

from jgroups_py.tools.bench.livebackup import Load, limit, measure


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
