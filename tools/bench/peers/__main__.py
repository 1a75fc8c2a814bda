"""``python -m jgroups_py.tools.bench.peers``: ours, Java JGroups and a ZeroMQ mesh, in turns within one run.

    messages   members in processes of their own; the senders never stop; deliveries a second and member, own included,
               and the CPU time of all processes for a delivery (warm-up included)
    calls      one member calls another, which returns the argument; 1, 8 and 64 callers
    groups     so many members join a group of one at once; four members are idle, and then one is killed

All hear and say the same lines, and the parent is the same. The mesh has no reliability and no members: it shows
what Python reaches without them. Two bare processes on trio show the floor of a call. Java starts with the stock stack and
a warm-up that lets it compile.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import trio

from jgroups_py.channel.open import configure
from jgroups_py.driver.unwrap import leaves
from jgroups_py.tools.bench.peers import groups
from jgroups_py.tools.bench.peers.bare import BarePeer
from jgroups_py.tools.bench.peers.group_member import GroupPlan
from jgroups_py.tools.bench.peers.java import JavaMissing, JavaPeer
from jgroups_py.tools.bench.peers.summary import OURS, markdown, summary
from jgroups_py.tools.bench.peers.zeromq import ZeroMqPeer
from jgroups_py.tools.children import ChildError
from jgroups_py.tools.commands import mperf_run, rpcperf_run
from jgroups_py.tools.commands.mperf_ports import private_attributes

STACKS: Final = ("udp.xml", "tcp.xml")
NEVER: Final = ("Redis, NATS and corosync: this command has no driver for them",)


class Peer(Protocol):
    """Who is measured."""

    name: str
    measures: frozenset[str]
    """Which of messages, calls and groups it has."""


class SendsMessages(Peer, Protocol):
    """Its processes are members of mperf."""

    async def messages(self, plan: mperf_run.MperfPlan, number: int) -> trio.Process:
        """Start a member."""


class MakesCalls(Peer, Protocol):
    """Its processes are members of rpcperf."""

    async def calls(self, plan: rpcperf_run.RpcperfPlan, number: int) -> trio.Process:
        """Start a member."""


class HasGroups(Peer, Protocol):
    """Its processes are members that join, are idle and are killed."""

    async def group(self, plan: GroupPlan, number: int) -> trio.Process:
        """Start a member."""


class Ours:
    """Members of this library."""

    name = OURS
    measures = frozenset({"messages", "calls", "groups"})
    messages = staticmethod(mperf_run.start_member)
    calls = staticmethod(rpcperf_run.start_member)
    group = staticmethod(groups.start_member)


@dataclass(frozen=True, slots=True)
class PeersPlan:
    """What is measured. ``callers`` and ``joiners`` may be empty. ``senders`` 0: all members send. ``idle`` 0: no look at idle
    members, and none is killed."""

    stacks: tuple[str, ...]
    sizes: tuple[int, ...]
    members: tuple[int, ...]
    senders: tuple[int, ...]
    callers: tuple[int, ...]
    seconds: float
    warm_up: float
    runs: int
    joiners: tuple[int, ...] = ()
    idle: float = 0.0

    def messages(self) -> Iterator[tuple[str, int, int, int]]:
        """Yield stack, size, members and senders."""
        for stack in self.stacks:
            for size in self.sizes:
                for members in self.members:
                    for senders in self.senders:
                        yield stack, size, members, min(senders, members) or members

    def groups(self) -> Iterator[tuple[str, str, int, float]]:
        """Yield text, stack, joiners and seconds of idleness."""
        for stack in self.stacks:
            for joiners in self.joiners:
                yield f"{stack}, {joiners} join at once", stack, joiners, 0.0
            if self.idle:
                yield f"{stack}, 4 members", stack, 3, self.idle


KINDS: Final = (JavaPeer, ZeroMqPeer, BarePeer)
"""The other libraries. Each has rows, measured or not."""


def peers() -> tuple[list[Peer], list[str]]:
    """Return who can be measured here, and why others cannot."""
    found: list[Peer] = [Ours()]
    missing = list(NEVER)
    for kind in KINDS:
        try:
            found.append(kind())
        except (JavaMissing, ModuleNotFoundError) as error:
            missing.append(f"{kind.name}: {error}")
    return found, missing


async def one_messages(
    plan: PeersPlan, peer: SendsMessages, case: tuple[str, int, int, int], name: str
) -> dict[str, float]:
    """Return the figures of a peer. Raise ``ChildError`` if a message was lost, came twice or in the wrong order."""
    stack, size, members, senders = case
    config, host = configure(stack, None, {}, {})
    attributes = private_attributes(config, members, host)
    measured = mperf_run.MperfPlan(
        stack,
        members,
        senders,
        size,
        plan.seconds,
        name,
        attributes,
        bind_addr=host,
        warm_up_seconds=_warm_up(plan, peer),
    )
    found = await mperf_run.measure(measured, lambda _: None, peer.messages)
    if mperf_run.has_fault(found):
        raise ChildError(f"lost {found['lost']}, twice {found['duplicates']}")
    if not found["delivered_per_s_per_member"]:
        raise ChildError("nothing was delivered within the windows")
    return {
        "delivered_per_s": found["delivered_per_s_per_member"],
        "cpu_us": round(found["cpu_us_per_message"] / members, 3),
    }


async def all_calls(
    plan: PeersPlan, peer: MakesCalls, stack: str, size: int, name: str
) -> dict[int, dict[str, float]]:
    """Return callers -> figures. Raise ``ChildError`` if a call returned something else."""
    config, host = configure(stack, None, {}, {})
    attributes = private_attributes(config, 2, host)
    measured = rpcperf_run.RpcperfPlan(
        stack,
        plan.callers,
        size,
        plan.seconds,
        False,
        name,
        attributes,
        bind_addr=host,
        warm_up_seconds=_warm_up(plan, peer),
    )
    found = await rpcperf_run.measure(measured, lambda _: None, peer.calls)
    if found["wrong"]:
        raise ChildError(f"{found['wrong']} calls returned something else or failed")
    wanted = ("calls_per_s", "p50_us", "p99_us", "p999_us", "caller_cpu_us")
    return {run["callers"]: {key: run[key] for key in wanted} for run in found["runs"]}


def _warm_up(plan: PeersPlan, peer: Peer) -> float:
    return max(plan.warm_up, getattr(peer, "warm_up_least", 0.0))


async def one_group(
    plan: PeersPlan, peer: HasGroups, stack: str, joiners: int, idle: float, name: str
) -> dict[str, float]:
    """Return the figures of a group. Raise ``ChildError`` if a view did not come."""
    config, host = configure(stack, None, {}, {})
    attributes = private_attributes(config, joiners + 1, host)
    measured = GroupPlan(stack, joiners, idle, name, attributes, host)
    return await groups.measure(measured, peer.group)


class Bench:
    """Makes the runs and keeps what they found."""

    def __init__(self, plan: PeersPlan, progress: Callable[[str], None]) -> None:
        self.plan = plan
        self._progress = progress
        self._peers, self.not_measured = peers()

    def run(self, number: int) -> dict[tuple[str, str], dict[str, float]]:
        """Make one run: each case with all peers, one after the other."""
        found: dict[tuple[str, str], dict[str, float]] = {}
        name = f"peers-{os.getpid()}-{number}"
        turn = number % len(self._peers)
        in_turn = self._peers[turn:] + self._peers[:turn]
        for case in self.plan.messages():
            stack, size, members, senders = case
            text = f"{stack}, {size} B, {members} members, {senders} send"
            for peer in _with("messages", in_turn):
                figures = self._try(text, peer, one_messages, self.plan, peer, case, name)
                if figures is not None:
                    found[text, peer.name] = figures
        for stack in self.plan.stacks if self.plan.callers else ():
            for size in self.plan.sizes:
                text = f"{stack}, {size} B"
                for peer in _with("calls", in_turn):
                    each = self._try(text, peer, all_calls, self.plan, peer, stack, size, name)
                    for callers, figures in (each or {}).items():
                        found[f"{text}, {callers} callers", peer.name] = figures
        for text, stack, joiners, idle in self.plan.groups():
            for peer in _with("groups", in_turn):
                figures = self._try(
                    text, peer, one_group, self.plan, peer, stack, joiners, idle, name
                )
                if figures is not None:
                    found[text, peer.name] = figures
        return found

    def _try(
        self, case: str, peer: Peer, measure: Callable[..., Awaitable[Any]], *arguments: Any
    ) -> Any:
        """Return what ``measure`` returns, or None: then the result says why there is nothing."""
        self._progress(f"{case}: {peer.name}")
        try:
            return trio.run(measure, *arguments)
        except* Exception as group:  # whatever it is, the other figures are not lost with it
            first = leaves(group)[0]
            kind = "" if isinstance(first, ChildError) else f"{type(first).__name__}: "
            self.not_measured.append(f"{case}, {peer.name}: {kind}{first}")
        return None


def _with(kind: str, peers: list[Peer]) -> list[Any]:
    """Return those that have what is measured."""
    return [peer for peer in peers if kind in peer.measures]


def measure(plan: PeersPlan, progress: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Return the object that ``--json`` prints."""
    bench = Bench(plan, progress)
    before = round(os.getloadavg()[0], 2)
    runs = [bench.run(number) for number in range(plan.runs)]
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "load_before": before,
        "load_after": round(os.getloadavg()[0], 2),
        "runs": plan.runs,
        "seconds": plan.seconds,
        "warm_up": plan.warm_up,
        "rows": summary(runs, [OURS, *(kind.name for kind in KINDS)]),
        "not_measured": bench.not_measured,
    }


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split(",") if word)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="bench_peers", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--stacks", default=",".join(STACKS), help="udp.xml,tcp.xml")
    parser.add_argument("--sizes", default="100,1000,10000", type=_numbers, help="bytes")
    parser.add_argument("--members", default="2,3,4", type=_numbers)
    parser.add_argument("--senders", default="0,1", type=_numbers, help="0: all members send")
    parser.add_argument("--callers", default="1,8,64", type=_numbers, help="empty: no calls")
    parser.add_argument(
        "--joiners", default="1,4,8,32", type=_numbers, help="join at once; empty: no joins"
    )
    parser.add_argument(
        "--idle", type=float, default=10.0, help="seconds to look at four idle members; 0: not"
    )
    parser.add_argument("--seconds", type=float, default=4.0, help="for each figure")
    parser.add_argument("--warm-up", type=float, default=3.0, help="seconds before each figure")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", metavar="FILE", help="write the result there, too")
    given = parser.parse_args()
    if given.seconds <= 0 or min(given.warm_up, given.idle) < 0 or given.runs < 1:
        parser.error("--seconds and --runs are more than 0, --warm-up and --idle are 0 or more")
    if min(given.sizes) < mperf_run.SIZE_MIN or min(given.members) < 2:
        parser.error(f"--sizes are {mperf_run.SIZE_MIN} or more, --members 2 or more")
    plan = PeersPlan(
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
    )
    result = measure(plan, lambda text: print(text, file=sys.stderr, flush=True))
    print(markdown(result))
    if given.json:
        Path(given.json).parent.mkdir(parents=True, exist_ok=True)
        Path(given.json).write_text(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
