"""Jobs: load, snapshot, follow, reconcile. Each is a function of a session, and a command.

    with open_session() as spark:
        taken = snapshot(spark, cluster, "users.parquet", path="/users")
        follow(spark, cluster, "changes.parquet", starting=taken.offset, once=True)

``cluster`` has the options of the data source that name a cluster: members, token or tokenfile, map, kind.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import Observation
from pyspark.sql import functions as f

from jgroups_py.errors import ConfigError
from jgroups_py.export import Offset
from jgroups_py.export.parts import close_all
from jgroups_py.spark.errors import is_lost_member
from jgroups_py.spark.kinds import kind_of
from jgroups_py.spark.options import offset_from, offset_to, options_of
from jgroups_py.spark.reading import opened
from jgroups_py.spark.retries import again_elsewhere

FORMATS = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json"}
BATCH_SECONDS = 20.0
"""The longest time that a query may need for its batch when it must end."""
OFFSET_FILE = "_jgroups_offset.json"
"""The file in a snapshot's folder with its place in the change log. Spark does not read files with such names."""

Cluster = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SnapshotOnDisk:
    """A snapshot on disk: its rows, and the place in the change log whose state it is."""

    rows: int
    offset: Offset


@dataclass(frozen=True, slots=True)
class ClusterDifference:
    """The numbers of nodes that only the left cluster has, that only the right one has, and that differ. ``frame`` has all of
    them (path, what: "left", "right", "both"). ``repaired`` is true if the right one was made like the left one."""

    left: int
    right: int
    both: int
    frame: Any
    repaired: bool


def load(
    spark: Any,
    cluster: Cluster,
    source: str,
    path: str,
    *,
    format: str | None = None,
    replace: bool = False,
) -> int:
    """Put the rows of a file or folder into a cache, and return their number.

    Rows are staged first, so a job that fails has written nothing, unless it failed at the end during the write. If the used member leaves, the
    job runs again at another member. Rows that the other member already has are not written twice.

    Args:
        path: the path of each row's node, with columns in braces: "/users/{id}".
        format: parquet, csv or json. The default is the end of the name.
        replace: nodes then have only the row's columns. Without it other attributes stay.
    """
    form = checked_source(source, format, path)
    options = options_of(cluster)  # this is before any row is read
    reader = spark.read.format(form)
    if form == "csv":
        reader = reader.option("header", "true").option("inferSchema", "true")
    rows = with_path(reader.load(source), path)

    def attempt(number: int) -> int:
        counted = Observation()
        how = {"replace": str(replace).lower(), "skipequal": str(number > 0).lower()}
        observed = rows.observe(counted, f.count(f.lit(1)).alias("rows"))
        observed.write.format("jgroups").options(**cluster, **how).mode("append").save()
        return int(counted.get["rows"])

    return again_elsewhere(options, attempt)


def checked_source(source: str, format: str | None, path: str) -> str:
    """Return the format of a file. Raise ConfigError if it cannot be told, there is no such file, or ``path`` is wrong."""
    form = format or FORMATS.get(Path(source).suffix)
    if form is None or form not in FORMATS.values():
        raise ConfigError(f"{source}: say which format: parquet, csv or json")
    local = not re.search(r"://|[*?\[{]", source)  # otherwise Spark looks for it
    if local and not Path(source).exists():
        raise ConfigError(f"{source}: no such file or folder")
    if not path.startswith("/"):
        raise ConfigError(f'path "{path}" does not begin with /')
    return form


def with_path(rows: Any, template: str) -> Any:
    """Return the rows with a column path in front. Raise ConfigError for a column that is not there."""
    if rows.columns == ["_corrupt_record"]:
        raise ConfigError("there is no JSON in it: one object in each line")
    parts: list[Any] = []
    for number, text in enumerate(re.split(r"\{([^{}]*)\}", template)):
        if number % 2 == 0:
            parts.append(f.lit(text))
        elif text not in rows.columns:
            raise ConfigError(
                f'path "{template}": no column "{text}"; there is {", ".join(rows.columns)}'
            )
        else:
            value = f.replace(rows[text].cast("string"), f.lit("\\"), f.lit("\\\\"))
            parts.append(f.replace(value, f.lit("/"), f.lit("\\/")))
    others = [rows[name] for name in rows.columns if name != "path"]
    return rows.select(f.concat(*parts).alias("path"), *others)


def snapshot(
    spark: Any,
    cluster: Cluster,
    target: str,
    *,
    path: str = "/",
    schema: str | None = None,
    format: str = "parquet",
) -> SnapshotOnDisk:
    """Write one moment of a cache to a new folder, with its place in the log (``OFFSET_FILE``), from which changes can be followed.

    If the member that keeps the snapshot leaves, the snapshot is taken again at another member. Of a cache with buddies each member's part
    is of one moment, and each node is in it once."""
    options = options_of(cluster)
    if Path(target).exists():
        raise ConfigError(f"{target} is there already: a snapshot is written to a new folder")

    def attempt(number: int) -> SnapshotOnDisk:
        kept = opened(options, (path,))
        try:
            reader = spark.read.format("jgroups").options(**cluster, snapshot=str(kept))
            frame = (reader.schema(schema) if schema else reader).load()
            mode = "overwrite" if number else "error"  # the folder of the previous attempt
            frame.write.format(format).mode(mode).save(target)
        finally:
            close_all(kept.pictures, options.token)
        return SnapshotOnDisk(kept.rows, kept.offset)

    taken = again_elsewhere(options, attempt)
    Path(target, OFFSET_FILE).write_text(offset_to(taken.offset) + "\n", encoding="utf-8")
    return taken


