"""The measurement of cache_perf.py with other stores for Python programs: Redis with a replica, PySyncObj.

    python -m jgroups_py.tools.bench.cache_peers redis|pysyncobj PLAN    prints the figures as JSON

Redis: a server and one replica on loopback, nothing on disk; SET and WAIT 1 in one pipeline, redis-py
with hiredis; several callers are threads, each with its connection. PySyncObj: three processes, a
ReplDict written synchronously by the leader, without batching and with ticks of 1 ms (its defaults send
ten times a second); several callers are threads.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any

from jgroups_py.tools.bench.cache_perf import KEYS, CachePerfPlan, figures
from jgroups_py.tools.commands.mperf_ports import free_block

HOST = "127.0.0.1"
START_SECONDS = 20.0
EXTRA = "pip install 'jgroups_py[bench]'"
PEERS = ("redis", "pysyncobj")


def missing(peer: str) -> str | None:
    """Return the reason why the peer cannot be measured here; None: it can."""
    modules = ("redis", "hiredis") if peer == "redis" else ("pysyncobj",)
    for module in modules:
        if importlib.util.find_spec(module) is None:
            return f"{module} is not installed ({EXTRA})"
    if peer == "redis" and shutil.which("redis-server") is None:
        return "there is no redis-server (Debian, Ubuntu: apt install redis-server)"
    return None


def _figures(
    plan: CachePerfPlan,
    put: Callable[[int, str, bytes], None],
    get: Callable[[int, str], bytes],
) -> list[dict[str, Any]]:
    """``put(caller, key, value)``, ``get(caller, key)`` are called by threads."""
    found = []
    for size in plan.sizes:
        value = os.urandom(size)
        keys = [f"{size}/{n}" for n in range(KEYS)]

        def write(caller: int, key: str, value: bytes = value) -> None:
            put(caller, key, value)

        def read(caller: int, key: str, value: bytes = value) -> None:
            if get(caller, key) != value:
                raise ValueError(f"{key}: another value than was put")

        for key in keys:
            write(0, key)
        for kind, call in (("put", write), ("get", read)):
            for callers in plan.callers:
                found.append(_window(kind, size, callers, plan, keys, call))
    return found


def _window(
    kind: str,
    size: int,
    callers: int,
    plan: CachePerfPlan,
    keys: list[str],
    call: Callable[[int, str], None],
) -> dict[str, Any]:
    clock = time.perf_counter
    took: list[list[float]] = [[] for _ in range(callers)]
    measuring, over = threading.Event(), threading.Event()

    def ask(caller: int) -> None:
        mine, at = took[caller], caller
        while not over.is_set():
            at = (at + callers) % KEYS
            began = clock()
            call(caller, keys[at])
            if measuring.is_set():
                mine.append(clock() - began)

    threads = [threading.Thread(target=ask, args=(n,), daemon=True) for n in range(callers)]
    for thread in threads:
        thread.start()
    time.sleep(plan.warm_up)
    cpu, began = time.process_time(), clock()
    measuring.set()
    time.sleep(plan.seconds)
    done = [t for mine in took for t in list(mine)]
    elapsed, cpu = clock() - began, time.process_time() - cpu
    over.set()
    for thread in threads:
        thread.join(5)
    return {
        **figures(kind, size, callers, done, elapsed),
        "cpu_us": round(cpu / max(1, len(done)) * 1e6, 1),
    }


# --- Redis


@contextmanager
def _servers() -> Iterator[int]:
    """Run a server and its replica; yield the server's port."""
    first = free_block(2)
    with TemporaryDirectory(prefix="bench-redis-") as folder:
        started = []
        try:
            for number in range(2):
                command = ["redis-server", "--port", str(first + number), "--bind", HOST]
                command += ["--save", "", "--appendonly", "no", "--dir", folder]
                command += ["--repl-diskless-sync-delay", "0"]
                if number:
                    command += ["--replicaof", HOST, str(first)]
                started.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
            yield first
        finally:
            for process in started:
                process.terminate()
            for process in started:
                process.wait()


