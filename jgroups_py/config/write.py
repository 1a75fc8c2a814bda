"""Writes a stack in XML or YAML. ``file.parse_stack`` reads back the same stack.

Includes and variables are resolved in a ``StackConfig``, and comments are not kept. So the written stack is the one that
will run, in one piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from xml.sax.saxutils import quoteattr

import yaml

from jgroups_py.config.model import Attribute, Element, ProtocolConfig, StackConfig


def to_xml(stack: StackConfig) -> str:
    """Return the stack as an XML stack file."""
    lines = ['<config xmlns="urn:org:jgroups">']
    for protocol in stack.protocols:
        _xml(lines, protocol.name, protocol.attributes, protocol.elements, 1)
    return "\n".join([*lines, "</config>", ""])


def to_yaml(stack: StackConfig) -> str:
    """Return the stack as a YAML stack file."""
    items = [_plain(protocol) for protocol in stack.protocols]
    text: str = yaml.safe_dump({"protocols": items}, sort_keys=False, allow_unicode=True, width=100)
    return text


def _xml(
    lines: list[str],
    name: str,
    attributes: Sequence[Attribute],
    elements: Sequence[Element],
    depth: int,
) -> None:
    indent = "    " * depth
    given = "".join(f" {a.key}={quoteattr(a.text)}" for a in attributes)
    if not elements:
        lines.append(f"{indent}<{name}{given}/>")
        return
    lines.append(f"{indent}<{name}{given}>")
    for element in elements:
        _xml(lines, element.name, element.attributes, element.elements, depth + 1)
    lines.append(f"{indent}</{name}>")


def _plain(item: ProtocolConfig | Element) -> Any:
    body: dict[str, Any] = {attribute.key: attribute.text for attribute in item.attributes}
    if item.elements:
        body["elements"] = [_plain(element) for element in item.elements]
    return {item.name: body} if body else item.name
