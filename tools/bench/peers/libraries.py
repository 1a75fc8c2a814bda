"""The libraries that are measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

import trio

from jgroups_py.tools.bench import cache_perf
from jgroups_py.tools.bench.cache_perf import CachePerfPlan
from jgroups_py.tools.bench.peers import groups, relays
from jgroups_py.tools.bench.peers.bare import BarePeer, BundledBarePeer
from jgroups_py.tools.bench.peers.corosync import CorosyncPeer
from jgroups_py.tools.bench.peers.group_member import GroupPlan
from jgroups_py.tools.bench.peers.java import JavaPeer, TunedJavaPeer
from jgroups_py.tools.bench.peers.missing import PeerMissing
from jgroups_py.tools.bench.peers.nats import NatsPeer
from jgroups_py.tools.bench.peers.plan import Case, PeersPlan
from jgroups_py.tools.bench.peers.redis import RedisPeer
from jgroups_py.tools.bench.peers.relay_member import RelayPlan
from jgroups_py.tools.bench.peers.summary import OURS
from jgroups_py.tools.bench.peers.zeromq import ZeroMqPeer
from jgroups_py.tools.commands import mperf_run, rpcperf_run


class Peer(Protocol):
    """A library that is measured."""

    name: str
    measures: frozenset[str]
    """The kinds of cases that it has (measures.py)."""


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


class HasCaches(Peer, Protocol):
    """It keeps values with one copy in another process."""

    async def caches(self, plan: PeersPlan, stack: str) -> Sequence[dict[str, Any]]:
        """Return the figures of cache_perf.py."""


class HasRelays(Peer, Protocol):
    """It connects sites."""

    async def relays(self, plan: RelayPlan) -> dict[str, float]:
        """Return the figures of relays.py."""


class Ours:
    """Members of this library."""

    name = OURS
    measures = frozenset({"messages", "overload", "calls", "groups", "caches", "relays"})
    messages = staticmethod(mperf_run.start_member)
    calls = staticmethod(rpcperf_run.start_member)
    group = staticmethod(groups.start_member)
    relays = staticmethod(relays.measure)

    async def caches(self, plan: PeersPlan, stack: str) -> Sequence[dict[str, Any]]:
        """Measure the tree cache: three members, each put is at one buddy when it returns."""
        measured = CachePerfPlan(plan.cache_sizes, plan.cache_callers, plan.seconds, stack)
        return await cache_perf.measured(measured)


KINDS: Final = (
    JavaPeer,
    TunedJavaPeer,
    ZeroMqPeer,
    BarePeer,
    BundledBarePeer,
    NatsPeer,
    RedisPeer,
    CorosyncPeer,
)
"""The other libraries. Each has rows, measured or not."""


def peers(leave_out: Sequence[str] = ()) -> tuple[list[Peer], list[str]]:
    """Return the libraries that can be measured here, and the reasons why others cannot. Names in ``leave_out`` are
    skipped."""
    found: list[Peer] = [Ours()]
    missing = []
    for kind in KINDS:
        if kind.name in leave_out:
            continue
        try:
            found.append(kind())
        except PeerMissing as error:
            missing.append(f"{kind.name}: {error}")
    return found, missing


def has(peer: Any, case: Case) -> bool:
    """Return whether a library, or its class, can do ``case``. A library with one transport only is measured beside one
    stack."""
    return case.kind in peer.measures and case.stack in getattr(peer, "stacks", (case.stack,))


def names(case: Case, leave_out: Sequence[str] = ()) -> list[str]:
    """Return the names of libraries that have rows in ``case``, measured or not."""
    return [kind.name for kind in (Ours, *KINDS) if has(kind, case) and kind.name not in leave_out]
