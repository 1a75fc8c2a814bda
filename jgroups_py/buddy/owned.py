"""The nodes of an owner, with a count of those on the move, which is asked for after every step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jgroups_py.buddy.values import Node, Path


class Owned(dict[Path, Node]):
    """``moving``: nodes that are granted to somebody, or whose former owner has not let go."""

    def __init__(self) -> None:
        super().__init__()
        self.moving = 0

    def __setitem__(self, path: Path, node: Node) -> None:
        self.moving += _moves(node) - _moves(self.get(path))
        super().__setitem__(path, node)

    def __delitem__(self, path: Path) -> None:
        self.moving -= _moves(self.get(path))
        super().__delitem__(path)

    def pop(self, path: Path, *default: Any) -> Any:
        self.moving -= _moves(self.get(path))
        return super().pop(path, *default)

    def update(  # type: ignore[override]
        self, nodes: Mapping[Path, Node] | Iterable[tuple[Path, Node]]
    ) -> None:
        for path, node in dict(nodes).items():
            self[path] = node


def _moves(node: Node | None) -> bool:
    return node is not None and (node.giver is not None or node.to is not None)
