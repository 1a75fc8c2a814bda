"""``python -m jgroups_py.testing.explorer.buckets --seeds 1..5000``: random schedules of a bucket store, judged."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from functools import partial

from jgroups_py.testing.explorer.buckets.schedule import Run, judged, play


def _told(run: Run) -> str:
    return "\n".join([*run.story, *(run.problems or ["nothing was violated"])])


def main() -> int:
    parser = argparse.ArgumentParser(prog="buckets-explore", description=__doc__)
    parser.add_argument("--seeds", default="1..500", metavar="A..B")
    parser.add_argument("--replay", type=int, metavar="SEED", help="play one and tell it")
    parser.add_argument("--blips", action="store_true", help="cuts so short that views hardly last")
    parser.add_argument(
        "--versions", action="store_true", help="buckets move between two versions of the plug-in"
    )
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    if options.replay is not None:
        run = play(options.replay, blips=options.blips, versions=options.versions)
        print(_told(run))
        return 1 if run.problems else 0
    low, _, high = options.seeds.partition("..")
    if not (low.isdigit() and high.isdigit()):
        parser.error(f"--seeds must be like 1..500, got {options.seeds}")
    sums = [0, 0, 0, 0]
    failed: dict[int, list[str]] = {}
    seeds = range(int(low), int(high) + 1)
    one = partial(judged, blips=options.blips, versions=options.versions)
    with multiprocessing.get_context("spawn").Pool(options.workers) as pool:
        for number, (seed, problems, *counts) in enumerate(pool.imap(one, seeds, 10), 1):
            sums = [a + b for a, b in zip(sums, counts, strict=True)]
            if problems:
                failed[seed] = problems
                print(f"seed {seed}: {problems[0]}", file=sys.stderr)
            if number % 500 == 0:
                print(f"  {number} of {len(seeds)}", file=sys.stderr)
    names = ("requests", "kills", "cuts", "moves")
    print(
        json.dumps(
            {"schedules": len(seeds), **dict(zip(names, sums, strict=True)), "violations": failed}
        )
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
