"""The cost of a call through ``jgroups_py.blocking`` beside an empty ``trio.from_thread.run``.

Run as ``python -m jgroups_py.tools.bench.blocking``. The kinds take turns, in rounds, so that other work of the machine
slows all of them. It prints the median of each kind, and its ratio to the first line. The tree cache is local and the
channel is alone in its group, so calls wait for threads only.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import trio

from jgroups_py import MemoryNetwork, blocking
from jgroups_py.tools.bench.ended import end_with

BULK = 1000
"""Nodes or messages of one bulk call."""


async def _nothing() -> None:
    pass


def kinds(
    cache: blocking.TreeCache, channel: blocking.Channel
) -> dict[str, tuple[int, Callable[[], Any]]]:
    """Return name -> (number of things that one call does, the call)."""
    token = cache._look(trio.lowlevel.current_trio_token)
    inner = cache._value
    paths = [f"/n/{number}" for number in range(BULK)]
    nodes = {path: {"v": 1} for path in paths}
    payloads = [b"x" * 100] * BULK

    def in_loop(function: Any, *args: Any) -> Callable[[], Any]:
        return lambda: trio.from_thread.run(function, *args, trio_token=token)

    def send() -> None:
        channel.send(b"x")
        channel.receive()

    def send_bulk() -> None:
        channel.send_many(payloads)
        left = BULK
        while left:  # read what came back to the sender, else its credit ends
            left -= len([m for m in channel.receive_many() if hasattr(m, "payload")])

    return {
        "trio.from_thread.run of nothing": (1, in_loop(_nothing)),
        "blocking: a call of nothing": (1, lambda: cache._call(_nothing)),
        "trio.from_thread.run(cache.get)": (1, in_loop(inner.get, "/n/1", "v")),
        "blocking: cache.get": (1, lambda: cache.get("/n/1", "v")),
        "blocking: cache.put": (1, lambda: cache.put("/n/1", "v", 2)),
        "blocking: channel.send and receive": (1, send),
        f"blocking: cache.get_many of {BULK}, each": (BULK, lambda: cache.get_many(paths, "v")),
        f"blocking: cache.put_many of {BULK}, each": (BULK, lambda: cache.put_many(nodes)),
        f"blocking: send_many, receive_many of {BULK}, each": (BULK, send_bulk),
    }


def measure(rounds: int, calls: int) -> dict[str, float]:
    """Microseconds for one thing of each kind."""
    took: dict[str, list[float]] = {}
    with (
        blocking.open_tree_cache("local.xml") as cache,
        blocking.open_channel("sim.xml", cluster="bench", transport=MemoryNetwork()) as channel,
    ):
        channel.receive()  # the view
        chosen = kinds(cache, channel)
        chosen[f"blocking: cache.put_many of {BULK}, each"][1]()
        for _ in range(rounds):
            for name, (things, call) in chosen.items():
                for _ in range(calls if things == 1 else max(1, calls // 100)):
                    began = time.perf_counter()
                    call()
                    took.setdefault(name, []).append((time.perf_counter() - began) / things * 1e6)
    return {name: round(statistics.median(values), 2) for name, values in took.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--calls", type=int, default=200, help="of each kind in a round")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = measure(options.rounds, options.calls)
    if options.json:
        json.dump(result, sys.stdout)
        print()
        return
    base = next(iter(result.values()))
    for name, microseconds in result.items():
        print(f"{name:52} {microseconds:9.2f} us  {microseconds / base:7.3f}")


if __name__ == "__main__":
    end_with(main)
