"""Reads a stack file in YAML into the same tree that the XML reader makes."""

from __future__ import annotations

import yaml

from jgroups_py.config.markup import MAX_DEPTH, MarkupNode, MarkupSource
from jgroups_py.config.markup_yaml import compose_yaml
from jgroups_py.config.model import Attribute
from jgroups_py.errors import ConfigError


def parse_yaml(source: MarkupSource) -> MarkupNode:
    """Return the tree of a stack. Raise ConfigError with file, line and column."""
    return _YamlTree(source).stack(compose_yaml(source))


class _YamlTree:
    """Turns nodes of a YAML document into the same tree the XML reader makes."""

    def __init__(self, source: MarkupSource) -> None:
        self._source = source

    def stack(self, root: yaml.Node | None) -> MarkupNode:
        if root is None:
            raise ConfigError("the file is empty", file=self._source.name)
        items: yaml.Node = root
        if isinstance(root, yaml.MappingNode):
            pairs = self._pairs(root)
            if list(pairs) != ["protocols"]:
                raise self._fail(
                    "a stack is a list of protocols, or protocols: and that list", root
                )
            items = pairs["protocols"][1]
        if not isinstance(items, yaml.SequenceNode):
            raise self._fail("protocols must be a list: - UDP: {mcast_port: 45588}", items)
        line, column = self._place(root)
        return MarkupNode("config", [], [self._item(item) for item in items.value], line, column)

    def _item(self, item: yaml.Node, depth: int = 0) -> MarkupNode:
        """Read ``- NAME`` or ``- NAME: {attribute: text, elements: [...]}``."""
        if depth > MAX_DEPTH:
            raise self._fail(f"elements nested deeper than {MAX_DEPTH}", item)
        if isinstance(item, yaml.ScalarNode):
            return MarkupNode(item.value, [], [], *self._place(item))
        if not isinstance(item, yaml.MappingNode) or len(item.value) != 1:
            raise self._fail("expected NAME or NAME: {attribute: value}", item)
        ((name, (at, body)),) = self._pairs(item).items()
        node = MarkupNode(name, [], [], *self._place(at))
        if isinstance(body, yaml.ScalarNode) and body.tag == "tag:yaml.org,2002:null":
            return node
        if not isinstance(body, yaml.MappingNode):
            raise self._fail(f"{name}: expected attributes, {{attribute: value}}", body)
        for key, (at, value) in self._pairs(body).items():
            if key == "elements" and isinstance(value, yaml.SequenceNode):
                node.children = [self._item(child, depth + 1) for child in value.value]
            elif isinstance(value, yaml.ScalarNode):
                null = value.tag == "tag:yaml.org,2002:null" and value.style is None
                if null and ":" in key:
                    problem = (
                        f'{name}: a space stands after the colon: "{key.replace(":", ": ", 1)}"'
                    )
                    raise self._fail(problem, at)
                text = "" if null else value.value
                node.attributes.append(Attribute(key, text, *self._place(at), self._source.name))
            else:
                raise self._fail(f"{name}.{key}: expected one value", value)
        return node

    def _pairs(self, node: yaml.MappingNode) -> dict[str, tuple[yaml.Node, yaml.Node]]:
        pairs: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self._fail("a key must be a name", key)
            if key.value in pairs:
                first = pairs[key.value][0].start_mark.line + 1
                raise self._fail(f'"{key.value}" is given twice (first in line {first})', key)
            pairs[key.value] = (key, value)
        return pairs

    def _place(self, node: yaml.Node) -> tuple[int, int]:
        return node.start_mark.line + 1, node.start_mark.column + 1

    def _fail(self, problem: str, node: yaml.Node) -> ConfigError:
        line, column = self._place(node)
        return ConfigError(problem, file=self._source.name, line=line, column=column)
