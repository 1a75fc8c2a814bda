"""design/limits.md agrees with the code: every limit is in its table, with its default and a real counter."""

from __future__ import annotations

import dataclasses
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from jgroups_py import ChannelLimits
from jgroups_py.buckets.door import DoorLimits
from jgroups_py.buckets.http import HttpLimits
from jgroups_py.buckets.items import ItemLimits
from jgroups_py.buckets.memcached import PipelineLimits, TextLimits
from jgroups_py.buckets.settings import InstanceSettings
from jgroups_py.export import ExportLimits
from jgroups_py.livebackup import LiveBackupSettings
from jgroups_py.maps.replica_settings import ReplicaSettings
from jgroups_py.maps.tcp_settings import TcpSettings
from jgroups_py.protocols.discovery.dns_ping import DNS_PING
from jgroups_py.protocols.discovery.file_ping import FILE_PING
from jgroups_py.protocols.discovery.jdbc_ping2 import JDBC_PING2
from jgroups_py.protocols.discovery.kube_ping import KUBE_PING
from jgroups_py.protocols.discovery.mping import MPING
from jgroups_py.protocols.discovery.ping import PING
from jgroups_py.protocols.discovery.tcpgossip import TCPGOSSIP
from jgroups_py.protocols.discovery.tcpping import TCPPING
from jgroups_py.protocols.failure.fd_sock2 import FD_SOCK2
from jgroups_py.protocols.flow.mfc import MFC
from jgroups_py.protocols.flow.ufc import UFC
from jgroups_py.protocols.frag2 import FRAG2
from jgroups_py.protocols.membership.gms.protocol import GMS
from jgroups_py.protocols.membership.merge3 import MERGE3
from jgroups_py.protocols.relay.protocol import RELAY
from jgroups_py.protocols.reliable.nakack2.protocol import NAKACK2
from jgroups_py.protocols.reliable.stable import STABLE
from jgroups_py.protocols.reliable.unicast3.protocol import UNICAST3
from jgroups_py.protocols.seal.protocol import SEAL
from jgroups_py.protocols.security.asym_encrypt import ASYM_ENCRYPT
from jgroups_py.protocols.state_transfer import STATE_TRANSFER
from jgroups_py.protocols.transport.tcp import TCP
from jgroups_py.protocols.transport.udp import UDP
from jgroups_py.router import GossipRouter
from jgroups_py.rpc import RpcLimits

ROOT = Path(__file__).resolve().parents[2]
PROTOCOLS: dict[str, Any] = {
    cls.__name__: cls
    for cls in (
        *(UDP, TCP, PING, MPING, TCPPING, MERGE3, FD_SOCK2, NAKACK2, UNICAST3, STABLE, GMS),
        *(MFC, UFC, FRAG2, STATE_TRANSFER, RELAY, SEAL),
        *(FILE_PING, JDBC_PING2, DNS_PING, KUBE_PING, TCPGOSSIP, GossipRouter, ASYM_ENCRYPT),
    )
}
LIMITS: dict[str, Any] = {
    "channel": ChannelLimits,
    "RPC": RpcLimits,
    "maps": ReplicaSettings,
    "maps over TCP": TcpSettings,
    "live and backup": LiveBackupSettings,
    "bucket store": InstanceSettings,
    "bucket doors": DoorLimits,
    "export port": ExportLimits,
    "HTTP": HttpLimits,
    "items": ItemLimits,
    "memcached": TextLimits,
    "memcached pipeline": PipelineLimits,
}
NO_LIMIT = {"max_interval", "max_bundling_time", "max_block_time", "max_providers"}
"""Intervals, and numbers of retries that use no memory."""


def table() -> list[tuple[str, str, str, str]]:
    """Protocol, attribute, default, counter."""
    rows = []
    text = (ROOT / "design" / "limits.md").read_text(encoding="utf-8")
    for line in text.partition("## All limits")[2].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and cells[1].startswith("`"):
            for name in cells[0].split(", "):
                rows.append((name, cells[1].strip("`"), cells[2], cells[4]))
    return rows


@cache
def sources() -> str:
    return "".join(
        file.read_text(encoding="utf-8")
        for folder in ("protocols", "jgroups_py")
        for file in (ROOT / folder).rglob("*.py")
    )


@pytest.mark.parametrize(("name", "attribute", "default", "counter"), table())
def test_defaults_and_counters_are_real(
    name: str, attribute: str, default: str, counter: str
) -> None:
    owner = LIMITS[name] if name in LIMITS else PROTOCOLS[name].Config
    fields: dict[str, Any] = {field.name: field.default for field in dataclasses.fields(owner)}
    assert float(fields[attribute]) == float(default)
    source = sources()
    for one in counter.split(", "):
        if one.startswith("`"):
            assert one.strip("`").removeprefix("turned_away_") in source


def test_every_limit_of_an_export_port_is_in_the_table() -> None:
    told = {attribute for owner, attribute, _, _ in table() if owner == "export port"}
    assert told == {field.name for field in dataclasses.fields(ExportLimits)}


@pytest.mark.parametrize("name", PROTOCOLS)
def test_every_limit_is_in_the_table(name: str) -> None:
    told = {attribute for owner, attribute, _, _ in table() if owner == name}
    named = {
        field.name
        for field in dataclasses.fields(PROTOCOLS[name].Config)
        if field.name.startswith("max_") and field.name not in NO_LIMIT
    }
    assert named - told == set()
