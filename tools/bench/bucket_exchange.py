"""The effect on clients of an exchange of software: the software of a million live objects is exchanged, forth and
back, by real processes. It also counts lost objects.

    python -m jgroups_py.tools.bench.bucket_exchange --entries 1000000 --rate 500

Two nodes, each with a process of version 73 and one of version 81; a third process has only an index copy, a fourth one the clients. Requests begin at fixed
times, whether earlier ones have ended or not, and each is measured from its time. Half of them read, half modify. Phases:

    quiet    nothing moves
    up       all buckets of both nodes move to the processes with version 81, node by node
    quiet
    down     they move back

Half of the requests are for the bucket that moves (account_load.py). It prints for each kind of phase:
milliseconds at the median, p99, p99.9 and the longest; p99.9 with moves in relation to quiet; the times of
requests to the moving bucket beside those to others; the times for which moves locked their buckets, which is
what a move can add to a request; bytes of each process and its longest full garbage collection. In the end it
reads the saved entries of all buckets: each object must have its answered changes.

Progress is written to standard error, every 10 s if it is no terminal. With ``--json`` the file is written after each
phase, so earlier figures outlive a run that fails. A million objects take three minutes on two idle cores.

Exit 0: no object lacks a change; 1: one does; 2: wrong usage, or processes that ended; 3: the time limit ended it; 130:
it was interrupted. In the last three cases losses are unknown.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final

import trio

from jgroups_py.buckets import FAST_DETECTION, BucketNode, NodeParts, open_buckets
from jgroups_py.buckets.deployed import open_deployed
from jgroups_py.buckets.deployment import Deployment, parse_deployment
from jgroups_py.buckets.digest import bucket_of, digest_of
from jgroups_py.buckets.ends import Cep
from jgroups_py.buckets.latency import LOCKS, percentile
from jgroups_py.buckets.manager import BucketManager
from jgroups_py.buckets.messages import EntryChange
from jgroups_py.buckets.objects.plugin import kind_of
from jgroups_py.buckets.settling import settle
from jgroups_py.buckets.upgrade import move_all
from jgroups_py.config.settings import load_stack
from jgroups_py.driver.unwrap import leaves
from jgroups_py.errors import JGroupsError
from jgroups_py.tools.bench.account_load import (
    NEW,
    OLD,
    PHASES,
    Account,
    AccountLoad,
    key_of,
    moves_text,
)
from jgroups_py.tools.bench.ended import end_with
from jgroups_py.tools.bench.latencies import phases_text, write_json
from jgroups_py.tools.child_side import heard_lines, say
from jgroups_py.tools.children import Child, ChildError, end_all, start_process
from jgroups_py.tools.commands.mperf_ports import private_attributes
from jgroups_py.tools.progress import status_line

NODES: Final = ("n1", "n2")
BUCKETS: Final = 96
MEMBERS: Final = 6
END_SECONDS: Final = 20.0
LIMIT_SECONDS: Final = 7_200.0
TOLD_EVERY: Final = 10.0
"""Seconds between two lines of progress where there is no terminal."""
ATTEMPTS_MAX: Final = 3
"""The most times that the moves of one node are ordered, until none is refused."""
LOOK_SECONDS: Final = 0.5
"""Seconds between two looks at the progress."""


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
        key = key_of(number)
        bucket = bucket_of(digest_of(key), BUCKETS)
        found.setdefault(bucket, []).append(
            EntryChange(key, {"": data}, True, OLD.provider.version)
        )
    return found


# --- a node's process


def opened(which: dict[str, Any]) -> AbstractAsyncContextManager[BucketNode]:
    """Open the member of a child."""
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
    """Be a member until standard input ends. Each line asks for its bytes of memory, collections and locks."""
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
                    **locks_of(node.machine.managers.values()),
                )
                pauses.begin()


def locks_of(managers: Collection[BucketManager]) -> dict[str, Any]:
    """The locks of all moves so far, as counts by time, and the longest in milliseconds."""
    counts: Counter[str] = Counter()
    for manager in managers:
        counts.update(manager.moves.locks.counts())
    longest = max((manager.moves.slowest_lock for manager in managers), default=0.0)
    return {"locks": counts, "longest_lock_ms": round(1000 * longest, 2)}


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
    """Return the bytes of memory that this process uses."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * resource.getpagesize()


# --- the clients and the administrator


