"""format("jgroups") against a cache in this process: reads, writes, streams, retries, errors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from jgroups_py import MemoryNetwork, blocking
from jgroups_py.cache import BuddyReplicationConfig, CacheSettings
from jgroups_py.errors import ConfigError
from jgroups_py.export import ExportToken
from jgroups_py.export.messages import StageRows
from jgroups_py.export.staging import Staging
from jgroups_py.testing.authority import CertificateAuthority

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("default"),  # Spark's own
    pytest.mark.timeout(600),
]
TOKEN = "a token for the tests"
Cache = blocking.TreeCache
Port = blocking.ExportPort


@pytest.fixture
def cache() -> Iterator[Cache]:
    with blocking.open_tree_cache("local.xml", timeout=20) as cache:
        yield cache


@pytest.fixture
def port(cache: Cache) -> Iterator[Port]:
    with blocking.open_export(cache, token=TOKEN) as port:
        yield port


@pytest.fixture
def options(port: Port) -> dict[str, str]:
    host, number = port.address
    return {"members": f"{host}:{number}", "token": TOKEN}


@pytest.fixture
def read(spark: Any, options: dict[str, str]) -> Callable[..., Any]:
    def read(schema: str | None = None, **more: str) -> Any:
        reader = spark.read.format("jgroups").options(**options, **more)
        return (reader.schema(schema) if schema else reader).load()

    return read


def tree(cache: Cache) -> dict[str, dict[str, Any]]:
    """Return all nodes except the markers."""
    nodes = cache._look(lambda: cache._value.tree.container.nodes())
    decode = cache._value.decode
    return {
        str(path): {key: decode(data) for key, data in node.attributes.items()}
        for path, node in nodes.items()
        if path[0] != "_export_"
    }


def said_by(action: Callable[[], Any]) -> str:
    """Return our one line of the error that Spark raises."""
    from jgroups_py.spark import problem_of

    with pytest.raises(Exception) as caught:
        action()
    line = problem_of(caught.value)
    assert line is not None, str(caught.value)[-2000:]
    return line


# --- reading


def test_a_snapshot_in_three_forms(cache: Cache, read: Callable[..., Any]) -> None:
    cache.put_many({f"/users/{n}": {"name": f"N{n}", "visits": n} for n in range(1000)})
    cache.put_node("/users/none", {})
    cache.put("/other", "k", [1, {"a": None}])

    rows = {row.path: row.attributes for row in read(partitions="5").collect()}
    assert len(rows) == 1002
    assert rows["/users/7"] == {"name": '"N7"', "visits": "7"}
    assert rows["/users/none"] == {} and rows["/other"] == {"k": '[1,{"a":null}]'}

    typed = read("path string, visits bigint, name string, missing double", path="/users")
    assert typed.rdd.getNumPartitions() == 1
    found = {row.path: (row.name, row.visits, row.missing) for row in typed.collect()}
    assert len(found) == 1001 and found["/users/7"] == ("N7", 7, None)
    assert found["/users/none"] == (None, None, None)
    assert typed.agg({"visits": "sum"}).first()[0] == sum(range(1000))

    raw = read("path string, data binary", partitions="4")
    assert raw.rdd.getNumPartitions() == 4 and raw.count() == 1002


def test_filters_on_the_path_reach_the_member(
    cache: Cache, port: Port, read: Callable[..., Any]
) -> None:
    cache.put_many({f"/{kind}/{n}": {"v": n} for kind in ("a", "ab") for n in range(500)})
    frame = read("path string, v bigint", pushdown="true")
    for condition, rows, sent in (
        ("path = '/a/7'", 1, 1),
        ("path in ('/a/7', '/ab/8', '/c')", 2, 2),
        ("path like '/a/%'", 500, 500),
        ("path like '/ab/1%'", 111, 500),
        ("path = '/a/7' and v > 7", 0, 1),
        ("v < 10", 20, 1000),
        ("path = '/a/7' or v < 1", 3, 1000),
    ):
        before = port.counters["rows_out"]
        assert frame.where(condition).count() == rows, condition
        assert port.counters["rows_out"] - before == sent, condition


def test_paths_narrow_a_reader() -> None:
    pytest.importorskip("pyspark")
    from jgroups_py.spark.reading import narrowed

    assert narrowed("/", ["/a", "/b/c"]) == ("/a", "/b/c")
    assert narrowed("/a", ["/a", "/a/b", "/ab", "/c"]) == ("/a", "/a/b")
    assert narrowed("/a/b", ["/a", "/"]) == ("/a/b",)
    assert narrowed("/a", ["/b"]) == ()


def test_changes_are_written_as_a_batch(cache: Cache, read: Callable[..., Any]) -> None:
    cache.put("/a", "v", 1)
    cache.put_many({"/b": {"v": 1}, "/c": {"v": 1}})
    cache.remove_node("/a")
    frame = read(rows="changes", startingoffset="earliest", partitions="3")
    rows = sorted(frame.collect(), key=lambda row: (row.number, row.path))
    assert [(r.number, r.path, r.removed) for r in rows] == [
        (1, "/a", False),
        (2, "/b", False),
        (2, "/c", False),
        (3, "/a", True),
    ]
    assert rows[0].attributes == {"v": "1"} and rows[3].attributes is None
    assert abs(rows[0].time.timestamp() - time.time()) < 100_000
    assert len({row.origin for row in rows}) == 1


@contextmanager
def with_buddies() -> Iterator[tuple[list[Cache], list[ExitStack], dict[str, str]]]:
    """Three members with their ports, the functions that end each, and the options that name them."""
    config = CacheSettings(
        cache_mode="REPL_SYNC",
        stack="sim.xml",
        cluster_name="t",
        buddy_replication_config=BuddyReplicationConfig(
            buddy_replication_enabled=True, auto_data_gravitation=True
        ),
    )
    network = MemoryNetwork()
    with ExitStack() as all:
        stacks = [all.enter_context(ExitStack()) for _ in "ABC"]
        caches = [
            stack.enter_context(
                blocking.open_tree_cache(config, name=name, transport=network, timeout=60)
            )
            for name, stack in zip("ABC", stacks, strict=True)
        ]
        for cache in caches:
            cache.wait_members(3)
        for cache in caches:
            cache.wait_protected(3)  # from here on a buddy logs all that its owner writes
        places = []
        for cache, stack in zip(caches, stacks, strict=True):
            host, port = stack.enter_context(blocking.open_export(cache, token=TOKEN)).address
            places.append(f"{host}:{port}")
        yield caches, stacks, {"members": ",".join(places), "token": TOKEN}


def test_a_cache_with_buddies_is_followed_at_all_its_members(spark: Any, tmp_path: Path) -> None:
    """A snapshot, then changes at all members while nodes move and a member leaves: each change comes once, and the
    last ones give the state."""
    from jgroups_py.spark.jobs import follow, snapshot

    table, checkpoint = str(tmp_path / "table"), str(tmp_path / "checkpoint")
    with with_buddies() as (caches, stacks, where):
        for number, cache in enumerate(caches):
            cache.put_many({f"/n/{number}/{n}": {"v": 0} for n in range(10)})
        taken = snapshot(spark, where, str(tmp_path / "picture"))
        assert taken.rows == 30 and len(taken.offset.origins) == 3

        def changes() -> int:
            schema = (
                "origin string, number bigint, path string, stamp string, removed boolean, v bigint"
            )
            how = {"checkpoint": checkpoint, "starting": taken.offset, "schema": schema}
            return follow(spark, where, table, once=True, max_rows=7, **how)  # type: ignore[arg-type]

        for turn in range(1, 4):  # each member takes the nodes that the previous one had
            for number, cache in enumerate(caches):
                for n in range(3):
                    cache.put(f"/n/{(number + turn) % 3}/{n}", "v", turn)
        caches[0].remove_node("/n/0/9")
        assert changes() == 28
        caches[2].put("/n/2/0", "v", 10)
        stacks[2].close()  # C leaves; its last writes are read at its buddy
        for cache in caches[:2]:
            cache.wait_protected(2)  # until then C is a member that cannot be reached
        caches[1].put("/n/2/1", "v", 11)
        assert changes() == 2 and changes() == 0

        rows = spark.read.parquet(table).collect()
        assert len(rows) == len({(row.origin, row.number, row.path) for row in rows}) == 30
        last = {row.path: row for row in sorted(rows, key=lambda row: row.stamp)}
        state = {f"/n/{m}/{n}": 0 for m in range(3) for n in range(10)}
        state |= {path: row.v for path, row in last.items()}
        there: dict[str, Any] = {}
        for cache in caches[:2]:
            there |= {p: node["v"] for p, node in tree(cache).items() if p.startswith("/n/")}
        assert {p: v for p, v in state.items() if not (p in last and last[p].removed)} == there
        earliest = spark.read.format("jgroups").options(**where, rows="changes").load()
        assert earliest.count() == 60


def test_a_member_that_is_not_reached_for_too_long_ends_a_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise its writes would be missed without an error."""
    from jgroups_py.export.errors import NoMember
    from jgroups_py.spark import reading

    stream = reading.ChangesStream.__new__(reading.ChangesStream)
    stream._unreached = {}
    stream._miss(["C"])
    since = stream._unreached["C"]
    stream._miss(["B", "C"])
    assert stream._unreached["C"] == since
    stream._miss([])
    assert stream._unreached == {}
    monkeypatch.setattr(reading, "UNREACHED_MAX", -1.0)
    with pytest.raises(NoMember, match="C is a member, and no port of it was reached"):
        stream._miss(["C"])


