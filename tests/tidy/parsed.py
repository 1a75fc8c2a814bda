"""Facts of each source for the house rules. A file is parsed once: parsing all of them takes three seconds."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

LONGEST_FUNCTION: Final = 70


class Import(NamedTuple):
    """``names``: the names after ``from target import``."""

    target: str
    line: int
    names: tuple[str, ...] = ()


class Facts(NamedTuple):
    docstring: str
    """That of the module; empty: it has none."""
    imports: tuple[Import, ...]
    """All imports, also those that are for types only."""
    bases: frozenset[str]
    """The bases of its classes."""
    long: tuple[str, ...]
    """Line, name and length of each function with more than LONGEST_FUNCTION lines."""


@cache
def facts_of(file: Path) -> Facts:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    nodes = [
        node
        for node in ast.walk(tree)
        if isinstance(
            node,
            ast.Import | ast.ImportFrom | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef,
        )
    ]
    return Facts(
        ast.get_docstring(tree) or "",
        tuple(_imports(nodes, file)),
        frozenset(
            ast.unparse(base)
            for node in nodes
            if isinstance(node, ast.ClassDef)
            for base in node.bases
        ),
        tuple(_long_functions(nodes)),
    )


def _imports(nodes: Sequence[ast.AST], file: Path) -> Iterator[Import]:
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno} relative import"
            names = tuple(alias.name for alias in node.names)
            if node.module == "jgroups_py":
                for name in names:
                    yield Import(f"jgroups_py.{name}", node.lineno, names)
            elif node.module:
                yield Import(node.module, node.lineno, names)


def _long_functions(nodes: Sequence[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > LONGEST_FUNCTION and ast.get_docstring(node):
                said = node.body[0]
                lines -= (said.end_lineno or said.lineno) - said.lineno + 1
            if lines > LONGEST_FUNCTION:
                yield f"{node.lineno} {node.name} {lines}"
