"""Measures one library in one case. Each function returns suffix -> figures; the suffix is added to the text of the
case."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from jgroups_py.channel.open import configure
from jgroups_py.tools.bench.peers import groups, relays
from jgroups_py.tools.bench.peers.group_member import GroupPlan
from jgroups_py.tools.bench.peers.libraries import (
    HasCaches,
    HasGroups,
    HasRelays,
    MakesCalls,
    Peer,
    SendsMessages,
)
from jgroups_py.tools.bench.peers.plan import Case, PeersPlan
from jgroups_py.tools.children import ChildError
from jgroups_py.tools.commands import mperf_run, rpcperf_run
from jgroups_py.tools.commands.mperf_load import mean_size
from jgroups_py.tools.commands.mperf_ports import private_attributes

Figures = Mapping[str, Mapping[str, float]]
JOIN_SECONDS: Final = 50.0
"""The seconds in which processes become members on a busy machine."""
OVERLOADED: Final = 4
"""Members of a group under pressure."""
TINY: Final = 10
HUGE: Final = 200_000
SLOW: Final = 20e6
"""Bytes a second that the slow member takes. Flow control slows the other members to this rate."""
FITTING_CREDITS: Final = "400K"
"""The size of a small buffer of a UDP socket: Linux doubles the requested size."""
SMALL_BUFFERS: Final = {
    "udp.xml": dict.fromkeys(("UDP.mcast_recv_buf_size", "UDP.ucast_recv_buf_size"), "212992"),
    "tcp.xml": dict.fromkeys(("TCP.recv_buf_size", "TCP.send_buf_size"), "65536"),
}
"""The usual size where ``net.core.rmem_max`` was not raised: some six datagrams of 60 KB. For TCP, the least size that
holds a packet."""


async def one_messages(
    plan: PeersPlan, peer: SendsMessages, case: Case, cluster: str
) -> dict[str, dict[str, float]]:
    """Measure multicasts. Raise ``ChildError`` if a message was lost, came twice or in the wrong order."""
    size, members, senders = case.arguments
    config, host = configure(case.stack, None, {}, {})
    attributes = private_attributes(config, members, host)
    measured = mperf_run.MperfPlan(
        case.stack,
        members,
        senders,
        size,
        plan.seconds,
        cluster,
        attributes,
        bind_addr=host,
        join_timeout=JOIN_SECONDS,
        warm_up_seconds=warm_up(plan, peer),
    )
    found = await mperf_run.measure(measured, lambda _: None, peer.messages)
    if mperf_run.has_fault(found):
        raise ChildError(f"lost {found['lost']}, twice {found['duplicates']}")
    if not found["delivered_per_s_per_member"]:
        raise ChildError("nothing was delivered within the windows")
    figures = {
        "delivered_per_s": found["delivered_per_s_per_member"],
        "cpu_us": round(found["cpu_us_per_message"] / members, 3),
    }
    return {"": figures}


async def one_overload(
    plan: PeersPlan, peer: SendsMessages, case: Case, cluster: str
) -> dict[str, dict[str, float]]:
    """Measure tiny and huge messages of four members, under pressure.

    Raises:
        ChildError: a message was lost, came twice or in the wrong order, or a member was suspected.
    """
    small_buffers, slow, credits_fit = case.arguments
    config, host = configure(case.stack, None, {}, {})
    attributes = private_attributes(config, OVERLOADED, host)
    if small_buffers:
        attributes |= SMALL_BUFFERS[case.stack]
    if credits_fit:
        attributes["MFC.max_credits"] = FITTING_CREDITS
    measured = mperf_run.MperfPlan(
        case.stack,
        OVERLOADED,
        OVERLOADED,
        TINY,
        plan.seconds,
        cluster,
        attributes,
        bind_addr=host,
        join_timeout=JOIN_SECONDS,
        warm_up_seconds=warm_up(plan, peer),
        huge=HUGE,
        slow=SLOW if slow else 0.0,
    )
    found = await mperf_run.measure(measured, lambda _: None, peer.messages)
    if mperf_run.has_fault(found):
        raise ChildError(f"lost {found['lost']}, twice {found['duplicates']}")
    if found["view_changes"]:
        raise ChildError(f"{found['view_changes']} views changed")
    mean = mean_size(TINY, HUGE)
    figures = {
        "overloaded_per_s": found["delivered_per_s_per_member"],
        "mb_per_s": found["mb_per_s_per_member"],
        "least_mb_per_s": round(found["least_window_per_s"] * mean / 1e6, 3),
        "cpu_us": round(found["cpu_us_per_message"] / OVERLOADED, 3),
    }
    return {"": figures}


async def all_calls(
    plan: PeersPlan, peer: MakesCalls, case: Case, cluster: str
) -> dict[str, dict[str, float]]:
    """Measure calls for each number of callers. Raise ``ChildError`` if a call returned something else."""
    (size,) = case.arguments
    config, host = configure(case.stack, None, {}, {})
    attributes = private_attributes(config, 2, host)
    measured = rpcperf_run.RpcperfPlan(
        case.stack,
        plan.callers,
        size,
        plan.seconds,
        False,
        cluster,
        attributes,
        bind_addr=host,
        join_timeout=JOIN_SECONDS,
        warm_up_seconds=warm_up(plan, peer),
    )
    found = await rpcperf_run.measure(measured, lambda _: None, peer.calls)
    if found["wrong"]:
        raise ChildError(f"{found['wrong']} calls returned something else or failed")
    wanted = ("calls_per_s", "p50_us", "p99_us", "p999_us", "caller_cpu_us")
    return {
        f", {run['callers']} callers": {key: run[key] for key in wanted} for run in found["runs"]
    }


async def one_group(
    plan: PeersPlan, peer: HasGroups, case: Case, cluster: str
) -> dict[str, dict[str, float]]:
    """Measure joins, idle members and a kill. Raise ``ChildError`` if a view did not come."""
    joiners, idle = case.arguments
    config, host = configure(case.stack, None, {}, {})
    attributes = private_attributes(config, joiners + 1, host)
    measured = GroupPlan(case.stack, joiners, idle, cluster, attributes, host)
    return {"": await groups.measure(measured, peer.group)}


async def all_caches(
    plan: PeersPlan, peer: HasCaches, case: Case, cluster: str
) -> dict[str, dict[str, float]]:
    """Measure puts and gets of each size with each number of callers."""
    found = await peer.caches(plan, case.stack)
    return {
        f", {one['kind']} of {one['size']} B, {one['callers']} callers": {
            "requests_per_s": one["per_s"],
            "p50_us": one["p50_us"],
            "p99_us": one["p99_us"],
            "caller_cpu_us": one["cpu_us"],
        }
        for one in found
    }


async def one_relay(
    plan: PeersPlan, peer: HasRelays, case: Case, cluster: str
) -> dict[str, dict[str, float]]:
    """Measure two sites. Raise ``ChildError`` if a message was lost, came twice or in the wrong order."""
    (size,) = case.arguments
    planned = relays.relay_plan(case.stack, size, plan.seconds, plan.warm_up, cluster)
    return {"": await peer.relays(planned)}


def warm_up(plan: PeersPlan, peer: Peer) -> float:
    """Return the seconds of warm-up of this library before a figure."""
    return max(plan.warm_up, getattr(peer, "warm_up_least", 0.0))


def expected_seconds(plan: PeersPlan, peer: Peer, case: Case) -> float:
    """Return the expected seconds of ``case`` with this library."""
    longer_warm_ups = (warm_up(plan, peer) - plan.warm_up) * case.warm_ups
    return case.seconds + getattr(peer, "more_start", 0.0) + longer_warm_ups


MEASURES: Final[Mapping[str, Callable[..., Awaitable[dict[str, dict[str, Any]]]]]] = {
    "messages": one_messages,
    "overload": one_overload,
    "calls": all_calls,
    "groups": one_group,
    "caches": all_caches,
    "relays": one_relay,
}
