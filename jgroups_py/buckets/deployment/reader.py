"""Reads deployment files.

    name: seats
    buckets: 9
    application: shop.seats:PLUGIN      # the plug-in, module:name
    stack: udp.xml
    set: {FD_ALL3.timeout: 3s}          # attributes of the stack
    separate: causes                    # nodes: both copies may fail by one cause, but never by one node
    settings: {lease: 2s, queue_max: 1000}
    nodes:
      n1: {fails_with: rack-a, buckets: 6, masters: 5}
      n2: {fails_with: [rack-b, power-2], buckets: 6, masters: 5}
      n3: {fails_with: rack-c, buckets: 6, masters: 5, components: {managers: 2, indices: 1, routers: 1, proxies: 1}}
    placement:                          # only for buckets that must begin somewhere
      0: [n1, n2]                       # master, slave

A node without ``components`` has one of each; with it, it has only the listed ones. Without ``buckets`` a node holds
any number; without ``masters`` all its copies may be masters.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable
from typing import Any, Final

import yaml

from jgroups_py.buckets.deployment.distribution import check_pinned
from jgroups_py.buckets.deployment.model import COMPONENTS_MAX, NODES_MAX, DeployedNode, Deployment
from jgroups_py.buckets.deployment.rules import check
from jgroups_py.buckets.digest import BUCKETS_MAX
from jgroups_py.buckets.settings import InstanceSettings
from jgroups_py.config.markup import MarkupSource
from jgroups_py.config.yaml_reader import YamlReader, read_bounded
from jgroups_py.errors import ConfigError
from jgroups_py.units import SIZE_FORM, parse_bytes, parse_seconds
from jgroups_py.values.address import is_numeric_host

FILE_MAX: Final = 4 * 1024 * 1024
"""The most bytes of a deployment file. 65,536 pinned buckets have about 1.5 MB."""
NAME_MAX: Final = 100
"""The most characters of the name of an instance, a node or a cause."""
CAUSES_MAX: Final = 10
"""The most causes of failure of a node."""
SETTING_MAX: Final = 2**31 - 1

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_APPLICATION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", re.ASCII)
_TIME_FORM: Final = "a time with its unit, such as 500ms, 2s"
_KINDS: Final = ("managers", "indices", "routers", "proxies")
_KEYS: Final = (
    "name", "buckets", "application", "stack", "set", "separate", "settings", "nodes", "placement",
)  # fmt: skip
_NODE_KEYS: Final = ("fails_with", "buckets", "masters", "components", "address")


def load_deployment(file: str | os.PathLike[str]) -> Deployment:
    """Read and check a deployment file. ConfigError: the file cannot be read, or has a mistake (with file, line, key
    and value)."""
    return _read(read_bounded(file, FILE_MAX))


def parse_deployment(text: str | bytes, source: str = "<deployment>") -> Deployment:
    """Parse a text as ``load_deployment`` does a file."""
    content = text.encode() if isinstance(text, str) else text
    return _read(MarkupSource(source, content, None))


def _read(source: MarkupSource) -> Deployment:
    deployment = _DeploymentReader(source).deployment()
    check(deployment)
    check_pinned(deployment)
    return deployment


class _DeploymentReader(YamlReader):
    def deployment(self) -> Deployment:
        root = self.root()
        top = self.keys(root, "", _KEYS)
        self.need(root, "", top, "name", "buckets", "nodes")
        buckets = self.number(top["buckets"], "buckets", 1, BUCKETS_MAX)
        nodes = tuple(
            self._node(name, node, buckets)
            for name, node in self.keys(top["nodes"], "nodes").items()
        )
        if not 1 <= len(nodes) <= NODES_MAX:
            raise self.wrong(
                top["nodes"], "nodes", f"1 to {NODES_MAX} nodes are possible, not {len(nodes)}"
            )
        indices = tuple(name for node in nodes for name in node.components("i"))
        separate = "causes"
        if "separate" in top:
            separate = self.one_of(top["separate"], "separate", ("causes", "nodes"))
        return Deployment(
            name=self._name(top["name"], "name"),
            buckets=buckets,
            nodes=nodes,
            settings=self._settings(top.get("settings"), buckets, indices),
            separate=separate,  # type: ignore[arg-type]
            stack=self.text(top["stack"], "stack") if "stack" in top else "udp.xml",
            application=self.value(top["application"], "application", _application)
            if "application" in top
            else "",
            pinned=self._placement(top.get("placement"), buckets, [node.name for node in nodes]),
            attributes={
                name: self.text(value, f"set.{name}")
                for name, value in self.keys(top["set"], "set").items()
            }
            if "set" in top
            else {},
            source=self.source.name,
            places=self.places,
        )

    def _name(self, node: yaml.Node, where: str) -> str:
        text = self.text(node, where)
        if not _NAME.fullmatch(text) or len(text) > NAME_MAX:
            raise self.wrong(
                node,
                where,
                f"{text[:80]!r} is no name (letters, digits, _ - ., at most {NAME_MAX})",
            )
        return text

    def _node(self, name: str, node: yaml.Node, buckets: int) -> DeployedNode:
        where = f"nodes.{name}"
        if not _NAME.fullmatch(name) or len(name) > NAME_MAX:
            raise self.wrong(
                node,
                where,
                f"{name[:80]!r} is no name (letters, digits, _ - ., at most {NAME_MAX})",
            )
        if isinstance(node, yaml.ScalarNode) and not node.value:
            return DeployedNode(name=name, buckets=buckets, masters=buckets)
        found = self.keys(node, where, _NODE_KEYS)
        holds = masters = buckets
        if "buckets" in found:
            holds = self.number(found["buckets"], f"{where}.buckets", 0, BUCKETS_MAX)
        if "masters" in found:
            masters = self.number(found["masters"], f"{where}.masters", 0, BUCKETS_MAX)
            if masters > holds and "buckets" in found:
                raise self.wrong(
                    found["masters"],
                    f"{where}.masters",
                    f"{masters} are more than all its copies ({where}.buckets: {holds})",
                )
        parts = {}
        if "components" in found:
            inner = f"{where}.components"
            given = self.keys(found["components"], inner, _KINDS)
            parts = {
                kind: self.number(given[kind], f"{inner}.{kind}", 0, COMPONENTS_MAX)
                if kind in given
                else 0
                for kind in _KINDS
            }
        return DeployedNode(
            name=name,
            causes=self._causes(found["fails_with"], f"{where}.fails_with")
            if "fails_with" in found
            else (),
            buckets=holds,
            masters=min(masters, holds),
            address=self.value(found["address"], f"{where}.address", _address)
            if "address" in found
            else "",
            **parts,
        )

    def _causes(self, node: yaml.Node, where: str) -> tuple[str, ...]:
        causes = tuple(self._name(item, where) for item in self.items(node, where))
        if len(set(causes)) < len(causes) or not 1 <= len(causes) <= CAUSES_MAX:
            raise self.wrong(
                node,
                where,
                f"1 to {CAUSES_MAX} different causes are possible, not {', '.join(causes) or 'none'}",
            )
        return causes

    def _settings(
        self, node: yaml.Node | None, buckets: int, indices: tuple[str, ...]
    ) -> InstanceSettings:
        given: dict[str, Any] = {}
        at: dict[str, yaml.Node] = {}
        if node is not None:
            at = self.keys(node, "settings", _SETTINGS)
            for name, value in at.items():
                given[name] = self.value(value, f"settings.{name}", _SETTINGS[name])
        try:
            # Whether there are index copies is one of the rules.
            return InstanceSettings(buckets=buckets, index_copies=indices or ("none",), **given)
        except ConfigError as error:
            name, _, problem = error.problem.partition(": ")
            if node is None or name not in at:
                raise
            raise self.wrong(at[name], f"settings.{name}", problem) from None

    def _placement(
        self, node: yaml.Node | None, buckets: int, names: list[str]
    ) -> dict[int, tuple[str, str]]:
        if node is None:
            return {}
        found: dict[int, tuple[str, str]] = {}
        for key, value in self.keys(node, "placement").items():
            where = f"placement.{key}"
            if not (key.isascii() and key.isdigit()) or len(key) > 6 or int(key) >= buckets:
                raise self.wrong(value, where, f"{key[:80]!r} is no bucket (0 to {buckets - 1})")
            if str(int(key)) != key:
                raise self.wrong(value, where, f"a bucket is written without zeros: {int(key)}")
            pair = [self.one_of(item, where, tuple(names)) for item in self.items(value, where)]
            if len(pair) != 2:
                raise self.wrong(
                    value, where, f"two nodes are wanted, [master, slave], not {len(pair)}"
                )
            found[int(key)] = (pair[0], pair[1])
        return found


def _application(text: str) -> str:
    if not _APPLICATION.fullmatch(text):
        raise ValueError(f"{text[:80]!r} is not module:name, such as shop.seats:PLUGIN")
    return text


def _address(text: str) -> str:
    if not is_numeric_host(text):
        raise ValueError(f"{text[:80]!r} is not an address, such as 10.0.0.1 or ::1")
    return text


def _time(text: str) -> float:
    if re.fullmatch(r"[0-9.]+", text):
        raise ValueError(f"{text!r} has no unit ({_TIME_FORM})")
    try:
        return parse_seconds(text)
    except ValueError:
        raise ValueError(f"{text[:80]!r} is not a time ({_TIME_FORM})") from None


def _size(text: str) -> int:
    try:
        return parse_bytes(text)
    except ValueError:
        raise ValueError(f"{text[:80]!r} is not a size ({SIZE_FORM})") from None


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 12 and int(text) <= SETTING_MAX):
        raise ValueError(f"{text[:80]!r} is not a whole number (0 to {SETTING_MAX})")
    return int(text)


def _reads() -> dict[str, Callable[[str], Any]]:
    reads: dict[str, Callable[[str], Any]] = {}
    for setting in dataclasses.fields(InstanceSettings):
        if setting.name in ("buckets", "index_copies"):
            continue
        reads[setting.name] = (
            _time if setting.type == "float" else _size if "_bytes" in setting.name else _count
        )
    return reads


_SETTINGS: Final = _reads()
"""The reader of a setting's text, by setting."""
