"""Rules of a deployment (A66, A24, A32, A47), checked before any bucket is placed.

Source: 5.1.2 Placement rules; 4.4.1 (order of creation).
"""

from __future__ import annotations

from jgroups_py.buckets.deployment.model import Deployment
from jgroups_py.stack.exposure import is_loopback


def check(deployment: Deployment) -> None:
    """Raise ConfigError for the first broken rule, at the key to change."""
    _units(deployment)
    _one_channel_per_host(deployment)
    _capacity(deployment)
    _index_survives(deployment)


def _units(deployment: Deployment) -> None:
    """Check for one proxy manager, bucket managers on two nodes, a router, and index copies exactly where routers are
    (DU_Router)."""
    nodes = deployment.nodes
    for node in nodes:
        where = f"nodes.{node.name}.components"
        if node.indices > 1:
            raise deployment.wrong(
                f"{where}.indices",
                f"{node.indices} index copies on one node; a node has one router unit at most, with exactly one index copy (1)",
            )
        if node.routers and not node.indices:
            raise deployment.wrong(
                f"{where}.indices",
                f"the node has routers ({node.routers}) and no index copy; a router unit has exactly one (indices: 1)",
            )
        if node.indices and not node.routers:
            raise deployment.wrong(
                f"{where}.routers",
                "the node has an index copy and no router; a router unit has at least one (routers: 1)",
            )
        if not node.managers and f"nodes.{node.name}.buckets" in deployment.places and node.buckets:
            raise deployment.wrong(
                f"nodes.{node.name}.buckets",
                f"it is to hold {node.buckets} copies, and has no bucket manager (components: managers: 1)",
            )
    if not any(node.proxies for node in nodes):
        raise deployment.wrong("nodes", "no node has a proxy manager; at least one is needed")
    with_managers = [node.name for node in nodes if node.managers]
    if len(with_managers) < 2:
        raise deployment.wrong(
            "nodes",
            f"bucket managers on two different nodes are needed, not on {', '.join(with_managers) or 'none'}",
        )
    if not any(node.routers for node in nodes):
        raise deployment.wrong("nodes", "no node has a router; at least one is needed")


def _one_channel_per_host(deployment: Deployment) -> None:
    """Check that no two nodes have the same address. A master and its slave could otherwise share one host."""
    seen: dict[str, str] = {}
    for node in deployment.nodes:
        if not node.address or is_loopback(node.address):
            continue
        if node.address in seen:
            raise deployment.wrong(
                f"nodes.{node.name}.address",
                f"{node.address} is the address of {seen[node.address]}, too; each node is a host of its own",
            )
        seen[node.address] = node.name


def _capacity(deployment: Deployment) -> None:
    """Check that there are places for all copies, for all masters, and for a second copy outside each cause of
    failure."""
    pairs = deployment.buckets
    holders = [node for node in deployment.nodes if node.managers]
    room = {node.name: min(node.buckets, pairs) for node in holders}
    told = ", ".join(f"{name} {count}" for name, count in room.items())
    if sum(room.values()) < 2 * pairs:
        raise deployment.wrong(
            "buckets",
            f"{pairs} pairs are {2 * pairs} copies, and the nodes can hold {sum(room.values())} ({told}; a node holds one copy of a pair);"
            f" at most {sum(room.values()) // 2} are possible",
        )
    masters = sum(min(node.masters, pairs) for node in holders)
    if masters < pairs:
        raise deployment.wrong(
            "buckets",
            f"{pairs} masters are needed, and the nodes can hold {masters} (nodes.*.masters)",
        )
    if deployment.separate == "nodes":
        return
    for cause, names in deployment.causes.items():
        outside = sum(count for name, count in room.items() if name not in names)
        if outside < pairs:
            raise deployment.wrong(
                "buckets",
                f"each of {pairs} pairs needs a copy outside {cause} ({', '.join(names)}), and the other nodes can hold {outside};"
                " add nodes elsewhere, or write separate: nodes",
            )


def _index_survives(deployment: Deployment) -> None:
    """Check that index copies are at two nodes, and a quorum of them remains after the loss of any one cause of
    failure. Otherwise slaves could not be promoted."""
    copies = [node.name for node in deployment.nodes if node.indices]
    if len(copies) < 2:
        raise deployment.wrong(
            "nodes",
            f"index copies on two different nodes are needed, not on {', '.join(copies)} only (components: indices and routers)",
        )
    quorum = deployment.settings.quorum
    for cause, names in deployment.causes.items():
        if deployment.separate == "nodes" and len(names) > 1:
            continue
        left = [name for name in copies if name not in names]
        if len(left) < quorum:
            where = "settings.index_quorum" if deployment.settings.index_quorum else "nodes"
            raise deployment.wrong(
                where,
                f"the loss of {cause} leaves {len(left)} of {len(copies)} index copies, and {quorum} are needed to promote slaves;"
                " add an index copy elsewhere"
                + (
                    f", or write settings: index_quorum: {len(left)} (then both sides of a cut network have a master)"
                    if left
                    else ""
                ),
            )
