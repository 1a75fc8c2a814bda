"""Cluster files: hosts and maps in YAML, as Chronicle Map Enterprise writes them (K21).

    !MapReplicationCfg {
      cluster: { host1: { hostId: 1, connectUri: "127.0.0.1:8076" }, host2: { hostId: 2, connectUri: "127.0.0.1:8077" } },
      maps: { fx: { keyClass: !type String, valueClass: !type Quote, mapFileDataDirectory: data/$hostId/ } },
    }

Block style is fine, too, and the tags may be left out. No objects are built from tags: ``!type`` is a text.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from jgroups_py.config.markup import MarkupSource
from jgroups_py.config.yaml_reader import YamlReader, read_bounded
from jgroups_py.maps.file_settings import DURABILITIES
from jgroups_py.maps.rules import RULES
from jgroups_py.maps.stamp import WIDE_IDENTIFIER_MAX
from jgroups_py.units import parse_bytes, parse_seconds

FILE_MAX: Final = 1024 * 1024
"""The most bytes of a cluster file."""
NAMES_MAX: Final = 1000
"""The most maps of a file."""
NUMBER_MAX: Final = 10**15
"""The largest number of entries, and of bytes of a key or value."""
_UNTAGGED: Final = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:str")
"""Tags of nodes that have none in the file."""


@dataclass(frozen=True, kw_only=True)
class HostConfig:
    name: str
    host_id: int
    connect_uri: str
    """HOST:PORT, or a name that ``open_cluster(addresses=...)`` maps to one."""
    line: int = 0


@dataclass(frozen=True, kw_only=True)
class MapConfig:
    """The settings of one map. ``entries`` and the average sizes have no effect: the file grows as needed."""

    name: str
    key_class: str = "String"
    value_class: str = ""
    """Empty: JSON."""
    data_directory: str = "data/$hostId/"
    log_directory: str = ""
    replication_logging: bool = False
    """All outgoing events are written for an audit (K23)."""
    entries: int = 0
    average_key_size: int = 0
    average_value_size: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of ``open_map``."""
    replication: Mapping[str, Any] = field(default_factory=dict)
    """Settings of ``Replication``."""
    line: int = 0

    def folder(self, host_id: int, base: Path) -> Path:
        """Return the folder of this map's file."""
        return base / self.data_directory.replace("$hostId", str(host_id)) / self.name

    def log_folder(self, host_id: int, base: Path) -> Path | None:
        """Return the folder of audit files. None: there is no audit."""
        if not self.replication_logging:
            return None
        directory = self.log_directory or "logs/$hostId"
        return base / directory.replace("$hostId", str(host_id)) / self.name


@dataclass(frozen=True, kw_only=True)
class ClusterConfig:
    hosts: Mapping[int, HostConfig]
    maps: Mapping[str, MapConfig]
    source: str
    """The file, for errors."""


def load_cluster(file: str | os.PathLike[str]) -> ClusterConfig:
    """Read a cluster file. ConfigError: the file cannot be read, or has an error, with line, key and value."""
    return _ClusterReader(read_bounded(file, FILE_MAX)).cluster()


def parse_cluster(text: str | bytes, source: str = "<text>") -> ClusterConfig:
    """Read a cluster file from a text. Errors as ``load_cluster``."""
    content = text.encode() if isinstance(text, str) else text
    return _ClusterReader(MarkupSource(source, content, None)).cluster()


