"""Random graphs of operations in random orders, with removals, an operation that differs, and a crash of either side: ``make livebackup-explore``.

    python tests/livebackup/explore_orders.py --schedules 100000 --first 1

It prints the tried schedules. Exit code 1: it found a violation, and prints the seed that repeats it.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from ordering_world import play, random_graph

LOST = ("", "live", "backup", "both")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--schedules", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=1, help="the seed of the first one")
    given = parser.parse_args()
    begun = time.monotonic()
    counts: Counter[str] = Counter()
    for seed in range(given.first, given.first + given.schedules):
        choice = random.Random(seed)
        graph, lost = random_graph(choice), LOST[seed % len(LOST)]
        try:
            world = play(graph, choice, lost=lost, differs=seed % 3 == 0)
        except AssertionError as violated:
            print(f"seed {seed}: {violated}\n{graph}\n--first {seed} --schedules 1 shows it again")
            return 1
        counts["changes"] += len(world.order)
        counts["removals"] += sum(
            step.endswith("-") for op in world.done for step in world.graph[op]
        )
        counts["objects taken anew"] += seed % 3 == 0 and not world.differs
        counts["confirmed"] += len(world.confirmed)
        counts["live node lost"] += not world.live_up
        counts["backup lost"] += lost in ("backup", "both") and not world.rejoin
        counts["left unconfirmed"] += not world.live_up and len(world.confirmed) < len(graph)
    told = ", ".join(f"{number} {name}" for name, number in counts.items())
    print(f"{given.schedules} schedules, {told}; 0 violations, {time.monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