def redis_figures(plan: CachePerfPlan) -> list[dict[str, Any]]:
    """Redis with one replica."""
    redis = importlib.import_module("redis")
    with _servers() as port:
        clients = [redis.Redis(HOST, port) for _ in range(max(plan.callers))]
        _until(lambda: _replicated(redis, clients[0]), "the replica has not connected")

        def put(caller: int, key: str, value: bytes) -> None:
            pipeline = clients[caller].pipeline(transaction=False)
            pipeline.set(key, value)
            pipeline.wait(1, 1000)
            _, copies = pipeline.execute()
            if copies != 1:
                raise ValueError(f"{copies} replicas have {key}")

        def get(caller: int, key: str) -> bytes:
            value: bytes = clients[caller].get(key)
            return value

        return _figures(plan, put, get)


def _replicated(redis: Any, client: Any) -> bool:
    try:
        client.set("begin", b"1")
        return bool(client.wait(1, 100) == 1)
    except redis.exceptions.ConnectionError:
        return False


def _until(condition: Callable[[], bool], problem: str) -> None:
    end = time.monotonic() + START_SECONDS
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{problem} within {START_SECONDS:g} s")
        time.sleep(0.05)


# --- PySyncObj


def _pysyncobj_node(ports: list[int], number: int) -> tuple[Any, Any]:
    pysyncobj = importlib.import_module("pysyncobj")
    batteries = importlib.import_module("pysyncobj.batteries")
    addresses = [f"{HOST}:{port}" for port in ports]
    others = [address for n, address in enumerate(addresses) if n != number]
    settings = pysyncobj.SyncObjConf(appendEntriesUseBatch=False, autoTickPeriod=0.001)
    values = batteries.ReplDict()
    return pysyncobj.SyncObj(addresses[number], others, settings, consumers=[values]), values


def pysyncobj_node(ports: list[int], number: int, plan: CachePerfPlan) -> None:
    """Run one of three processes. The leader measures and prints. All end with their standard input."""
    node, values = _pysyncobj_node(ports, number)
    _until(node.isReady, "no leader")
    if node._isLeader():

        def put(caller: int, key: str, value: bytes) -> None:
            values.set(key, value, sync=True, timeout=10)

        def get(caller: int, key: str) -> bytes:
            value: bytes = values.get(key)
            return value

        print(json.dumps(_figures(plan, put, get)), flush=True)
    sys.stdin.read()
    os._exit(0)


def pysyncobj_figures(plan: CachePerfPlan) -> list[dict[str, Any]]:
    """PySyncObj, three members."""
    first = free_block(3)
    ports = [first, first + 1, first + 2]
    nodes = [
        subprocess.Popen(
            [sys.executable, "-m", __spec__.name, "node", _json(plan), json.dumps([ports, number])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        for number in range(3)
    ]
    answer: list[bytes] = []

    def read(node: subprocess.Popen[bytes]) -> None:
        assert node.stdout is not None
        if line := node.stdout.readline():
            answer.append(line)

    try:
        for node in nodes:
            threading.Thread(target=read, args=(node,), daemon=True).start()
        windows = 2 * len(plan.sizes) * len(plan.callers)
        end = time.monotonic() + 2 * START_SECONDS + windows * (plan.seconds + plan.warm_up + 6)
        while not answer and time.monotonic() < end:
            time.sleep(0.1)
        if not answer:
            raise TimeoutError("no figures of PySyncObj")
        found: list[dict[str, Any]] = json.loads(answer[0])
        return found
    finally:
        for node in nodes:
            node.kill()
            node.wait()


def command(peer: str, plan: CachePerfPlan) -> list[str]:
    """Return the command that prints the figures of ``peer``. When it is told to end, it ends its servers, too."""
    return [sys.executable, "-m", "jgroups_py.tools.bench.cache_peers", peer, _json(plan)]


def _json(plan: CachePerfPlan) -> str:
    return json.dumps(
        {"sizes": plan.sizes, "callers": plan.callers, "seconds": plan.seconds, "stack": ""}
    )


def main() -> None:
    """See the module's docstring."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("told to end"))
    peer, plan = sys.argv[1], CachePerfPlan(**json.loads(sys.argv[2]))
    if peer == "node":
        ports, number = json.loads(sys.argv[3])
        pysyncobj_node(ports, number, plan)
    else:
        measure = redis_figures if peer == "redis" else pysyncobj_figures
        print(json.dumps(measure(plan)))


if __name__ == "__main__":
    main()
