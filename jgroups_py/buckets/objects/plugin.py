"""object_plugin: an application of plain Python classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jgroups_py.buckets.errors import BadPlugin
from jgroups_py.buckets.objects.calls import call_from
from jgroups_py.buckets.objects.entry import ObjectEntry
from jgroups_py.buckets.objects.kinds import Kind
from jgroups_py.buckets.plugin import (
    NOT_SENSIBLE,
    Backup,
    Classification,
    Entry,
    EntryBehaviourProvider,
    Plugin,
    ReadAt,
    Request,
    RequestClassifier,
)


class ObjectProvider(EntryBehaviourProvider):
    """Made by ``object_plugin``."""

    def __init__(
        self,
        kinds: Mapping[str, Kind[Any]],
        application: str,
        version: int,
        reads: tuple[int, ...],
        writes: tuple[int, ...],
        backup: Backup,
        read_at: ReadAt,
        check_reads: bool,
    ) -> None:
        self.kinds, self.application, self.version = kinds, application, version
        self.reads, self.writes = reads, writes
        self.backup, self.read_at = backup, read_at
        self._check_reads = check_reads

    def create_entry(self, key: str) -> Entry:
        kind = self.kinds.get(key.partition("/")[0])
        if kind is None:
            raise ValueError(f"key {key[:80]!r}: there is no such kind of entries")
        return ObjectEntry(kind, self.version, self._check_reads)

    def name_of(self, request: Request) -> str:
        call = call_from(request.body)
        kind = (request.key or "").partition("/")[0]
        return f"{kind}.{call.method}" if call is not None else super().name_of(request)


class ObjectClassifier(RequestClassifier):
    """Classifies a request by the called method."""

    def __init__(self, kinds: Mapping[str, Kind[Any]]) -> None:
        self._kinds = kinds

    def classify(self, request: Request) -> Classification:
        kind = self._kinds.get((request.key or "").partition("/")[0])
        call = call_from(request.body)
        if kind is None or call is None or call.method not in kind.methods:
            return NOT_SENSIBLE
        return Classification(key=request.key, modifies=kind.methods[call.method].modifies)


def object_plugin(
    *kinds: type | Kind[Any],
    application: str,
    version: int = 1,
    reads: tuple[int, ...] = (),
    writes: tuple[int, ...] = (),
    backup: Backup = "before_reply",
    read_at: ReadAt = "master",
    check_reads: bool = False,
) -> Plugin:
    """Return a plug-in whose entries are objects of these classes.

    Args:
        kinds: classes, or a Kind where something differs from the defaults.
        application, version, reads, writes, backup, read_at: as in EntryBehaviourProvider. ``reads`` and ``writes`` are earlier versions whose
            state the codecs take and give.
        check_reads: for tests: refuse a method that changes its object and is not marked ``modifies``.

    Raises:
        BadPlugin: the text names the class and the mistake.
    """
    found: dict[str, Kind[Any]] = {}
    for given in kinds:
        kind: Kind[Any] = given if isinstance(given, Kind) else Kind(given)
        if kind.name in found:
            raise BadPlugin(f"two kinds are named {kind.name!r}")
        found[kind.name] = kind
    if not found:
        raise BadPlugin("at least one class is needed")
    provider = ObjectProvider(
        found, application, version, tuple(reads), tuple(writes), backup, read_at, check_reads
    )
    return Plugin(provider, ObjectClassifier(found))


def kind_of(plugin: Plugin, cls: type) -> Kind[Any]:
    """Return the kind of a class. Raises BadPlugin: the plug-in has no such class."""
    kinds: Mapping[str, Kind[Any]] = getattr(plugin.provider, "kinds", {})
    for kind in kinds.values():
        if kind.cls is cls:
            return kind
    raise BadPlugin(f"{cls.__name__} is no kind of {plugin.provider.application!r}")