class Exchange:
    """One run. ``result`` has the figures so far."""

    def __init__(self, given: argparse.Namespace, show: Callable[[str], None]) -> None:
        self._given, self._show = given, show
        self._doing = "starting"
        self._load: AccountLoad | None = None
        self._children: list[Child] = []
        self.result: dict[str, Any] = {
            "entries": given.entries, "rate": given.rate, "finished": False,
            "moves": 0, "refused": 0, "lost": None, "failed": {}, "phases": {}, "seconds": dict.fromkeys(PHASES, 0.0),
            "bytes": {}, "longest_collection_ms": {}, "locks": {}, "longest_lock_ms": {},
        }  # fmt: skip

    @property
    def doing(self) -> str:
        """Return its present step and progress."""
        load = self._load
        if load is None:
            return self._doing
        return f"{self._doing}; {load.moves} moves, {load.answered} requests, {load.read} of {self._given.entries} objects read"

    async def run(self) -> None:
        """Play all phases. Moving phases last as long as their moves, quiet ones ``--seconds``. Raises TooSlowError, ChildError."""
        with trio.fail_after(self._given.limit):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._tell)
                try:
                    await self._start(nursery)
                    await self._with_client()
                finally:
                    with trio.CancelScope(shield=True):
                        await end_all(self._children, END_SECONDS)
                nursery.cancel_scope.cancel()

    async def _tell(self) -> None:
        while True:
            self._show(self.doing)
            await trio.sleep(LOOK_SECONDS)

    async def _start(self, nursery: trio.Nursery) -> None:
        self._attributes = private_attributes(load_stack(deployment().stack), MEMBERS)
        for plugin, nodes in ((OLD, (*NODES, "n3")), (NEW, NODES)):
            for node in nodes:
                which = {
                    "node": node, "version": plugin.provider.version, "entries": self._given.entries,
                    "attributes": self._attributes,
                }  # fmt: skip
                process = await start_process("jgroups_py.tools.bench.bucket_exchange", which)
                one = Child(process, f"{node}-{plugin.provider.version}")
                nursery.start_soon(one.collect_problem)
                self._children.append(one)
        for number, one in enumerate(self._children):
            self._doing = f"starting, {number} of {len(self._children)} processes are ready"
            await one.hear("ready")

    async def _with_client(self) -> None:
        given = self._given
        async with open_deployed(deployment(), plugin=OLD, attributes=self._attributes) as client:
            self._doing = "waiting for four managers"
            await client.wait_until(lambda state: len(state.managers) == 4)
            load = self._load = AccountLoad(
                client, given.entries, given.rate, random.Random(1), BUCKETS
            )
            load.paid = [1] * given.entries
            for number, phase in enumerate(PHASES * given.rounds, 1):
                self._doing = f"phase {number} of {given.rounds * len(PHASES)}, {phase}"
                await self._play(client, load, phase)
                await self._look_at_children()
                self._write()
            self._doing = "reading all objects"
            self.result["lost"] = await load.lost()
            self.result["finished"] = True
            self._write()

    async def _play(self, client: BucketNode, load: AccountLoad, phase: str) -> None:
        over, began = trio.Event(), trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(load.run, phase, over)
            if phase == "quiet":
                await trio.sleep(self._given.seconds)
            else:
                for node in NODES:
                    ends = client.manager_at(f"m/{node}"), client.manager_at(f"new/{node}")
                    await self._move(client, load, *(ends if phase == "up" else ends[::-1]))
            over.set()
        self.result["seconds"][phase] += trio.current_time() - began
        self.result |= {"moves": load.moves, "phases": load.phases(), "failed": load.failed}

    async def _move(self, client: BucketNode, load: AccountLoad, frm: Cep, to: Cep) -> None:
        for _ in range(ATTEMPTS_MAX):
            done = await move_all(
                client, frm, to, before_move=load.move_begins, on_move=load.move_ends
            )
            self.result["refused"] += len(done.refused)
            if not done.refused:
                return
        bucket, why = next(iter(done.refused.items()))
        raise ChildError(f"bucket {bucket} was not moved: {why}")

    async def _look_at_children(self) -> None:
        for one in self._children:
            await one.tell(ask="bytes")
            told = await one.hear("is")
            self.result["bytes"].setdefault(one.name, []).append(told["bytes"])
            pauses = self.result["longest_collection_ms"].setdefault(one.name, [])
            pauses.append(told["longest_ms"])
            for name in ("locks", "longest_lock_ms"):
                self.result[name][one.name] = told[name]

    def _write(self) -> None:
        write_json(self._given.json, self.result)

    def ended(self, why: str) -> None:
        """Keep the reason why it was not finished."""
        self.result["ended"] = why
        self._write()


def text(result: dict[str, Any]) -> str:
    lost = "what is lost is not known" if result["lost"] is None else f"{result['lost']} lost"
    lines = [
        f"{result['entries']} objects, {result['moves']} moves, {result['refused']} refused, {lost}"
    ]
    if result["phases"]:
        lines += phases_text(result["phases"])
        lines += moves_text(result["phases"])
        lines += locks_text(result)
    lines += [f"{phase}, failed: {dict(found)}" for phase, found in result["failed"].items()]
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


def locks_text(result: Mapping[str, Any]) -> list[str]:
    """Return a line about the locks of all moves, if there were any."""
    counts: Counter[str] = Counter()
    for found in result["locks"].values():
        counts.update(found)
    if not counts:
        return []
    half, most = (percentile(counts, LOCKS, part) for part in (0.5, 0.99))
    longest = max(result["longest_lock_ms"].values())
    return [
        f"locks of {counts.total()} moves: half at most {half:g} ms, 99 of 100 at most {most:g}, the longest {longest:g}"
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="bench-bucket-exchange", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--rate", type=float, default=500.0, help="requests a second")
    parser.add_argument("--seconds", type=float, default=20.0, help="of a quiet phase")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument(
        "--limit", type=float, default=LIMIT_SECONDS, help="seconds; then it is given up"
    )
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args(arguments)
    with status_line("exchange", every=TOLD_EVERY) as show:
        exchange = Exchange(given, show)
        code = played(exchange, given.limit)
    print(text(exchange.result))
    return code


def played(exchange: Exchange, limit: float) -> int:
    """Run the exchange, and return the exit code of the command."""
    try:
        trio.run(exchange.run)
    except* trio.TooSlowError:
        why, code = f"not finished in {limit:g} s", 3
    except* KeyboardInterrupt:
        why, code = "interrupted", 130
    except* JGroupsError as group:
        why, code = "; ".join(map(str, leaves(group))), 2
    else:
        return 1 if exchange.result["lost"] else 0
    exchange.ended(f"{why}: {exchange.doing}")
    print(exchange.result["ended"], file=sys.stderr)
    return code


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1].startswith("{"):
        trio.run(child, json.loads(sys.argv[1]))
    else:
        end_with(main)
