"""The parts of the machine: which of them know which."""

from __future__ import annotations

import ast
from pathlib import Path

import jgroups_py.buddy

FOLDER = Path(jgroups_py.buddy.__file__).parent
PARTS = {file.stem: ast.parse(file.read_text(encoding="utf-8")) for file in FOLDER.glob("*.py")}


def test_no_part_knows_the_machine() -> None:
    for name, tree in PARTS.items():
        imported = [n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
        assert "jgroups_py.buddy.machine" not in imported, name


def test_ownership_alone_writes_nodes() -> None:
    """A node is frozen. So whoever changes one puts another into the table of ``Ownership``, or changes a copy."""
    makes_others = {"ownership", "verdict", "outbox", "log", "backups"}
    for name, tree in PARTS.items():
        calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call)]
        changed = {
            keyword.arg
            for call in calls
            if isinstance(call.func, ast.Name) and call.func.id in ("replace", "Node")
            for keyword in call.keywords
        }
        if name not in makes_others:
            assert not changed & {"epoch", "giver", "to", "unsent", "stamp"} - {"epoch"}, name
        used = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
        if name != "ownership":
            assert not used & {"_nodes", "_set", "_set_all", "_drop"}, name
