"""``jgroups-py maps``."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jgroups_py import blocking
from jgroups_py.maps import (
    Arrived,
    AuditLog,
    MapChange,
    PerField,
    PnCounter,
    Sent,
    replication_status,
)
from jgroups_py.maps.entry import MapEntry, origin_of
from jgroups_py.maps.shared import SharedFile
from jgroups_py.maps.stamp import MapStamp
from jgroups_py.tools import cli
from jgroups_py.tools.commands.maps import changes_of_hosts
from jgroups_py.tools.commands.mperf_ports import free_block


class Quote(msgspec.Struct):
    venue: str
    price: float


def made(folder: Path, entries: dict[Any, Any], **options: Any) -> str:
    with blocking.open_map(folder, **{"key": str, "value": "json", **options}) as m:
        m.update(entries)
    return str(folder)


def wait_listening(place: str) -> None:
    """Wait until something listens at HOST:PORT. A map replicates a moment before its port listens."""
    host, _, port = place.partition(":")
    until = time.monotonic() + 30
    while True:
        try:
            socket.create_connection((host, int(port)), 1).close()
        except OSError:
            assert time.monotonic() < until, f"nothing listens at {place}"
            time.sleep(0.01)
        else:
            return


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*args: str) -> tuple[int, str]:
        code = cli.run(["maps", *args])
        out, err = capsys.readouterr()
        return code, out.strip() or err.strip()

    return run


def test_keys_are_read_written_and_removed(tmp_path: Path, run: Any) -> None:
    folder = made(tmp_path / "m", {"a": {"x": [1]}, "b": "text"})
    assert run("get", folder, "a") == (0, '{"x":[1]}')
    assert run("get", folder, "none") == (1, "")
    assert run("put", folder, "c", "[1, 2]") == (0, "")
    assert run("ls", folder) == (0, 'a  {"x":[1]}\nb  text\nc  [1,2]')
    assert run("rm", folder, "a") == (0, "") and run("rm", folder, "a") == (1, "")
    code, out = run("ls", folder, "--json", "--limit", "1")
    assert code == 0 and json.loads(out) == [{"key": "b", "value": "text"}]
    code, out = run("put", folder, "c", "text")
    assert code == 2 and "value text: not JSON, which values of this map are" in out


def test_values_are_shown_as_their_codecs_have_them(tmp_path: Path, run: Any) -> None:
    numbers = made(tmp_path / "n", {-5: 7}, key=int, value=int)
    assert run("ls", numbers) == (0, "-5  7") and run("get", numbers, "--", "-5") == (0, "7")
    code, out = run("put", numbers, "x", "1")
    assert code == 2 and "key x: not JSON" in out
    raw = made(tmp_path / "b", {b"k": b"v", b"\xff": b"\x00"}, key=bytes, value=bytes)
    assert run("ls", raw) == (0, "k  v\n0xff  0x00")
    assert run("put", raw, "0xfe", "0x0102") == (0, "") and run("get", raw, "0xfe") == (0, "0x0102")
    assert run("put", raw, "0xzz", "1") == (
        2,
        "jgroups-py: key 0xzz: not hexadecimal digits after 0x",
    )
    quotes = made(tmp_path / "q", {"EUR": Quote("LXN", 1.5)}, value=Quote)
    assert run("get", quotes, "EUR") == (0, '{"venue":"LXN","price":1.5}')
    own = made(tmp_path / "o", {"a": "x"}, value=(str.encode, bytes.decode))
    assert run("get", own, "a") == (0, "0x78")
    counter = tmp_path / "c"
    with blocking.open_map(counter, key=str, rule=PnCounter()) as m:
        m.increment("n", 5)
    assert run("get", str(counter), "n") == (0, "5")
    code, out = run("put", str(counter), "n", "6")
    assert code == 2 and "they change by increment only" in out


def test_values_by_fields_are_shown_and_put_as_users_see_them(tmp_path: Path, run: Any) -> None:
    folder = str(tmp_path / "f")
    with blocking.open_map(folder, key=str, value=Quote, rule=PerField(), max_bytes=1 << 28) as m:
        m["EUR"] = Quote("LXN", 1.5)
    assert run("get", folder, "EUR") == (0, '{"price":1.5,"venue":"LXN"}')
    assert run("put", folder, "EUR", '{"venue": "LXN", "price": 2.5}') == (0, "")
    assert run("ls", folder) == (0, 'EUR  {"price":2.5,"venue":"LXN"}')
    code, out = run("put", folder, "EUR", "7")
    assert code == 2 and "takes objects with fields, got int" in out
    with blocking.open_map(folder, key=str, value=Quote, rule=PerField(), max_bytes=1 << 28) as m:
        assert m["EUR"] == Quote("LXN", 2.5)


def test_stats_describe_a_map(tmp_path: Path, run: Any) -> None:
    folder = made(tmp_path / "m", {"a": 1, "b": 2}, identifier=7, name="fx")
    run("rm", folder, "a")
    code, out = run("stats", folder, "--json")
    result = json.loads(out)
    assert code == 0 and result["entries"] == 1 and result["tombstones"] == 1
    assert (result["name"], result["identifier"], result["key"], result["value"]) == (
        *("fx", 7, "str", "json"),
    )
    assert result["changes"] == {"7": 3} and result["replicates"] is False
    assert 0 < result["file_bytes"] < result["max_bytes"] and result["waiting_bytes"] == 0
    assert "entries        1" in run("stats", folder)[1]


def test_stats_show_the_figures_of_the_process_that_replicates(tmp_path: Path, run: Any) -> None:
    folder = made(tmp_path / "m", {"a": 1}, identifier=1, max_bytes=1 << 28)
    status = replication_status.ReplicationStatus(
        5.0, 1, {2: "there"}, {2: 7}, 3, {"future_waits": 4}
    )
    replication_status.write_status(Path(folder), status)
    assert "peers" not in json.loads(run("stats", folder, "--json")[1])  # no process replicates now
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SharedFile, "is_replicated", lambda self: True)
        result = json.loads(run("stats", folder, "--json")[1])
        assert (result["peers"], result["lag"]) == ({"2": "there"}, {"2": 7})
        assert result["counters"] == {"future_waits": 4} and result["held_bytes"] == 3
        assert result["newest_ahead_s"] == 0.0
        (Path(folder) / replication_status.FILE).write_text("no JSON")
        assert "peers" not in json.loads(run("stats", folder, "--json")[1])


def test_stats_tell_how_far_a_map_is_ahead_of_the_clock(tmp_path: Path, run: Any) -> None:
    folder = made(tmp_path / "m", {"a": 1}, identifier=1, max_bytes=1 << 28)
    with blocking.open_map(folder) as m:
        time_of = m._file.clock.wall_time() + 5000 * 256_000_000
        entry = MapEntry(b"1", MapStamp(time_of, 2), {origin_of(2, 1): 1})
        m._file.apply([(b"b", entry)], {origin_of(2, 1): 1})
    assert 4900 < json.loads(run("stats", folder, "--json")[1])["newest_ahead_s"] <= 5000


def test_changes_of_all_lives_of_a_host_are_counted_together() -> None:
    vector = {origin_of(1, 5): 2700, origin_of(2, 1): 30, origin_of(1, 6): 1}
    assert changes_of_hosts(vector) == {"1": 2701, "2": 30}


def test_a_folder_without_a_map_is_named_and_stays_as_it_was(tmp_path: Path, run: Any) -> None:
    code, out = run("put", str(tmp_path / "none"), "a", "1")
    assert (code, out) == (2, f"jgroups-py: {tmp_path / 'none'}: there is no map in this folder")
    assert not (tmp_path / "none").exists()


@pytest.mark.sockets
def test_served_maps_replicate_puts_of_other_processes(tmp_path: Path, run: Any) -> None:
    port = free_block(2)
    file = tmp_path / "cluster.yaml"
    hosts = ", ".join(f"h{n}: {{hostId: {n}, connectUri: at{n}}}" for n in (1, 2))
    file.write_text(f"cluster: {{{hosts}}}\nmaps: {{fx: {{}}}}\n")
    addresses = [x for n in (1, 2) for x in ("--address", f"at{n}=127.0.0.1:{port + n - 1}")]
    servers = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "jgroups_py.tools", "maps", "serve", str(file), str(n)),
                *(*addresses, "--folder", str(tmp_path)),
            ],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        for n in (1, 2)
    ]
    try:
        for n, server in enumerate(servers, 1):
            assert server.stdout is not None
            assert server.stdout.readline() == f"host {n} (h{n}) has fx\n"
        one, two = (str(tmp_path / "data" / str(n) / "fx") for n in (1, 2))
        with blocking.open_map(two) as m:
            heard = m.listen(timeout=60)
            assert run("put", one, "EUR", "1.5") == (0, "")
            change = next(heard)
            assert isinstance(change, MapChange)
            assert (change.key, change.value, change.host) == ("EUR", 1.5, 1)
        assert json.loads(run("stats", two, "--json")[1])["replicates"] is True
    finally:
        for server in servers:
            server.send_signal(signal.SIGINT)
        for server in servers:
            server.communicate(timeout=30)
    assert run("put", one, "x", "1")[0] == 0
    assert run("serve", str(file), "1", "--address", "at1") == (
        *(2, 'jgroups-py: --address must be NAME=HOST:PORT, got "at1"'),
    )


def test_diff_says_which_keys_differ_and_why(tmp_path: Path, run: Any) -> None:
    one, two = made(tmp_path / "one", {"a": 1}), made(tmp_path / "two", {})
    assert run("diff", one, two) == (1, "a  only here")
    assert json.loads(run("diff", two, one, "--json")[1]) == [{"key": "a", "why": "only there"}]
    assert run("diff", two, made(tmp_path / "three", {})) == (0, "no key differs")


@pytest.mark.sockets
def test_diff_compares_with_the_map_of_a_host_that_listens(tmp_path: Path, run: Any) -> None:
    place = f"127.0.0.1:{free_block(1)}"
    mine = made(tmp_path / "one", {"a": 1, "b": 2}, name="fx", identifier=1)
    with blocking.open_map(
        tmp_path / "two", name="fx", key=str, value="json", identifier=2, listen=place
    ) as m:
        m["b"] = 3
        wait_listening(place)
        assert run("diff", mine, f"{place}/fx") == (
            *(1, "a  only here\nb  older here: a change of host 2 is missing"),
        )
        code, out = run("diff", f"{place}/fx", mine, "--json", "--limit", "1")
        assert code == 1, out
        assert json.loads(out) == [{"key": "a", "why": "only there"}]
        assert run("diff", f"{place}/fx", f"{place}/fx") == (0, "no key differs")
        code, out = run("diff", mine, f"{place}/other")
        assert code == 2 and 'the map "other" is not served here' in out
    code, out = run("diff", mine, f"{place}/fx")
    assert code == 2 and "cannot be reached" in out
    code, out = run("diff", mine, str(tmp_path / "none"))
    assert code == 2 and "the map of another machine is HOST:PORT/NAME" in out
    code, out = run("diff", mine, f"{place}/fx", "--ca", "ca.pem")
    assert code == 2 and "--certificate must name a PEM file" in out


def test_audit_prints_the_messages_to_and_from_a_peer(tmp_path: Path, run: Any) -> None:
    entry = MapEntry(b"value", MapStamp(5, 1), {1: 1})
    log = AuditLog(tmp_path / "logs")
    log.watch(Sent(2, 1, [(b"key", entry.encode())]))
    log.watch(Arrived(3, 3, [(b"other", entry)], None))
    log.close()
    code, out = run("audit", str(tmp_path / "logs"))
    assert code == 0 and len(out.splitlines()) == 2
    assert "came from host 3: b'other'" in run("audit", str(tmp_path / "logs"), "--peer", "3")[1]
    assert "no audit files" in run("audit", str(tmp_path))[1]
