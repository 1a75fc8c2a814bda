"""Readers: a snapshot as a batch, changes as a batch or a stream."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Self

import msgspec
from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    In,
    InputPartition,
    StringStartsWith,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from jgroups_py.errors import ConfigError
from jgroups_py.export import ExportClient, Offset
from jgroups_py.export.client import Address
from jgroups_py.export.errors import NoMember
from jgroups_py.export.following import OwnersFollowed, bounded
from jgroups_py.export.parts import KeptPicture, open_parts
from jgroups_py.spark.kinds import MapKind, kind_of
from jgroups_py.spark.options import SparkOptions

ROWS_EACH = 50_000
"""Rows of a partition, where the option ``partitions`` is not given."""
UNREACHED_MAX = 120.0
"""Seconds that a stream goes on without the changes of a member whose port cannot be reached."""
PARTITIONS_UNASKED = 64
"""The most partitions, where the option ``partitions`` is not given."""


@dataclass(frozen=True)
class Slice(InputPartition):
    """Rows of a snapshot at the member that keeps it."""

    member: Address
    snapshot: str
    start: int
    stop: int


@dataclass(frozen=True)
class Range(InputPartition):
    """A range of a log, read at the first member if it is present."""

    member: Address
    map: str
    start: Offset
    stop: Offset


def resolved(options: SparkOptions, client: ExportClient) -> tuple[str, MapKind]:
    """Return the map's name and kind, as the member describes them. ExportError: no such map, or its values are written
    by a codec that readers do not have."""
    said = client.describe(options.map, options.kind)
    if said.values != "msgpack":
        raise ConfigError(f'values of map "{said.map}" are written by the codec {said.values}')
    return said.map, kind_of(said.kind)


def slices(count: int, parts: int) -> Iterator[tuple[int, int]]:
    """Yield the bounds of ``parts`` equal parts of ``count`` rows, at least one."""
    parts = max(1, min(parts, count))
    for number in range(parts):
        yield number * count // parts, (number + 1) * count // parts


@dataclass(frozen=True, slots=True)
class Opened:
    """A snapshot with its place in the change log. It is one picture, or one picture of each member's
    part."""

    pictures: tuple[KeptPicture, ...]
    offset: Offset

    @property
    def rows(self) -> int:
        return sum(picture.rows for picture in self.pictures)

    def __str__(self) -> str:
        """Return the form that the option ``snapshot`` takes."""
        return ",".join(map(str, self.pictures))


def opened(options: SparkOptions, under: Sequence[str]) -> Opened:
    """Open a snapshot at any member; at all of them, if each has a part (``open_parts``)."""
    with options.connect() as client:
        name, _ = resolved(options, client)
        if not client.describe(name).parts:
            said = client.open_snapshot(name, under)
            return Opened((KeptPicture(client.address, said.id, said.rows),), said.offset)
    parts = open_parts(options.members, options.token, name, under)
    return Opened(parts.pictures, parts.offset)


def spread(pictures: Sequence[KeptPicture], wanted: int | None) -> list[Slice]:
    """Return ``wanted`` slices, each of one picture, but at least one of each picture that has rows."""
    total = sum(picture.rows for picture in pictures)
    parts = wanted or min(-(-total // ROWS_EACH), PARTITIONS_UNASKED)
    return [
        Slice(picture.member, picture.id, start, stop)
        for picture in [picture for picture in pictures if picture.rows] or pictures[:1]
        for start, stop in slices(picture.rows, round(parts * picture.rows / max(1, total)))
    ]


class StateReader(DataSourceReader):
    """Reads one snapshot for each query. One member keeps it. For a cache with buddies each member keeps its
    part."""

    def __init__(self, options: SparkOptions, schema: Any) -> None:
        self._options = options
        self._schema = schema
        self._under: tuple[str, ...] = (options.path,)
        # A schema that does not fit is reported at once.
        kind_of(options.kind).state_decoder(schema)

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        pictures = options.snapshot or opened(options, self._under).pictures
        return spread(pictures, options.partitions)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, Slice)
        decode = kind_of(self._options.kind).state_decoder(self._schema)
        only_there = replace(self._options, members=(partition.member,))
        with only_there.connect() as client:
            for frame in client.read_snapshot(partition.snapshot, partition.start, partition.stop):
                yield decode(frame)


class FilteredStateReader(StateReader):
    """The same reader, with filters on the path applied by the member (option ``pushdown``; Spark refuses such a
    reader unless spark.sql.python.filterPushdown.enabled is true). Spark evaluates them again."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        key = (kind_of(self._options.kind).key,)
        found: list[list[str]] = []
        for filter in filters:
            yield filter
            if getattr(filter, "attribute", None) != key:
                continue
            match filter:
                case EqualTo(_, str(value)):
                    found.append([value])
                case In(_, values) if all(isinstance(value, str) for value in values):
                    found.append(list(values))
                case StringStartsWith(_, value):
                    found.append([_above(value)])
        if found:
            self._under = narrowed(self._options.path, min(found, key=len))


