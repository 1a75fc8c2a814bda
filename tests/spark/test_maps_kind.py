"""format("jgroups") with kind "maps": a map's folder as a snapshot and as a stream."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jgroups_py import blocking
from jgroups_py.errors import ConfigError
from jgroups_py.maps import MapTypeError, PerField, PnCounter

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("default"),  # Spark's own
    pytest.mark.timeout(600),
]


class Quote(msgspec.Struct):
    bid: float = 0.0
    ask: float = 0.0


@pytest.fixture
def fx(tmp_path: Path) -> Iterator[blocking.Map[str, Any]]:
    with blocking.open_map(tmp_path / "fx", key=str, value="json", identifier=1) as m:
        yield m


@pytest.fixture
def read(spark: Any, fx: blocking.Map[str, Any]) -> Callable[..., Any]:
    def read(schema: str | None = None, folder: Path = fx.path, **more: str) -> Any:
        reader = spark.read.format("jgroups").options(kind="maps", **more)
        return (reader.schema(schema) if schema else reader).load(str(folder))

    return read


class Followed:
    """A stream whose batches are kept: for each key the row with the highest stamp, and the number of times each
    change was reported."""

    def __init__(self, spark: Any, folder: Path, checkpoint: Path) -> None:
        self._spark, self._folder, self._checkpoint = spark, folder, checkpoint
        self.state: dict[str, tuple[str, Any]] = {}
        self.told: list[tuple[str, int]] = []
        self.largest = 0

    def run(self, **options: str) -> None:
        """Run the stream until it has reported all changes."""
        stream = self._spark.readStream.format("jgroups").options(
            kind="maps", rows="changes", **options
        )
        query = (
            stream.load(str(self._folder))
            .writeStream.foreachBatch(self._take)
            .option("checkpointLocation", str(self._checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    def _take(self, batch: Any, _: int) -> None:
        rows = batch.collect()
        self.largest = max(self.largest, len(rows))
        for row in rows:
            self.told.append((row.origin, row.number))
            if row.stamp >= self.state.get(row.key, ("",))[0]:
                self.state[row.key] = row.stamp, row.value
                assert row.removed == (row.value is None)

    @property
    def map(self) -> dict[str, Any]:
        return {key: msgspec.json.decode(text) for key, (_, text) in self.state.items() if text}


def said_by(action: Callable[[], Any]) -> str:
    """Return our one line of the error that Spark raises."""
    from jgroups_py.spark import problem_of

    with pytest.raises(Exception) as caught:
        action()
    line = problem_of(caught.value)
    assert line is not None, str(caught.value)[-2000:]
    return line


def test_a_snapshot_has_each_key_once_whatever_the_partitions_and_columns(
    fx: blocking.Map[str, Any], read: Callable[..., Any], tmp_path: Path
) -> None:
    for number in range(1000):
        fx[f"k{number}"] = {"bid": number / 2, "name": f"N{number}"}
    fx.put("gone", 1, ttl=0.001)
    del fx["k7"]
    fx["odd"] = {"other": [1, None]}
    found = read(partitions="4")
    assert found.rdd.getNumPartitions() >= 4
    rows = found.collect()
    assert len(rows) == 1000 == len({row.key for row in rows})
    assert {row.key: msgspec.json.decode(row.value) for row in rows} == dict(fx)
    typed = read("key string, bid double, name string, host int, expires timestamp, stamp string")
    shown = {row.key: row for row in typed.collect()}
    assert (shown["k8"].bid, shown["k8"].name, shown["k8"].host) == (4.0, "N8", 1)
    assert shown["odd"].bid is None and shown["k8"].expires is None
    assert shown["k8"].stamp < shown["k9"].stamp

    with blocking.open_map(tmp_path / "hits", key=int, rule=PnCounter()) as hits:
        hits.increment(-3, 40)
        hits.increment(-3, 2)
        assert read(folder=hits.path).collect() == [(-3, 42)]
    with blocking.open_map(tmp_path / "f", key=bytes, value=Quote, rule=PerField()) as quotes:
        quotes[b"\xff"] = Quote(1.5, 2.5)
        assert read("key binary, ask double", quotes.path).collect() == [(b"\xff", 2.5)]


def test_a_stream_that_is_started_again_ends_with_the_map_and_tells_no_change_twice(
    spark: Any, fx: blocking.Map[str, Any], tmp_path: Path
) -> None:
    followed = Followed(spark, fx.path, tmp_path / "checkpoint")
    for number in range(300):
        fx[f"k{number}"] = number
    assert fx.wait_merged()
    followed.run(startingoffset="earliest", maxrows="100")
    assert followed.map == dict(fx) and followed.largest == 100
    for number in range(250, 320):
        fx[f"k{number}"] = -number
    for number in range(50):
        del fx[f"k{number}"]
    assert fx.wait_merged()
    followed.run(startingoffset="earliest", partitions="3")
    assert followed.map == dict(fx)
    assert len(followed.told) == 300 + 70 + 50 == len(set(followed.told))


def test_a_snapshot_and_the_changes_from_its_place_on_are_the_map_under_traffic(
    spark: Any, fx: blocking.Map[str, Any], read: Callable[..., Any], tmp_path: Path
) -> None:
    from jgroups_py.spark import map_place

    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            fx[f"k{number * 7 % 1000}"] = number
            if number % 3 == 0:
                fx.pop(f"k{number % 1000}", None)
            time.sleep(0.0005)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        time.sleep(0.3)
        place = map_place(fx)
        followed = Followed(spark, fx.path, tmp_path / "checkpoint")
        snapshot = read("key string, stamp string, value string", partitions="3").collect()
        followed.state = {row.key: (row.stamp, row.value) for row in snapshot}
        followed.run(startingoffset=place)
    finally:
        stop.set()
        writer.join()
    assert fx.wait_merged()
    followed.run()
    assert followed.map == dict(fx)


def test_removals_that_were_forgotten_end_a_stream_with_a_word(
    spark: Any, fx: blocking.Map[str, Any], tmp_path: Path
) -> None:
    fx["a"] = 1
    assert fx.wait_merged()
    followed = Followed(spark, fx.path, tmp_path / "checkpoint")
    followed.run(startingoffset="earliest")
    del fx["a"]
    assert fx.wait_merged()
    fx._file.forget([b"a"])
    assert fx.wait_merged()
    line = said_by(followed.run)
    assert "removals were forgotten before they were read" in line and "snapshot" in line


def test_an_unreadable_map_is_reported_in_one_line(
    spark: Any, fx: blocking.Map[str, Any], read: Callable[..., Any], tmp_path: Path
) -> None:
    told = {
        "no map in this folder": lambda: read(folder=tmp_path / "none").count(),
        "from the root on": lambda: read(folder=Path("fx")).count(),
        "did you mean partitions?": lambda: read(partition="3").count(),
        'option rows is "state" or "changes"': lambda: read(rows="all").count(),
        "the result of map_place": lambda: read(rows="changes", startingoffset="7").count(),
        "column key of this map is string, not bigint": lambda: read("key bigint").count(),
        "a snapshot has no column number": lambda: read("key string, number bigint").count(),
        "foreachPartition": lambda: (
            spark.range(1)
            .write.format("jgroups")
            .option("kind", "maps")
            .mode("append")
            .save(str(fx.path))
        ),
    }
    for words, action in told.items():
        assert words in said_by(action), words


def test_a_value_that_does_not_fit_its_column_is_told_with_its_key(
    fx: blocking.Map[str, Any],
) -> None:
    """The test does what a task of Spark does, without a session."""
    pytest.importorskip("pyspark")
    from pyspark.sql import types as t

    from jgroups_py.maps.described import DescribedMap
    from jgroups_py.spark.map_rows import MapRows

    def rows(*columns: t.StructField) -> Any:
        schema = t.StructType([t.StructField("key", t.StringType()), *columns])
        make = MapRows(schema, "text", "json", changes=False)
        return make(DescribedMap(fx._file), [("", 0, *item) for item in fx._file.items()])

    fx["a"] = {"bid": "high"}
    bid = t.StructField("bid", t.DoubleType())
    with pytest.raises(MapTypeError, match="field bid of key 'a' is a str, no double"):
        rows(bid)
    fx["b"] = [1]
    with pytest.raises(MapTypeError, match="the value of key 'b' is a list, which has no fields"):
        rows(bid)
    assert rows().to_pydict() == {"key": ["a", "b"]}
    with pytest.raises(ConfigError, match="column value of this map is string, not double"):
        rows(t.StructField("value", t.DoubleType()))
