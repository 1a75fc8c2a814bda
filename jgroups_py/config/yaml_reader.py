"""YamlReader: walks a YAML document. Every mistake is a ConfigError with file, line, column, key and value."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, TypeVar

import yaml

from jgroups_py.config.markup import MarkupSource
from jgroups_py.config.markup_yaml import MarkupLoader, compose_yaml
from jgroups_py.config.model import nearest
from jgroups_py.errors import ConfigError

T = TypeVar("T")
KEY_SHOWN: Final = 200
"""The most characters of a key. Longer ones, and those that are not printable, are refused."""
Place = tuple[int, int]
"""Line and column, from 1."""


def read_bounded(path: str | os.PathLike[str], bytes_max: int) -> MarkupSource:
    """Return the content of a file. ConfigError: the file cannot be read, or has more bytes than ``bytes_max``."""
    name = os.fspath(path)
    try:
        with open(name, "rb") as file:
            content = file.read(bytes_max + 1)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=name) from None
    if len(content) > bytes_max:
        raise ConfigError(f"it has more than {bytes_max} bytes", file=name)
    return MarkupSource(name, content, Path(name).parent)


class YamlReader:
    """``where``: the key as people write it, ``nodes.n1.buckets``. ``places`` remembers where each key stands.

    Nothing is built from tags, and no text becomes a number by itself: ``on``, ``1e3`` and ``0777`` stay as they are
    written.
    """

    language = MarkupLoader

    def __init__(self, source: MarkupSource) -> None:
        self.source = source
        self.places: dict[str, Place] = {}

    def root(self) -> yaml.Node:
        """Return the document. ConfigError: the text is no YAML, or empty."""
        root = compose_yaml(self.source, self.language)
        if root is None:
            raise ConfigError("the file is empty", file=self.source.name)
        return root

    def wrong(self, at: yaml.Node, where: str, problem: str) -> ConfigError:
        line, column = place_of(at)
        return ConfigError(
            problem, file=self.source.name, line=line, column=column, where=where or None
        )

    def keys(
        self, node: yaml.Node, where: str, known: Iterable[str] | None = None
    ) -> dict[str, yaml.Node]:
        """Return the values by key. ``known``: the keys that are accepted; None: any."""
        return {name: value for name, (_, value) in self.entries(node, where, known).items()}

    def entries(
        self, node: yaml.Node, where: str, known: Iterable[str] | None = None
    ) -> dict[str, tuple[yaml.Node, yaml.Node]]:
        """Return the same as ``keys``, with the node of the key before that of the value."""
        if not isinstance(node, yaml.MappingNode):
            raise self.wrong(node, where, f"keys and values are wanted, not {shown(node)}")
        found: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        for key, value in node.value:
            name = self.text(key, where)
            if not name.isprintable() or len(name) > KEY_SHOWN:
                raise self.wrong(key, where, f"{name[:KEY_SHOWN]!a} is no key")
            inner = f"{where}.{name}" if where else name
            if known is not None and name not in known:
                accepted = tuple(known)
                raise self.wrong(
                    key,
                    inner,
                    f"no such key{nearest(name, accepted)} (known: {', '.join(accepted)})",
                )
            if name in found:
                first = self.places[inner][0]
                raise self.wrong(key, inner, f"the key stands twice, first in line {first}")
            found[name] = key, value
            self.places[inner] = place_of(key)
        return found

    def need(self, node: yaml.Node, where: str, found: Iterable[str], *names: str) -> None:
        """Check the keys that were ``found``. ConfigError: one of ``names`` is not among them."""
        for name in names:
            if name not in found:
                inner = f"{where}.{name}" if where else name
                raise self.wrong(node, inner, "the key is missing")

    def items(self, node: yaml.Node, where: str) -> list[yaml.Node]:
        """Return the values of a list; one value is a list of one."""
        if isinstance(node, yaml.SequenceNode):
            return list(node.value)
        if isinstance(node, yaml.ScalarNode):
            return [node]
        raise self.wrong(node, where, f"a list is wanted, not {shown(node)}")

    def text(self, node: yaml.Node, where: str) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise self.wrong(node, where, f"one value is wanted, not {shown(node)}")
        text = str(node.value).strip()
        if not text:
            raise self.wrong(node, where, "a value is missing")
        return text

    def value(self, node: yaml.Node, where: str, read: Callable[[str], T]) -> T:
        """Return ``read(text)``. Its ValueError says what is wrong and what would be accepted."""
        text = self.text(node, where)
        try:
            return read(text)
        except ValueError as error:
            raise self.wrong(node, where, str(error)) from None

    def number(self, node: yaml.Node, where: str, least: int, most: int) -> int:
        """Return a whole number in this range."""

        def read(text: str) -> int:
            if not (text.isascii() and text.isdigit() and len(text) < 20):
                raise ValueError(f"{text!r} is not a whole number ({least} to {most})")
            if not least <= int(text) <= most:
                raise ValueError(f"{text} is not possible ({least} to {most})")
            return int(text)

        return self.value(node, where, read)

    def one_of(self, node: yaml.Node, where: str, choices: tuple[str, ...]) -> str:
        text = self.text(node, where)
        if text not in choices:
            raise self.wrong(
                node, where, f"{text!r}{nearest(text, choices)} is not one of {', '.join(choices)}"
            )
        return text


def place_of(node: yaml.Node) -> Place:
    return node.start_mark.line + 1, node.start_mark.column + 1


def shown(node: yaml.Node) -> str:
    """Return a node for an error's text."""
    if isinstance(node, yaml.MappingNode):
        return "keys and values"
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    return repr(str(node.value)[:80]) if node.value else "nothing"
