"""A standalone master with two workers: executors are processes of their own, and get this package as a file.
In the middle of each job Python workers, an executor and members are killed (SIGKILL)."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, Self

import psutil
import pytest

pytest.importorskip("pyspark")

from jgroups_py.export import connect
from jgroups_py.export.client import ExportClient, parse_members
from jgroups_py.spark.demo import CHANGES, DemoMember, DemoTraffic
from jgroups_py.spark.jobs import follow, load, offset_of, reconcile, snapshot
from jgroups_py.spark.standalone import Standalone

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("default"),  # Spark's own
    pytest.mark.timeout(600),
]
PATIENCE = 120.0
"""Seconds for events that take little time on an idle machine."""
DRILL = """
name: two sites
sites:
  NYC: {members: [C, B, A], stack: relay-udp.xml}
  SFO: {members: [T, S], stack: relay-udp.xml}
bridge: {stack: relay-bridge-tcp.xml, latency: 20ms}
traffic:
  - {site: NYC, members: all, rate: 40/s, size: 100B, start: 0s, stop: 4s}
timeline:
  - {at: 0.5s..1.5s, crash: NYC.relay}
settle: 6s
expect: {lost: 0, lost_inside: 0, duplicated: 0, out_of_order: 0, takeover: <= 30s}
"""
ROWS = 40_000
TASKS = 16
BATCHES = 20
"""The number of batches of 500 rows that a held member writes."""
USER = "path string, visits bigint"


class HeldMember(DemoMember):
    """A member that can be held (held_member.py)."""

    program = (str(Path(__file__).with_name("held_member.py")),)

    def __init__(self, name: str, cluster: str, folder: Path) -> None:
        self._folder = folder
        super().__init__(name, cluster, folder)

    def allow(self, **limits: int) -> None:
        """Set the number of ``tasks`` that may end, or of ``writes``."""
        for what, number in limits.items():
            put(self._folder / f"{self.name}.{what}", str(number))

    def client(self) -> ExportClient:
        token = (self._folder / "token").read_text().strip()
        return connect(parse_members(self.place), token)

    def sees(self, count: int) -> bool:
        """Return whether the group has this number of members."""
        with self.client() as client:
            return len(client.describe().members) == count


def put(file: Path, text: str) -> None:
    """Write a file that others read at any moment."""
    new = file.with_name(f"{file.name}.new")
    new.write_text(text)
    new.replace(file)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Callable[[int], list[HeldMember]]]:
    """Make a cluster of members in processes of their own."""
    with ExitStack() as stack:

        def made(count: int) -> list[HeldMember]:
            name = f"standalone-{tmp_path.name}-{time.monotonic_ns()}"
            members = []
            for letter in "ABCD"[:count]:
                members.append(HeldMember(letter, name, tmp_path))
                stack.callback(members[-1].stop)
            for member in members:
                until(partial(member.sees, count))
            return members

        yield made


def cluster_of(members: Sequence[DemoMember], folder: Path, **more: str) -> dict[str, str]:
    places = ",".join(member.place for member in members)
    return {"members": places, "tokenfile": str(folder / "token"), **more}


def until(condition: Callable[[], Any]) -> Any:
    """Poll a command, and return its last output."""
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.01)
    return found


class Watched:
    """The stages of one job, seen from another thread."""

    def __init__(self, spark: Any) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._old = set(self._stages())

    def _stages(self) -> list[int]:
        jobs = self._tracker.getJobIdsForGroup(None)
        infos = [info for job in jobs if (info := self._tracker.getJobInfo(job))]
        return [stage for info in infos for stage in info.stageIds]

    def _infos(self) -> list[Any]:
        stages = set(self._stages()) - self._old
        return [info for stage in stages if (info := self._tracker.getStageInfo(stage))]

    def done(self) -> int:
        """Tasks of the newest large stage."""
        infos = [info for info in self._infos() if info.numTasks >= TASKS]
        newest = max(infos, key=lambda info: info.stageId, default=None)
        return newest.numCompletedTasks if newest and newest.numActiveTasks else 0

    def failed(self) -> int:
        return sum(info.numFailedTasks for info in self._infos())


class Killer(threading.Thread):
    """Run steps beside a job. Their errors are raised at the end of the block, and the job ends after them."""

    def __init__(self, steps: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._steps = steps
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            self._steps()
        except BaseException as error:
            self._error = error

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.join(PATIENCE)
        if self._error is not None:
            raise self._error
        assert error is not None or not self.is_alive(), "the job has ended before the steps"


def kill_python_workers(standalone: Standalone) -> bool:
    """Kill Python workers, and return whether there was one."""
    killed = standalone.python_workers()
    for process in killed:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    return bool(killed)


def fail_tasks(standalone: Standalone, watched: Watched) -> None:
    """Kill Python workers until a task has failed: Spark replaces an idle one without a failure. Tasks of a held job do not
    end, so one is there to fail."""

    def failed() -> bool:
        kill_python_workers(standalone)
        end = time.monotonic() + 1  # Spark reports a failure late; a task must not fail too often
        while not watched.failed() and time.monotonic() < end:
            time.sleep(0.05)
        return bool(watched.failed())

    until(failed)


def kill_executor(standalone: Standalone) -> None:
    def killed() -> bool:
        for process in standalone.executors()[:1]:
            with suppress(psutil.NoSuchProcess):
                process.kill()
                return True
        return False

    until(killed)


def state(spark: Any, cluster: dict[str, str], schema: str = USER) -> dict[str, Any]:
    reader = spark.read.format("jgroups").options(**{**cluster, "partitions": "2"})
    rows = reader.schema(schema).load().collect()
    found = {row[0]: row[1] for row in rows}
    assert len(found) == len(rows), "a path twice"
    return found


def changes(spark: Any, cluster: dict[str, str]) -> list[Any]:
    """Return all changes in the log of the first remaining member, in its order (one origin at a time)."""
    reader = spark.read.format("jgroups").options(
        **cluster, rows="changes", startingoffset="earliest"
    )
    return list(reader.schema(CHANGES).load().collect())


def test_the_package_reaches_executors_as_a_file(shipped: Any) -> None:
    """Executors have only the sent files on their path."""

    def where(_: Any) -> Iterator[tuple[str, str]]:
        import os

        import jgroups_py.spark.source

        yield jgroups_py.spark.source.__file__, os.environ.get("PYTHONPATH", "")

    context = shipped.sparkContext
    found = context.parallelize(range(4), 4).mapPartitions(where).collect()
    assert all("jgroups_py.zip/jgroups_py/spark/source.py" in file for file, _ in found), found


def test_load_while_workers_executors_and_two_members_are_killed(
    shipped: Any, standalone: Standalone, site: Callable[[int], list[HeldMember]], tmp_path: Path
) -> None:
    """The member with the staged rows is killed while rows are staged, the next one while they are written."""
    source = str(tmp_path / "users.parquet")
    frame = shipped.range(0, ROWS, 1, TASKS).selectExpr("id", "id * 7 as visits")
    frame.write.parquet(source)
    size = max(file.stat().st_size for file in Path(source).glob("*.parquet"))
    shipped.conf.set("spark.sql.files.maxPartitionBytes", str(size + 1))  # a task for each file
    shipped.conf.set("spark.sql.files.openCostInBytes", "0")
    a, b, c = members = site(3)
    cluster = cluster_of(members, tmp_path)
    watched = Watched(shipped)
    a.allow(tasks=2)
    b.allow(writes=BATCHES)

    def rows_at(member: HeldMember) -> int:
        with member.client() as client:
            return client.describe().rows

    def steps() -> None:
        until(lambda: watched.done() >= 2)
        fail_tasks(standalone, watched)
        a.allow(tasks=5)
        until(lambda: watched.done() >= 5)
        kill_executor(standalone)
        a.allow(tasks=9)
        until(lambda: watched.done() >= 9)
        assert rows_at(b) == 0, "all is staged, nothing written"
        a.kill()
        written = until(lambda: rows_at(c))
        b.kill()
        assert written < ROWS

    with Killer(steps):
        assert load(shipped, cluster, source, "/users/{id}") == ROWS
    assert state(shipped, cluster) == {f"/users/{n}": 7 * n for n in range(ROWS)}
    paths = [row.path for row in changes(shipped, cluster)]
    assert len(paths) == len(set(paths)) == ROWS, "nothing was written twice"


def test_snapshot_and_follow_survive_kills_of_everything(
    shipped: Any, standalone: Standalone, site: Callable[[int], list[HeldMember]], tmp_path: Path
) -> None:
    """Under traffic. The snapshot is the state at its place; the table has each change once."""
    a, b, c = members = site(3)
    cluster = cluster_of(members, tmp_path, partitions=str(TASKS))
    source = str(tmp_path / "users.parquet")
    shipped.range(0, ROWS // 2, 1, 2).selectExpr("id", "-1 as visits").write.parquet(source)
    load(shipped, cluster, source, "/users/{id}")
    token = Path(cluster["tokenfile"]).read_text().strip()
    traffic = DemoTraffic(f"{c.place}", token)
    traffic.start()
    picture, table = str(tmp_path / "picture"), str(tmp_path / "changes")
    watched = Watched(shipped)
    a.allow(tasks=2)

    def killed_in_snapshot() -> None:
        until(lambda: watched.done() >= 2)
        fail_tasks(standalone, watched)
        a.allow(tasks=5)
        until(lambda: watched.done() >= 5)
        kill_executor(standalone)
        a.allow(tasks=9)
        until(lambda: watched.done() >= 9)
        a.kill()  # which keeps the snapshot

    with Killer(killed_in_snapshot):
        taken = snapshot(shipped, cluster, picture, schema=USER)
    assert taken.rows == ROWS // 2

    batches: list[int] = []

    def more(count: int) -> Callable[[], bool]:
        wanted = len(batches) + count
        return lambda: len(batches) >= wanted

    ended = threading.Event()

    def is_idle() -> bool:
        """Return whether all changes were followed: a query that is stopped within a batch may not report its rows."""
        before = len(batches)
        time.sleep(2)
        (query,) = shipped.streams.active
        return len(batches) == before and not query.status["isDataAvailable"]

    def killed_in_follow() -> None:
        try:
            until(more(1))
            for _ in range(3):
                until(lambda: kill_python_workers(standalone))
                until(more(1))
            kill_executor(standalone)
            until(more(1))
            b.kill()
            until(more(2))
            traffic.stop()
            until(is_idle)
        finally:
            traffic.stop()
            ended.set()

    begin = offset_of(picture)
    with Killer(killed_in_follow):
        rows = follow(
            shipped, cluster, table, every="0 seconds",
            progress=lambda said: batches.append(said["batchId"]), until=ended.is_set,
            starting=begin, schema=CHANGES,
        )  # fmt: skip
    assert traffic.problem is None and traffic.retried == 0
    rows += follow(shipped, cluster, table, once=True, starting=begin, schema=CHANGES)

    log = changes(shipped, cluster)
    assert taken.offset is not None
    place = taken.offset.origins
    before = [row for row in log if row.number <= place.get(row.origin, 0)]
    after = [row for row in log if row.number > place.get(row.origin, 0)]
    kept = {row.path: row.visits for row in shipped.read.parquet(picture).collect()}
    assert kept == played({}, before), "the state at its place"
    told = shipped.read.parquet(table).collect()
    keys = [(row.origin, row.number, row.path) for row in told]
    assert len(keys) == rows and len(set(keys)) == len(keys), "nothing twice"
    assert set(keys) == {(row.origin, row.number, row.path) for row in after}
    assert played(kept, told) == state(shipped, cluster) == played({}, log)
    assert max(row.visits for row in log) == traffic.acknowledged - 1


def played(tree: dict[str, Any], rows: list[Any]) -> dict[str, Any]:
    """Return the tree after changes: each path has the last change of the origin that writes it."""
    found = dict(tree)
    for row in sorted(rows, key=lambda row: row.number if row.visits < 0 else 10**9 + row.visits):
        found[row.path] = row.visits
    return found


def test_reconcile_and_commands_on_a_cluster(
    shipped: Any,
    standalone: Standalone,
    site: Callable[[int], list[HeldMember]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A stream into the cache runs, too; the command gets the master's address."""
    from jgroups_py.tools.cli import run

    (one,), (other,) = site(1), site(1)
    left, right = cluster_of([one], tmp_path), cluster_of([other], tmp_path)
    (tmp_path / "in").mkdir()
    shipped.range(0, 900, 1, 3).selectExpr(
        "concat('/n/', id) as path", "id as visits"
    ).write.parquet(str(tmp_path / "in"), mode="append")
    stream = shipped.readStream.schema(USER).option("maxFilesPerTrigger", "1")
    query = (
        stream.parquet(str(tmp_path / "in"))
        .writeStream.format("jgroups")
        .options(**left, query="q", checkpointLocation=str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert state(shipped, left) == {f"/n/{n}": n for n in range(900)}
    where = ["--members", one.place, "--token-file", left["tokenfile"]]
    where += ["--master", standalone.master]
    code = run(["spark", "reconcile", *where, "--other-members", other.place, "--repair"])
    assert code == 0
    said = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert said == {"missing": 900, "surplus": 0, "different": 0, "repaired": True}
    assert state(shipped, right) == state(shipped, left)
    found = reconcile(shipped, left, right)
    assert (found.left, found.right, found.both) == (0, 0, 0)


def test_explore_while_workers_and_an_executor_are_killed(
    shipped: Any,
    standalone: Standalone,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The stacks come from the package that was sent. Each seed has one row, equal to that of this process."""
    from jgroups_py.drill.file import loader
    from jgroups_py.spark import explore
    from jgroups_py.tools.cli import run

    file, target = tmp_path / "two.yaml", str(tmp_path / "rows")
    file.write_text(DRILL)
    seeds = TASKS
    monkeypatch.setattr(explore, "SEEDS_EACH", 1)
    allowed, row_of, runner_of = str(tmp_path / "allowed"), explore.row_of, explore._runner_of

    def held_runner_of(*args: Any) -> Any:
        run_seeds = runner_of(*args)

        def held(frames: Iterator[Any]) -> Iterator[Any]:
            import time
            from pathlib import Path

            for frame in frames:
                while max(frame["id"]) > int(Path(allowed).read_text()):
                    time.sleep(0.02)
                yield from run_seeds(iter([frame]))

        return held

    monkeypatch.setattr(explore, "_runner_of", held_runner_of)
    put(Path(allowed), "2")
    watched = Watched(shipped)

    def steps() -> None:
        try:
            until(lambda: watched.done() >= 2)
            fail_tasks(standalone, watched)
            put(Path(allowed), "5")
            until(lambda: watched.done() >= 5)
            kill_executor(standalone)
        finally:
            put(Path(allowed), str(seeds))

    words = ["spark", "explore", str(file), "--seeds", f"1..{seeds}", "--to", target]
    capsys.readouterr()
    with Killer(steps):
        assert run([*words, "--master", standalone.master]) == 0
    said = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert (said["passed"], said["failed"], said["broken"]) == (seeds, 0, 0)
    rows = [row.asDict() for row in shipped.read.parquet(target).collect()]
    assert sorted(row["seed"] for row in rows) == list(range(1, seeds + 1))
    assert said["worst"][0]["seed"] == rows[0]["seed"]
    loaded = loader.load(str(file))
    for row in (rows[0], rows[-1]):
        assert row == row_of(loaded, row["seed"], ())


def test_a_drill_report_is_made_on_a_cluster(
    shipped: Any, standalone: Standalone, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Several executors read the logs in blocks: the verdicts are those of the drills."""
    from jgroups_py.tools.cli import run

    drill, logs = tmp_path / "two.yaml", tmp_path / "logs"
    drill.write_text(DRILL)
    logs.mkdir()
    wanted = {}
    for seed in range(1, 4):
        log, result = logs / f"{seed}.jsonl", tmp_path / f"{seed}.json"
        words = ["drill", str(drill), "--simulated", "--seed", str(seed)]
        assert run([*words, "--log", str(log), "--json", str(result)]) == 0
        wanted[log.name] = json.loads(result.read_text())
    shipped.conf.set("spark.sql.files.maxPartitionBytes", "64k")
    shipped.conf.set("spark.sql.files.openCostInBytes", "0")
    capsys.readouterr()
    words = ["spark", "drill-report", str(drill), str(logs), "--to", str(tmp_path / "report")]
    assert run([*words, "--master", standalone.master]) == 0
    runs = json.loads((tmp_path / "report" / "report.json").read_text())["runs"]
    assert [one["log"] for one in runs] == sorted(wanted)
    for one in runs:
        theirs = wanted[one["log"]]
        for key in ("verdict", "expectations", "detection_s", "takeover_s", "rpo_s", "unrelayed"):
            assert one[key] == theirs[key], (one["log"], key)
        for site, numbers in one["sites"].items():
            assert numbers == {key: theirs["sites"][site][key] for key in numbers}, one["log"]
        assert sum(site["delivered"] for site in one["sites"].values()) > 1000