class _ClusterReader(YamlReader):
    def cluster(self) -> ClusterConfig:
        root = self.root()
        if root.tag not in ("!MapReplicationCfg", *_UNTAGGED):
            raise self.wrong(root, "", f"the tag {root.tag} is not known (!MapReplicationCfg)")
        parts = self.keys(root, "", ("cluster", "maps"))
        self.need(root, "", parts, "cluster", "maps")
        hosts: dict[int, HostConfig] = {}
        for name, node in self.keys(parts["cluster"], "cluster").items():
            host = self._host(name, node)
            if host.host_id in hosts:
                raise self.wrong(
                    node,
                    f"cluster.{name}.hostId",
                    f"{host.host_id} is that of {hosts[host.host_id].name}, too (each host needs another one)",
                )
            hosts[host.host_id] = host
        if not hosts:
            raise self.wrong(parts["cluster"], "cluster", "at least one host is wanted")
        maps = {
            name: self._map(name, node) for name, node in self.keys(parts["maps"], "maps").items()
        }
        if not 0 < len(maps) <= NAMES_MAX:
            raise self.wrong(
                parts["maps"], "maps", f"1 to {NAMES_MAX} maps are possible, not {len(maps)}"
            )
        return ClusterConfig(hosts=hosts, maps=maps, source=self.source.name)

    def _host(self, name: str, node: yaml.Node) -> HostConfig:
        where = f"cluster.{name}"
        parts = self.keys(node, where, ("hostId", "connectUri"))
        self.need(node, where, parts, "hostId", "connectUri")
        return HostConfig(
            name=name,
            host_id=self.number(parts["hostId"], f"{where}.hostId", 1, WIDE_IDENTIFIER_MAX),
            connect_uri=self.text(parts["connectUri"], f"{where}.connectUri"),
            line=node.start_mark.line + 1,
        )

    def _map(self, name: str, node: yaml.Node) -> MapConfig:
        where = f"maps.{name}"
        parts = self.keys(node, where, (*_FIELDS, *_OPTIONS, *_REPLICATION))
        found: dict[str, Any] = {}
        options: dict[str, Any] = {}
        replication: dict[str, Any] = {}
        for key, value in parts.items():
            place = f"{where}.{key}"
            if key in _FIELDS:
                to, kind = _FIELDS[key]
                found[to] = self._field(value, place, kind)
            elif key in _OPTIONS:
                to, read = _OPTIONS[key]
                options[to] = self.value(value, place, read)
            else:
                to, read = _REPLICATION[key]
                replication[to] = self.value(value, place, read)
        return MapConfig(
            name=name,
            options=options,
            replication=replication,
            line=node.start_mark.line + 1,
            **found,
        )

    def _field(self, node: yaml.Node, where: str, kind: str) -> Any:
        if kind == "number":
            return self.number(node, where, 0, NUMBER_MAX)
        if kind == "flag":
            return self.value(node, where, _flag)
        text = self.text(node, where)
        if kind == "type" and node.tag not in ("!type", *_UNTAGGED):
            raise self.wrong(node, where, f"the tag {node.tag} is not known (!type)")
        return text


def _one_of(names: tuple[str, ...]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in names:
            raise ValueError(f"must be one of {', '.join(names)}, got {text}")
        return text

    return read


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"must be true or false, got {text}")
    return text.lower() == "true"


def _rule(text: str) -> Any:
    return RULES[_one_of(tuple(RULES))(text)]()


_FIELDS: Final = {
    "keyClass": ("key_class", "type"),
    "valueClass": ("value_class", "type"),
    "entries": ("entries", "number"),
    "averageKeySize": ("average_key_size", "number"),
    "averageValueSize": ("average_value_size", "number"),
    "mapFileDataDirectory": ("data_directory", "text"),
    "mapLogDirectory": ("log_directory", "text"),
    "enableReplicationLogging": ("replication_logging", "flag"),
}
_OPTIONS: Final[dict[str, tuple[str, Callable[[str], Any]]]] = {
    "rule": ("rule", _rule),
    "durability": ("durability", _one_of(DURABILITIES)),
    "timeToLive": ("ttl", parse_seconds),
    "maxBytes": ("max_bytes", parse_bytes),
    "inboxBytes": ("inbox_bytes", parse_bytes),
    "lockTimeout": ("lock_timeout", parse_seconds),
    "syncInterval": ("sync_interval", parse_seconds),
}
_REPLICATION: Final[dict[str, tuple[str, Callable[[str], Any]]]] = {
    "flushInterval": ("flush_interval", parse_seconds),
    "maxBandwidth": ("max_bandwidth", parse_bytes),
    "tombstoneMinAge": ("tombstone_min_age", parse_seconds),
    "tombstoneAge": ("tombstone_age", parse_seconds),
    "maxSkew": ("max_skew", parse_seconds),
    "maxAhead": ("max_ahead", parse_seconds),
}
"""Keys of our own. Times are as in a stack file: 10ms, 5s; a bare number is milliseconds."""
