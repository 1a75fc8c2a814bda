"""Reads stack files in XML and YAML into one model (model.py). Every value keeps its place.

``${name:default}`` is replaced in attribute values. ``${a,b:default}`` takes the first name that is set, in the given
properties or in the environment (the name itself, then upper-case with ``_``). If no name is set and there is no
default, the value is empty, and an empty attribute counts as not given. It is noted as ``ProtocolConfig.unset``, and no
channel is opened with it (services.py).

``<include file="..." attribute="...">`` puts the protocols of another file in its place. The file is looked for beside
the including one, then among the shipped stacks. Attributes override those of the included protocol; then there must
be exactly one.

XML must be well-formed and without DOCTYPE (no entities, no external files). YAML: a list of
protocols, or a mapping with that list under ``protocols``; scalars stay text.

Source:  JGroups' manual, "Protocol stack configuration"; XmlConfigurator.
Differs: overrides of an include apply to the included protocol only (JGroups: to all before it);
         includes nest; comments inside tags are refused as XML demands.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Final

from jgroups_py.config.markup import MarkupNode, MarkupSource, parse_xml
from jgroups_py.config.model import (
    Attribute,
    Element,
    ProtocolConfig,
    StackConfig,
    canonical,
    nearest,
    with_attributes,
)
from jgroups_py.errors import ConfigError

MAX_FILE_BYTES: Final = 1 << 20  # the largest known stack file has 2 KB
MAX_INCLUDES: Final = 100  # two includes in each file double them with each level

_VARIABLE = re.compile(r"\$\{([^{}]*)\}")


def load_stack(
    path_or_name: str | os.PathLike[str],
    properties: Mapping[str, str] | None = None,
    overrides: Mapping[str, str | int | bool] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    compat: str | None = None,
    beside: str | os.PathLike[str] | None = None,
) -> StackConfig:
    """Read a stack file, or a shipped stack by its name (``udp.xml``, also ``udp``).

    Args:
        properties: values for ``${name}``; they come before the environment.
        overrides: ``{"PROTOCOL.attribute": text}``, set after reading.
        environment: the default is the process' own.
        compat: ``"jgroups-5"`` reads ``kib mib gib`` as JGroups 5 does (powers of 1000).
        beside: a directory to look in first (a drill file's, an including stack's).

    Raises:
        ConfigError: the file was not found, cannot be read, or is not a stack. It has file, line and column.
    """
    if compat not in (None, "jgroups-5"):
        raise ConfigError(f'compat "{compat}" is not known ("jgroups-5" is)')
    if not isinstance(path_or_name, str | os.PathLike):
        kind = type(path_or_name).__name__
        raise ConfigError(
            f"a stack is the path of a file or the name of a shipped stack, not a {kind}; "
            "a protocol of your own stands in the file, by its import path"
        )
    reader = _StackReader(
        dict(properties or {}), os.environ if environment is None else environment, compat
    )
    directory = Path(beside) if beside is not None else Path()
    source = _find(os.fspath(path_or_name), directory)
    stack = StackConfig(tuple(reader.protocols(source, ())), source.name, compat)
    if not stack.protocols:
        raise ConfigError("the stack has no protocols", file=source.name)
    return with_attributes(stack, overrides) if overrides else stack


def parse_stack(
    text: str | bytes,
    *,
    language: str,
    source: str = "<text>",
    properties: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    compat: str | None = None,
) -> StackConfig:
    """Read a stack from a text; ``language`` is ``"xml"`` or ``"yaml"``. Errors as load_stack."""
    reader = _StackReader(
        dict(properties or {}), os.environ if environment is None else environment, compat
    )
    content = text.encode() if isinstance(text, str) else text
    found = MarkupSource(source, content, Path())
    return StackConfig(tuple(reader.protocols(found, (), language)), source, compat)


def shipped_stacks() -> tuple[str, ...]:
    """Return the sorted names of the stack files that come with the package."""
    names = (entry.name for entry in resources.files("jgroups_py.stacks").iterdir())
    return tuple(sorted(name for name in names if name.endswith((".xml", ".yaml"))))


def substitute(
    text: str,
    properties: Mapping[str, str],
    environment: Mapping[str, str],
    unset: list[str] | None = None,
) -> str:
    """Replace every ``${name,other:default}``. Raise ValueError when a ``${`` is not closed.

    A variable that is neither set nor has a default becomes nothing, and is appended to ``unset``."""

    def value(match: re.Match[str]) -> str:
        names, colon, default = match[1].partition(":")
        for name in (part.strip() for part in names.split(",")):
            shout = re.sub(r"[^A-Za-z0-9]", "_", name).upper()
            for table, key in ((properties, name), (environment, name), (environment, shout)):
                if key in table:
                    return table[key]
        if not colon and unset is not None:
            unset.append(match[0])
        return default

    replaced = _VARIABLE.sub(value, text)
    if "${" in _VARIABLE.sub("", text):
        raise ValueError(f'"${{" without its "}}" in "{text}"')
    return replaced


class _StackReader:
    """Resolves variables and includes of one load."""

    def __init__(
        self, properties: Mapping[str, str], environment: Mapping[str, str], compat: str | None
    ) -> None:
        self._properties = properties
        self._environment = environment
        self._compat = compat
        self._includes = 0

    def protocols(
        self, source: MarkupSource, including: tuple[str, ...], language: str | None = None
    ) -> list[ProtocolConfig]:
        identity = _identity(source)
        if language is None:
            language = "yaml" if source.name.endswith((".yaml", ".yml")) else "xml"
        parse = _parse_yaml if language == "yaml" else parse_xml
        root = parse(source)
        if root.name == "config":
            nodes = root.children
        elif including:
            nodes = [root]  # an included file may be one protocol without <config>
        else:
            raise ConfigError(
                f"not a stack file: its root is <{root.name}>, not <config>",
                file=source.name,
                line=root.line,
                column=root.column,
            )
        result: list[ProtocolConfig] = []
        for node in nodes:
            if node.name == "include":
                result.extend(self._include(node, source, (*including, identity)))
            else:
                result.append(self._protocol(node, source))
        return result

    def _include(
        self, node: MarkupNode, source: MarkupSource, including: tuple[str, ...]
    ) -> list[ProtocolConfig]:
        unset: list[Attribute] = []
        attributes = self._attributes(node, source, unset)
        for attribute in unset:
            if attribute.key == "file":
                problem = f'"{attribute.text}" has a variable that is not set and has no default'
                raise _error(problem, source, attribute, "include")
        files = [attribute for attribute in attributes if attribute.key == "file"]
        if not files or node.children:
            raise _error("include needs file=, and nothing inside it", source, node)
        self._includes += 1
        if self._includes > MAX_INCLUDES:
            raise _error(f"more than {MAX_INCLUDES} includes", source, node)
        try:
            found = _find(files[0].text, source.directory)
        except ConfigError as error:
            raise _error(error.problem, source, files[0], "include") from None
        identity = _identity(found)
        if identity in including:
            chain = " -> ".join((*including[including.index(identity) :], identity))
            raise _error(f"files include each other: {chain}", source, files[0], "include")
        included = self.protocols(found, including)
        overriding = [attribute for attribute in attributes if attribute.key != "file"]
        if overriding and len(included) != 1:
            raise _error(
                f"overrides {overriding[0].key}, but {files[0].text} has {len(included)} protocols"
                " and it must have exactly one",
                source,
                overriding[0],
                "include",
            )
        for attribute in overriding:
            included = [included[0].with_attribute(attribute)]
        if unset and len(included) == 1:
            included = [replace(included[0], unset=(*included[0].unset, *unset))]
        return included

    def _protocol(self, node: MarkupNode, source: MarkupSource) -> ProtocolConfig:
        unset: list[Attribute] = []
        given = self._attributes(node, source, unset)
        keys = {attribute.key for attribute in given}
        return ProtocolConfig(
            canonical(node.name),
            tuple(given),
            tuple(self._element(child, source, unset) for child in node.children),
            source.name,
            node.line,
            node.column,
            node.name,
            tuple(attribute for attribute in node.attributes if attribute.key not in keys),
            tuple(unset),
        )

    def _element(self, node: MarkupNode, source: MarkupSource, unset: list[Attribute]) -> Element:
        return Element(
            node.name,
            tuple(self._attributes(node, source, unset)),
            tuple(self._element(child, source, unset) for child in node.children),
            node.line,
            node.column,
        )

    def _attributes(
        self, node: MarkupNode, source: MarkupSource, unset: list[Attribute]
    ) -> list[Attribute]:
        """Return the attributes that have a text. ``unset`` gets those with a variable that has no value."""
        result = []
        for attribute in node.attributes:
            lacking: list[str] = []
            try:
                text = substitute(attribute.text, self._properties, self._environment, lacking)
            except ValueError as error:
                raise _error(str(error), source, attribute, node.name) from None
            if text:
                result.append(replace(attribute, text=text))
            if lacking:
                unset.append(attribute)
        return result


def _identity(source: MarkupSource) -> str:
    """Return the key that tells one file from another in a chain of includes."""
    return str(source.directory / Path(source.name).name) if source.directory else source.name


def _error(
    problem: str, source: MarkupSource, at: MarkupNode | Attribute, where: str | None = None
) -> ConfigError:
    name = f"{where}.{at.key}" if where and isinstance(at, Attribute) else where
    return ConfigError(problem, file=source.name, line=at.line, column=at.column, where=name)


def _find(name: str, directory: Path | None) -> MarkupSource:
    """Return a file beside ``directory``, or a shipped stack of that name. Raise ConfigError if there is neither."""
    path = Path(name) if directory is None else directory / name
    if directory is not None or path.is_absolute():
        try:
            if path.is_file():
                if path.stat().st_size > MAX_FILE_BYTES:
                    raise ConfigError(f"larger than {MAX_FILE_BYTES} bytes", file=str(path))
                return MarkupSource(str(path), path.read_bytes(), path.parent)
        except OSError as error:
            raise ConfigError(f"cannot be read: {error.strerror}", file=str(path)) from None
    shipped = shipped_stacks()
    for candidate in (name, f"{name}.xml"):
        if candidate in shipped:
            file = resources.files("jgroups_py.stacks") / candidate
            return MarkupSource(candidate, file.read_bytes(), None)
    hint = nearest(name, shipped) or f" (shipped: {', '.join(shipped)})"
    beside = f"in {directory}" if directory is not None and directory.name else "here"
    raise ConfigError(f'no stack file "{name}" {beside} or among the shipped ones{hint}')


def _parse_yaml(source: MarkupSource) -> MarkupNode:
    # PyYAML takes more than a megabyte, and members whose stack is XML do without it.
    from jgroups_py.config.stack_yaml import parse_yaml

    return parse_yaml(source)
