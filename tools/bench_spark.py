"""Rows per second between a cache and Spark, both ways. Run as ``python -m jgroups_py.tools.bench_spark``.

One process with the cache and its port, Spark in local mode beside it. Each figure is the best of some
rounds and contains Spark's own cost of a job; "raw" rows are path and data, as the member keeps them.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from jgroups_py import blocking

TOKEN = "only for this measurement"


def best(rounds: int, action: Callable[[], Any]) -> float:
    """Seconds of the fastest."""
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        action()
        times.append(time.perf_counter() - begun)
    return min(times)


def measure(rows: int, size: int, rounds: int, spark: Any) -> dict[str, float]:
    """Rows per second by name."""
    found: dict[str, float] = {}
    with (
        blocking.open_tree_cache("local.xml") as cache,
        blocking.open_export(cache, token=TOKEN) as port,
    ):
        where = {"members": f"{port.address[0]}:{port.address[1]}", "token": TOKEN}
        frame = spark.range(0, rows, 1, 4).selectExpr(
            "concat('/rows/', id) as path", f"repeat('x', {size}) as v"
        )
        frame = frame.cache()
        frame.count()

        def write() -> None:
            frame.write.format("jgroups").options(**where).mode("append").save()

        def read(schema: str) -> None:
            reader = spark.read.format("jgroups").options(**where, partitions="4").schema(schema)
            reader.load().write.format("noop").mode("overwrite").save()

        found["write"] = rows / best(rounds, write)
        found["read raw"] = rows / best(rounds, lambda: read("path string, data binary"))
        found["read columns"] = rows / best(rounds, lambda: read("path string, v string"))
        frame.unpersist()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    from jgroups_py.spark import open_session

    with open_session(memory="2g") as spark:
        for size in given.sizes:
            rates = measure(given.rows, size, given.rounds, spark)
            load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
            said = {"rows": given.rows, "bytes": size, "load": load}
            json.dump({**said, **{k: round(v) for k, v in rates.items()}}, sys.stdout)
            print(flush=True)


if __name__ == "__main__":
    main()
