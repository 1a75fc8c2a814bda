"""Cluster files: hosts and maps in YAML, as Chronicle Map Enterprise writes them (K21).

    !MapReplicationCfg {
      cluster: { host1: { hostId: 1, connectUri: "127.0.0.1:8076" }, host2: { hostId: 2, connectUri: "127.0.0.1:8077" } },
      maps: { fx: { keyClass: !type String, valueClass: !type Quote, mapFileDataDirectory: data/$hostId/ } },
    }

Block style is fine, too, and the tags may be left out. Nothing is built from tags: ``!type`` is a text.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from jgroups_py.errors import ConfigError
from jgroups_py.maps.file_settings import DURABILITIES
from jgroups_py.maps.rules import RULES
from jgroups_py.maps.stamp import WIDE_IDENTIFIER_MAX
from jgroups_py.units import parse_bytes, parse_seconds

FILE_MAX: Final = 1024 * 1024
"""Bytes of a cluster file."""
DEPTH_MAX: Final = 16
NAMES_MAX: Final = 1000
"""Maps of a file."""


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
    """Of ``open_map``."""
    replication: Mapping[str, Any] = field(default_factory=dict)
    """Of ``Replication``."""
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
    """Read a cluster file. ConfigError: it cannot be read, or has an error, with line, key and value."""
    try:
        with open(file, "rb") as opened:
            data = opened.read(FILE_MAX + 1)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=str(file)) from None
    if len(data) > FILE_MAX:
        raise ConfigError(f"it has more than {FILE_MAX} bytes", file=str(file))
    return parse_cluster(data, str(file))


def parse_cluster(text: str | bytes, source: str = "<text>") -> ClusterConfig:
    """Read a cluster file from a text. Errors as ``load_cluster``."""
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
                raise _error(source, event, "anchors and aliases are not accepted")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise ConfigError(
            f"not YAML: {error.problem}",
            file=source,
            line=mark.line + 1 if mark else None,
            column=mark.column + 1 if mark else None,
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"not YAML: {error}", file=source) from None
    if root is None:
        raise ConfigError("it is empty: cluster and maps are wanted", file=source)
    return _Reader(source).cluster(root)


class _Reader:
    def __init__(self, source: str) -> None:
        self._source = source

    def cluster(self, root: yaml.Node) -> ClusterConfig:
        if root.tag not in ("!MapReplicationCfg", "tag:yaml.org,2002:map"):
            raise self._wrong(root, f"the tag {root.tag} is not known (!MapReplicationCfg)")
        parts = self._mapping(root, "the file", ("cluster", "maps"))
        for name in ("cluster", "maps"):
            if name not in parts:
                raise self._wrong(root, f"{name} is missing")
        hosts: dict[int, HostConfig] = {}
        for name, node in self._mapping(parts["cluster"], "cluster").items():
            host = self._host(name, node)
            if host.host_id in hosts:
                raise self._wrong(
                    node,
                    f"cluster.{name}.hostId: {host.host_id} is that of {hosts[host.host_id].name}, too (each host needs another one)",
                )
            hosts[host.host_id] = host
        if not hosts:
            raise self._wrong(parts["cluster"], "cluster: at least one host is wanted")
        maps = {
            name: self._map(name, node)
            for name, node in self._mapping(parts["maps"], "maps").items()
        }
        if not 0 < len(maps) <= NAMES_MAX:
            raise self._wrong(
                parts["maps"], f"maps: 1 to {NAMES_MAX} maps are possible, got {len(maps)}"
            )
        return ClusterConfig(hosts=hosts, maps=maps, source=self._source)

    def _host(self, name: str, node: yaml.Node) -> HostConfig:
        where = f"cluster.{name}"
        parts = self._mapping(node, where, ("hostId", "connectUri"))
        for key in ("hostId", "connectUri"):
            if key not in parts:
                raise self._wrong(node, f"{where}.{key} is missing")
        return HostConfig(
            name=name,
            host_id=self._number(
                parts["hostId"], f"{where}.hostId", least=1, most=WIDE_IDENTIFIER_MAX
            ),
            connect_uri=self._text(parts["connectUri"], f"{where}.connectUri"),
            line=node.start_mark.line + 1,
        )

    def _map(self, name: str, node: yaml.Node) -> MapConfig:
        where = f"maps.{name}"
        parts = self._mapping(node, where, (*_FIELDS, *_OPTIONS, *_REPLICATION))
        found: dict[str, Any] = {}
        options: dict[str, Any] = {}
        replication: dict[str, Any] = {}
        for key, value in parts.items():
            place = f"{where}.{key}"
            if key in _FIELDS:
                to, kind = _FIELDS[key]
                found[to] = self._value(value, place, kind)
            elif key in _OPTIONS:
                to, read = _OPTIONS[key]
                options[to] = self._read(value, place, read)
            else:
                to, read = _REPLICATION[key]
                replication[to] = self._read(value, place, read)
        return MapConfig(
            name=name,
            options=options,
            replication=replication,
            line=node.start_mark.line + 1,
            **found,
        )

    # --- nodes

    def _mapping(
        self, node: yaml.Node, where: str, known: tuple[str, ...] = ()
    ) -> dict[str, yaml.Node]:
        if not isinstance(node, yaml.MappingNode):
            raise self._wrong(node, f"{where} must have keys and values, got {_shown(node)}")
        found: dict[str, yaml.Node] = {}
        for key, value in node.value:
            name = self._text(key, f"a key of {where}")
            if name in found:
                raise self._wrong(key, f"{where}: {name} is given twice")
            if known and name not in known:
                raise self._wrong(key, f"{where}: {name} is not known ({', '.join(sorted(known))})")
            found[name] = value
        return found

    def _text(self, node: yaml.Node, where: str) -> str:
        if not isinstance(node, yaml.ScalarNode) or not node.value:
            raise self._wrong(node, f"{where} must be a text, got {_shown(node)}")
        return str(node.value)

    def _number(self, node: yaml.Node, where: str, least: int, most: int) -> int:
        text = self._text(node, where)
        if not text.isascii() or not text.isdigit() or not least <= int(text[:20]) <= most:
            raise self._wrong(node, f"{where} must be a number from {least} to {most}, got {text}")
        return int(text)

    def _value(self, node: yaml.Node, where: str, kind: str) -> Any:
        if kind == "number":
            return self._number(node, where, 0, 10**15)
        text = self._text(node, where)
        if kind == "type":
            if node.tag not in ("!type", "tag:yaml.org,2002:str"):
                raise self._wrong(node, f"{where}: the tag {node.tag} is not known (!type)")
            return text
        if kind == "flag":
            if text.lower() not in ("true", "false"):
                raise self._wrong(node, f"{where} must be true or false, got {text}")
            return text.lower() == "true"
        return text

    def _read(self, node: yaml.Node, where: str, read: Callable[[str], Any]) -> Any:
        text = self._text(node, where)
        try:
            return read(text)
        except ValueError as error:
            raise self._wrong(node, f"{where}: {error}") from None

    def _wrong(self, node: yaml.Node, problem: str) -> ConfigError:
        return _error(self._source, node, problem)


def _error(source: str, node: Any, problem: str) -> ConfigError:
    mark = node.start_mark
    return ConfigError(problem, file=source, line=mark.line + 1, column=mark.column + 1)


def _shown(node: yaml.Node) -> str:
    if isinstance(node, yaml.ScalarNode):
        return f'"{node.value[:40]}"' if node.value else "nothing"
    return "a list" if isinstance(node, yaml.SequenceNode) else "keys and values"


def _one_of(names: tuple[str, ...]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in names:
            raise ValueError(f"must be one of {', '.join(names)}, got {text}")
        return text

    return read


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
}
"""Keys of our own. Times are as in a stack file: 10ms, 5s; a bare number is milliseconds."""
