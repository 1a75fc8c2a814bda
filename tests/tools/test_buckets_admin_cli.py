"""``jgroups-py buckets node``, ``top``, ``migrate``, ``recreate``, ``exempt``, ``restore``, ``rehearse``."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jgroups_py.buckets import Cep, Refused
from jgroups_py.buckets.deployment import Deployment, distribute, parse_deployment
from jgroups_py.buckets.messages import (
    BucketLoad,
    BucketRow,
    ComponentCounts,
    ComponentInfo,
    IndexState,
    KnownManager,
    NodeStatistics,
)
from jgroups_py.buckets.statistics import InstanceStatistics
from jgroups_py.config.settings import load_stack
from jgroups_py.tools.commands import buckets_meeting
from jgroups_py.tools.commands.mperf_ports import private_attributes

SEATS = """\
name: seats
buckets: 8
nodes: {n1: , n2: , n3: }
"""


class FakeNode:
    """An administrator's member whose index obeys."""

    def __init__(self, deployment: Deployment, names: str = "n1 n2 n3") -> None:
        self.ceps = {name: Cep(f"member-{name}", f"m/{name}") for name in names.split()}
        known = [
            KnownManager(cep, ComponentInfo(cep.component, "manager", name, version=73))
            for name, cep in self.ceps.items()
        ]
        nodes = distribute(deployment).nodes
        rows = {
            bucket: BucketRow(bucket, 1, Cep(f"member-{m}", f"m/{m}"), Cep(f"member-{s}", f"m/{s}"))
            for bucket, (m, s) in nodes.items()
        }
        self.state = IndexState(1, rows, {"i/n1": Cep("member-n1", "i/n1")}, known)
        view = SimpleNamespace(members=[cep.member for cep in self.ceps.values()])
        self.channel = SimpleNamespace(view=view)
        self.moves: list[str] = []
        self.ready = True
        self.missing: list[str] = []
        self.looks = 0

    async def instance_statistics(self, *, buckets: bool = False) -> InstanceStatistics:
        self.looks += 1
        part = ComponentCounts("m/n1", "manager", {"requests": 7 * self.looks})
        loads = [BucketLoad(4, "master", 1, 3, 7 * self.looks)] if buckets else []
        told = NodeStatistics("n1", "", self.ceps["n1"].member, [part], loads)
        return InstanceStatistics([told], self.missing, self.state.rows)

    async def wait_ready(self) -> None:
        assert self.ready

    def manager_at(self, where: str) -> Cep:
        if where.removeprefix("m/") not in self.ceps:
            raise Refused(f"there is no bucket manager {where!r}")
        return self.ceps[where.removeprefix("m/")]

    def _set(self, what: str, bucket: int, master: Cep, slave: Cep | None) -> BucketRow:
        row = BucketRow(bucket, self.state.rows[bucket].epoch + 1, master, slave)
        self.state.rows[bucket] = row
        self.moves.append(what)
        return row

    async def migrate_master_bucket(
        self, frm: Cep, to: Cep, *, bucket: int | None = None
    ) -> BucketRow:
        bucket = 0 if bucket is None else bucket
        assert self.state.rows[bucket].master == frm
        return self._set("master", bucket, to, self.state.rows[bucket].slave)

    async def migrate_slave_bucket(
        self, frm: Cep, to: Cep, *, bucket: int | None = None
    ) -> BucketRow:
        bucket = 0 if bucket is None else bucket
        assert self.state.rows[bucket].slave == frm
        return self._set("slave", bucket, self.state.rows[bucket].master, to)

    async def recreate_bucket(self, at: Cep, *, bucket: int | None = None) -> BucketRow:
        assert bucket is not None and self.state.rows[bucket].slave is None
        return self._set("recreate", bucket, self.state.rows[bucket].master, at)


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "seats.yaml"
    path.write_text(SEATS)
    return str(path)


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> FakeNode:
    fake = FakeNode(parse_deployment(SEATS))

    @asynccontextmanager
    async def opened(deployment: Deployment, **options: Any) -> AsyncIterator[FakeNode]:
        options.pop("plugin")
        fake.options = options  # type: ignore[attr-defined]
        yield fake

    monkeypatch.setattr(buckets_meeting, "open_administrator", opened)
    return fake


