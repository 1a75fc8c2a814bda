"""Reads XML into trees of elements. Every element and value has its line and column.

Stack files (file.py) and cache files (cache/settings_file.py) are written in XML or YAML (markup_yaml.py). XML must be well-formed
and without DOCTYPE (no entities, no external files).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from xml.parsers import expat

from jgroups_py.config.model import Attribute
from jgroups_py.errors import ConfigError

MAX_DEPTH: Final = 32
_ENDS_TOO_SOON: Final = (expat.errors.XML_ERROR_TAG_MISMATCH, expat.errors.XML_ERROR_NO_ELEMENTS)
_XML_ATTRIBUTE = re.compile(rb"\s+([^\s=<>/\"']+)\s*=\s*(?:\"[^\"]*\"|'[^']*')")
_XML_NAME = re.compile(rb"<\s*[^\s/>]+")
_XML_ENCODING = re.compile(rb"^<\?xml[^>]*\sencoding\s*=\s*[\"']([A-Za-z0-9._-]+)[\"']")


@dataclass(slots=True)
class MarkupNode:
    """An element of either language before includes and variables are resolved."""

    name: str
    attributes: list[Attribute]
    children: list[MarkupNode]
    line: int
    column: int
    text: str = ""
    text_at: tuple[int, int] | None = None
    """The place where the text begins, after white space."""


@dataclass(frozen=True, slots=True)
class MarkupSource:
    """A file's text and its origin. ``directory`` is None for a shipped stack."""

    name: str
    content: bytes
    directory: Path | None


def parse_xml(source: MarkupSource, *, texts: bool = False) -> MarkupNode:
    """Return the root element. With ``texts`` elements may hold text; without they have only attributes.

    Raises:
        ConfigError: the text is not XML, or not as described above. It has file, line and column.
    """
    content = as_utf8(source)
    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = False  # so that a piece of text is reported where it begins
    top: list[MarkupNode] = []
    open_nodes: list[MarkupNode] = []

    def place(byte: int) -> tuple[int, int]:
        before = content[:byte]
        start = before.rfind(b"\n") + 1
        return before.count(b"\n") + 1, len(before[start:].decode()) + 1

    def fail(problem: str) -> ConfigError:
        line, column = place(parser.CurrentByteIndex)
        return ConfigError(problem, file=source.name, line=line, column=column)

    def start(name: str, given: dict[str, str]) -> None:
        begin = parser.CurrentByteIndex
        at = _attribute_bytes(content, begin)
        attributes = [
            Attribute(key, text, *place(at.get(key, begin)), source.name)
            for key, text in given.items()
            if key != "xmlns" and not key.startswith(("xmlns:", "xsi:"))
        ]
        node = MarkupNode(name, attributes, [], *place(begin))
        if len(open_nodes) >= MAX_DEPTH:
            raise fail(f"elements nested deeper than {MAX_DEPTH}")
        (open_nodes[-1].children if open_nodes else top).append(node)
        open_nodes.append(node)

    def end(name: str) -> None:
        open_nodes.pop()

    def text(data: str) -> None:
        if texts and open_nodes:
            node = open_nodes[-1]
            if node.text_at is None and data.strip():
                line, column = place(parser.CurrentByteIndex)
                blank = data[: len(data) - len(data.lstrip())]
                newlines = blank.count("\n")
                column = len(blank) - blank.rfind("\n") if newlines else column + len(blank)
                node.text_at = (line + newlines, column)
            node.text += data
        elif data.strip():
            raise fail(f'text "{data.strip()[:40]}" between the elements (comments are <!-- -->)')

    def doctype(*_: Any) -> None:
        raise fail("a DOCTYPE is not accepted")

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = text
    parser.StartDoctypeDeclHandler = doctype
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        # There may be a comment here in a tag, or the beginning of one in another comment.
        at = parser.ErrorByteIndex
        comment = content.startswith(b"<!--", at) or content.endswith(b"<!--", 0, at)
        raise _not_well_formed(error, source, open_nodes, comment) from None
    return top[0]


def _not_well_formed(
    error: expat.ExpatError, source: MarkupSource, open_nodes: list[MarkupNode], comment: bool
) -> ConfigError:
    """Return the error that expat found, with its place. For an element that is not closed the place is where it
    begins. ``comment`` is true if a comment stands there."""
    what = expat.ErrorString(error.code)
    if open_nodes and what in _ENDS_TOO_SOON:
        left = open_nodes[-1]
        return ConfigError(
            f"not well-formed XML: <{left.name}> is not closed"
            f" (noticed in line {error.lineno}: {what})",
            file=source.name,
            line=left.line,
            column=left.column,
        )
    return ConfigError(
        f"not well-formed XML: {what}"
        + (" (comments cannot stand inside a tag or a comment)" if comment else ""),
        file=source.name,
        line=error.lineno,
        column=error.offset + 1,
    )


def as_utf8(source: MarkupSource) -> bytes:
    content = source.content
    declared = _XML_ENCODING.match(content)
    try:
        if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
            return content.decode("utf-16").encode()
        encoding = declared[1].decode() if declared else "utf-8"
        return content.decode("utf-8-sig" if encoding.lower() == "utf-8" else encoding).encode()
    except (UnicodeError, LookupError) as error:
        raise ConfigError(f"not a readable text: {error}", file=source.name) from None


def _attribute_bytes(content: bytes, begin: int) -> dict[str, int]:
    """Return the place of each attribute of the start tag at ``begin``. (Expat reports only the place of the
    tag.)"""
    found: dict[str, int] = {}
    name = _XML_NAME.match(content, begin)
    at = name.end() if name else begin
    while match := _XML_ATTRIBUTE.match(content, at):
        found[match[1].decode()] = match.start(1)
        at = match.end()
    return found
