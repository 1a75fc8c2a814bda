"""The paths that a claim or a call reaches. A batch may name thousands and is compared with thousands of nodes."""

from __future__ import annotations

from collections.abc import Mapping

from jgroups_py.buddy.values import OwnedNode, Path, Wanted


class Reach:
    """The paths in ``wanted``, and everything below those that are deep."""

    __slots__ = ("_deep", "_depths", "_paths", "wanted")

    def __init__(self, wanted: tuple[Wanted, ...]) -> None:
        self.wanted = wanted
        self._paths = dict.fromkeys(path for path, _ in wanted)
        self._deep = dict.fromkeys(path for path, deep in wanted if deep)
        self._depths = sorted({len(path) for path in self._deep})

    def __contains__(self, path: Path) -> bool:
        if path in self._paths:
            return True
        return any(path[:depth] in self._deep for depth in self._depths)

    def meets(self, other: Reach) -> bool:
        """Is there a path that both reach?"""
        return any(path in other for path in self._paths) or any(
            path in self for path in other._paths
        )

    def among(self, nodes: Mapping[Path, OwnedNode]) -> list[tuple[Path, OwnedNode]]:
        """Return the nodes that it reaches. It looks at all nodes only for deep paths."""
        if self._deep:
            return [(path, node) for path, node in nodes.items() if path in self]
        return [(path, nodes[path]) for path in self._paths if path in nodes]
