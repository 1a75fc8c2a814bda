"""The kind "maps": a multi-master map (``jgroups_py.maps``), read from its folder.

    spark.read.format("jgroups").option("kind", "maps").load("/data/fx")
    spark.readStream.format("jgroups").options(kind="maps", rows="changes").load("/data/fx")

Tasks open the folder as any other process of the host does. So it must be on the machine of the driver and of each
executor. All of them are hosts of the map then.
Promises: design/spark.md.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Any, Final, Literal

import msgspec
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from jgroups_py.errors import ConfigError
from jgroups_py.export.errors import Behind, Trimmed
from jgroups_py.maps import following
from jgroups_py.maps.described import DescribedMap, open_described
from jgroups_py.maps.following import Place
from jgroups_py.maps.local_map import LocalMap
from jgroups_py.maps.shared import SharedFile
from jgroups_py.spark.map_rows import MapRows, Told, default_schema
from jgroups_py.spark.options import PARTITIONS_MAX, known_options, number_option, rows_option
from jgroups_py.spark.reading import PARTITIONS_UNASKED, ROWS_EACH

KIND: Final = "maps"
KNOWN: Final = ("kind", "path", "rows", "partitions", "startingoffset", "maxrows")
BATCH_ROWS: Final = 10_000
"""The most rows of a record batch."""
BEHIND_WAIT: Final = 10.0
"""Seconds that a task waits until the host on its machine has the changes that it is to read."""


@dataclass(frozen=True)
class KeyRange(InputPartition):
    """Keys above ``after``, up to ``to``; None: to the end."""

    after: bytes
    to: bytes | None


@dataclass(frozen=True)
class NumberRange(InputPartition):
    """Changes of an origin with numbers above ``after``, up to ``to``; for a reader that has read up to
    ``start``."""

    start: Place
    origin: str
    after: int
    to: int


@dataclass(frozen=True, slots=True)
class MapSourceOptions:
    folder: str
    rows: Literal["state", "changes"] = "state"
    partitions: int | None = None
    starting: Place | Literal["earliest", "latest"] = "latest"
    max_rows: int | None = None


def map_options_of(given: Mapping[str, str]) -> MapSourceOptions:
    """Return the options. Raises ConfigError for an option that is missing, unknown or wrong."""
    values = known_options(given, KNOWN)
    folder = values.get("path", "")
    if not os.path.isabs(folder):
        raise ConfigError(
            f'the path of a map is that of its folder, from the root on, the same on all machines: load("/data/fx"), got "{folder}"'
        )
    starting = values.get("startingoffset", "latest")
    return MapSourceOptions(
        folder,
        rows_option(values),
        number_option(values, "partitions", PARTITIONS_MAX),
        _place(starting) if starting not in ("earliest", "latest") else starting,  # type: ignore[arg-type]
        number_option(values, "maxrows", 2**31),
    )


def map_place(of: str | os.PathLike[str] | LocalMap[Any, Any]) -> str:
    """Return the place after all changes of a map, for the option ``startingoffset``. ``of``: its folder, or the map
    that this process has open. Ask for the place before a snapshot is read: from there on a stream has every change
    that the snapshot may lack."""
    if isinstance(of, LocalMap):
        return _text(following.place_now(of._file))
    with open_described(of) as described:
        return _text(following.place_now(described.file))


def schema_of(options: MapSourceOptions) -> str:
    with open_described(options.folder) as described:
        changes = options.rows == "changes"
        return default_schema(described.key_form, described.value_form, changes)


class _MapReader:
    """The common part of the readers. The schema is checked where the query is planned."""

    def __init__(self, options: MapSourceOptions, schema: Any) -> None:
        self._options = options
        self._schema = schema
        with open_described(options.folder) as described:
            self._rows(described)

    def _rows(self, described: DescribedMap) -> MapRows:
        changes = self._options.rows == "changes"
        return MapRows(self._schema, described.key_form, described.value_form, changes)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        with open_described(self._options.folder) as described:
            make = self._rows(described)
            told = _told(described.file, partition)
            while some := list(islice(told, BATCH_ROWS)):
                yield make(described, some)
            # Removals that were forgotten meanwhile were not read.
            if isinstance(partition, NumberRange):
                _check(described.file, partition.start)

    def _ranges(self, start: Place, end: Place) -> Sequence[InputPartition]:
        todo = [
            (origin, start.origins.get(origin, 0), to)
            for origin, to in end.origins.items()
            if to > start.origins.get(origin, 0)
        ]
        total = sum(to - after for _, after, to in todo)
        parts = self._options.partitions or min(-(-total // ROWS_EACH), PARTITIONS_UNASKED)
        each = max(1, -(-total // max(1, parts)))
        return [
            NumberRange(start, origin, number, min(number + each, to))
            for origin, after, to in todo
            for number in range(after, to, each)
        ] or [NumberRange(start, "0", 0, 0)]


class MapStateReader(_MapReader, DataSourceReader):
    """A snapshot: each row is of a moment between the plan of the query and the end of its task."""

    def partitions(self) -> Sequence[InputPartition]:
        with open_described(self._options.folder) as described:
            count = described.file.count()
            parts = self._options.partitions or min(-(-count // ROWS_EACH), PARTITIONS_UNASKED)
            cuts = described.file.cuts(max(1, -(-count // max(1, parts))))
        return [KeyRange(after, to) for after, to in zip((b"", *cuts), (*cuts, None), strict=True)]


class MapChangesReader(_MapReader, DataSourceReader):
    """Changes from ``startingoffset`` to now, as a batch."""

    def partitions(self) -> Sequence[InputPartition]:
        starting = self._options.starting
        with open_described(self._options.folder) as described:
            file = described.file
            start = starting if isinstance(starting, Place) else following.beginning(file)
            _check(file, start)
            return self._ranges(start, following.place_now(file))


class MapChangesStream(_MapReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Changes as a stream."""

    _target: dict[str, int] | None = None

    def initialOffset(self) -> dict[str, Any]:
        starting = self._options.starting
        if isinstance(starting, Place):
            return _dict(starting)
        with open_described(self._options.folder) as described:
            at = following.beginning if starting == "earliest" else following.place_now
            return _dict(at(described.file))

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._options.max_rows
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        place = msgspec.convert(start, Place)
        with open_described(self._options.folder) as described:
            _check(described.file, place)
            end = following.after(described.file, place, most)
        if self._target is not None:
            within = {o: min(n, self._target.get(o, 0)) for o, n in end.origins.items()}
            end = Place({o: n for o, n in within.items() if n}, end.forgotten)
        return start if end.origins == place.origins else _dict(end)

    def prepareForTriggerAvailableNow(self) -> None:
        with open_described(self._options.folder) as described:
            self._target = following.place_now(described.file).origins

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return self._ranges(msgspec.convert(start, Place), msgspec.convert(end, Place))