def test_a_cache_with_buddies_is_read_at_all_its_members(spark: Any, tmp_path: Path) -> None:
    """Each member owns a part; the snapshot and the comparison of reconcile have all parts."""
    from jgroups_py.spark.jobs import reconcile, snapshot

    with with_buddies() as (caches, _, where):
        for number, cache in enumerate(caches):
            cache.put_many({f"/{kind}/{number}/{n}": {"v": n} for kind in "ab" for n in range(50)})
        places = where["members"].split(",")

        def load(**more: str) -> Any:
            reader = spark.read.format("jgroups").options(**{**where, **more})
            return reader.schema("path string, v bigint").load()

        wanted = {f"/{k}/{m}/{n}": n for k in "ab" for m in range(3) for n in range(50)}
        frame = load(partitions="6")
        assert frame.rdd.getNumPartitions() == 6
        rows = frame.collect()
        assert len(rows) == 300 and {row.path: row.v for row in rows} == wanted
        assert load(path="/b/1").count() == 50
        assert load(pushdown="true").where("path in ('/a/0/7', '/a/2/8')").count() == 2
        assert load(path="/nowhere").collect() == []

        taken = snapshot(spark, where, str(tmp_path / "picture"), path="/a")
        assert taken.rows == 150 and all(taken.offset.origins.values())
        assert spark.read.parquet(str(tmp_path / "picture")).count() == 150
        with blocking.open_tree_cache("local.xml") as copy, ExitStack() as more:
            place = more.enter_context(blocking.open_export(copy, token=TOKEN)).address
            there = {"members": f"{place[0]}:{place[1]}", "token": TOKEN}
            found = reconcile(spark, where, there, repair=True)
            assert (found.left, found.right, found.both) == (300, 0, 0)
            assert {path: node["v"] for path, node in tree(copy).items()} == wanted

        line = said_by(load(members=places[0]).count)
        assert "no export port of B, C is among those given" in line
        line = said_by(load(members=places[0], rows="changes", startingoffset="earliest").count)
        assert "no export port of B, C is among those given" in line
        elsewhere = '{"log": "0a", "at": 3, "origins": {"0b": 3}}'
        line = said_by(load(rows="changes", startingoffset=elsewhere).count)
        assert "is a cache with buddies, the offset is of one without" in line
        picture = ",".join(f"{place}/0123/5" for place in places)
        assert "snapshot 0123 is not open here" in said_by(load(snapshot=picture).collect)


