"""Modifications that a call asks for, and the resulting change of each node.

A call gives modifications (``Put``, ``Drop``, ``Remove``, ``RemoveTree``). ``fold`` plays them in order against the
present nodes and returns one ``NodeChange`` for each node: before and after. All changes of one batch take effect
together. These are pure functions; they apply no change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from jgroups_py.cache.fqn import Fqn
from jgroups_py.cache.node import Node


class Put(msgspec.Struct, frozen=True):
    """Set attributes; create the node if it is missing. ``replace``: remove all others."""

    path: Fqn
    attributes: Mapping[str, bytes]
    replace: bool = False


class Drop(msgspec.Struct, frozen=True):
    """Remove attributes; the node stays, even without any."""

    path: Fqn
    keys: tuple[str, ...]


class Remove(msgspec.Struct, frozen=True):
    """Remove one node; those below it stay."""

    path: Fqn


class RemoveTree(msgspec.Struct, frozen=True):
    """Remove a node, if it exists, and all below it."""

    path: Fqn


Modification = Put | Drop | Remove | RemoveTree


class NodeChange(msgspec.Struct, frozen=True):
    """One node before and after a batch; None: no node. Writing an equal value is a change."""

    path: Fqn
    before: Node | None
    after: Node | None


Changes = tuple[NodeChange, ...]


def fold(
    modifications: Sequence[Modification],
    get: Callable[[Fqn], Node | None],
    within: Callable[[Fqn], Sequence[Fqn]],
) -> Changes:
    """Play modifications in order, and return one change for each node that they touched.

    Args:
        get: the node of a path now.
        within: paths of all nodes at and below a path now.
    """
    if len(modifications) == 1 and type(put := modifications[0]) is Put:
        was = get(put.path)
        return (NodeChange(put.path, was, _put(was, put.attributes, put.replace)),)
    after: dict[Fqn, Node | None] = {}
    before: dict[Fqn, Node | None] = {}

    def now(path: Fqn) -> Node | None:
        if path in after:
            return after[path]
        node = before[path] = get(path)
        return node

    for modification in modifications:
        path = modification.path
        match modification:
            case Put(_, attributes, replace):
                after[path] = _put(now(path), attributes, replace)
            case Drop(_, keys):
                node = now(path)
                if node is not None and any(key in node.attributes for key in keys):
                    after[path] = node.without(keys)
            case Remove():
                now(path)
                after[path] = None
            case RemoveTree():
                touched = dict.fromkeys(within(path))
                touched.update(dict.fromkeys(p for p in after if p.is_within(path)))
                for at in touched:
                    now(at)
                    after[at] = None
    return tuple(
        NodeChange(path, before[path], node)
        for path, node in after.items()
        if node is not None or before[path] is not None
    )


def _put(node: Node | None, attributes: Mapping[str, bytes], replace: bool) -> Node:
    if replace or node is None:
        return Node(attributes)  # not copied, because a modification never changes
    return node.with_attributes(attributes)
