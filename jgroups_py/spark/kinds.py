"""Kinds of maps: what their rows look like in Spark. The tree cache is one; others register theirs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from jgroups_py.errors import ConfigError
from jgroups_py.export.client import Frame


class ColumnDecoder(Protocol):
    """Frames to record batches of one schema. Made in a worker."""

    def __call__(self, frame: Frame) -> Any: ...


class Encoder(Protocol):
    """Record batches of one schema to frames: (rows, sizes, body)."""

    def __call__(self, batch: Any) -> Iterator[tuple[int, tuple[int, ...], bytes]]: ...


@dataclass(frozen=True)
class Kind:
    """``state`` and ``changes``: default schemas, as Spark writes them. ``key``: the name of the column
    with the key. The functions take Spark's schema and raise ConfigError if it does not fit."""

    name: str
    key: str
    state: str
    changes: str
    state_decoder: Any
    changes_decoder: Any
    encoder: Any


_kinds: dict[str, Kind] = {}


def register_kind(kind: Kind) -> None:
    """Under its name; in every process that uses it, so in a module that workers import."""
    _kinds[kind.name] = kind


def kind_of(name: str | None) -> Kind:
    """ConfigError for one that nobody registered. None: the tree cache."""
    found = _kinds.get(name or "tree")
    if found is None:
        raise ConfigError(f'no kind "{name}"; there is {", ".join(sorted(_kinds))}')
    return found
