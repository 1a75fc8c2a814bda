"""Each cause of ``turn_away`` is declared once, with a sentence for the log, counters and docs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILES = [f for folder in ("protocols", "jgroups_py") for f in sorted((ROOT / folder).rglob("*.py"))]

SPOKEN_OF = re.compile("turn_away|turns_away|CAUSES")
"""Files without these words are not parsed."""


def _used(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr == "turn_away":
                for argument in node.args[:2]:
                    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                        yield argument.value, node.lineno


def _declared(tree: ast.AST) -> Iterator[str]:
    """Keys of each mapping that is called ``turns_away`` or ``..._CAUSES``."""
    for node in ast.walk(tree):
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.Dict(keys=keys)):
                pass
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict(keys=keys)):
                pass
            case _:
                continue
        if name == "turns_away" or name.endswith("CAUSES"):
            yield from (str(key.value) for key in keys if isinstance(key, ast.Constant))


def test_each_cause_that_is_used_is_declared() -> None:
    texts = {file: file.read_text(encoding="utf-8") for file in FILES}
    trees = {file: ast.parse(text) for file, text in texts.items() if SPOKEN_OF.search(text)}
    assert len(trees) > 30
    declared = {cause for tree in trees.values() for cause in _declared(tree)}
    for cause in declared:
        assert re.fullmatch(r"[a-z][a-z0-9_]*", cause), cause
    for file, tree in trees.items():
        for cause, line in _used(tree):
            if re.fullmatch(r"[A-Z][A-Za-z0-9_.]*", cause):
                continue  # the name of the part, which comes first at a channel
            assert cause in declared, f"{file.relative_to(ROOT)}:{line}: {cause!r} has no sentence"


def test_the_check_sees_both() -> None:
    tree = ast.parse('class P:\n turns_away = {"a": "b"}\n def f(s):\n  s.turn_away("c", x)')
    assert list(_declared(tree)) == ["a"]
    assert [cause for cause, _ in _used(tree)] == ["c"]
