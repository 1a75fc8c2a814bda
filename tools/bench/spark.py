"""Rows per second between a cache and Spark, both ways, beside the same jobs against Redis, in one run.

    python -m jgroups_py.tools.bench.spark

A cache alone in this process with its export port, Spark in local mode beside it, on two cores. Redis: one
server on loopback, nothing on disk; redis-py with hiredis, pipelines of 1,000; rows are put by
foreachPartition, and read by known keys in mapInArrow (the fastest way found). Jobs take turns, in rounds.
Figures are of the fastest round and include all work of Spark. "of two cores" divides the rows by the CPU time of all processes
(Spark's, Python's, the server's), which depends little on other load of the machine. Rows of ours are read "raw" (path and
data, as the member keeps them) and as columns.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from jgroups_py import blocking
from jgroups_py.tools.bench.cache_peers import HOST, missing
from jgroups_py.tools.bench.ended import end_with
from jgroups_py.tools.commands.mperf_ports import free_block

TOKEN = "only for this measurement"
PARTITIONS = 4
PIPELINE = 1000
CORES = 2
CACHE = "<cache><CacheMode>LOCAL</CacheMode></cache>"
"""The settings of the cache, which has no limit of memory, as Redis."""
REDIS_SECONDS = 20.0
METER_EVERY = 0.1
Job = Callable[[], None]


class CpuMeter:
    """CPU time of this process and all below it. It looks often, because Python workers come and go; the time of a
    worker after the last look is missing."""

    def __init__(self) -> None:
        self._me = psutil.Process()
        self._seen: dict[tuple[int, float], float] = {}
        self._lock = threading.Lock()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            self.seconds()
            time.sleep(METER_EVERY)

    def seconds(self) -> float:
        with self._lock:
            for process in [self._me, *self._me.children(recursive=True)]:
                try:
                    used = process.cpu_times()
                    self._seen[process.pid, process.create_time()] = used.user + used.system
                except psutil.NoSuchProcess:
                    continue
            return sum(self._seen.values())


@contextmanager
def redis_server() -> Iterator[int]:
    """Run a server of Redis; yield its port."""
    port = free_block(1)
    with TemporaryDirectory(prefix="bench-spark-redis-") as folder:
        command = ["redis-server", "--port", str(port), "--bind", HOST, "--save", ""]
        command += ["--appendonly", "no", "--dir", folder]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            import redis

            client = redis.Redis(HOST, port)
            end = time.monotonic() + REDIS_SECONDS
            while True:
                try:
                    client.ping()
                    break
                except redis.exceptions.ConnectionError:
                    if time.monotonic() > end:
                        raise
                    time.sleep(0.05)
            yield port
        finally:
            server.terminate()
            server.wait()


def our_jobs(spark: Any, frame: Any, where: dict[str, str]) -> dict[str, Job]:
    def write() -> None:
        frame.write.format("jgroups").options(**where).mode("append").save()

    def read(schema: str) -> Job:
        reader = spark.read.format("jgroups").options(**where, partitions=str(PARTITIONS))
        return lambda: reader.schema(schema).load().write.format("noop").mode("overwrite").save()

    return {
        "write": write,
        "read": read("path string, data binary"),
        "read columns": read("path string, v string"),
    }


def redis_jobs(spark: Any, frame: Any, port: int, rows: int) -> dict[str, Job]:
    def put(part: Iterator[Any]) -> None:
        import redis

        pipeline = redis.Redis(HOST, port).pipeline(transaction=False)
        for number, row in enumerate(part, 1):
            pipeline.set(row[0], row[1])
            if not number % PIPELINE:
                pipeline.execute()
        pipeline.execute()

    def get(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa
        import redis

        client = redis.Redis(HOST, port)
        for batch in batches:
            for start in range(0, batch.num_rows, PIPELINE):
                paths = batch.column(0).slice(start, PIPELINE)
                pipeline = client.pipeline(transaction=False)
                for path in paths.to_pylist():
                    pipeline.get(path)
                values = pa.array(pipeline.execute(), pa.binary())
                yield pa.RecordBatch.from_arrays([paths, values], ["path", "data"])

    def read() -> None:
        keys = spark.range(0, rows, 1, PARTITIONS).selectExpr("concat('/rows/', id) as path")
        found = keys.mapInArrow(get, "path string, data binary")
        found.write.format("noop").mode("overwrite").save()

    return {"write": lambda: frame.foreachPartition(put), "read": read}


def measure(
    rows: int, size: int, rounds: int, spark: Any, with_redis: bool
) -> dict[str, dict[str, int]]:
    """Rows a second, and of two cores, by job."""
    frame = spark.range(0, rows, 1, PARTITIONS).selectExpr(
        "concat('/rows/', id) as path", f"rpad(id, {size}, 'x') as v"
    )
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory(prefix="bench-spark-"))
        Path(folder, "cache.xml").write_text(CACHE)
        cache = stack.enter_context(blocking.open_tree_cache(f"{folder}/cache.xml", timeout=60))
        port = stack.enter_context(blocking.open_export(cache, token=TOKEN))
        where = {"members": f"{port.address[0]}:{port.address[1]}", "token": TOKEN}
        jobs = our_jobs(spark, frame, where)
        if with_redis:
            server = stack.enter_context(redis_server())
            theirs = redis_jobs(spark, frame, server, rows)
            jobs.update({f"redis {name}": job for name, job in theirs.items()})
        meter = CpuMeter()
        took: dict[str, list[tuple[float, float]]] = {name: [] for name in jobs}
        for number in range(rounds):
            for name, job in jobs.items():
                print(f"{size} B, round {number + 1}: {name}", file=sys.stderr, flush=True)
                cpu, begun = meter.seconds(), time.perf_counter()
                job()
                took[name].append((time.perf_counter() - begun, meter.seconds() - cpu))
        if with_redis:
            import redis

            assert redis.Redis(HOST, server).dbsize() == rows
        assert cache.statistics().nodes == rows
    return {
        name: {
            "per_s": round(rows / min(seconds for seconds, _ in times)),
            "of_two_cores": round(CORES * rows / min(cpu for _, cpu in times)),
        }
        for name, times in took.items()
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench_spark", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 300_000])
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-redis", action="store_true", help="ours only")
    given = parser.parse_args()
    if len(given.rows) != len(given.sizes) or given.rounds < 1:
        parser.error("--rows and --sizes are as many; --rounds is 1 or more")
    problem = None if given.no_redis else missing("redis")
    if problem:
        print(f"Redis left out: {problem}", file=sys.stderr)
    from jgroups_py.spark import open_session

    config = {"spark.ui.showConsoleProgress": "false"}
    with open_session("local[2]", memory="3g", config=config) as spark:
        for rows, size in zip(given.rows, given.sizes, strict=True):
            found = measure(rows, size, given.rounds, spark, not (given.no_redis or problem))
            said = {"rows": rows, "bytes": size, "load": os.getloadavg()[0], "figures": found}
            print(json.dumps(said), flush=True)
    return 0


if __name__ == "__main__":
    end_with(main)