# --- writing


def test_rows_that_were_read_can_be_written(
    spark: Any, cache: Cache, options: dict[str, str], read: Callable[..., Any]
) -> None:
    cache.put_many({f"/from/{n}": {"name": f"N{n}", "v": n} for n in range(300)})
    for number, schema in enumerate(
        (
            "path string, data binary",
            "path string, attributes map<string,string>",
            "path string, name string, v bigint",
        )
    ):
        moved = read(schema, path="/from").selectExpr(
            f"replace(path, '/from', '/to{number}') as path", "* except (path)"
        )
        moved.repartition(3).write.format("jgroups").options(**options).mode("append").save()
    after = tree(cache)
    assert len(after) == 1200
    for number in range(3):
        assert after[f"/to{number}/7"] == after["/from/7"] == {"name": "N7", "v": 7}
    gone = spark.sql("select '/from/7' as path, true as removed union select '/to0/7', false")
    gone.write.format("jgroups").options(**options).mode("append").save()
    assert "/from/7" not in tree(cache) and tree(cache)["/to0/7"] == {"name": "N7", "v": 7}


def test_tasks_that_fail_and_run_again_write_once(
    spark: Any, cache: Cache, options: dict[str, str], tmp_path: Path
) -> None:
    """Each partition's first attempt stages half of its rows and fails."""
    import pyarrow as pa

    tries = str(tmp_path)

    def doubtful(batches: Any) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        name = f"{tries}/{context.partitionId()}"
        try:
            open(name, "x").close()
            first = True
        except FileExistsError:
            first = False
        for number, batch in enumerate(batches):
            assert isinstance(batch, pa.RecordBatch)
            yield batch
            if first and number == 1:
                raise RuntimeError("this attempt fails")

    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    try:
        frame = (
            spark.range(0, 3000, 1, 3)
            .selectExpr("concat('/n/', id) as path", "id as v")
            .mapInArrow(doubtful, "path string, v bigint")
        )
        frame.write.format("jgroups").options(**options).mode("append").save()
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert len(list(tmp_path.iterdir())) == 3, "every partition was tried twice"
    assert tree(cache) == {f"/n/{n}": {"v": n} for n in range(3000)}
    log = cache._look(lambda: [e for o in cache._value.tree.observers for e in _entries(o)])
    written = [str(path) for entry in log for path in entry.paths]
    assert len(written) == len(set(written)) == 3000, "every row once"