def offset_of(target: str) -> Offset:
    """Return the place in a snapshot's folder. Raise ConfigError if there is none."""
    file = Path(target, OFFSET_FILE)
    try:
        return offset_from(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from None


def follow(
    spark: Any,
    cluster: Cluster,
    table: str,
    *,
    checkpoint: str | None = None,
    starting: Offset | str = "earliest",
    schema: str | None = None,
    once: bool = False,
    every: str = "1 second",
    max_rows: int | None = None,
    progress: Callable[[Mapping[str, Any]], None] | None = None,
    until: Callable[[], bool] = lambda: False,
) -> int:
    """Append changes to a Parquet table, each once, also when it is stopped and started again. Return the number that
    it appended in this run. If a member leaves in the middle of a call, the call continues at another member.

    Args:
        checkpoint: the folder in which Spark keeps how far it is. The default is next to the table.
        starting: "earliest", "latest", or a place. It counts only when there is no checkpoint yet.
        once: end after the changes that are there now. Without it the query runs until it is stopped.
        progress: a function that is called for each batch, with Spark's own numbers.
        until: a function that is called twice a second. When it returns true, the query ends after its batch.
    """
    options = options_of(cluster)
    where = starting if isinstance(starting, str) else offset_to(starting)
    more = {"maxrows": str(max_rows)} if max_rows else {}
    reader = spark.readStream.format("jgroups").options(
        **cluster, rows="changes", startingoffset=where, **more
    )
    frame = (reader.schema(schema) if schema else reader).load()
    writer = (
        frame.writeStream.format("parquet")
        .option("path", table)
        .option("checkpointLocation", checkpoint or f"{table.rstrip('/')}.checkpoint")
    )
    writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=every)
    counted = _Counted(progress)
    while True:
        before = counted.batches
        try:
            again_elsewhere(options, lambda _: _run_to_end(writer, counted, until))
            return counted.rows
        except Exception as error:
            if not is_lost_member(error) or counted.batches == before:
                raise  # no call succeeded between the failures


class _Counted:
    """Rows of the batches that are done, over all runs of a query."""

    def __init__(self, progress: Callable[[Mapping[str, Any]], None] | None) -> None:
        self._progress = progress
        self._last = -1
        self.rows = 0
        self.batches = 0

    def look(self, query: Any) -> None:
        for said in query.recentProgress:
            if said["batchId"] > self._last and said["numInputRows"]:
                self._last = said["batchId"]
                self.rows += said["numInputRows"]
                self.batches += 1
                if self._progress is not None:
                    self._progress(said)


def _last_batch(query: Any) -> int | None:
    said = query.lastProgress
    return None if said is None else int(said["batchId"])


def _run_to_end(writer: Any, counted: _Counted, until: Callable[[], bool]) -> None:
    """Raise the error with which the query failed."""
    query = writer.start()
    try:
        while not until() and not query.awaitTermination(0.5):
            counted.look(query)
        last, end = _last_batch(query), time.monotonic() + BATCH_SECONDS
        while query.isActive and query.status["isTriggerActive"] and _last_batch(query) == last:
            if time.monotonic() > end:
                break  # interrupted work is done again the next time
            time.sleep(0.02)
    finally:
        query.stop()
        counted.look(query)  # another batch may have ended before the stop


def reconcile(
    spark: Any, left: Cluster, right: Cluster, *, path: str = "/", repair: bool = False
) -> ClusterDifference:
    """Compare one moment of each of two clusters, with deletions. With buddies each moment is as in ``snapshot``. With ``repair``
    the right cluster gets the nodes that differ, and loses the nodes that only it has. Writes there may be undone
    meanwhile."""
    key = kind_of(left.get("kind")).key
    one, other = (
        spark.read.format("jgroups")
        .options(**cluster, path=path)
        .schema(f"{key} string, data binary")
        .load()
        .alias(name)
        for cluster, name in ((left, "one"), (right, "other"))
    )
    joined = one.join(other, key, "full_outer")
    what = (
        f.when(f.col("other.data").isNull(), "left")
        .when(f.col("one.data").isNull(), "right")
        .when(f.col("one.data") != f.col("other.data"), "both")
    )
    frame = (
        joined.select(key, what.alias("what"), f.col("one.data").alias("data"))
        .where("what is not null")
        .cache()
    )
    counts = {row["what"]: row["count"] for row in frame.groupBy("what").count().collect()}
    if repair and counts:
        rows = frame.select(key, (f.col("what") == "right").alias("removed"), "data")
        rows.write.format("jgroups").options(**right, replace="true").mode("append").save()
    left_only, right_only, both = (counts.get(name, 0) for name in ("left", "right", "both"))
    return ClusterDifference(left_only, right_only, both, frame.select(key, "what"), repair)


def json_of(offset: Offset) -> Any:
    """Return an offset as a plain value, for output."""
    return json.loads(offset_to(offset))
