"""Puts and gets of a map beside other ways to share dictionaries in Python, in one run.

    python -m jgroups_py.tools.bench.maps                          all stores, 1 and 4 processes, 100 and 1,000 bytes
    python -m jgroups_py.tools.bench.maps --stores map,redis --seconds 2 --json build/bench/maps.json

Each process puts for ``--seconds``, then gets. Stores take turns. After that a second process is stopped (SIGSTOP)
while it puts, ``--stops`` times. The times of the first one's puts are printed, and the number of stops during which
none returned.

Then a map of two hosts: the times of one host's puts while the other is stopped, or after it was killed.

No store but map-sync and redis-sync writes to the disk before a put returns. maps_stores.py sets up each of them. A store that is not installed is named and left out.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Final

from jgroups_py.tools.bench.ended import end_with
from jgroups_py.tools.bench.maps_stores import HOSTS, STORES, StorePlan

SHARES: Final = (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999))
BLOCKED_AFTER: Final = 2.0
"""Seconds without a put that count as blocked."""
STOP_AFTER: Final = 0.05
"""Seconds that the other process puts before it is stopped."""
START_TIMEOUT: Final = 60.0
PEER_STATES: Final = {"puts too": None, "is stopped": signal.SIGSTOP, "was killed": signal.SIGKILL}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stores", default=",".join(STORES), help="names, with commas")
    parser.add_argument("--processes", default="1,4")
    parser.add_argument("--sizes", default="100,1000", help="bytes of a value")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement")
    parser.add_argument("--stops", type=int, default=5, help="times that a process is stopped")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    chosen = given.stores.split(",")
    unknown = [name for name in chosen if name not in STORES]
    if unknown:
        parser.error(f"--stores: {unknown[0]} is not known: {', '.join(STORES)}")
    result: dict[str, Any] = {"load": os.getloadavg()[0], "missing": {}, "rows": [], "stopped": []}
    result["peers"] = []
    for name in chosen:
        if (reason := STORES[name].missing()) is not None:
            result["missing"][name] = reason
            print(f"{name} is left out: {reason}")
    stores = [name for name in chosen if name not in result["missing"]]
    for size in _numbers(given.sizes):
        for processes in _numbers(given.processes):
            for name in stores:
                row = measured(name, processes, StorePlan(size, given.seconds))
                result["rows"].append(row)
                print(line(row), flush=True)
    for name in stores:
        row = stopped(name, StorePlan(100, given.seconds), given.stops)
        result["stopped"].append(row)
        print(line(row), flush=True)
    for name in HOSTS:
        if name.partition(",")[0] in stores:
            for state, what in PEER_STATES.items():
                row = beside_peer(name, StorePlan(100, given.seconds), state, what)
                result["peers"].append(row)
                print(line(row), flush=True)
    result["load after"] = os.getloadavg()[0]
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps(result, indent=1) + "\n", "utf-8")


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def measured(store: str, processes: int, plan: StorePlan) -> dict[str, Any]:
    """Return the rate of all processes together, and the times of calls."""
    with tempfile.TemporaryDirectory() as name, STORES[store].server(Path(name), processes) as at:
        workers = [
            MeasuringWorker(store, at, number, plan, Path(name)) for number in range(processes)
        ]
        try:
            row: dict[str, Any] = {"store": store, "processes": processes, "bytes": plan.size}
            for worker in workers:
                worker.hears("opened")
            for kind in ("put", "get"):
                for worker in workers:
                    worker.say(kind)
                took = array("d")
                for worker in workers:
                    took += worker.took(kind)
                row[kind] = {"per_second": round(len(took) / plan.seconds), **quantiles(took)}
            return row
        finally:
            for worker in workers:
                worker.end()


def stopped(store: str, plan: StorePlan, stops: int) -> dict[str, Any]:
    """Return the times of puts while another process is stopped in a put, and the number of stops during which none
    returned."""
    took, blocked = array("d"), 0
    for _ in range(stops):
        with tempfile.TemporaryDirectory() as name, STORES[store].server(Path(name), 3) as at:
            # The third process does nothing; PySyncObj needs two of three.
            workers = [MeasuringWorker(store, at, number, plan, Path(name)) for number in range(3)]
            other, worker, _ = workers
            try:
                for one in workers:
                    one.hears("opened")
                other.say("on")
                time.sleep(STOP_AFTER)
                os.kill(other.process.pid, signal.SIGSTOP)
                worker.say("put")
                try:
                    took += worker.took("put", plan.seconds + BLOCKED_AFTER)
                except (TimeoutError, RuntimeError):  # the process still waits, or gave up
                    blocked += 1
            finally:
                os.kill(other.process.pid, signal.SIGKILL)
                for one in workers:
                    one.end()
    return {"store": store, "stops": stops, "blocked": blocked, "put": quantiles(took)}


def beside_peer(
    store: str, plan: StorePlan, state: str, what: signal.Signals | None
) -> dict[str, Any]:
    """Return the times of a host's puts while its only peer is in a given state."""
    with tempfile.TemporaryDirectory() as name, HOSTS[store].server(Path(name), 2) as at:
        workers = [MeasuringWorker(store, at, number, plan, Path(name)) for number in range(2)]
        worker, peer = workers
        try:
            for one in workers:
                one.hears("opened")
            peer.say("on")
            time.sleep(STOP_AFTER)
            if what is not None:
                os.kill(peer.process.pid, what)
            worker.say("put")
            return {"store": store, "peer": state, "put": quantiles(worker.took("put"))}
        finally:
            for one in workers:
                one.end()