def narrowed(path: str, wanted: Sequence[str]) -> tuple[str, ...]:
    """Return the paths within ``path``, or ``path`` itself if it lies within one of them."""
    inside = path.rstrip("/") + "/"
    under = []
    for value in dict.fromkeys(wanted):
        if value == path or value.startswith(inside):
            under.append(value)
        elif path.startswith(value.rstrip("/") + "/"):
            under.append(path)
    return tuple(dict.fromkeys(under))


def _above(prefix: str) -> str:
    """Return the subtree that contains all paths with a prefix."""
    if "\\" in prefix:
        return "/"  # an escape that is cut in two
    return prefix.rpartition("/")[0] or "/"


def ranges(
    client: ExportClient, options: SparkOptions, name: str, start: Offset, stop: Offset
) -> list[InputPartition]:
    """Return the changes between two places, in consecutive parts."""
    if start.at >= stop.at and start.log == stop.log:
        return [Range(client.address, name, start, stop)]
    total = client.find_offset(name, start).changes
    parts = options.partitions or min(-(-total // ROWS_EACH), PARTITIONS_UNASKED)
    found: list[InputPartition] = []
    at = start
    for _ in range(max(1, parts) - 1):
        then = client.find_offset(name, at, max_changes=max(1, total // max(1, parts))).offset
        if then.log != stop.log or then.at >= stop.at:
            break
        found.append(Range(client.address, name, at, then))
        at = then
    return [*found, Range(client.address, name, at, stop)]


def read_range(options: SparkOptions, schema: Any, partition: InputPartition) -> Iterator[Any]:
    """Yield record batches of changes, from any member that has them."""
    assert isinstance(partition, Range)
    decode = kind_of(options.kind).changes_decoder(schema)
    with options.connect_at(partition.start, partition.stop, first=partition.member) as client:
        for frame in client.read_changes(partition.map, partition.start, partition.stop):
            yield decode(frame)


class FollowedLog:
    """The change log that options name, for as long as a ``with`` block lasts. It is that of one member that has the
    ``places``; with buddies, that of all members."""

    def __init__(self, options: SparkOptions, *places: Offset) -> None:
        self._options = options
        self._stack = ExitStack()
        self._client: ExportClient | None = None
        self._owners: OwnersFollowed | None = None
        try:
            with options.connect() as client:
                self.map, _ = resolved(options, client)
                parts = client.describe(self.map).parts
            for place in places:
                self._check(place, parts)
            if parts:
                owners = OwnersFollowed(options.members, options.token, self.map)
                self._owners = self._stack.enter_context(owners)
            else:
                self._client = self._stack.enter_context(options.connect_at(*places))
        except BaseException:
            self._stack.close()
            raise

    def _check(self, place: Offset, parts: bool) -> None:
        if place.is_of_parts != parts:
            of, not_of = ("with", "without") if parts else ("without", "with")
            raise ConfigError(
                f'map "{self.map}" is a cache {of} buddies, the offset is of one {not_of}: take a snapshot and follow '
                "from its offset"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def begin(self) -> Offset:
        if self._owners is not None:
            return self._owners.begin()
        return self._one.find_offset(self.map, earliest=True).offset

    def end(self) -> Offset:
        if self._owners is not None:
            return self._owners.end()
        return self._one.find_offset(self.map).offset

    def after(self, start: Offset, max_changes: int | None = None) -> Offset:
        """Return the end, or a place about ``max_changes`` after ``start``; ``start`` itself without changes."""
        if self._owners is not None:
            end = self._owners.after(start, max_changes)
        else:
            end = self._one.find_offset(self.map, start, max_changes=max_changes).offset
        return start if end.origins == start.origins else end

    def ranges(self, start: Offset, stop: Offset) -> list[InputPartition]:
        """Return the changes between two places, in parts."""
        if self._owners is None:
            return ranges(self._one, self._options, self.map, start, stop)
        return [
            part
            for piece in self._owners.pieces(start, stop)
            for part in ranges(piece.client, self._options, self.map, piece.start, piece.stop)
        ]

    @property
    def unreached(self) -> Sequence[str]:
        """Return the names of members whose changes cannot be read now."""
        return () if self._owners is None else self._owners.unreached

    @property
    def _one(self) -> ExportClient:
        assert self._client is not None, "of parts are asked all members"
        return self._client


class ChangesReader(DataSourceReader):
    """Changes from ``startingoffset`` to now, as a batch."""

    def __init__(self, options: SparkOptions, schema: Any) -> None:
        self._options = options
        self._schema = schema
        kind_of(options.kind).changes_decoder(schema)

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        places = [options.starting] if isinstance(options.starting, Offset) else []
        with FollowedLog(options, *places) as course:
            begin = places[0] if places else course.begin()
            return course.ranges(begin, course.after(begin))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_range(self._options, self._schema, partition)


class ChangesStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Changes as a stream. Offsets are places in the change log, each origin's number by name. A repeated request gives
    the same rows at any member."""

    def __init__(self, options: SparkOptions, schema: Any) -> None:
        self._options = options
        self._schema = schema
        self._target: dict[str, Any] | None = None
        self._unreached: dict[str, float] = {}
        kind_of(options.kind).changes_decoder(schema)

    def initialOffset(self) -> dict[str, Any]:
        options = self._options
        places = [options.starting] if isinstance(options.starting, Offset) else []
        with FollowedLog(options, *places) as course:
            if places:
                return _dict(places[0])
            return _dict(course.begin() if options.starting == "earliest" else course.end())

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._options.max_rows
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        after = _offset(start)
        with FollowedLog(self._options, after) as course:
            end = course.after(after, most)
            self._miss(course.unreached)
        if self._target is not None:
            target = _offset(self._target)
            if target.is_of_parts:
                end = bounded(end, after, target)
            elif _is_past(end, target):
                end = target
        return start if end.origins == after.origins else _dict(end)

    def _miss(self, names: Sequence[str]) -> None:
        """Raise NoMember if a member of the others' view has been silent for too long."""
        now = time.monotonic()
        self._unreached = {name: self._unreached.get(name, now) for name in names}
        for name, since in self._unreached.items():
            if now - since > UNREACHED_MAX:
                raise NoMember(
                    f"{name} is a member, and no port of it was reached for {UNREACHED_MAX:g} s (UNREACHED_MAX): what it "
                    "writes cannot be followed; is its port among those given?"
                )

    def prepareForTriggerAvailableNow(self) -> None:
        with FollowedLog(self._options) as course:
            self._target = _dict(course.end())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        with FollowedLog(self._options, _offset(start), _offset(end)) as course:
            return course.ranges(_offset(start), _offset(end))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_range(self._options, self._schema, partition)


def _is_past(end: Offset, target: Offset) -> bool:
    if end.log == target.log:
        return end.at > target.at
    return all(end.origins.get(o, 0) >= number for o, number in target.origins.items())


def _dict(offset: Offset) -> dict[str, Any]:
    return dict(msgspec.to_builtins(offset))


def _offset(given: dict[str, Any]) -> Offset:
    return msgspec.convert(given, Offset)
