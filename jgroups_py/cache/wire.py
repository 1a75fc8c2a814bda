"""The messages between members of a fully replicated cache, and a joiner's state, as msgpack."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from jgroups_py.cache.changes import Drop, Modification, Put, Remove, RemoveTree
from jgroups_py.cache.container import Container
from jgroups_py.cache.fqn import Fqn, all_of
from jgroups_py.cache.locks import Scope
from jgroups_py.cache.node import Node, checked_key
from jgroups_py.cache.total_order import Said
from jgroups_py.errors import CacheRefused, RemoteProtocolError

_Path = tuple[str, ...]


class _Put(msgspec.Struct, frozen=True, tag="p", array_like=True):
    path: _Path
    attributes: dict[str, bytes]
    replace: bool


class _Drop(msgspec.Struct, frozen=True, tag="d", array_like=True):
    path: _Path
    keys: tuple[str, ...]


class _Remove(msgspec.Struct, frozen=True, tag="r", array_like=True):
    path: _Path


class _RemoveTree(msgspec.Struct, frozen=True, tag="t", array_like=True):
    path: _Path


class _Depends(msgspec.Struct, frozen=True, array_like=True):
    path: _Path
    deep: bool
    digest: bytes


class _Body(msgspec.Struct, frozen=True, array_like=True):
    modifications: tuple[_Put | _Drop | _Remove | _RemoveTree, ...]
    depends: tuple[_Depends, ...]
    turn: int | None = None


class _State(msgspec.Struct, frozen=True, array_like=True):
    applied: dict[bytes, int]
    nodes: list[tuple[_Path, dict[str, bytes]]]


class Body(msgspec.Struct, frozen=True):
    """A batch as proposed: apply ``modifications`` if every ``depends`` still has that digest.

    ``turn``, of a caller that would run again: the number of its batch that has a place in the line. 0: this batch gets
    a place if it is refused. Without modifications and ``depends``: the caller gives up its place.
    """

    modifications: tuple[Modification, ...]
    depends: tuple[tuple[Scope, bytes], ...]
    turn: int | None = None


_encode = msgspec.msgpack.Encoder().encode
_said = msgspec.msgpack.Decoder(Said)
_body = msgspec.msgpack.Decoder(_Body)
_state = msgspec.msgpack.Decoder(_State)


def said_bytes(said: Said) -> bytes:
    """Encode a message."""
    return _encode(said)


def said_from(data: bytes) -> Said:
    """Decode a message. RemoteProtocolError: the bytes are no message."""
    try:
        said: Said = _said.decode(data)
        return said
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise RemoteProtocolError(f"not a message of a cache: {error}") from None


def body_bytes(
    modifications: Sequence[Modification],
    expected: Sequence[tuple[Scope, bytes]] = (),
    turn: int | None = None,
) -> bytes:
    """Encode a ``Body``. ``expected``: its ``depends`` with their digests at reading."""
    said: list[_Put | _Drop | _Remove | _RemoveTree] = []
    for modification in modifications:
        path = tuple(modification.path)
        match modification:
            case Put(_, attributes, replace):
                said.append(_Put(path, dict(attributes), replace))
            case Drop(_, keys):
                said.append(_Drop(path, keys))
            case Remove():
                said.append(_Remove(path))
            case RemoveTree():
                said.append(_RemoveTree(path))
    depends = [_Depends(tuple(scope.path), scope.deep, found) for scope, found in expected]
    return _encode(_Body(tuple(said), tuple(depends), turn))


def body_from(data: bytes) -> Body:
    """Decode a ``Body``. RemoteProtocolError: the bytes are no ``Body``; all members refuse the same ones."""
    try:
        body = _body.decode(data)
        modifications: list[Modification] = []
        names: set[str] = set()  # checked names: nodes of a batch have the same ones
        for said, path in zip(
            body.modifications, all_of([said.path for said in body.modifications]), strict=True
        ):
            match said:
                case _Put(_, attributes, replace):
                    for key in attributes:
                        if key not in names:
                            names.add(checked_key(key))
                    modifications.append(Put(path, attributes, replace))
                case _Drop(_, keys):
                    modifications.append(Drop(path, keys))
                case _Remove():
                    modifications.append(Remove(path))
                case _RemoveTree():
                    modifications.append(RemoveTree(path))
        depends = tuple((Scope(Fqn(d.path), d.deep), d.digest) for d in body.depends)
        return Body(tuple(modifications), depends, body.turn)
    except (msgspec.MsgspecError, ValueError, RecursionError, CacheRefused) as error:
        raise RemoteProtocolError(f"not a batch of a cache: {error}") from None


def digest(container: Container, scope: Scope) -> bytes:
    """Return 16 bytes that stand for a node, or for a node and all below it."""
    paths = sorted(container.within(scope.path)) if scope.deep else [scope.path]
    found = hashlib.blake2b(digest_size=16)
    for path in paths:
        node = container.get(path)
        if node is not None:
            found.update(_encode((path, sorted(node.attributes.items()))))
    return found.digest()


def state_bytes(applied: dict[bytes, int], container: Container) -> bytes:
    """Encode the whole tree without backups, and the last proposal of each origin in it."""
    nodes = []
    for path in container.within(Fqn()):
        node = container.get(path)
        assert node is not None
        nodes.append((tuple(path), dict(node.attributes)))
    return _encode(_State(applied, nodes))


def state_from(data: bytes) -> tuple[dict[bytes, int], dict[Fqn, Node]]:
    """Decode a joiner's state. RemoteProtocolError: the bytes are no state."""
    try:
        state = _state.decode(data)
        return state.applied, {Fqn(path): Node(attributes) for path, attributes in state.nodes}
    except (msgspec.MsgspecError, ValueError, RecursionError, CacheRefused) as error:
        raise RemoteProtocolError(f"not the state of a cache: {error}") from None