def _entries(observer: Any) -> list[Any]:
    log = observer.__self__.log_at(None)
    return list(log.between(log.first, log.end))


def test_a_job_that_fails_writes_nothing(
    spark: Any,
    cache: Cache,
    port: Port,
    options: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two of three tasks have staged their rows when the third one fails: no task stages rows after the job has failed."""
    staged, stage, complete = tmp_path / "staged", Staging.stage, list[int]()

    async def noted(self: Staging, said: StageRows, body: bytes) -> int:
        count = await stage(self, said, body)
        if said.last:
            complete.append(said.task)
            if len(complete) == 2:
                staged.touch()
        return count

    monkeypatch.setattr(Staging, "stage", noted)
    place = str(staged)

    def last_waits(batches: Any) -> Iterator[Any]:
        import os
        import time

        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        while context.partitionId() == 2 and not os.path.exists(place):
            time.sleep(0.01)
        yield from batches

    frame = (
        spark.range(0, 300, 1, 3)
        .mapInArrow(last_waits, "id bigint")
        .selectExpr("if(id = 299, null, concat('/n/', id)) as path", "id as v")
    )
    write = frame.write.format("jgroups").options(**options).mode("append")
    assert said_by(write.save) == "schema mismatch: a path is null"
    assert tree(cache) == {} and sorted(complete) == [0, 1]
    assert cache._look(lambda: port._value._staging["cache"].size) == 0


# --- streams


def start(frame: Any, folder: Path, **options: str) -> Any:
    checkpoint = {"checkpointLocation": str(folder)}
    return frame.writeStream.options(**checkpoint, **options)


def test_a_stream_that_is_restarted_tells_each_change_once(
    spark: Any, cache: Cache, options: dict[str, str], tmp_path: Path
) -> None:
    """The stream has small batches; it is stopped and started again from its checkpoint, with changes in between."""

    def follow() -> None:
        changes = spark.readStream.format("jgroups").options(
            **options, rows="changes", startingoffset="earliest", maxrows="40"
        )
        query = (
            start(changes.load(), tmp_path / "checkpoint", path=str(tmp_path / "table"))
            .format("parquet")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)
        assert query.exception() is None

    for number in range(100):
        cache.put(f"/n/{number % 30}", "v", number)
    follow()
    cache.put_many({f"/m/{n}": {"v": n} for n in range(50)})
    cache.remove_tree("/n")
    follow()
    rows = spark.read.parquet(str(tmp_path / "table")).orderBy("number", "path").collect()
    assert len(rows) == 100 + 50 + 30
    assert [row.number for row in rows[:100]] == list(range(1, 101))
    assert {row.path for row in rows if row.removed} == {f"/n/{n}" for n in range(30)}


def test_a_stream_into_the_cache_writes_each_batch_once(
    spark: Any, cache: Cache, options: dict[str, str], tmp_path: Path
) -> None:
    """The second query has lost its checkpoint and repeats everything: the cache remembers finished batches."""
    (tmp_path / "in").mkdir()
    for part in range(3):
        spark.range(part * 100, part * 100 + 100).selectExpr(
            "concat('/s/', id) as path", "id as v"
        ).coalesce(1).write.mode("append").parquet(str(tmp_path / "in"))

    def run(checkpoint: str) -> None:
        frame = (
            spark.readStream.schema("path string, v bigint")
            .option("maxFilesPerTrigger", "1")
            .parquet(str(tmp_path / "in"))
        )
        query = (
            start(frame, tmp_path / checkpoint, query="the test", **options)
            .format("jgroups")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)
        assert query.exception() is None

    run("one")
    assert tree(cache) == {f"/s/{n}": {"v": n} for n in range(300)}
    cache.put("/s/7", "v", "changed since")
    run("two")
    assert tree(cache)["/s/7"] == {"v": "changed since"}


# --- errors


def test_errors_are_one_line(
    spark: Any, cache: Cache, options: dict[str, str], read: Callable[..., Any], tmp_path: Path
) -> None:
    cache.put("/a", "v", "a text")

    def load(name: str, value: str) -> Any:
        return spark.read.format("jgroups").options(**options).option(name, value)

    assert "no member can be reached: 127.0.0.1:1: " in said_by(
        load("members", "127.0.0.1:1").load().count
    )
    assert "given another token" in said_by(
        load("token", "another one of some length").load().count
    )
    assert 'no map "x" here; there is cache' in said_by(load("map", "x").load().count)
    assert 'no kind "queue"; there is tree' in said_by(lambda: load("kind", "queue").load())
    assert "no option pats (did you mean path?)" in said_by(lambda: load("pats", "/").load())
    assert "members are written" in said_by(lambda: load("members", "nowhere").load())
    assert said_by(read("path string, v bigint").collect) == (
        "schema mismatch: attribute v of /a is a value of type str, no whole number"
    )
    assert "needs a column path string" in said_by(read("v bigint").collect)
    stream = spark.readStream.format("jgroups").options(**options)
    assert "a stream is one of changes" in said_by(
        lambda: start(stream.load(), tmp_path).format("noop").start().awaitTermination(120)
    )
    frame = spark.sql("select '/b' as path, 1 as v")
    save = frame.write.format("jgroups").options(**options)
    assert 'use mode("append")' in said_by(save.mode("overwrite").save)


def test_the_error_of_a_trimmed_log_has_advice(spark: Any, cache: Cache, tmp_path: Path) -> None:
    from jgroups_py.export import ExportLimits

    with blocking.open_export(cache, token=TOKEN, limits=ExportLimits(log_changes=5)) as port:
        host, number = port.address
        for n in range(20):
            cache.put("/a", "v", n)
        old = '{"log": "x", "at": 0, "origins": {}}'
        stream = spark.readStream.format("jgroups").options(
            members=f"{host}:{number}", token=TOKEN, rows="changes", startingoffset=old
        )
        line = said_by(
            lambda: start(stream.load(), tmp_path).format("noop").start().awaitTermination(120)
        )
        assert "15 changes were trimmed" in line and "take a snapshot" in line


# --- doors


def test_tls_and_a_token_for_reading(spark: Any, cache: Cache, tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path)
    cache.put("/a", "v", 1)
    only_reads = [ExportToken(TOKEN, writes=False)]
    with blocking.open_export(cache, token=only_reads, tls=authority.settings("port")) as port:
        own = authority.issue("spark")
        place = {"members": f"127.0.0.1:{port.address[1]}", "token": TOKEN}
        files = {"tlsCertificate": own.certificate, "tlsKey": own.key, "tlsCa": authority.ca}
        options = {**place, **files}
        rows = spark.read.format("jgroups").options(**options).schema("path string, v long").load()
        assert [tuple(row) for row in rows.collect()] == [("/a", 1)]
        write = rows.write.format("jgroups").mode("append").options(**options)
        assert "the token allows reading only" in said_by(write.save)
        from jgroups_py.spark.options import options_of

        with pytest.raises(ConfigError, match="option tlskey is missing"):
            options_of({**place, "tlsCertificate": own.certificate})
        clear = spark.read.format("jgroups").options(**place)
        said = said_by(lambda: clear.load().collect())  # chance decides which side gives up first
        assert "closed the connection" in said or "no answer within" in said
