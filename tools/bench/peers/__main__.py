"""``python -m jgroups_py.tools.bench.peers``: ours and other libraries, in turns within one run.

    messages   members in processes of their own, whose senders never stop: deliveries a second of each member,
               own included, and the CPU time of all processes, servers included, for a delivery (warm-up included)
    overload   four members send tiny and huge messages, with small buffers, with a member that takes 20 MB a second; the worst
               window of any member says whether the group collapses
    calls      one member calls another, which returns the argument; 1, 8 and 64 callers
    groups     so many members join a group of one at once; four members are idle, and then one is killed
    caches     puts and gets with one copy elsewhere
    relays     messages from one site to another, and how much later they come than within the site

All processes read and write the same lines, and have the same parent. Java JGroups runs with the stock stack and with a tuned one, and
has a warm-up that lets it compile. A mesh of ZeroMQ, NATS and Redis have no reliability and no members: they show the rates
that Python reaches without them. Two bare processes on trio show the floor of a call.

It first prints the expected duration. No case begins after --minutes, and each has its own limit.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Final

from jgroups_py.tools.bench.ended import end_with
from jgroups_py.tools.bench.peers.libraries import KINDS
from jgroups_py.tools.bench.peers.plan import PeersPlan
from jgroups_py.tools.bench.peers.relay_member import HEAD
from jgroups_py.tools.bench.peers.runs import measure
from jgroups_py.tools.bench.peers.summary import markdown
from jgroups_py.tools.commands.mperf_load import SIZE_MIN

STACKS: Final = ("udp.xml", "tcp.xml")
SMALLEST: Final = HEAD.size
"""Bytes of a relayed message that identify it."""


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split(",") if word)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bench_peers", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--stacks", default=",".join(STACKS), help="udp.xml,tcp.xml")
    parser.add_argument(
        "--sizes",
        default="100,1000,10000",
        type=_numbers,
        help="bytes; empty: no messages and calls",
    )
    parser.add_argument("--members", default="2,3,4", type=_numbers)
    parser.add_argument("--senders", default="0,1", type=_numbers, help="0: all members send")
    parser.add_argument("--callers", default="1,8,64", type=_numbers, help="empty: no calls")
    parser.add_argument(
        "--joiners", default="1,4,8,32", type=_numbers, help="join at once; empty: no joins"
    )
    parser.add_argument(
        "--idle", type=float, default=6.0, help="seconds to look at four idle members; 0: not"
    )
    parser.add_argument(
        "--cache-sizes", default="100,1000", type=_numbers, help="bytes; empty: no caches"
    )
    parser.add_argument(
        "--relay-sizes", default="100,1000", type=_numbers, help="bytes; empty: no RELAY"
    )
    parser.add_argument(
        "--overload",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="tiny and huge messages under pressure",
    )
    parser.add_argument("--seconds", type=float, default=1.0, help="for each figure")
    parser.add_argument("--warm-up", type=float, default=1.0, help="seconds before each figure")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument(
        "--minutes", type=float, default=50.0, help="no case begins later; the others are named"
    )
    names = ", ".join(kind.name for kind in KINDS)
    parser.add_argument("--leave-out", default="", help=f"of {names}, comma-separated")
    parser.add_argument("--json", metavar="FILE", help="write the result there, too")
    return parser


def _plan(parser: argparse.ArgumentParser, given: argparse.Namespace) -> PeersPlan:
    """Return the plan, or end with what is wrong."""
    if min(given.seconds, given.minutes) <= 0 or given.runs < 1:
        parser.error("--seconds, --minutes and --runs are more than 0")
    if min(given.warm_up, given.idle) < 0:
        parser.error("--warm-up and --idle are 0 or more")
    if min((SMALLEST, *given.relay_sizes)) < SMALLEST:
        parser.error(f"--relay-sizes are {SMALLEST} or more")
    if min((SIZE_MIN, *given.sizes)) < SIZE_MIN or min((2, *given.members)) < 2:
        parser.error(f"--sizes are {SIZE_MIN} or more, --members 2 or more")
    leave_out = tuple(filter(None, given.leave_out.split(",")))
    if unknown := set(leave_out) - {kind.name for kind in KINDS}:
        names = ", ".join(kind.name for kind in KINDS)
        parser.error(f"--leave-out: there is no {', '.join(sorted(unknown))}, but {names}")
    return PeersPlan(
        tuple(given.stacks.split(",")),
        given.sizes,
        given.members,
        given.senders,
        given.callers,
        given.seconds,
        given.warm_up,
        given.runs,
        given.joiners,
        given.idle,
        given.cache_sizes,
        given.minutes,
        leave_out,
        given.relay_sizes,
        given.overload,
    )


def main() -> int:
    parser = _parser()
    given = parser.parse_args()
    plan = _plan(parser, given)
    result = measure(plan, lambda text: print(text, file=sys.stderr, flush=True))
    text = markdown(result)
    print(text)
    if given.json:
        file = Path(given.json)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(result, indent=1))
        file.with_suffix(".md").write_text(text + "\n")
    return 0


if __name__ == "__main__":
    end_with(main)
