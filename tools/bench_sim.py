"""``make bench-sim``: one hour of a large quiet cluster in virtual time.

100 members on sim.xml (heartbeat 8 s, MERGE3 10-30 s), one multicast a second in the cluster. Prints
events, deliveries, seconds of one core, and whether everything arrived.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from jgroups_py.batch import Batch
from jgroups_py.sim import Member, World


def run(members: int, seconds: float, stack: str = "sim.xml", seed: int = 1) -> dict[str, float]:
    """The figures of one run."""
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
        world.at(start + second, cluster[second % members].send, b"x" * 100)
        if second % 300 == 299:
            world.run(start + second)
            print(f"  {second + 1} s of {seconds:.0f} s virtual", file=sys.stderr)
    world.run(start + seconds + 2)
    took = time.process_time() - began
    expected = int(seconds) * members
    return {
        "members": members,
        "virtual_s": round(world.now, 3),
        "formed_virtual_s": round(formed_virtual, 3),
        "formed_cpu_s": round(formed, 2),
        "cpu_s": round(took, 2),
        "events": world.clock.events,
        "events_per_cpu_s": round(world.clock.events / took),
        "delivered": delivered,
        "expected": expected,
        "one_view": int(joined and world.views_agree(cluster)),
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench-sim")
    parser.add_argument("--members", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = run(arguments.members, arguments.seconds)
    if arguments.json:
        print(json.dumps(result))
    else:
        for key, value in result.items():
            print(f"{key:18} {value}")
    return 0 if result["delivered"] == result["expected"] and result["one_view"] else 1


if __name__ == "__main__":
    sys.exit(main())
