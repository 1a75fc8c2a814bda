"""Planted faults as data: the catalogue, and the way in which a fault is put into the source.

A file of the catalogue is TOML::

    area = "relay"
    found_by = ["tests/relay/test_relay_schedules.py"]  # for all of the file, after their own

    [[mutant]]
    name = 'relay-ack-not-repeated'
    file = 'protocols/relay/bridge/session.py'
    in = 'Session.starts_anew'                          # only there; without it: in the whole file
    old = 'self.told = {}'
    new = 'pass'
    fault = 'an acknowledgement is not repeated in a new session'
    found_by = ['tests/relay/test_relay_explorer.py']
    survives = 'why nothing can find it'                # only for those that nothing finds

``old`` must occur exactly once. Lines after the first are indented as the line it is found in.
``found_by`` are tests (arguments of pytest, in one text) or a command that begins with jgroups-py; they
are tried in order.
"""

from __future__ import annotations

import ast
import textwrap
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
CATALOGUE: Final = Path(__file__).resolve().parent / "catalogue"

_OF_A_MUTANT: Final = {"name", "file", "in", "old", "new", "fault", "found_by", "survives"}


class BadCatalogue(Exception):
    """A mutant is badly described, or does not fit the source any more."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One planted fault; see the module's docstring."""

    area: str
    name: str
    file: str
    inside: str
    old: str
    new: str
    fault: str
    found_by: tuple[str, ...]
    survives: str = ""

    def applied_to(self, text: str) -> str:
        """Return the source with the fault in it.

        Raises: BadCatalogue: the fault does not fit, or the changed source does not compile.
        """
        low, high = _span_of(self, text)
        places = list(_places(text, self.old.strip("\n"), low, high))
        if len(places) != 1:
            where = f"{self.file}, {self.inside}" if self.inside else self.file
            raise BadCatalogue(f"{self.name}: {len(places)} times in {where}: {self.old!r}")
        at, end, indent = places[0]
        if self.old.split() == self.new.split():
            raise BadCatalogue(f"{self.name}: nothing is changed")
        new = _indented(self.new.strip("\n"), indent)
        part = f"{text[low:at]}{new}{text[end:high]}"
        try:
            ast.parse(textwrap.dedent(part))
        except SyntaxError as error:
            raise BadCatalogue(f"{self.name}: the mutated file does not compile: {error}") from None
        return f"{text[:low]}{part}{text[high:]}"


def load(folder: Path = CATALOGUE) -> list[Mutant]:
    """Return all mutants, by file, in the order of each file. Raise BadCatalogue if one is wrong."""
    mutants = [m for file in sorted(folder.glob("*.toml")) for m in _of_file(file)]
    seen: dict[str, None] = {}
    for mutant in mutants:
        if mutant.name in seen:
            raise BadCatalogue(f"{mutant.name}: twice in the catalogue")
        seen[mutant.name] = None
    return mutants


def _of_file(file: Path) -> Iterator[Mutant]:
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise BadCatalogue(f"{file.name}: {error}") from None
    if set(content) != {"area", "found_by", "mutant"}:
        raise BadCatalogue(f"{file.name}: area, found_by and mutants are wanted, nothing else")
    for entry in content["mutant"]:
        yield _mutant(content["area"], tuple(content["found_by"]), entry, file.name)


def _mutant(area: str, found_by: tuple[str, ...], entry: dict[str, Any], file: str) -> Mutant:
    name = entry.get("name", f"a mutant of {file}")
    if unknown := set(entry) - _OF_A_MUTANT:
        raise BadCatalogue(f"{name}: unknown: {', '.join(sorted(unknown))}")
    if lacking := {"name", "file", "old", "new", "fault"} - set(entry):
        raise BadCatalogue(f"{name}: not given: {', '.join(sorted(lacking))}")
    own = tuple(entry.get("found_by", ()))
    return Mutant(
        area,
        name,
        entry["file"],
        entry.get("in", ""),
        entry["old"],
        entry["new"],
        entry["fault"],
        own + tuple(check for check in found_by if check not in own),
        entry.get("survives", ""),
    )


def _span_of(mutant: Mutant, text: str) -> tuple[int, int]:
    """Return the place in ``text`` of the function or class that the mutant names."""
    if not mutant.inside:
        return 0, len(text)
    nodes: list[ast.AST] = [_parsed(text)]
    for part in mutant.inside.split("."):
        nodes = [
            child
            for node in nodes
            for child in getattr(node, "body", [])
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            and child.name == part
        ]
    if len(nodes) != 1:
        raise BadCatalogue(f"{mutant.name}: {mutant.inside} is {len(nodes)} times in {mutant.file}")
    node = nodes[0]
    assert isinstance(node, ast.stmt) and node.end_lineno is not None
    lines = text.splitlines(keepends=True)
    low = sum(map(len, lines[: node.lineno - 1]))
    return low, low + sum(map(len, lines[node.lineno - 1 : node.end_lineno]))


@lru_cache(maxsize=8)
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


def _places(text: str, old: str, low: int, high: int) -> Iterator[tuple[int, int, str]]:
    """Yield the places of ``old``: start, end, indentation of the line."""
    head = old.partition("\n")[0]
    at = text.find(head, low, high)
    while at >= 0:
        line = text[text.rfind("\n", 0, at) + 1 :]
        indent = line[: len(line) - len(line.lstrip(" "))]
        whole = _indented(old, indent)
        if text.startswith(whole, at) and at + len(whole) <= high:
            yield at, at + len(whole), indent
        at = text.find(head, at + 1, high)


def _indented(text: str, indent: str) -> str:
    first, *rest = text.split("\n")
    return "\n".join([first, *[indent + line if line else line for line in rest]])
