"""The demonstration of ``make demo-spark``: three members as processes, a load, a snapshot, a stream that follows live
writes while one member is killed, a reconcile of two sites, and a picture of the lag.

It checks the result: the snapshot with the changes of the stream is the state of the cluster in the end.
"""

from __future__ import annotations

import json
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from pyspark.sql import functions as f

from jgroups_py.drill.report.charts import Chart, standalone
from jgroups_py.errors import JGroupsError
from jgroups_py.export import connect
from jgroups_py.export.client import ExportClient, parse_members
from jgroups_py.export.columns import WRITES, pack
from jgroups_py.export.messages import StageRows
from jgroups_py.spark.jobs import follow, load, reconcile, snapshot
from jgroups_py.spark.session import open_session

USERS = 5_000
AFTER_SECONDS = 10.0
"""The time for which writes go on after the member was killed."""
RATE = 100
"""Live writes each second."""
START_TIMEOUT = 60.0


class DemoMember:
    """``jgroups-py export`` in a process of its own."""

    program: Sequence[str] = ("-m", "jgroups_py.tools")
    """The words after the interpreter. A subclass may run a program that does more."""

    def __init__(self, name: str, cluster: str, folder: Path) -> None:
        self.name = name
        words = [sys.executable, *self.program, "export", "--name", name]
        words += ["--cluster", cluster, "--token-file", str(folder / "token")]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if " at " not in line:
            raise JGroupsError(f"member {name} did not start: {line.strip() or 'it said nothing'}")
        self.place = line.rpartition(" at ")[2].strip()

    def kill(self) -> None:
        """Kill the member as if its machine were gone."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()
        if self.process.stdout is not None:
            self.process.stdout.close()


class DemoTraffic(threading.Thread):
    """Puts visits at random users, through any present member, and notes acknowledged ones."""

    def __init__(self, places: str, token: str) -> None:
        super().__init__(daemon=True)
        self._places = parse_members(places)
        self._token = token
        self._end = threading.Event()
        self.acknowledged = 0
        self.retried = 0
        self.problem: str | None = None

    def run(self) -> None:
        number = 0
        while not self._end.wait(0.1):
            rows = [(number + n) * 7919 % USERS for n in range(RATE // 10)]
            self._write(rows, number)
            if self.problem is None:
                number += len(rows)
                self.acknowledged += len(rows)

    def stop(self) -> None:
        """Return when the last write is acknowledged."""
        self._end.set()
        self.join()

    def _write(self, users: list[int], number: int) -> None:
        import msgspec

        encode = msgspec.msgpack.encode
        keys = [f"/users/{user}" for user in users]
        data = [encode({"visits": encode(number + n)}) for n in range(len(users))]
        sizes, body = pack(WRITES, [keys, [False] * len(keys), data])
        end = time.monotonic() + START_TIMEOUT
        while True:
            try:
                with connect(self._places, self._token) as client:
                    _put(client, sizes, body, len(keys))
                return
            except JGroupsError as error:  # the member is gone: repeat the write at another one
                if time.monotonic() > end:
                    self.problem = f"a write failed for {START_TIMEOUT:g} s: {error}"
                    self._end.set()
                    return
                self.retried += 1
                time.sleep(0.2)


def _put(client: ExportClient, sizes: tuple[int, ...], body: bytes, rows: int) -> None:
    job = secrets.token_hex(8)
    client.stage(StageRows("cache", job, 0, 0, rows, sizes, True), body)
    list(client.commit("cache", job, [(0, 0)]))


@contextmanager
def _site(name: str, count: int, folder: Path) -> Iterator[list[DemoMember]]:
    with ExitStack() as stack:
        members = []
        cluster = f"demo-{name}-{secrets.token_hex(3)}"
        for number in range(count):
            members.append(DemoMember(f"{name}{number + 1}", cluster, folder))
            stack.callback(members[-1].stop)
        yield members


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {text}", flush=True)


def main(out: str = "build/demo-spark") -> int:
    """Play the show and return its exit code. 0: all checks hold."""
    target = Path(out)
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="jgroups-py-demo-") as scratch:
        folder = Path(scratch)
        with (
            _site("NYC", 3, folder) as nyc,
            _site("SFO", 1, folder) as sfo,
            open_session(memory="1g") as spark,
        ):
            return _show(spark, nyc, sfo, folder, target)


def _show(
    spark: Any, nyc: list[DemoMember], sfo: list[DemoMember], folder: Path, target: Path
) -> int:
    token_file = str(folder / "token")
    token = Path(token_file).read_text(encoding="utf-8").strip()
    places = ",".join(member.place for member in nyc)
    here = {"members": places, "tokenfile": token_file}
    there = {"members": sfo[0].place, "tokenfile": token_file}
    _say(f"three members of NYC: {places}; one of SFO: {sfo[0].place}")

    users = str(folder / "users.parquet")
    spark.range(USERS).selectExpr("id", "concat('user ', id) as name", "0 as visits").write.parquet(
        users
    )
    for cluster, site in ((here, "NYC"), (there, "SFO")):
        rows = load(spark, cluster, users, "/users/{id}")
        _say(f"loaded {rows} users into {site}")

    traffic = DemoTraffic(places, token)
    traffic.start()
    taken = snapshot(spark, here, str(folder / "picture"), schema="path string, visits bigint")
    place = taken.offset
    assert place is not None  # every member has all nodes
    _say(f"a snapshot under traffic: {taken.rows} nodes, at {place.origins}")
    table = str(folder / "changes")

    def more() -> int:
        return follow(spark, here, table, starting=place, schema=CHANGES, once=True)

    rows = more()
    nyc[0].kill()
    _say(f"followed {rows} changes; {nyc[0].name}, which was read and written, is killed")
    end = time.monotonic() + AFTER_SECONDS
    while time.monotonic() < end:
        rows += more()
    traffic.stop()
    rows += more()
    _say(
        f"followed {rows} changes, {traffic.acknowledged} writes were acknowledged, "
        f"{traffic.retried} had to be tried again"
    )

    problems = _check(spark, here, folder, table, rows, traffic.acknowledged)
    problems += [traffic.problem] if traffic.problem else []
    chart = Chart("seconds until seen", "seconds", {"change": _lags(spark, table)}, width=900)
    (target / "lag.svg").write_text(standalone([chart]), encoding="utf-8")
    _say(f"the time between changes: {target / 'lag.svg'}")

    found = reconcile(spark, here, there)
    _say(f"SFO: {found.left} nodes missing, {found.right} surplus, {found.both} different")
    reconcile(spark, here, there, repair=True)
    after = reconcile(spark, here, there)
    if after.left + after.right + after.both:
        problems.append("after the repair the sites differ")
    _say("SFO is repaired" if not problems else f"wrong: {'; '.join(problems)}")
    said = {"changes": rows, "acknowledged": traffic.acknowledged, "problems": problems}
    (target / "demo.json").write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
    return 1 if problems else 0


CHANGES = (
    "origin string, number bigint, time timestamp, path string, removed boolean, visits bigint"
)


def _check(
    spark: Any, here: dict[str, str], folder: Path, table: str, rows: int, acknowledged: int
) -> list[str]:
    """Return the problems: snapshot and changes together must be the state of the cluster."""
    problems = []
    changes = spark.read.parquet(table)
    if changes.select("origin", "number", "path").distinct().count() != rows:
        problems.append("a change was told twice")
    state = {r.path: r.visits for r in spark.read.parquet(str(folder / "picture")).collect()}
    for row in changes.orderBy("visits").collect():  # the number rises with each write
        state[row.path] = row.visits
    reader = spark.read.format("jgroups").options(**here).schema("path string, visits bigint")
    if {row.path: row.visits for row in reader.load().collect()} != state:
        problems.append("snapshot and changes are not the cluster's state")
    if max(state.values()) != acknowledged - 1:
        problems.append("an acknowledged write is missing")
    return problems


def _lags(spark: Any, table: str) -> list[tuple[float, float]]:
    """Seconds since the first change, and since the change before."""
    times = (
        spark.read.parquet(table)
        .select(f.col("time").cast("double").alias("t"))
        .distinct()
        .orderBy("t")
        .collect()
    )
    at = [row.t for row in times]
    return [(b - at[0], b - a) for a, b in pairwise(at)]


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
