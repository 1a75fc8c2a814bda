"""The part of ``jgroups-py validate`` about ports, a firewall's rules, and traffic in clear."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from typing import Any, Final

from jgroups_py.stack.exposure import TRAFFIC, Built, Flow, PortUse, flows, port_uses

ANY_PORTS: Final = "32768-65535"
"""Ports of sockets without a fixed number: Linux picks from 32768 to 60999 by default. FD_SOCK2's ports are its offset
above the transport's."""
IN_CLEAR: Final = "in clear"


def exposure(built: Built) -> dict[str, Any]:
    """Return the keys ``ports`` and ``traffic`` of a report, as JSON values."""
    return {
        "ports": [_port(use) for use in port_uses(built)],
        "traffic": [_flow(flow) for flow in flows(built)],
    }


def _port(use: PortUse) -> dict[str, Any]:
    """``first`` and ``last`` are None for any port. ``address`` is None for the other members."""
    return {
        "protocol": use.protocol,
        "proto": use.proto,
        "way": use.way,
        "first": use.first or None,
        "last": use.last or None,
        "address": use.address or None,
        "bound": use.bound or None,
        "multicast": use.multicast,
        "loopback_only": use.local,
        "carries": list(use.carries),
        "why": use.why,
        "fix_with": use.setting or None,
    }


def _flow(flow: Flow) -> dict[str, Any]:
    return {
        "protocol": flow.protocol,
        "traffic": flow.traffic,
        "holds": TRAFFIC.get(flow.traffic, flow.traffic),
        "protected_by": list(flow.sealed),
        "in_clear": not flow.sealed,
        "loopback_only": flow.local,
    }


def ports_text(item: dict[str, Any]) -> list[str]:
    """Return the lines of the text report for the keys of ``exposure``."""
    if not item["ports"]:
        return ["ports: none"]
    rows = [
        (
            port["protocol"],
            port["way"],
            port["proto"],
            span(port),
            port["address"] or "members",
            port["why"] + (f"; {port['fix_with']} fixes the port" if port["fix_with"] else ""),
        )
        for port in item["ports"]
    ]
    lines = ["ports:", *_table(rows)]
    lines += ["traffic:"]
    return lines + _table(
        [
            (
                flow["protocol"],
                flow["traffic"],
                ", ".join(flow["protected_by"]) or IN_CLEAR,
                "loopback only" if flow["loopback_only"] else "",
            )
            for flow in item["traffic"]
        ]
    )


def span(port: dict[str, Any]) -> str:
    """Return ``7800-7810``, ``7800`` or ``any``."""
    first, last = port["first"], port["last"]
    if first is None:
        return "any"
    return str(first) if first == last else f"{first}-{last}"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  "
        + "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def firewall(reports: Iterable[dict[str, Any]]) -> str:
    """Return rules in the language of nftables, for the chains input and output of a firewall that drops the rest.

    A set ``members`` (and ``members6``) has the members' addresses; its elements are for the user to fill in."""
    ports: list[tuple[str, dict[str, Any]]] = []
    for item in reports:
        ports += [(item["stack"], port) for port in item["ports"]]
        bridge = item.get("bridge")
        if bridge:
            ports += [(bridge["stack"], port) for port in bridge["ports"]]
    lines = []
    for way, chain in (("in", "input"), ("out", "output")):
        rules: dict[str, None] = {}
        for stack, port in ports:
            if port["way"] == way:
                rules.update(dict.fromkeys(_rules(stack, port, chain)))
        lines += [f"# chain {chain}", *rules]
    return "\n".join(lines)


def _rules(stack: str, port: dict[str, Any], chain: str) -> list[str]:
    name = stack.rpartition("/")[2].replace('"', "'")
    words = f"{name} {port['protocol']}: {port['why']}"
    if port["loopback_only"]:
        return [f"# loopback only, no rule needed: {words}"]
    family = "ip6" if ":" in (port["bound"] or port["address"] or "") else "ip"
    address = port["address"]
    peers = "@members6" if family == "ip6" else "@members"
    match: list[str] = []
    if port["multicast"]:
        match.append(f"{family} daddr {address}")
        if port["way"] == "in":
            match.insert(0, f"{family} saddr {peers}")
    elif port["way"] == "in":
        match.append(f"{family} saddr {peers}")
        if _numeric(address):
            match.append(f"{family} daddr {address}")
    elif address is None:
        match.append(f"{family} daddr {peers}")
    elif _numeric(address):
        match.append(f"{family} daddr {address}")
    lines = []
    if port["fix_with"]:
        lines.append(f"# any port: {port['fix_with']} fixes it ({words})")
    if address is not None and not match:
        lines.append(f"# to {address}")
    ports = ANY_PORTS if port["first"] is None else span(port)
    match.append(f'{port["proto"]} dport {ports} accept comment "{words[:120]}"')
    lines.append(" ".join(match))
    if port["multicast"] and port["way"] == "in":
        joins = "ip protocol igmp" if family == "ip" else "icmpv6 type mld2-listener-report"
        lines.append(f'{joins} accept comment "{name} {port["protocol"]}: joins the group"')
    return lines


def _numeric(host: str | None) -> bool:
    try:
        ipaddress.ip_address((host or "").partition("%")[0])
    except ValueError:
        return False
    return True
