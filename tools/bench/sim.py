"""``make bench-sim``: one hour of a large quiet cluster in virtual time.

100 members on sim.xml (heartbeat 8 s, MERGE3 10-30 s), one multicast a second in the cluster. Prints
events, deliveries, seconds of one core, and whether all messages arrived. ``--rate`` sends more, a
second's worth at once by one member, or with ``--turns`` by all members in so many turns of each second; ``--profile`` shows the share of
time by file. It makes the run slower, so only the shares count.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import sys
import time
from pathlib import Path

from jgroups_py.testing.sim import Member, World
from jgroups_py.tools.bench.ended import end_with
from jgroups_py.values.batch import Batch

SHOWN = 12
"""Files of the profile that have a line each."""


def run(
    members: int,
    seconds: float,
    stack: str = "sim.xml",
    seed: int = 1,
    rate: int = 1,
    turns: int = 0,
) -> dict[str, float]:
    """Return the figures of one run. ``rate``: multicasts of the cluster in a virtual second. ``turns``: all members
    send, so many times a second, ``rate`` in all; 0: one member sends all of a second's."""
    began = time.process_time()
    world = World(seed, check=False, grid=0.001)
    cluster = [world.start(f"m{n}", stack, "bench") for n in range(members)]
    joined = world.run_until(lambda: world.views_agree(cluster), limit=120)
    formed_virtual, formed = world.now, time.process_time() - began
    delivered = 0

    def on_batch(member: Member, batch: Batch) -> None:
        nonlocal delivered
        delivered += len(batch)

    for member in cluster:
        member.keep_batches = False
        member.on_batch = on_batch
    start = world.now
    for second in range(int(seconds)):
        if turns:
            for turn in range(turns):
                for n in range(rate // turns):
                    at = start + second + turn / turns
                    world.at(at, cluster[n % members].send, b"x" * 100)
        else:
            for _ in range(rate):
                world.at(start + second, cluster[second % members].send, b"x" * 100)
        if second % 300 == 299:
            world.run(start + second)
            print(f"  {second + 1} s of {seconds:.0f} s virtual", file=sys.stderr)
    world.run(start + seconds + 2)
    took = time.process_time() - began
    expected = int(seconds) * members * (rate // turns * turns if turns else rate)
    return {
        "members": members,
        "virtual_s": round(world.now, 3),
        "formed_virtual_s": round(formed_virtual, 3),
        "formed_cpu_s": round(formed, 2),
        "cpu_s": round(took, 2),
        "events": world.clock.events,
        "events_per_cpu_s": round(world.clock.events / took),
        "delivered": delivered,
        "delivered_per_cpu_s": round(delivered / took),
        "expected": expected,
        "one_view": int(joined and world.views_agree(cluster)),
    }


def shares(profile: cProfile.Profile) -> list[tuple[str, float]]:
    """Return (file, share of the time spent in its functions), the largest first; the last one is all others."""
    spent: dict[str, float] = {}
    for (file, _line, _name), (_, _, own, _, _) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        parts = Path(file).parts
        inside = parts.index("protocols") if "protocols" in parts else len(parts) - 2
        name = "built in" if file == "~" else "/".join(parts[inside:])
        spent[name] = spent.get(name, 0.0) + own
    total = sum(spent.values())
    ordered = sorted(spent.items(), key=lambda item: -item[1])
    rest = sum(own for _, own in ordered[SHOWN:])
    return [(name, own / total) for name, own in [*ordered[:SHOWN], ("all others", rest)]]


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench-sim")
    parser.add_argument("--members", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--rate", type=int, default=1, help="multicasts a virtual second")
    parser.add_argument(
        "--turns", type=int, default=0, help="all members send, so many times a second"
    )
    parser.add_argument("--profile", action="store_true", help="where the time goes, by file")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    profile = cProfile.Profile()
    if arguments.profile:
        profile.enable()
    result = run(arguments.members, arguments.seconds, rate=arguments.rate, turns=arguments.turns)
    profile.disable()
    if arguments.profile:
        for name, share in shares(profile):
            print(f"{share:6.1%}  {name}", file=sys.stderr)
    if arguments.json:
        print(json.dumps(result))
    else:
        for key, value in result.items():
            print(f"{key:18} {value}")
    return 0 if result["delivered"] == result["expected"] and result["one_view"] else 1


if __name__ == "__main__":
    end_with(main)