def test_top_shows_the_places_of_buckets_and_missing_copies(
    file: str, node: FakeNode, run: Any
) -> None:
    once = ("top", file, "--once", "--interval", "1ms")
    code, out, _ = run(*once)
    assert code == 0 and out.splitlines()[0] == "8 buckets; index copies: i/n1; change 1"
    assert len(out.splitlines()) == 7
    node.state.rows[3] = BucketRow(3, 2, node.ceps["n1"])
    code, out, _ = run("top", file, "--json", "--interval", "1ms")
    told = json.loads(out)
    assert code == 1 and told["without_backup"] == [3] and told["lost"] == []
    assert told["load"]["buckets"]["4"]["master"] == told["load"]["requests"] > 0
    code, out, _ = run(*once)
    assert code == 1 and "! 1 without backup: 3 (recreate makes slaves)" in out
    node.state.managers[:] = [
        KnownManager(m.cep, ComponentInfo("m", "manager", "evil\x1b[2J", "rack\n1"))
        for m in node.state.managers
    ]
    code, out, _ = run(*once)
    assert "\x1b" not in out and "evil" in out


@pytest.mark.seed("A23")
def test_counts_are_shown_at_three_levels(file: str, node: FakeNode, run: Any) -> None:
    code, out, _ = run("stats", file)
    assert code == 0 and "node n1\n  manager_requests  7\nm/n1\n  requests  7\n" in out
    assert out.startswith("the instance\n  manager_requests  7\n  pairs  8\n")
    node.missing.append("evil\x1b[2J")
    code, out, _ = run("stats", file)
    node.looks = 0
    assert code == 1 and "! no answer from evil" in out and "\x1b" not in out
    assert json.loads(run("stats", file, "--json")[1])["components"] == {"m/n1": {"requests": 7}}


def test_slaves_are_recreated_and_a_node_is_emptied_and_filled_again(
    file: str, node: FakeNode, run: Any
) -> None:
    before = dict(node.state.rows)
    for bucket in (2, 5):
        node.state.rows[bucket] = BucketRow(bucket, 2, node.state.rows[bucket].master)
    code, out, _ = run("recreate", file, "--dry-run")
    assert code == 0 and out.endswith("2 moves would be made\n") and not node.moves
    code, out, _ = run("recreate", file)
    assert (
        code == 0
        and node.moves == ["recreate"] * 2
        and "bucket 2: recreate the slave at m/n" in out
    )
    node.moves.clear()
    code, out, _ = run("exempt", file, "n2", "--pause", "1ms")
    assert code == 0 and out.endswith(f"{len(node.moves)} moves\n") and node.moves
    n2 = node.ceps["n2"]
    assert all(n2 not in (row.master, row.slave) for row in node.state.rows.values())
    assert run("restore", file)[0] == 0
    after = node.state.rows
    assert all(
        (after[b].master, after[b].slave) == (row.master, row.slave) for b, row in before.items()
    )
    code, out, err = run("exempt", file, "n9")
    assert code == 2 and "node 'n9' has no bucket manager; there are: n1, n2, n3" in err


def test_one_bucket_is_moved_by_hand(file: str, node: FakeNode, run: Any) -> None:
    frm = node.state.rows[0].master
    to = "n3" if frm.component != "m/n3" else "n1"
    code, out, _ = run(
        "migrate",
        file,
        frm.component,
        to,
        "--bucket",
        "0",
        "--set",
        "FD_ALL3.timeout=3s",
        "-D",
        "a=b",
    )
    assert code == 0 and out.startswith(f"bucket 0: master from {frm} to m/{to}@member-{to}")
    assert node.options == {"attributes": {"FD_ALL3.timeout": "3s"}, "properties": {"a": "b"}}  # type: ignore[attr-defined]
    slave = node.state.rows[1].slave
    assert slave is not None
    run("migrate", file, slave.component, "n1", "--role", "slave", "--bucket", "1")
    assert node.moves == ["master", "slave"]
    code, _, err = run("migrate", file, "n9", "n1")
    assert code == 2 and "there is no bucket manager 'n9'" in err


