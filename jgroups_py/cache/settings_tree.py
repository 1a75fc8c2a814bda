"""Cache files as trees of entries: the XML and the YAML form come out alike.

<attribute name="X"> ... </attribute>   and <X> ... </X>, and X: ...     an entry X
<region name="/a" maxNodes="9"/>                                         its attributes are entries
<attribute name="X"><config> ... </config></attribute>                   <config> adds nothing
<server><mbean ...> ... </mbean></server>, <mbean>, <cache>, cache:      the whole
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import yaml

from jgroups_py.config.markup import MAX_DEPTH, MarkupNode, MarkupSource, parse_xml
from jgroups_py.config.markup_yaml import compose_yaml
from jgroups_py.errors import ConfigError

_BESIDE = frozenset({"depends", "classpath"})  # settings of a JBoss server, not of a cache


@dataclass(frozen=True, slots=True)
class SettingEntry:
    """A name with a text, or with entries below it. ``text_line``: where the text begins."""

    name: str
    text: str
    entries: tuple[SettingEntry, ...]
    file: str
    line: int
    column: int
    text_line: int
    text_column: int

    def error(self, problem: str, *, within: str = "") -> ConfigError:
        """Return a ConfigError that names this place."""
        where = f"{within}.{self.name}" if within else self.name
        line, column = (self.text_line, self.text_column) if self.text else (self.line, self.column)
        return ConfigError(problem, file=self.file, line=line, column=column, where=where)


def read_tree(
    source: MarkupSource, language: str, substitute: Callable[[str], str]
) -> SettingEntry:
    """Read the root entry of a cache file. ``substitute`` replaces variables in texts.

    Raises:
        ConfigError: neither XML nor YAML, or not a cache file; with file, line and column.
    """
    if language == "yaml":
        return _whole_yaml(source, substitute)
    return _whole_xml(source, substitute)


def _whole_xml(source: MarkupSource, substitute: Callable[[str], str]) -> SettingEntry:
    root = parse_xml(source, texts=True)
    if root.name == "server":
        beans = [child for child in root.children if child.name == "mbean"]
        if len(beans) != 1:
            raise ConfigError(
                f"a server has one mbean, the cache; this one has {len(beans)}",
                file=source.name,
                line=root.line,
                column=root.column,
            )
        root = beans[0]
    if root.name not in ("cache", "mbean"):
        raise ConfigError(
            f"not a cache file: its root is <{root.name}>, not <cache> (or <server><mbean>)",
            file=source.name,
            line=root.line,
            column=root.column,
        )
    if root.name == "mbean":
        root.attributes.clear()  # code= and name= say how JBoss finds it
        root.children = [child for child in root.children if child.name not in _BESIDE]
    return replace(_from_xml(root, source.name, substitute), name="cache")


def _from_xml(node: MarkupNode, file: str, substitute: Callable[[str], str]) -> SettingEntry:
    name = node.name
    attributes = list(node.attributes)
    if name == "attribute":
        named = [a for a in attributes if a.key == "name"]
        if not named:
            raise ConfigError(
                'an <attribute> needs name="..."', file=file, line=node.line, column=node.column
            )
        name = named[0].text
        attributes.remove(named[0])
    children, texts = node.children, [node]
    if len(children) == 1 and children[0].name == "config" and not children[0].attributes:
        texts.append(children[0])
        children = children[0].children
    entries = [
        _entry(a.key, a.text, (), file, (a.line or node.line, a.column or 1), None, substitute)
        for a in attributes
    ]
    entries += [_from_xml(child, file, substitute) for child in children]
    at = (node.line, node.column)
    written = next((one for one in texts if one.text.strip()), node)
    if written.text.strip() and (entries or len(texts) > 1):
        line, column = written.text_at or at
        raise ConfigError(
            f'text "{written.text.strip()[:40]}" between the elements (comments are <!-- -->)',
            file=file,
            line=line,
            column=column,
        )
    return _entry(name, node.text, tuple(entries), file, at, node.text_at, substitute)


def _entry(
    name: str,
    text: str,
    entries: tuple[SettingEntry, ...],
    file: str,
    at: tuple[int, int],
    text_at: tuple[int, int] | None,
    substitute: Callable[[str], str],
) -> SettingEntry:
    line, column = text_at or at
    try:
        value = substitute(text).strip()
    except ValueError as error:
        raise ConfigError(str(error), file=file, line=line, column=column, where=name) from None
    return SettingEntry(name, value, entries, file, *at, line, column)


def _whole_yaml(source: MarkupSource, substitute: Callable[[str], str]) -> SettingEntry:
    root = compose_yaml(source)
    if root is None:
        raise ConfigError("the file is empty", file=source.name)
    if isinstance(root, yaml.MappingNode) and len(root.value) == 1:
        key, value = root.value[0]
        if isinstance(key, yaml.ScalarNode) and key.value == "cache":
            root = value
    if not isinstance(root, yaml.MappingNode):
        line, column = _place(root)
        raise ConfigError(
            "a cache file is cache: and its settings, name: value",
            file=source.name,
            line=line,
            column=column,
        )
    (entry,) = _from_yaml("cache", root, root, source.name, substitute, 0)
    return entry


def _from_yaml(
    name: str,
    at: yaml.Node,
    node: yaml.Node,
    file: str,
    substitute: Callable[[str], str],
    depth: int,
) -> Iterator[SettingEntry]:
    """Yield the entries of a YAML value: one for each item of a list."""
    line, column = _place(node)
    if depth > MAX_DEPTH:
        problem = f"nested deeper than {MAX_DEPTH}"
        raise ConfigError(problem, file=file, line=line, column=column)
    if isinstance(node, yaml.ScalarNode):
        null = node.tag == "tag:yaml.org,2002:null" and node.style is None
        text = "" if null else node.value
        text_at = (line + 1, 1) if node.style in ("|", ">") else (line, column)
        yield _entry(name, text, (), file, _place(at), text_at, substitute)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _from_yaml(name, item, item, file, substitute, depth + 1)
    else:
        entries: list[SettingEntry] = []
        seen: dict[str, int] = {}
        for key, value in node.value:
            place = _place(key)
            if not isinstance(key, yaml.ScalarNode):
                problem = "a key must be a name"
            elif key.value in seen:
                problem = f'"{key.value}" is given twice (first in line {seen[key.value]})'
            else:
                seen[key.value] = place[0]
                entries += _from_yaml(key.value, key, value, file, substitute, depth + 1)
                continue
            raise ConfigError(problem, file=file, line=place[0], column=place[1])
        yield _entry(name, "", tuple(entries), file, _place(at), None, substitute)


def _place(node: yaml.Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1
