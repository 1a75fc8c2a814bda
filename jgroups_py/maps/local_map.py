"""LocalMap: the map in one process, with Python keys and values. Its calls do not wait, except a put with a full inbox.

``maps.Map``, ``blocking.Map`` and ``aio.Map`` add the calls that may wait: changes that read first, listening, waiting
for others.
"""

from __future__ import annotations

from collections.abc import (
    Callable,
    ItemsView,
    Iterator,
    KeysView,
    Mapping,
    ValuesView,
)
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, TypeVar, cast

from jgroups_py.maps.codecs import INT, Codec, decoded, encoded, quick
from jgroups_py.maps.errors import MapError, MapTypeError
from jgroups_py.maps.fields import Fields
from jgroups_py.maps.given import check_seconds
from jgroups_py.maps.host import MapHost
from jgroups_py.maps.rules import LastWriter, PerField, PnCounter
from jgroups_py.maps.shared import SharedFile
from jgroups_py.maps.stamp import TICKS_PER_S, MapStamp

K = TypeVar("K")
V = TypeVar("V")
_T = TypeVar("_T")
_ABSENT: Final = object()


@dataclass(frozen=True, kw_only=True)
class MapStatistics:
    """Numbers of one moment."""

    name: str
    identifier: int
    entries: int
    waiting_bytes: int
    """Bytes that this process has put and that are not merged into the file yet. At ``inbox_bytes`` puts wait and
    finally raise MapFull."""
    inbox_bytes: int
    file_bytes: int
    """The used part of ``max_bytes``."""
    max_bytes: int
    evicted: int
    """Entries evicted at ``max_entries`` or ``max_live_bytes`` since the file was made."""
    replicates: bool
    """Does this process replicate for its host?"""
    counters: Mapping[str, int]
    """The counters of replication, if this process replicates."""
    peers: Mapping[int, str]
    """Connected hosts, by identifier: their names."""
    lag: Mapping[int, int]
    """By identifier, the number of changes of this host that the peer has not acknowledged."""
    held_bytes: int = 0
    """Bytes of other hosts' messages that wait for room in the inbox. Meanwhile they send no more than their
    windows."""


