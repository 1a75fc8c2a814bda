"""Jobs as functions and as commands: load, snapshot, follow, reconcile; with two members and one that dies."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import trio

from jgroups_py import MemoryNetwork, blocking
from jgroups_py.cache import load_cache_settings
from jgroups_py.errors import ConfigError
from jgroups_py.export import ExportLimits
from jgroups_py.export.staging import Staging
from jgroups_py.export.tree import TreeSource

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("default"),  # Spark's own
    pytest.mark.timeout(600),
]
TOKEN = "a token for the tests"
PATIENCE = 60.0
"""Seconds for events that take little time on an idle machine."""


@pytest.fixture
def token_file(tmp_path: Path) -> str:
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    return str(file)


class Member:
    """A member of a replicated cache with an export port."""

    def __init__(self, name: str, network: MemoryNetwork) -> None:
        settings = load_cache_settings("replicated.xml", properties={"cache.stack": "sim.xml"})
        self.stack = ExitStack()
        self.cache = self.stack.enter_context(
            blocking.open_tree_cache(
                settings, cluster="t", name=name, transport=network, timeout=60
            )
        )
        port = self.stack.enter_context(blocking.open_export(self.cache, token=TOKEN))
        self.place = f"{port.address[0]}:{port.address[1]}"


@pytest.fixture
def members() -> Iterator[list[Member]]:
    network = MemoryNetwork()
    with ExitStack() as stack:
        found = []
        for name in "AB":
            found.append(Member(name, network))
            stack.push(found[-1].stack)
        for member in found:
            member.cache.wait_members(2)
        yield found


def command(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any, str]:
    """Return the exit code, the printed JSON, and the error text."""
    from jgroups_py.tools.cli import run

    capsys.readouterr()
    code = run(["spark", *words])
    out, err = capsys.readouterr()
    lines = out.strip().splitlines()
    said = [line for line in err.splitlines() if line.startswith("jgroups-py:")]
    return code, json.loads(lines[-1]) if lines else None, "".join(said)


def tree(cache: blocking.TreeCache) -> dict[str, dict[str, Any]]:
    nodes = cache._look(lambda: cache._value.tree.container.nodes())
    decode = cache._value.decode
    return {
        str(path): {key: decode(data) for key, data in node.attributes.items()}
        for path, node in nodes.items()
        if path[0] != "_export_"
    }


def test_load_snapshot_and_follow_go_on_while_a_member_goes(
    spark: Any,
    members: list[Member],
    token_file: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The snapshot and the changes after its place make up the cache, although the member that was read first leaves
    in the middle."""
    a, b = members
    file = tmp_path / "users.csv"
    file.write_text("id,name,visits\n" + "".join(f"{n}/x,N{n},{n}\n" for n in range(500)))
    where = ("--members", f"{a.place},{b.place}", "--token-file", token_file)

    code, said, _ = command(capsys, "load", str(file), "--path", "/users/{id}", *where)
    assert (code, said) == (0, {"rows": 500})
    assert tree(a.cache) == tree(b.cache)
    assert tree(b.cache)["/users/7\\/x"] == {"id": "7/x", "name": "N7", "visits": 7}

    stop = threading.Event()
    number = 0

    def traffic() -> None:
        nonlocal number
        while not stop.is_set():
            number += 1
            b.cache.put(f"/users/{number % 700}", "visits", number)
            if not number % 5:
                b.cache.remove_node(f"/users/{(number * 3) % 700}")

    def wait_for_a_put() -> None:
        """Wait until a put that began after this call has ended."""
        wanted, end = number + 2, time.monotonic() + PATIENCE
        while number < wanted:
            assert writer.is_alive(), "the writer has failed"
            assert time.monotonic() < end, "the writer does not go on"
            time.sleep(0.01)

    writer = threading.Thread(target=traffic)
    writer.start()
    try:
        picture = str(tmp_path / "picture")
        code, said, _ = command(capsys, "snapshot", picture, "--path", "/users", *where)
        assert code == 0 and said["rows"] >= 500
        table = str(tmp_path / "changes")
        follow = ("follow", table, "--after", picture, "--once", *where)
        assert command(capsys, *follow)[0] == 0
        a.stack.close()
        wait_for_a_put()
        code, said, _ = command(capsys, *follow)
        assert code == 0 and said["rows"] > 0
    finally:
        stop.set()
        writer.join()
    assert command(capsys, *follow)[0] == 0

    state = {row.path: row.attributes for row in spark.read.parquet(picture).collect()}
    rows = spark.read.parquet(table).collect()
    assert len({(row.origin, row.number, row.path) for row in rows}) == len(rows), "each once"
    for row in sorted(rows, key=lambda row: row.number):  # of one origin: B writes alone
        if row.removed:
            state.pop(row.path, None)
        else:
            state[row.path] = row.attributes
    now = {
        path: {k: json.dumps(v) for k, v in node.items()} for path, node in tree(b.cache).items()
    }
    assert state == now


