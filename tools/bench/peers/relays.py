"""RELAY: the rate at which a member gets messages from another site, and their delay beside messages within the site.

Two sites of two members on this machine, the bridge over TCP. The second member of the first site sends, so each message goes to its
site's relay, over the bridge and to the two members of the other site. The added latency is the difference between the
members of the other site and the relay of its own.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import Any, Final

import trio

from jgroups_py.config.settings import load_stack
from jgroups_py.tools.bench.peers.relay_member import RelayPlan
from jgroups_py.tools.children import Child, ChildError, end_all, start_process
from jgroups_py.tools.commands.mperf_ports import free_block, private_attributes

MODULE: Final = "jgroups_py.tools.bench.peers.relay_member"
SITES: Final = ("NYC", "NYC", "SFO", "SFO")
SENDER: Final = 1
STACKS: Final = {"udp.xml": "relay-udp.xml", "tcp.xml": "relay-tcp.xml"}
"""A site's stack beside the stack of other cases."""
SITE_STACKS: Final = {site_stack: stack for stack, site_stack in STACKS.items()}
READY_SECONDS: Final = 60.0
"""The longest time until all members have heard the sender."""
BEGIN_SECONDS: Final = 0.3


def relay_plan(stack: str, size: int, seconds: float, warm_up: float, cluster: str) -> RelayPlan:
    """Return the plan of a run that no other run disturbs: both sites and the bridge have ports of their own."""
    port = free_block(len(SITES))
    hosts = ",".join(f"127.0.0.1[{port + number}]" for number in range(len(SITES)))
    properties = {
        "relay.sites": "NYC,SFO",
        "relay.bridge.port": str(port),
        "relay.bridge.port_range": str(len(SITES) - 1),
        "relay.bridge.hosts": hosts,
    }
    attributes = {}
    for site in dict.fromkeys(SITES):
        config = load_stack(STACKS[stack], {**properties, "relay.site": site})
        attributes[site] = private_attributes(config, SITES.count(site))
    return RelayPlan(
        STACKS[stack], SITES, SENDER, size, seconds, warm_up, cluster, properties, attributes
    )


async def start_member(plan: RelayPlan, number: int) -> trio.Process:
    """Start a member of ours."""
    return await start_process(MODULE, {"plan": asdict(plan), "number": number})


async def measure(
    plan: RelayPlan, start: Callable[[RelayPlan, int], Awaitable[trio.Process]] = start_member
) -> dict[str, float]:
    """Return the figures of members that ``start`` starts.

    Raises:
        ChildError: a message was lost, came twice or in the wrong order, or a member died.
    """
    children: list[Child] = []
    async with trio.open_nursery() as nursery:
        try:
            for number in range(len(plan.sites)):
                child = Child(await start(plan, number), f"M{number + 1}")
                children.append(child)
                nursery.start_soon(child.collect_problem)
                await child.hear("joined")
            return await measured(plan, children)
        finally:
            with trio.CancelScope(shield=True):
                await end_all(children, 8)
            nursery.cancel_scope.cancel()


async def measured(plan: RelayPlan, children: Sequence[Child]) -> dict[str, float]:
    """Measure as ``measure`` does, with members that have already joined."""
    listeners = {n: child for n, child in enumerate(children) if n != plan.sender}
    with trio.move_on_after(READY_SECONDS) as scope:
        for child in listeners.values():
            await child.hear("ready")
    if scope.cancelled_caught:
        raise ChildError(f"not all members hear the sender within {READY_SECONDS:g} s")
    begin = time.monotonic() + BEGIN_SECONDS + plan.probing
    for child in children:
        await child.tell(begin=begin)
    sent = await children[plan.sender].hear("sent")
    for child in listeners.values():
        await child.tell(**sent)
    found = {number: await child.hear("measured") for number, child in listeners.items()}
    for child in children:
        await child.tell(leave=True)
    if wrong := sum(one["wrong"] for one in found.values()):
        raise ChildError(f"{wrong} messages were lost, came twice or in the wrong order")
    return figures(plan, found)


def figures(plan: RelayPlan, found: dict[int, dict[str, Any]]) -> dict[str, float]:
    """Return the figures of ``found``, which has the results of each listener."""
    own = plan.sites[plan.sender]
    here = [one for number, one in found.items() if plan.sites[number] == own]
    there = [one for number, one in found.items() if plan.sites[number] != own]
    return {
        "relayed_per_s": round(_mean(there, "per_s")),
        "here_p50_us": _mean(here, "p50_us"),
        "there_p50_us": _mean(there, "p50_us"),
        "added_p50_us": _mean(there, "p50_us") - _mean(here, "p50_us"),
        "added_p99_us": _mean(there, "p99_us") - _mean(here, "p99_us"),
    }


def _mean(found: Sequence[dict[str, Any]], figure: str) -> float:
    return round(statistics.mean(float(one[figure]) for one in found), 1)