class LocalMap(Mapping[K, V], Generic[K, V]):
    """A dictionary in a file. All processes of this host see a change when the call returns, other hosts a moment later.

    ``m[key] = value`` overwrites. Puts of several processes run one after another. To read and then write without a
    change in between, use ``update``, ``put_if_absent``, ``replace`` or ``compare_and_set`` in all processes.

    Return values are those of this host (K8): at the same moment another host may see another value.

    Errors of all calls: MapTypeError (the codec refuses a key or value), MapFull, MapClosed. Then nothing was changed.
    """

    def __init__(
        self, file: SharedFile, key: Codec[K], value: Codec[V], ttl: float | None = None
    ) -> None:
        self._file = file
        self._key = key
        self._value = value
        self._counter = file.rule if isinstance(file.rule, PnCounter) else None
        self._fields = Fields(value) if isinstance(file.rule, PerField) else None
        self._shown: Codec[Any] = value
        """Decodes stored values."""
        if self._counter is not None:
            self._shown = Codec("counter", INT.encode, self._counter.total)
        elif self._fields is not None:
            self._shown = self._fields.codec
        self._quick_key = quick(key, "key")[0]
        self._quick_value = quick(self._shown, "value")[1]
        self._ttl = ttl
        self._checked_ttl(ttl)

    @property
    def name(self) -> str:
        """Return the map's name, the same at all hosts."""
        return self._file.name

    @property
    def identifier(self) -> int:
        """Return this host's identifier."""
        return self._file.identifier

    @property
    def path(self) -> Path:
        """Return the folder with its files."""
        return self._file.folder

    @property
    def closed(self) -> bool:
        return self._file.closed

    def __repr__(self) -> str:
        return f"<map {self.name} of host {self.identifier} in {self.path}{' (closed)' if self.closed else ''}>"

    def __reduce__(self) -> Any:
        raise MapTypeError(
            f"a map is not sent to another process: open its folder there ({self.path})"
        )

    # --- reading

    def __getitem__(self, key: K) -> V:
        value = self.get(key, _ABSENT)
        if value is _ABSENT:
            raise KeyError(key)
        return cast(V, value)

    def get(self, key: K, default: Any = None) -> Any:
        """Return the value, or ``default`` if there is none."""
        try:
            raw = self._quick_key(key)
        except Exception:
            raw = self._raw(key)
        data = self._file.get(raw)
        if data is None:
            return default
        try:
            return self._quick_value(data)
        except Exception:
            return self._decoded(data)

    def __contains__(self, key: object) -> bool:
        return self._file.get(encoded(self._key, key, "key")) is not None

    def __len__(self) -> int:
        return self._file.count()

    def __bool__(self) -> bool:
        return next(iter(self), None) is not None

    def __iter__(self) -> Iterator[K]:
        """Yield each key once, in the order of their bytes. Keys written meanwhile may be missing."""
        return (self._decoded_key(key) for key, _ in self._file.items())

    def items(self) -> ItemsView[K, V]:
        """Return keys and values; each pair is of one moment."""
        return _Items(self)

    def keys(self) -> KeysView[K]:
        return KeysView(self)

    def values(self) -> ValuesView[V]:
        return _Values(self)

    # --- writing

    def __setitem__(self, key: K, value: V) -> None:
        self._write(encoded(self._key, key, "key"), self._encoded(value), self._expires(self._ttl))

    def put(self, key: K, value: V, *, ttl: float | None = None) -> V | None:
        """Overwrite the value and return the old one. None: there was none.

        ``ttl``: seconds after which the value expires at all hosts; by default the map's.

        MapError: the codec cannot read the old value, so nothing was changed. ``m[key] = value`` overwrites it unread.
        """
        raw, data = encoded(self._key, key, "key"), self._encoded(value)
        expires = self._expires(self._ttl if ttl is None else ttl)
        file = self._file

        def write() -> V | None:
            before = file.get(raw)
            shown = None if before is None else self._decoded(before)
            file.write_now(raw, self._stored(before, data), expires)
            return shown

        return file.alone(write)

    def __delitem__(self, key: K) -> None:
        if self._removed(key, lambda data: data) is None:
            raise KeyError(key)

    def remove(self, key: K) -> V | None:
        """Remove a key and return its value. None: the key had no value, and nothing was changed. MapError: the codec
        cannot read the value, so it is still there; ``del m[key]`` removes it unread."""
        found = self._removed(key, self._decoded)
        return None if found is None else found[0]

    def pop(self, key: K, *default: Any) -> Any:
        """Remove a key and return its value, or ``default``. KeyError: the key had no value, and there is no default.
        MapError: as ``remove``."""
        if len(default) > 1:
            raise TypeError(f"pop takes a key and one default, got {1 + len(default)} arguments")
        found = self._removed(key, self._decoded)
        if found is not None:
            return found[0]
        if default:
            return default[0]
        raise KeyError(key)

    def clear(self) -> None:
        """Remove all present keys, one after another."""
        for key, _ in self._file.items():
            self._file.write(key, None)

    def _removed(self, key: K, shown: Callable[[bytes], _T]) -> tuple[_T] | None:
        """Remove a value and return the result of ``shown``. If ``shown`` raises, the value stays."""
        raw = encoded(self._key, key, "key")
        file = self._file

        def remove() -> tuple[_T] | None:
            before = file.get(raw)
            if before is None:
                return None
            found = shown(before)
            file.write_now(raw, None)
            return (found,)

        return file.alone(remove)

    def _statistics(self, host: MapHost | None) -> MapStatistics:
        file = self._file
        replica = None if host is None else host.replica
        return MapStatistics(
            name=self.name,
            identifier=self.identifier,
            entries=len(self),
            waiting_bytes=file.waiting(),
            inbox_bytes=file.inbox_bytes,
            file_bytes=file.file_bytes(),
            max_bytes=file.max_bytes(),
            evicted=file.evicted(),
            replicates=host is not None,
            counters={}
            if host is None or replica is None
            else {**host.counters, **replica.counters},
            peers={} if replica is None else {n: h.name for n, h in replica.peers.items()},
            lag={} if replica is None else replica.lag(),
            held_bytes=0 if host is None else host.held_bytes,
        )

    # --- for callers that hold the key's lock

    def _put_if_absent(self, raw: bytes, value: V, ttl: float | None) -> V | None:
        data = self._encoded(value)
        before = self._file.get(raw)
        if before is not None:
            return self._decoded(before)
        self._write(raw, data, self._expires(self._ttl if ttl is None else ttl))
        return None

    def _replace(self, raw: bytes, value: V) -> V | None:
        data = self._encoded(value)
        before = self._file.get(raw)
        if before is None:
            return None
        shown = self._decoded(before)
        self._write(raw, data, self._expires(self._ttl))
        return shown

    def _compare_and_set(self, raw: bytes, expected: V, value: V) -> bool:
        data = self._encoded(value)
        before = self._file.get(raw)
        if before is None or self._decoded(before) != expected:
            return False
        self._write(raw, data, self._expires(self._ttl))
        return True

    def _update(self, raw: bytes, function: Any, default: Any) -> V:
        before = self._file.get(raw)
        value = function(default if before is None else self._decoded(before))
        self._write(raw, self._encoded(value), self._expires(self._ttl))
        return cast(V, value)

    def _increment(self, raw: bytes, amount: int) -> int:
        if not isinstance(amount, int) or isinstance(amount, bool):
            raise MapTypeError(f"amount must be an int, got {type(amount).__name__}")
        before = self._file.get(raw)
        if self._counter is not None:
            data = self._counter.add(before, self.identifier, amount)
            self._file.write(raw, data)
            return self._counter.total(data)
        value: Any = 0 if before is None else self._decoded(before)
        if not isinstance(value, int) or isinstance(value, bool):
            raise MapTypeError(f"only an int can be incremented, there is a {type(value).__name__}")
        self._write(raw, self._encoded(cast(V, value + amount)), self._expires(self._ttl))
        return value + amount

    # --- values and bytes

    def _write(self, raw: bytes, data: bytes, expires: int) -> None:
        """Write an encoded value."""
        file = self._file
        if self._fields is None:
            file.write(raw, data, expires)
        else:
            file.alone(lambda: file.write_now(raw, self._stored(file.get(raw), data), expires))

    def _stored(self, before: bytes | None, data: bytes) -> bytes:
        """Return a value in its stored form, which replaces ``before``. No other thread of this process may write
        meanwhile."""
        if self._fields is None:
            return data
        file = self._file
        return self._fields.changed(before, data, MapStamp(file.clock.next(), file.identifier))

    def _raw(self, key: K) -> bytes:
        return encoded(self._key, key, "key")

    def _encoded(self, value: V) -> bytes:
        if self._counter is not None:
            raise MapError(
                "the rule of this map is pn-counter: its values change by increment only"
            )
        return encoded(self._value, value, "value")

    def _decoded(self, data: bytes) -> V:
        return cast(V, decoded(self._shown, data, "value"))

    def _decoded_key(self, data: bytes) -> K:
        return cast(K, decoded(self._key, data, "key"))

    def _checked_ttl(self, ttl: float | None) -> None:
        if ttl is None:
            return
        check_seconds("ttl", ttl)
        if not isinstance(self._file.rule, LastWriter):
            raise MapError(f"ttl needs the rule last-writer, this map has {self._file.rule.name}")

    def _expires(self, ttl: float | None) -> int:
        if ttl is None:
            return 0
        self._checked_ttl(ttl)
        return self._file.clock.wall_time() + int(ttl * TICKS_PER_S)


class _Items(ItemsView[K, V]):
    _mapping: LocalMap[K, V]

    def __iter__(self) -> Iterator[tuple[K, V]]:
        of = self._mapping
        for key, entry in of._file.items():
            assert entry.value is not None
            try:
                yield of._decoded_key(key), of._decoded(entry.value)
            except MapError as error:
                raise MapError(f"{error} (key {key[:40]!r})") from error


class _Values(ValuesView[V]):
    _mapping: LocalMap[Any, V]

    def __iter__(self) -> Iterator[V]:
        return (value for _, value in _Items(self._mapping))