def test_reconcile_finds_planted_differences_and_mends_them(
    spark: Any, token_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = Member("A", MemoryNetwork()), Member("X", MemoryNetwork())
    with one.stack, other.stack:
        nodes = {f"/n/{n}": {"v": n, "w": str(n)} for n in range(200)}
        one.cache.put_many(nodes)
        other.cache.put_many({path: dict(reversed(node.items())) for path, node in nodes.items()})
        one.cache.put("/n/1", "v", -1)
        one.cache.put("/only/here", "v", 1)
        other.cache.put("/n/2", "more", 1)
        other.cache.put("/stray/a", "v", 1)
        other.cache.put("/stray/b", "v", 1)
        before = tree(other.cache)
        places = ("--members", one.place, "--token-file", token_file)
        compare = ("reconcile", *places, "--other-members", other.place)
        target = str(tmp_path / "differences")

        code, said, _ = command(capsys, *compare, "--to", target)
        assert code == 1
        assert said == {"missing": 1, "surplus": 2, "different": 2, "repaired": False}
        assert {(row.path, row.what) for row in spark.read.parquet(target).collect()} == {
            ("/n/1", "both"),
            ("/n/2", "both"),
            ("/only/here", "left"),
            ("/stray/a", "right"),
            ("/stray/b", "right"),
        }
        assert tree(other.cache) == before, "a dry run"
        assert command(capsys, *compare, "--repair")[0] == 0
        assert tree(other.cache) == tree(one.cache)


def test_commands_complain_in_one_line(
    spark: Any, token_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    member = Member("A", MemoryNetwork())
    with member.stack:
        where = ("--members", member.place, "--token-file", token_file)
        wrong = tmp_path / "wrong"
        wrong.write_text("a token of somebody else")
        data = tmp_path / "data.json"
        data.write_text('{"id": 1, "v": 1}\n{"id": null, "v": 2}\n')
        none = tmp_path / "none.json"
        none.write_text("{{{ not a row\n")
        for words, said in (
            (("snapshot", str(tmp_path), *where), "is there already"),
            (("snapshot", "x", "--members", "127.0.0.1:1", *where[2:]), "no member can be reached"),
            (("snapshot", "x", *where[:2], "--token-file", str(wrong)), "another token"),
            (("snapshot", "x", *where[:2], "--token-file", "/nowhere"), "cannot be read"),
            (("snapshot", "x", *where, "--map", "y"), 'no map "y" here; there is cache'),
            (("load", "a.txt", "--path", "/{id}", *where), "say which format"),
            (("load", "a.json", "--path", "/{id}", *where), "a.json: no such file or folder"),
            (("load", str(data), "--path", "{id}", *where), "does not begin with /"),
            (
                ("load", str(none), "--path", "/{id}", *where),
                "no JSON in it: one object in each line",
            ),
            (
                ("load", str(none), "--path", "/{id}", "--format", "parquet", *where),
                "is not a Parquet file",
            ),
            (("snapshot", "y", "--schema", "path strin", *where), "Spark: [UNSUPPORTED_DATATYPE]"),
            (("snapshot", "/proc/y", *where), "Spark: Mkdirs failed to create file:/proc/y"),
            (("reconcile", *where, "--other-members", "127.0.0.1:1"), "no member can be reached"),
            (("reconcile", *where, "--other-members", member.place, "--to", "/tmp"), "is there"),
            (("explore", "nowhere.yaml", "--seeds", "1..2"), 'no drill file "nowhere.yaml"'),
            (("drill-report", "nowhere.yaml", "x"), 'no drill file "nowhere.yaml"'),
            (("load", str(data), "--path", "/{nr}", *where), 'no column "nr"; there is id, v'),
            (("load", str(data), "--path", "/{id}", *where), "a path is null"),
            (("follow", "t", "--after", "/nowhere", *where), "cannot be read"),
        ):
            code, _, complaint = command(capsys, *words)
            assert code == 2 and said in complaint, (words, complaint)
            assert complaint.count("\n") == 0 and len(complaint) < 300
        assert tree(member.cache) == {}

        member.cache.put("/a", "v", "a text")
        picture = str(tmp_path / "picture")
        assert command(capsys, "snapshot", picture, *where)[0] == 0
        limits = ExportLimits(log_changes=5)
        short = member.stack.enter_context(
            blocking.open_export(member.cache, token=TOKEN, limits=limits)
        )
        for n in range(20):
            member.cache.put("/b", "v", n)
        there = ("--members", f"{short.address[0]}:{short.address[1]}", *where[2:])
        typed = ("snapshot", str(tmp_path / "x"), "--schema", "path string, v bigint", *where)
        after = ("follow", str(tmp_path / "t"), "--after", picture, "--once", *there)
        mismatch = "schema mismatch: attribute v of /a is a value of type str"
        complaints: tuple[tuple[tuple[str, ...], str], ...] = (
            (typed, mismatch),
            (after, "were trimmed"),
        )
        for said_words, said in complaints:
            code, _, complaint = command(capsys, *said_words)
            assert code == 2 and said in complaint, (said_words, complaint)


class HeldUntilShown:
    """Holds members: they take no row until tasks were shown, and write only the first rows until written rows were
    shown. Otherwise a job may end between two looks at it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.shown: list[tuple[str, int, int]] = []
        self._tasks, self._rows = threading.Event(), threading.Event()
        self._end = time.monotonic() + PATIENCE
        stage, write = Staging.stage, TreeSource.write
        writes = itertools.count()

        async def held_stage(*args: Any) -> int:
            await self._until(self._tasks)
            return await stage(*args)

        async def held_write(*args: Any, **how: Any) -> None:
            if next(writes):
                await self._until(self._rows)
            await write(*args, **how)

        monkeypatch.setattr(Staging, "stage", held_stage)
        monkeypatch.setattr(TreeSource, "write", held_write)

    async def _until(self, event: threading.Event) -> None:
        """Give up in the end, so that assertions tell what was not shown."""
        while not event.is_set() and time.monotonic() < self._end:  # noqa: ASYNC110 - a thread tells
            await trio.sleep(0.01)

    def show(self, what: str, done: int, of: int) -> None:
        self.shown.append((what, done, of))
        if what == "tasks":
            self._tasks.set()
        elif done:
            self._rows.set()


def test_the_progress_of_a_job_is_reported(
    spark: Any, token_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jgroups_py.spark.jobs import load
    from jgroups_py.spark.options import options_of
    from jgroups_py.spark.progress import ProgressWatch

    member = Member("A", MemoryNetwork())
    with member.stack:
        cluster = {"members": member.place, "tokenfile": token_file}
        data = str(tmp_path / "data.parquet")
        spark.range(0, 20_000, 1, 4).selectExpr("id", "id as v").write.parquet(data)
        held = HeldUntilShown(monkeypatch)
        with ProgressWatch(spark, held.show, options_of(cluster), every=0.01):
            assert load(spark, cluster, data, "/n/{id}") == 20_000
    assert {what for what, _, _ in held.shown} == {"tasks", "rows written"}
    assert all(0 <= done <= of for _, done, of in held.shown)
    rows = [done for what, done, of in held.shown if what == "rows written" and of == 20_000]
    assert rows == sorted(rows) and rows[-1] > 0


def test_a_command_shows_its_progress_on_a_terminal(
    spark: Any,
    token_file: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from jgroups_py.spark.progress import ProgressWatch
    from jgroups_py.tools.cli import run

    held = HeldUntilShown(monkeypatch)

    def watch(session: Any, show: Any, options: Any) -> ProgressWatch:
        def both(what: Any, done: int, of: int) -> None:
            show(what, done, of)
            held.show(what, done, of)

        return ProgressWatch(session, both, options, every=0.01)

    monkeypatch.setattr("jgroups_py.spark.progress.ProgressWatch", watch)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    data = tmp_path / "data.json"
    data.write_text("".join(f'{{"id": {n}}}\n' for n in range(2000)))
    member = Member("A", MemoryNetwork())
    with member.stack:
        words = ["spark", "load", str(data), "--path", "/m/{id}", "--members", member.place]
        capsys.readouterr()
        code = run([*words, "--token-file", token_file])
        out, err = capsys.readouterr()
    assert code == 0, err
    assert json.loads(out.strip().splitlines()[-1]) == {"rows": 2000}
    assert "rows written" in err or "tasks" in err, (err, held.shown)


def test_without_java_it_says_so(token_file: str, tmp_path: Path) -> None:
    """The test has a process of its own, because Spark is already running in this one."""
    pytest.importorskip("pyspark")
    words = ["spark", "snapshot", str(tmp_path / "x"), "--members", "127.0.0.1:1"]
    words += ["--token-file", token_file]
    env = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    done = subprocess.run(
        [sys.executable, "-m", "jgroups_py.tools", *words],
        env={**env, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 2
    assert done.stderr.strip().splitlines() == [
        "jgroups-py: Spark needs Java 17: no java on the PATH, and no JAVA_HOME with one"
    ]


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ('openjdk version "11.0.2" 2019-01-15', "Spark needs Java 17: {home}/bin/java is Java 11"),
        ('java version "1.8.0_301"', "Spark needs Java 17: {home}/bin/java is Java 8"),
        (None, "Spark needs Java 17: {home}/bin/java (JAVA_HOME): No such file or directory"),
        ('openjdk version "21" 2023-09-19', ""),
    ],
)
def test_an_old_java_or_none_at_its_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str | None, complaint: str
) -> None:
    from jgroups_py.spark.session import check_java

    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    if said is not None:
        (tmp_path / "bin").mkdir()
        java = tmp_path / "bin" / "java"
        java.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{said}\nEND\n")
        java.chmod(0o755)
    if not complaint:
        check_java()
        return
    with pytest.raises(ConfigError) as raised:
        check_java()
    assert str(raised.value) == complaint.format(home=tmp_path)


def test_members_are_looked_for_before_spark_starts(
    token_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    from jgroups_py.tools.cli import run

    def never(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("jgroups_py.spark.open_session", never)
    words = ["spark", "load", __file__, "--format", "json", "--path", "/{id}"]
    assert run([*words, "--members", "127.0.0.1:1", "--token-file", token_file]) == 2
    assert "no member can be reached: 127.0.0.1:1: Connection refused" in capsys.readouterr().err


def test_follow_is_told_to_end_and_ends_with_its_batch(
    spark: Any, token_file: str, tmp_path: Path
) -> None:
    """The batch that was begun is in the table, and the next run does not repeat it."""
    from jgroups_py.spark.jobs import follow

    member = Member("A", MemoryNetwork())
    with member.stack:
        cluster = {"members": member.place, "tokenfile": token_file}
        for n in range(50):
            member.cache.put(f"/n/{n}", "v", n)
        table = str(tmp_path / "table")
        done: list[int] = []
        # Five batches take more than a minute: it is told long before the last one.
        rows = follow(
            spark, cluster, table, every="20 seconds", max_rows=10,
            progress=lambda said: done.append(said["numInputRows"]), until=lambda: bool(done),
        )  # fmt: skip
        assert rows == sum(done) and 10 <= rows < 50
        assert spark.read.parquet(table).count() == rows
        assert rows + follow(spark, cluster, table, once=True) == 50
        assert spark.read.parquet(table).select("number").distinct().count() == 50


def test_follow_counts_a_batch_that_ends_while_the_query_is_stopped() -> None:
    """The test has a query of its own: with Spark's the order is a matter of microseconds."""
    pytest.importorskip("pyspark")
    from jgroups_py.spark.jobs import _Counted, _run_to_end

    class Query:
        isActive = True
        status = {"isTriggerActive": False}
        lastProgress = None

        def __init__(self) -> None:
            self.recentProgress = [{"batchId": 0, "numInputRows": 5}]

        def stop(self) -> None:
            self.recentProgress.append({"batchId": 1, "numInputRows": 7})

    class Writer:
        start = Query

    counted = _Counted(None)
    _run_to_end(Writer(), counted, until=lambda: True)
    assert (counted.rows, counted.batches) == (12, 2)
