"""Kinds of maps: the form of their rows in Spark. The tree cache is one. Others can be registered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from jgroups_py.errors import ConfigError
from jgroups_py.export.client import Frame


class ColumnDecoder(Protocol):
    """Makes record batches of one schema from frames. It is made in a worker."""

    def __call__(self, frame: Frame) -> Any: ...


class Encoder(Protocol):
    """Makes frames (rows, sizes, body) from record batches of one schema."""

    def __call__(self, batch: Any) -> Iterator[tuple[int, tuple[int, ...], bytes]]: ...


@dataclass(frozen=True)
class MapKind:
    """A kind of map. ``state`` and ``changes`` are the default schemas in Spark's notation. ``key`` is the name of the column with
    the key. The functions take Spark's schema and raise ConfigError if it does not fit."""

    name: str
    key: str
    state: str
    changes: str
    state_decoder: Any
    changes_decoder: Any
    encoder: Any


_kinds: dict[str, MapKind] = {}


def register_kind(kind: MapKind) -> None:
    """Register a kind under its name. Do it in a module that workers import, because every process that uses the kind needs
    it."""
    _kinds[kind.name] = kind


def kind_of(name: str | None) -> MapKind:
    """Return a kind; None means the tree cache. Raise ConfigError for one that was not registered."""
    found = _kinds.get(name or "tree")
    if found is None:
        raise ConfigError(f'no kind "{name}"; there is {", ".join(sorted(_kinds))}')
    return found
