"""A million live objects whose software is exchanged, forth and back, by real processes while clients work: what do they notice, and is anything lost?

    python -m jgroups_py.tools.bench.bucket_exchange --entries 1000000 --rate 500

Two nodes, each with a process of version 73 and one of version 81; a third process has only an index copy, a fourth one the clients. Requests begin at fixed
times, whether earlier ones have ended or not, and each is measured from its time. Half of them read, half modify. Phases:

    quiet    nothing moves
    up       all buckets of both nodes move to the processes with version 81, node by node
    quiet
    down     they move back

Printed for each kind of phase: milliseconds at the median, p99, p99.9 and the longest; p99.9 with moves in relation to quiet; bytes of each process and its longest full garbage collection. In the end
every object is read: it must have what was answered. Ends with 1 if one does not.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final

import trio

from jgroups_py.buckets import FAST_DETECTION, BucketNode, NodeParts, open_buckets
from jgroups_py.buckets.deployed import open_deployed
from jgroups_py.buckets.deployment import Deployment, parse_deployment
from jgroups_py.buckets.digest import bucket_of, digest_of
from jgroups_py.buckets.messages import EntryChange
from jgroups_py.buckets.objects import Objects
from jgroups_py.buckets.objects.plugin import kind_of
from jgroups_py.buckets.settling import settle
from jgroups_py.buckets.upgrade import move_all
from jgroups_py.config.settings import load_stack
from jgroups_py.tools.bench.buckets import NEW, OLD, PHASES, Account, Load
from jgroups_py.tools.bench.latencies import figures, phases_text, write_json
from jgroups_py.tools.child_side import heard_lines, say
from jgroups_py.tools.children import Child, end_all, start_process
from jgroups_py.tools.commands.mperf_ports import private_attributes
from jgroups_py.tools.progress import status_line

NODES: Final = ("n1", "n2")
BUCKETS: Final = 96
MEMBERS: Final = 6
READERS: Final = 64
"""Objects that are read at the same time in the end."""
START_SECONDS: Final = 300.0
END_SECONDS: Final = 20.0


Attributes = Mapping[str, str]


def deployment() -> Deployment:
    """Masters and slaves on two nodes; three index copies."""
    return parse_deployment(
        f"""
name: exchange
buckets: {BUCKETS}
nodes:
  n1: {{}}
  n2: {{}}
  n3: {{components: {{managers: 0, indices: 1, routers: 1, proxies: 1}}}}
stack: udp.xml
"""
    )


def contents(entries: int) -> dict[int, list[EntryChange]]:
    """The objects that exist at the beginning, by bucket: accounts with one euro."""
    found: dict[int, list[EntryChange]] = {}
    kind = kind_of(OLD, Account)
    data = kind.state.encode(Account("owner of an account", 1), OLD.provider.version)
    for number in range(entries):
        key = f"{kind.name}/{number}"
        bucket = bucket_of(digest_of(key), BUCKETS)
        found.setdefault(bucket, []).append(
            EntryChange(key, {"": data}, True, OLD.provider.version)
        )
    return found


# --- a node's process


def opened(which: dict[str, Any]) -> AbstractAsyncContextManager[BucketNode]:
    """The member that a child is."""
    instance, node, attributes = deployment(), which["node"], which["attributes"]
    if which["version"] == OLD.provider.version:
        have = contents(which["entries"]) if node in NODES else {}
        return open_deployed(instance, node, plugin=OLD, contents=have, attributes=attributes)
    return open_buckets(
        instance.stack,
        cluster=instance.name,
        plugin=NEW,
        settings=instance.settings,
        parts=NodeParts(node=node, managers=(f"new/{node}",)),
        attributes={**FAST_DETECTION, **attributes},
    )


async def child(which: dict[str, Any]) -> None:
    """Be a member until standard input ends. Each line asks for bytes."""
    pauses = Pauses()
    gc.callbacks.append(pauses.hear)
    async with opened(which) as node:
        await node.wait_ready()
        settle()
        say(event="ready")
        async with heard_lines() as lines:
            async for _ in lines:
                say(
                    event="is",
                    bytes=resident(),
                    collections=pauses.number,
                    longest_ms=pauses.longest_ms,
                )
                pauses.begin()


class Pauses:
    """Full garbage collections of this process, and the CPU time of the longest."""

    def __init__(self) -> None:
        self._began = 0.0
        self.begin()

    def begin(self) -> None:
        self.number, self.longest_ms = 0, 0.0

    def hear(self, phase: str, info: dict[str, int]) -> None:
        if info["generation"] < 2:
            return
        if phase == "start":
            self._began = time.thread_time()
            return
        self.number += 1
        self.longest_ms = max(self.longest_ms, round(1000 * (time.thread_time() - self._began), 1))


def resident() -> int:
    """Bytes of this process in memory."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * resource.getpagesize()


