"""A model of a tree cache: nodes with attributes by path, as README and ``TreeCache`` describe its calls."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Literal, NamedTuple

from jgroups_py.testing.histories.operation import UNKNOWN, Model

Path = tuple[str, ...]
Attributes = tuple[tuple[str, Any], ...]
"""Sorted by name. Values must be hashable."""
Tree = tuple[tuple[Path, Attributes], ...]
"""Sorted by path."""
Kind = Literal[
    "node",
    "exists",
    "children",
    "put",
    "update",
    "remove",
    "remove_node",
    "remove_tree",
    "move",
    "batch",
    "cas",
    "add",
]


class Call(NamedTuple):
    """The requests to a cache.

    node         result: the attributes; None where there is no node
    exists       result: is there a node?
    children     result: names directly below, sorted
    put          sets ``values``; no result
    update       sets ``values`` and removes those named by ``without`` of a node that is there;
                 result: was it there?
    remove       removes ``key``; result: was it there?
    remove_node  result: was it there?
    remove_tree  result: how many nodes
    move         to ``to``; result: how many nodes. Where it is refused it did not happen
    batch        saw ``seen`` (path, attributes or None), did ``changes`` (puts, removals); no result
    cas          ``values`` has one name, its value takes the place of ``expected``; result: was it there?
    add          ``values`` has one name, its value is added to the number there; result: the sum
    """

    do: Kind
    path: Path = ()
    values: Attributes = ()
    key: str = ""
    without: tuple[str, ...] = ()
    to: Path = ()
    expected: Any = None
    seen: tuple[tuple[Path, Attributes | None], ...] = ()
    changes: tuple[Call, ...] = ()


READS = frozenset({"node", "exists", "children"})
TELL_CHANGES = frozenset({"update", "remove", "remove_node", "remove_tree", "move", "cas"})
"""The result says whether anything was changed."""


class Nodes(Model[Tree]):
    """A tree of nodes, empty at first."""

    def initial(self) -> Tree:
        return ()

    def step(self, state: Tree, what: Call, result: Any) -> tuple[bool, Tree]:
        nodes = {path: dict(attributes) for path, attributes in state}
        if what.do == "batch" and any(_node(nodes, path) != node for path, node in what.seen):
            return False, state
        if what.do == "move" and not _can_move(nodes, what):
            return False, state
        got = _do(nodes, what)
        if result is not UNKNOWN and result != got:
            return False, state
        if what.do in READS:
            return True, state
        return True, tuple(sorted((p, attributes_of(node)) for p, node in nodes.items()))

    def keys(self, what: Call) -> Sequence[Hashable] | None:
        if what.do == "batch":
            paths = [path for path, _ in what.seen] + [change.path for change in what.changes]
        else:
            paths = [what.path] + ([what.to] if what.to else [])
        if not all(paths):
            return None
        return tuple(dict.fromkeys(path[0] for path in paths))

    def only_reads(self, what: Call) -> bool:
        return what.do in READS or (what.do == "batch" and not what.changes)

    def never_changes(self, what: Call, result: Any) -> bool:
        return self.only_reads(what) or (what.do in TELL_CHANGES and not result)

    def facts(self, state: Tree) -> frozenset[Hashable]:
        return frozenset(f for path, attributes in state for f in _facts(path, attributes))

    def wants(self, what: Call, result: Any) -> Sequence[Hashable]:
        if what.do == "node" and isinstance(result, tuple) and all(map(_is_item, result)):
            return _facts(what.path, result)
        if what.do == "batch":
            return [fact for path, node in what.seen for fact in _facts(path, node or ())]
        if what.do == "cas" and result is True:
            return _facts(what.path, ((what.values[0][0], what.expected),))
        return ()

    def gives(self, what: Call) -> Sequence[Hashable] | None:
        if what.do == "move":
            return None
        if what.do == "batch":
            given = [self.gives(change) for change in what.changes]
            return None if None in given else [f for facts in given for f in facts or ()]
        return _facts(what.path, what.values)

    def text(self, what: Call, result: Any) -> str:
        said = _said(what)
        return said if what.do in ("put", "batch") else f"{said} -> {_shown(result)}"


def _is_item(item: object) -> bool:
    return isinstance(item, tuple) and len(item) == 2


def _facts(path: Path, attributes: Attributes) -> list[Hashable]:
    """Values that are no numbers: a number may come from adding."""
    return [
        (path, key, value)
        for key, value in attributes
        if value is not None and not isinstance(value, int | float)
    ]


def attributes_of(node: dict[str, Any]) -> Attributes:
    """Return the attributes as the model has them."""
    return tuple(sorted(node.items(), key=lambda item: item[0]))


def _node(nodes: dict[Path, dict[str, Any]], path: Path) -> Attributes | None:
    node = nodes.get(path)
    return None if node is None else attributes_of(node)


def _within(nodes: dict[Path, dict[str, Any]], path: Path) -> list[Path]:
    return [at for at in nodes if at[: len(path)] == path]


def _can_move(nodes: dict[Path, dict[str, Any]], what: Call) -> bool:
    return not (_within(nodes, what.path) and _within(nodes, what.to))


def _do(nodes: dict[Path, dict[str, Any]], what: Call) -> Any:
    """Change ``nodes`` and return the result."""
    path = what.path
    node = nodes.get(path)
    match what.do:
        case "node":
            return _node(nodes, path)
        case "exists":
            return node is not None
        case "children":
            below = [at for at in _within(nodes, path) if len(at) > len(path)]
            return tuple(sorted({at[len(path)] for at in below}))
        case "put":
            nodes.setdefault(path, {}).update(what.values)
            return None
        case "update":
            if node is not None:
                node.update(what.values)
                for key in what.without:
                    node.pop(key, None)
            return node is not None
        case "remove":
            return node is not None and node.pop(what.key, what) is not what
        case "remove_node":
            return nodes.pop(path, None) is not None
        case "remove_tree":
            return len([nodes.pop(at) for at in _within(nodes, path)])
        case "move":
            moving = _within(nodes, path)
            for at in moving:
                nodes[what.to + at[len(path) :]] = nodes.pop(at)
            return len(moving)
        case "batch":
            for change in what.changes:
                _do(nodes, change)
            return None
        case "cas":
            [(key, value)] = what.values
            there = (node or {}).get(key) == what.expected
            if there:
                nodes.setdefault(path, {})[key] = value
            return there
        case "add":
            [(key, value)] = what.values
            total = ((node or {}).get(key) or 0) + value
            nodes.setdefault(path, {})[key] = total
            return total


def _said(what: Call) -> str:
    path = _path(what.path)
    match what.do:
        case "put":
            return f"put {path} {_shown(what.values)}"
        case "update":
            return f"update {path} {_shown(what.values)}" + "".join(f" -{k}" for k in what.without)
        case "remove":
            return f"remove {path} {what.key}"
        case "move":
            return f"move {path} to {_path(what.to)}"
        case "batch":
            seen = ", ".join(f"{_path(p)} {_shown(node)}" for p, node in what.seen)
            return f"batch saw {seen or 'nothing'}; " + (
                ", ".join(map(_said, what.changes)) or "no change"
            )
        case "cas":
            return f"cas {path} {what.expected} to {_shown(what.values)}"
        case "add":
            return f"add {path} {_shown(what.values)}"
    return f"{what.do} {path}"


def _path(path: Path) -> str:
    return "/" + "/".join(path)


def _shown(value: Any) -> str:
    """Return attributes as {a=1}, and any other value unchanged."""
    if isinstance(value, tuple) and all(map(_is_item, value)):
        return "{" + " ".join(f"{key}={data}" for key, data in value) + "}"
    return str(value)
