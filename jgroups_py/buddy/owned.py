"""The nodes of an owner, with counts of those on the move, which are asked for after every step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jgroups_py.buddy.values import Node, Path


class Owned(dict[Path, Node]):
    """``moving``: nodes that are granted to somebody, or whose former owner has not let go. ``granted``:
    the first of these alone."""

    def __init__(self) -> None:
        super().__init__()
        self.moving = 0
        self.granted = 0

    def __setitem__(self, path: Path, node: Node) -> None:
        self._count(self.get(path), -1)
        self._count(node, 1)
        super().__setitem__(path, node)

    def __delitem__(self, path: Path) -> None:
        self._count(self.get(path), -1)
        super().__delitem__(path)

    def pop(self, path: Path, *default: Any) -> Any:
        self._count(self.get(path), -1)
        return super().pop(path, *default)

    def _count(self, node: Node | None, by: int) -> None:
        if node is not None and (node.giver is not None or node.to is not None):
            self.moving += by
            if node.to is not None:
                self.granted += by

    def update(  # type: ignore[override]
        self, nodes: Mapping[Path, Node] | Iterable[tuple[Path, Node]]
    ) -> None:
        for path, node in dict(nodes).items():
            self[path] = node
