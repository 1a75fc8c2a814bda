"""The parts of the machine know only the parts that they need."""

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
    """A node is frozen, and the table of nodes is private to ``Ownership``. Only the parts below it make other nodes."""
    makes_nodes = {"ownership", "verdict", "outbox", "log", "backups"}
    for name, tree in PARTS.items():
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        changed = {
            keyword.arg
            for call in calls
            if isinstance(call.func, ast.Name) and call.func.id in ("replace", "Node")
            for keyword in call.keywords
        }
        if name not in makes_nodes:
            assert not changed & {"giver", "to", "unsent", "stamp", "removed", "passive"}, name
        used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        if name != "ownership":
            assert not used & {"_nodes", "_set", "_set_all", "_drop"}, name