def test_a_rehearsal_reports_the_interruption_and_losses(file: str, run: Any) -> None:
    Path(file).write_text(SEATS.replace("buckets: 8", "buckets: 2"))
    code, out, _ = run("rehearse", file, "--detection", "2s")
    lines = out.splitlines()
    assert code == 0 and lines[-1] == "7 events, 0 bad: PASS"
    assert lines[0].split() == ["event", "interruption", "requests", "lost", "without", "backup"]
    code, out, _ = run("rehearse", file, "--detection", "40s", "--json")
    told = json.loads(out)
    assert code == 1 and not told["passed"]
    assert [s["name"] for s in told["scenes"] if s["interruption"] > 30] == [
        f"loss of node n{n}" for n in (1, 2, 3)
    ]


def test_a_node_that_the_file_does_not_have_is_reported(file: str, run: Any) -> None:
    code, _, err = run("node", file, "n1")
    assert code == 2 and "application: the key is missing: module:name of the plug-in" in err


def said_by_memcached(place: tuple[str, int], line: bytes) -> bytes:
    with socket.create_connection(place, 30) as client:
        client.sendall(line)
        said = client.recv(1000)
        while not said.endswith(b"END\r\n" if said.startswith(b"V") else b"\r\n"):
            more = client.recv(1000)
            assert more, said
            said += more
        return said


@pytest.mark.sockets
def test_three_nodes_run_and_obey_an_administrator(tmp_path: Path) -> None:
    file = tmp_path / "seats.yaml"
    nodes = "".join(f"  n{n}: {{address: 127.0.0.1}}\n" for n in (1, 2, 3))
    file.write_text(
        f"name: seats-{os.getpid()}\nbuckets: 4\nstack: tcp.xml\napplication: jgroups_py.buckets.items.bucket_items:ITEMS\nnodes:\n{nodes}"
    )
    places = private_attributes(load_stack("tcp.xml"), 8)
    where = [word for name, value in places.items() for word in ("--set", f"{name}={value}")]

    def command(*words: str) -> list[str]:
        return [sys.executable, "-m", "jgroups_py", "buckets", *words, *where]

    def administrate(*words: str) -> subprocess.CompletedProcess[str]:
        line = command(words[0], str(file), *words[1:], "--bind-addr", "127.0.0.1", "--for", "60s")
        return subprocess.run(line, capture_output=True, text=True, timeout=150)

    running = [
        subprocess.Popen(
            command("node", str(file), f"n{n}", "--memcached", "127.0.0.1:0"),
            stdout=subprocess.PIPE,
            text=True,
        )
        for n in (1, 2, 3)
    ]
    try:
        out = running[0].stdout
        assert out is not None
        told_at = next(line for line in out if "memcached" in line)
        assert told_at.startswith("n1 serves memcached at 127.0.0.1:")
        place = ("127.0.0.1", int(told_at.rpartition(":")[2]))
        looked = administrate("top", "--once", "--json")
        assert looked.returncode == 0, looked.stderr
        assert [m["node"] for m in json.loads(looked.stdout)["managers"]] == ["n1", "n2", "n3"]
        assert said_by_memcached(place, b"set seat 0 0 3\r\nAnn\r\n") == b"STORED\r\n"
        archive = str(tmp_path / "all.jgb")
        exported = administrate("export", archive)
        assert f"{archive}: 1 entries, " in exported.stdout, exported.stderr
        assert said_by_memcached(place, b"set seat 0 0 3\r\nBob\r\n") == b"STORED\r\n"
        imported = administrate("import", archive)
        assert ": 1 entries from" in imported.stdout, imported.stderr
        emptied = administrate("exempt", "n2")
        assert emptied.returncode == 0 and "moves" in emptied.stdout, emptied.stderr
        running[1].send_signal(signal.SIGTERM)
        assert running[1].wait(60) == 143
        restored = administrate("restore", "--dry-run")
        assert restored.returncode == 0, restored.stderr
        looked = administrate("top", "--once", "--json")
        told = json.loads(looked.stdout)
        assert told["without_backup"] == told["lost"] == []
        found = said_by_memcached(place, b"get seat\r\n")
        assert found == b"VALUE seat 0 3\r\nAnn\r\nEND\r\n"
    finally:
        for process in running:
            process.terminate()
        deadline = time.monotonic() + 30
        for process in running:
            process.wait(max(1.0, deadline - time.monotonic()))
            assert process.stdout is not None
            process.stdout.close()