class MeasuringWorker:
    """A process that has the store open, and measures on command."""

    def __init__(self, store: str, at: Any, number: int, plan: StorePlan, folder: Path) -> None:
        self._file = folder / f"took.{number}"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "jgroups_py.tools.bench.maps_stores", store]
            + [json.dumps(part) for part in (at, number, plan.size, plan.seconds, str(self._file))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def say(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def hears(self, word: str, timeout: float = START_TIMEOUT) -> None:
        assert self.process.stdout is not None
        line = _line(self.process.stdout, timeout)
        if line != word + "\n":
            raise RuntimeError(f"a process of the bench said {line!r}, not {word}")

    def took(self, kind: str, timeout: float = START_TIMEOUT) -> array[float]:
        """Return the seconds of each call. TimeoutError: the process does not answer."""
        self.hears(f"{kind} done", timeout)
        found = array("d")
        found.frombytes(self._file.read_bytes())
        return found

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


def _line(pipe: IO[str], timeout: float) -> str:

    ready, _, _ = select.select([pipe], [], [], timeout)
    if not ready:
        raise TimeoutError
    return pipe.readline()


def quantiles(took: Sequence[float]) -> dict[str, float]:
    """Return microseconds at some percentiles; an empty dictionary if nothing was measured."""
    ordered = sorted(took)
    if not ordered:
        return {}
    last = len(ordered) - 1
    return {
        "p50": round(ordered[len(ordered) // 2] * 1e6, 1),
        **{
            name: round(ordered[min(int(len(ordered) * share), last)] * 1e6, 1)
            for name, share in SHARES[1:]
        },
        "max": round(ordered[last] * 1e6, 1),
    }


def line(row: dict[str, Any]) -> str:
    """A row of a Markdown table."""
    if "stops" in row:
        cells = [row["store"], f"{row['blocked']} of {row['stops']}", _times(row["put"])]
    elif "peer" in row:
        cells = [row["store"], f"the peer {row['peer']}", _times(row["put"])]
    else:
        cells = [row["store"], str(row["processes"]), str(row["bytes"])]
        for kind in ("put", "get"):
            cells += [f"{row[kind]['per_second']:,}", _times(row[kind])]
    return f"| {' | '.join(cells)} |"


def _times(figures: dict[str, float]) -> str:
    return " / ".join(f"{figures[name]:,}" for name, _ in SHARES) if figures else "-"


if __name__ == "__main__":
    end_with(main)
