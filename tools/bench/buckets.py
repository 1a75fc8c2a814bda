"""The effect of an exchange of software on clients of a bucket store: latencies with and without moves, in turns within one run.

    python -m jgroups_py.tools.bench.buckets --entries 100000 --rate 500

Three nodes and a client in one process, on a network in memory, real time. Requests begin at fixed times, whether earlier ones have ended or not, and each is
measured from its time. Half of them read, half modify. Four phases are played ``--rounds`` times:

    quiet    nothing moves
    up       the buckets of a node move to a manager with the new version of the plug-in beside it
    quiet
    down     they move back

It prints for each kind of phase: milliseconds at the median, p99, p99.9 and the longest; then p99.9 with
moves in relation to quiet.
"""

from __future__ import annotations

import argparse
import gc
import random
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import trio

from jgroups_py import MemoryNetwork
from jgroups_py.buckets import FAST_DETECTION, NodeParts, open_buckets
from jgroups_py.buckets.deployed import open_deployed
from jgroups_py.buckets.deployment import parse_deployment
from jgroups_py.buckets.upgrade import move_all
from jgroups_py.tools.bench.account_load import NEW, OLD, PHASES, AccountLoad
from jgroups_py.tools.bench.ended import end_with
from jgroups_py.tools.bench.latencies import figures, phases_text, write_json

BUCKETS: Final = 36


async def measure(entries: int, rate: float, seconds: float, rounds: int) -> dict[str, Any]:
    """Play all phases. Moving phases last as long as their moves, quiet ones ``seconds``."""
    instance = parse_deployment(
        f"{{name: accounts, buckets: {BUCKETS}, nodes: {{n1: {{}}, n2: {{}}, n3: {{}}}}, stack: sim.xml}}"
    )
    network = MemoryNetwork()
    async with AsyncExitStack() as opened:
        for node in ("n1", "n2", "n3", None):
            member = open_deployed(instance, node, plugin=OLD, transport=network)
            client = await opened.enter_async_context(member)
        beside = await opened.enter_async_context(
            open_buckets(
                "sim.xml",
                cluster=instance.name,
                plugin=NEW,
                settings=instance.settings,
                parts=NodeParts(node="n1", managers=("new",)),
                attributes=FAST_DETECTION,
                transport=network,
            )
        )
        await beside.wait_until(lambda state: len(state.managers) == 4)
        await client.wait_until(lambda state: len(state.managers) == 4)
        old, new = client.manager_at("m/n1"), client.manager_at("new")
        load = AccountLoad(client, entries, rate, random.Random(1), BUCKETS)
        await load.fill()
        gc.collect()
        gc.freeze()  # a full collection in the middle of a phase would look like a move's pause
        moved = 0
        for phase in PHASES * rounds:
            over = trio.Event()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(load.run, phase, over)
                if phase == "quiet":
                    await trio.sleep(seconds)
                else:
                    ends = (old, new) if phase == "up" else (new, old)
                    done = await move_all(
                        client, *ends, before_move=load.move_begins, on_move=load.move_ends
                    )
                    assert not done.refused, done.refused
                    moved += len(done.moved)
                over.set()
        return {
            "entries": entries,
            "moves": moved,
            "lost": await load.lost(),
            "failed": load.failed,
            "phases": {phase: figures(load.took[phase]) for phase in dict.fromkeys(PHASES)},
        }


def text(result: dict[str, Any]) -> str:
    first = f"{result['entries']} entries, {result['moves']} moves, {result['lost']} lost"
    return "\n".join([first, *phases_text(result["phases"])])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench-buckets", description=__doc__.partition("\n")[0])
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--rate", type=float, default=500.0, help="requests a second")
    parser.add_argument("--seconds", type=float, default=10.0, help="of a quiet phase")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    result = trio.run(measure, options.entries, options.rate, options.seconds, options.rounds)
    print(text(result))
    write_json(options.json, result)
    return 1 if result["lost"] else 0


if __name__ == "__main__":
    end_with(main)
