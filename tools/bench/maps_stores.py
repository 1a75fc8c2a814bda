"""Stores that the bench of maps compares, and the process that measures one of them.

map         a thread of one of the processes merges
map-process another process merges (merger="process")
redis       a server on a socket file, nothing on disk; redis-py with hiredis
map-interval, redis-interval   the same with the disk at most a second behind (durability="interval", appendfsync everysec)
map-sync, redis-sync           each put waits for the disk (durability="sync", appendfsync always)
diskcache   a Cache with its defaults
manager     multiprocessing.Manager().dict()
pysyncobj   a ReplDict, one member in each process, written synchronously, without batching, ticks of 1 ms
lmdb        one transaction for each put, without sync: the limit
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import shutil
import subprocess
import sys
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.managers import BaseManager, DictProxy
from pathlib import Path
from typing import Any, Final

from jgroups_py.tools.commands.mperf_ports import free_block

KEYS: Final = 5000
START_SECONDS: Final = 20.0
EXTRA: Final = "pip install 'jgroups_py[bench]'"

Calls = tuple[Callable[[str, bytes], object], Callable[[str], object]]
"""The functions put and get of a store."""


@dataclass(frozen=True)
class StorePlan:
    size: int
    seconds: float


class BenchStore:
    """``server`` gives the arguments of ``opened`` as JSON; ``opened`` runs in each process."""

    modules: tuple[str, ...] = ()

    def is_full(self, error: Exception) -> bool:
        """Return whether a put was refused for lack of room. Earlier figures count."""
        return False

    def missing(self) -> str | None:
        """Return the reason why it cannot be measured here; None: it can."""
        for module in self.modules:
            if importlib.util.find_spec(module) is None:
                return f"{module} is not installed ({EXTRA})"
        return None

    @contextmanager
    def server(self, folder: Path, processes: int) -> Iterator[Any]:
        yield str(folder / "store")

    @contextmanager
    def opened(self, at: Any, number: int) -> Iterator[Calls]:
        raise NotImplementedError
        yield  # pragma: no cover


class OfMap(BenchStore):
    modules = ("lmdb",)

    def __init__(self, **options: Any) -> None:
        self.options = options

    @contextmanager
    def opened(self, at: Any, number: int) -> Iterator[Calls]:
        from jgroups_py import blocking

        with blocking.open_map(at, key=str, value=bytes, **self.options) as m:
            yield m.__setitem__, m.get

    def is_full(self, error: Exception) -> bool:
        from jgroups_py.maps import MapFull

        return isinstance(error, MapFull)


class OfHosts(OfMap):
    """Each process is a host of its own; the first two replicate with each other over TCP."""

    @contextmanager
    def server(self, folder: Path, processes: int) -> Iterator[Any]:
        yield [str(folder), free_block(2)]

    @contextmanager
    def opened(self, at: Any, number: int) -> Iterator[Calls]:
        from jgroups_py import blocking

        folder, first = at
        places = [f"127.0.0.1:{first}", f"127.0.0.1:{first + 1}"]
        with blocking.open_map(
            f"{folder}/{number}",
            name="bench",
            key=str,
            value=bytes,
            identifier=number + 1,
            listen=places[number],
            peers=[places[1 - number]],
            **self.options,
        ) as m:
            until(lambda: len(m.statistics().peers) == 1)
            yield m.__setitem__, m.get


class OfRedis(BenchStore):
    """``fsync``: when the log of writes goes to the disk, "always" or "everysec". Empty: there is none."""

    modules = ("redis", "hiredis")

    def __init__(self, fsync: str = "") -> None:
        self.options = ["--save", "", "--appendonly", "yes" if fsync else "no"]
        if fsync:
            self.options += ["--appendfsync", fsync]

    def missing(self) -> str | None:
        if shutil.which("redis-server") is None:
            return "there is no redis-server (Debian, Ubuntu: apt install redis-server)"
        return super().missing()

    @contextmanager
    def server(self, folder: Path, processes: int) -> Iterator[Any]:
        socket = folder / "socket"
        command = ["redis-server", "--port", "0", "--unixsocket", str(socket), "--dir", str(folder)]
        server = subprocess.Popen([*command, *self.options], stdout=subprocess.DEVNULL)
        try:
            until(socket.exists)
            yield str(socket)
        finally:
            server.terminate()
            server.wait()

    @contextmanager
    def opened(self, at: Any, number: int) -> Iterator[Calls]:
        client = importlib.import_module("redis").Redis(unix_socket_path=at)
        yield client.set, client.get


class OfDiskcache(BenchStore):
    modules = ("diskcache",)

    @contextmanager
    def opened(self, at: Any, number: int) -> Iterator[Calls]:
        cache = importlib.import_module("diskcache").Cache(at)
        yield cache.set, cache.get


class _Manager(BaseManager):
    pass


class OfManager(BenchStore):
    @contextmanager
    def server(self, folder: Path, processes: int) -> Iterator[Any]:
        place = str(folder / "socket")
        server = subprocess.Popen([sys.executable, "-m", __spec__.name, "serve-manager", place])
        try:
            until(Path(place).exists)
            yield place
        finally:
            server.terminate()
            server.wait()

    @contextmanager
    def opened(self, at: Any, number: int) -> Iterator[Calls]:
        _Manager.register("shared", proxytype=DictProxy)
        manager = _Manager(at, authkey=b"bench")
        manager.connect()
        values = manager.shared()  # type: ignore[attr-defined]
        yield values.__setitem__, values.get


class OfPysyncobj(BenchStore):
    modules = ("pysyncobj",)

    @contextmanager
    def server(self, folder: Path, processes: int) -> Iterator[Any]:
        from jgroups_py.tools.commands.mperf_ports import free_block

        # PySyncObj does not get the first port: the block's guard has it at another address.
        first = free_block(processes + 1) + 1
        yield [f"127.0.0.1:{first + number}" for number in range(processes)]

    @contextmanager
    def opened(self, at: Any, number: int) -> Iterator[Calls]:
        pysyncobj = importlib.import_module("pysyncobj")
        values = importlib.import_module("pysyncobj.batteries").ReplDict()
        settings = pysyncobj.SyncObjConf(appendEntriesUseBatch=False, autoTickPeriod=0.001)
        others = [address for address in at if address != at[number]]
        node = pysyncobj.SyncObj(at[number], others, settings, consumers=[values])
        until(node.isReady)
        yield lambda key, value: values.set(key, value, sync=True, timeout=10), values.get


class OfLmdb(BenchStore):
    modules = ("lmdb",)

    @contextmanager
    def opened(self, at: Any, number: int) -> Iterator[Calls]:
        env = importlib.import_module("lmdb").open(at, map_size=1 << 30, sync=False)

        def put(key: str, value: bytes) -> None:
            with env.begin(write=True) as txn:
                txn.put(key.encode(), value)

        def get(key: str) -> Any:
            with env.begin() as txn:
                return txn.get(key.encode())

        yield put, get


STORES: Final[dict[str, BenchStore]] = {
    "map": OfMap(),
    "map-process": OfMap(merger="process"),
    "redis": OfRedis(),
    "map-interval": OfMap(durability="interval"),
    "redis-interval": OfRedis("everysec"),
    "map-sync": OfMap(durability="sync"),
    "redis-sync": OfRedis("always"),
    "diskcache": OfDiskcache(),
    "manager": OfManager(),
    "pysyncobj": OfPysyncobj(),
    "lmdb": OfLmdb(),
}


def until(condition: Callable[[], object]) -> None:
    """Wait until ``condition`` is true. TimeoutError after START_SECONDS."""
    end = time.monotonic() + START_SECONDS
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {START_SECONDS:g} s")
        time.sleep(0.01)


def times(
    seconds: float,
    call: Callable[[str], object],
    is_full: Callable[[Exception], bool] = lambda error: False,
) -> array[float]:
    """Return the seconds of each call. It ends early at an error that ``is_full``."""
    took = array("d")
    clock, append = time.perf_counter, took.append
    keys = [f"k{number}" for number in range(KEYS)]
    end = clock() + seconds
    before, number = clock(), 0
    while before < end:
        try:
            call(keys[number % KEYS])
        except Exception as error:
            if not is_full(error):
                raise
            break
        after = clock()
        append(after - before)
        before, number = clock(), number + 1
    return took


def measure(store: str, at: Any, number: int, plan: StorePlan, file: Path) -> None:
    """Obey standard input: ``put`` and ``get`` write the times of calls to ``file``; ``on`` puts until this process is
    stopped."""
    value = bytes(plan.size)
    measured = {**STORES, **HOSTS}[store]
    with measured.opened(at, number) as (put, get):
        put(f"k{number}", value)
        print("opened", flush=True)
        for line in sys.stdin:
            kind = line.strip()
            if kind == "get":
                took = times(plan.seconds, get)
            else:
                long = plan.seconds if kind == "put" else 3600
                took = times(long, lambda key: put(key, value), measured.is_full)
            file.write_bytes(took.tobytes())
            print(kind, "done", flush=True)


HOSTS: Final[dict[str, BenchStore]] = {
    "map, two hosts": OfHosts(),
    "map-process, two hosts": OfHosts(merger="process"),
}


def _serve_manager(place: str) -> None:
    values: dict[str, bytes] = {}
    _Manager.register("shared", callable=lambda: values, proxytype=DictProxy)
    _Manager(place, authkey=b"bench").get_server().serve_forever()


def main(arguments: list[str]) -> None:
    """Run a process that the bench has started."""
    if arguments[0] == "serve-manager":
        _serve_manager(arguments[1])
        return
    at, number, size, seconds, file = (json.loads(part) for part in arguments[1:])
    measure(arguments[0], at, number, StorePlan(size, seconds), Path(file))


if __name__ == "__main__":
    main(sys.argv[1:])