# --- the clients and the administrator


async def measure(
    entries: int, rate: float, seconds: float, rounds: int, say_how_far: Callable[[str], None]
) -> dict[str, Any]:
    """Play all phases. Moving phases last as long as their moves, quiet ones ``seconds``."""
    instance = deployment()
    attributes = private_attributes(load_stack(instance.stack), MEMBERS)
    children: list[Child] = []
    async with trio.open_nursery() as nursery:
        say_how_far("starting")
        for version in (OLD.provider.version, NEW.provider.version):
            for node in (*NODES, "n3") if version == OLD.provider.version else NODES:
                which = {
                    "node": node, "version": version, "entries": entries, "attributes": attributes,
                }  # fmt: skip
                one = Child(
                    await start_process("jgroups_py.tools.bench.bucket_exchange", which),
                    f"{node}-{version}",
                )
                nursery.start_soon(one.collect_problem)
                children.append(one)
        try:
            with trio.fail_after(START_SECONDS):
                for one in children:
                    await one.hear("ready")
            async with open_deployed(instance, plugin=OLD, attributes=attributes) as client:
                with trio.fail_after(START_SECONDS):
                    await client.wait_until(lambda state: len(state.managers) == 4)
                return await exchange(client, children, entries, rate, seconds, rounds, say_how_far)
        finally:
            with trio.CancelScope(shield=True):
                await end_all(children, END_SECONDS)


async def exchange(
    client: BucketNode,
    children: Sequence[Child],
    entries: int,
    rate: float,
    seconds: float,
    rounds: int,
    say_how_far: Callable[[str], None],
) -> dict[str, Any]:
    load = Load(client, entries, rate, random.Random(1))
    load.paid = [1] * entries
    moved, took = 0, dict.fromkeys(PHASES, 0.0)
    sizes: dict[str, list[int]] = {}
    pauses: dict[str, list[float]] = {}
    for number, phase in enumerate(PHASES * rounds, 1):
        say_how_far(f"phase {number} of {rounds * len(PHASES)}, {phase}")
        over, began = trio.Event(), trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(load.run, phase, over)
            if phase == "quiet":
                await trio.sleep(seconds)
            else:
                for node in NODES:
                    ends = client.manager_at(f"m/{node}"), client.manager_at(f"new/{node}")
                    done = await move_all(client, *(ends if phase == "up" else ends[::-1]))
                    assert not done.refused, done.refused
                    moved += len(done.moved)
            over.set()
        took[phase] += trio.current_time() - began
        for one in children:
            await one.tell(ask="bytes")
            told = await one.hear("is")
            sizes.setdefault(one.name, []).append(told["bytes"])
            pauses.setdefault(one.name, []).append(told["longest_ms"])
    say_how_far("reading all objects")
    return {
        "entries": entries,
        "moves": moved,
        "lost": await lost(load, client, entries),
        "phases": {phase: figures(times) for phase, times in load.took.items()},
        "seconds": took,
        "bytes": sizes,
        "longest_collection_ms": pauses,
    }


async def lost(load: Load, client: BucketNode, entries: int) -> int:
    """Objects whose balance is not what was paid."""
    accounts, numbers, wrong = Objects(client, Account), iter(range(entries)), 0

    async def reader() -> None:
        nonlocal wrong
        for number in numbers:
            wrong += await accounts[str(number)].balance() != load.paid[number]

    async with trio.open_nursery() as nursery:
        for _ in range(READERS):
            nursery.start_soon(reader)
    return wrong


def text(result: dict[str, Any]) -> str:
    lines = [f"{result['entries']} objects, {result['moves']} moves, {result['lost']} lost"]
    lines += phases_text(result["phases"])
    lines += [f"{phase}: {seconds:.0f} s" for phase, seconds in result["seconds"].items()]
    for name, sizes in result["bytes"].items():
        lines.append(f"{name:8}" + "".join(f"{size / 1e6:10.0f}" for size in sizes) + " MB")
    for name, longest in result["longest_collection_ms"].items():
        lines.append(
            f"{name:8}"
            + "".join(f"{ms:10.1f}" for ms in longest)
            + " ms of CPU, a full garbage collection"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="bench-bucket-exchange", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--rate", type=float, default=500.0, help="requests a second")
    parser.add_argument("--seconds", type=float, default=20.0, help="of a quiet phase")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args(arguments)
    with status_line("exchange") as show:
        result = trio.run(measure, given.entries, given.rate, given.seconds, given.rounds, show)
    print(text(result))
    write_json(given.json, result)
    return 1 if result["lost"] else 0


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1].startswith("{"):
        trio.run(child, json.loads(sys.argv[1]))
    else:
        sys.exit(main())
