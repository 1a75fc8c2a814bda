"""Drawing a stack: which file, which settings. Detection, merging and repair are quick enough for a run of a minute;
all other settings may become small or strange."""

from __future__ import annotations

import random
from typing import Final

QUICK: Final = {
    "MERGE3.min_interval": "1s",
    "MERGE3.max_interval": "3s",
    "VERIFY_SUSPECT2.timeout": "500ms",
    "UNICAST3.conn_expiry_timeout": "10s",
    "UNICAST3.conn_close_timeout": "10s",
    "UNICAST3.max_retransmit_time": "10s",
    "UNICAST3.departed_remembered": "70s",
}
"""Settings for quick detection, merging and forgetting. Departed members are forgotten only after the longest pause."""
_TRANSPORTS: Final = {
    "sim.xml": "SHARED_LOOPBACK",
    "udp.xml": "UDP",
    "tcp.xml": "TCP",
    "relay-udp.xml": "UDP",
    "relay-tcp.xml": "TCP",
}
STACKS: Final = ("sim.xml", "udp.xml", "tcp.xml")


def draw_settings(rng: random.Random, *, flow: bool = False) -> tuple[str, dict[str, str]]:
    """Return the stack file of a single site, and its attributes. ``flow``: small credits for sure."""
    pick = rng.choice
    stack = pick(STACKS)
    settings = dict(QUICK)
    settings[f"{_TRANSPORTS[stack]}.logical_addr_cache_expiration"] = "10s"
    settings |= _detection(rng)
    settings |= _delivery(rng)
    settings |= _credits(rng, flow or rng.random() < 0.3)
    if rng.random() < 0.3:
        settings["GMS.join_timeout"] = pick(["300ms", "1s"])
    return stack, settings


def _detection(rng: random.Random) -> dict[str, str]:
    timeout, interval = rng.choice([("4s", "1s"), ("4s", "1s"), ("8s", "2s"), ("2s", "500ms")])
    return {"FD_ALL3.timeout": timeout, "FD_ALL3.interval": interval}


def _delivery(rng: random.Random) -> dict[str, str]:
    pick = rng.choice
    settings = {
        "NAKACK2.xmit_interval": pick(["50ms", "100ms", "500ms"]),
        "UNICAST3.xmit_interval": pick(["50ms", "100ms", "500ms"]),
        "STABLE.desired_avg_gossip": pick(["500ms", "1s", "2s"]),
        "STABLE.max_bytes": pick(["5K", "50K", "1M"]),
    }
    rare = {
        "NAKACK2.max_xmit_req_size": ["8", "64"],
        "NAKACK2.max_window": ["64"],
        "NAKACK2.use_mcast_xmit": ["true", "false"],
        "NAKACK2.xmit_from_random_member": ["true"],
        "UNICAST3.max_xmit_req_size": ["8"],
        "UNICAST3.max_window": ["64"],
        "UNICAST3.conn_expiry_timeout": ["2s"],
        "FRAG2.frag_size": ["500", "3000"],
    }
    for name, values in rare.items():
        if rng.random() < 0.15:
            settings[name] = pick(values)
    return settings


def _credits(rng: random.Random, small: bool) -> dict[str, str]:
    if not small:
        return {}
    return {
        f"{name}.{key}": value
        for name in ("MFC", "UFC")
        for key, value in (
            ("max_credits", rng.choice(["4000", "20K", "100K"])),
            ("min_threshold", rng.choice(["0.1", "0.4", "0.8"])),
            ("max_block_time", rng.choice(["500ms", "2s"])),
        )
    }


def draw_relay_settings(
    rng: random.Random, sites: list[str]
) -> tuple[str, dict[str, str], dict[str, str]]:
    """Return the stack file of sites joined by RELAY, its attributes, those of the bridge."""
    pick = rng.choice
    stack = pick(["relay-udp.xml", "relay-udp.xml", "relay-tcp.xml"])
    settings = QUICK | _detection(rng) | _delivery(rng)
    settings[f"{_TRANSPORTS[stack]}.logical_addr_cache_expiration"] = "10s"
    credits = _credits(rng, rng.random() < 0.2)
    settings |= credits
    settings |= {
        "RELAY.primary": pick([sites[0], sites[0], "all"]),
        "RELAY.buffering_members": pick(["2", "3", "3"]),
        # Longer than detection and a merge take.
        "RELAY.gap_wait": "15s",
        "RELAY.cut_off_wait": pick(["20s", "90s", "90s"]),
    }
    rare = {
        "RELAY.relay_when": ["stable"],
        "RELAY.ack_every": ["1", "10"],
        "RELAY.ack_interval": ["20ms", "500ms"],
        "RELAY.chunk_bytes": ["200", "5K"],
        "RELAY.fetch_bytes": ["200", "5K"],
        "RELAY.retry_interval": ["200ms"],
        "RELAY.leave_timeout": ["100ms", "1s"],
    }
    for name, values in rare.items():
        if rng.random() < 0.2:
            settings[name] = pick(values)
    # A site alone keeps all messages for the first other site, so its buffer would only fill up.
    if len(sites) > 1:
        settings |= _overflow(rng, credits)
    if "RELAY.max_age" in settings:
        # A message that is dropped before STABLE knows of it would never be relayed.
        settings.pop("RELAY.relay_when", None)
    bridge = {
        "MERGE3.max_interval": "3s",
        "UNICAST3.conn_expiry_timeout": "10s",
        "UNICAST3.conn_close_timeout": "10s",
        "UNICAST3.max_retransmit_time": "10s",
        "UNICAST3.departed_remembered": "70s",
    }
    return stack, settings, bridge


def _overflow(rng: random.Random, credits: dict[str, str]) -> dict[str, str]:
    """Return settings of buffers that are full when the WAN is cut for some seconds."""
    policy = rng.choice(["none", "none", "none", "drop_oldest", "block", "spill", "age"])
    if policy == "none":
        return {}
    if policy == "age":
        return {"RELAY.max_age": rng.choice(["2s", "8s"])}
    limit = rng.choice([("max_messages", "30"), ("max_bytes", "20K")])
    settings = {"RELAY.overflow": policy, f"RELAY.{limit[0]}": limit[1]}
    if policy == "block":
        size = credits.get("MFC.max_credits", "10K")
        settings |= {"RELAY.max_bytes": "150K", "RELAY.block_credits": size}
        settings.pop("RELAY.max_messages", None)
        settings["MFC.max_credits"] = size
    return settings