def _told(file: SharedFile, partition: InputPartition) -> Iterator[Told]:
    if isinstance(partition, KeyRange):
        to = partition.to
        items = takewhile(
            lambda item: to is None or item[0] <= to, file.items(after=partition.after)
        )
        return (("", 0, key, entry) for key, entry in items)
    assert isinstance(partition, NumberRange)
    origin, after, to_number = partition.origin, partition.after, partition.to
    until = time.monotonic() + BEHIND_WAIT
    while file.vector().get(int(origin), 0) < to_number:
        if time.monotonic() > until:
            raise Behind(
                f"the map in {file.folder} has no change {to_number} of host {int(origin) >> 48} after {BEHIND_WAIT:g} s (BEHIND_WAIT): is it a host of "
                "the same map, and does it replicate?"
            )
        time.sleep(0.01)
    changes = following.changes(file, origin, after, to_number)
    return ((origin, number, key, entry) for number, key, entry in changes)


def _check(file: SharedFile, start: Place) -> None:
    problem = following.missed(file, start)
    if problem:
        raise Trimmed(f"{file.folder}: {problem}: read a snapshot, and follow from its place")


def _place(text: str) -> Place:
    try:
        return msgspec.json.decode(text, type=Place)
    except msgspec.MsgspecError as error:
        raise ConfigError(
            f'option startingoffset is "earliest", "latest" or the result of map_place: {error}'
        ) from None


def _text(place: Place) -> str:
    return msgspec.json.encode(place).decode()


def _dict(place: Place) -> dict[str, Any]:
    return dict(msgspec.to_builtins(place))
