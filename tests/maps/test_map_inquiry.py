"""A program compares its map with that of a host on another machine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
import trio
from tcp_hosts import MemoryNetwork, Recorded

from jgroups_py.errors import ConfigError
from jgroups_py.maps import inquiry, remote_side
from jgroups_py.maps.digests import BUCKETS, compared, differing, digests, row_of, rows
from jgroups_py.maps.entry import MapEntry
from jgroups_py.maps.file_settings import FileSettings
from jgroups_py.maps.inquiry import AskDigests, AskRows, BadInquiry, answer, answered, encode
from jgroups_py.maps.remote_side import CannotCompare, open_remote
from jgroups_py.maps.shared import SharedFile
from jgroups_py.maps.stamp import MapStamp
from jgroups_py.maps.tcp import TcpPort
from jgroups_py.maps.tcp_settings import TcpSettings


class Side:
    key_codec = "str"

    def __init__(self, entries: dict[bytes, MapEntry]) -> None:
        self.entries = entries
        self.looked = 0

    def items(
        self, *, after: bytes = b"", removed: bool = False
    ) -> Iterator[tuple[bytes, MapEntry]]:
        for key, entry in sorted(self.entries.items()):
            if key > after and (removed or not entry.removed):
                self.looked += 1
                yield key, entry


def entries(count: int) -> dict[bytes, MapEntry]:
    return {
        b"k%04d" % n: MapEntry(b"v%d" % n, MapStamp(n + 1, 1), {1: n + 1}) for n in range(count)
    }


@asynccontextmanager
async def served(
    monkeypatch: pytest.MonkeyPatch, side: Side | None, **settings: Any
) -> AsyncIterator[TcpPort]:
    """A port at "here:1" with the map fx, over streams in memory."""
    async with trio.open_nursery() as nursery:
        network = MemoryNetwork(nursery)
        port = network.ports[1] = TcpPort(2, TcpSettings(**settings), nursery)
        monkeypatch.setattr(remote_side, "connect", network.connect)
        host = Recorded()
        host.compared = side
        port.serve("fx", host)
        yield port
        assert host.opened == 0  # a program that compares is not a peer
        nursery.cancel_scope.cancel()


HERE = "127.0.0.1:1"


async def test_the_map_of_a_host_is_compared_without_its_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inquiry, "SCAN_MAX", 100)  # so the answers come in parts
    mine, theirs = Side(entries(1000)), Side(entries(1000))
    del mine.entries[b"k0001"]
    theirs.entries[b"k0500"] = MapEntry(b"newer", MapStamp(5000, 2))
    theirs.entries[b"k0999"] = MapEntry(None, MapStamp(5001, 2))
    async with served(monkeypatch, theirs) as port, open_remote(HERE, "fx") as remote:
        assert (remote.described.key, remote.described.node) == ("str", 2)
        buckets = differing(digests(mine.items()), await remote.digests())
        assert 0 < len(buckets) <= 3
        found = await remote.rows(buckets)
        sent = port.counters["bytes_sent"]
        assert found == dict(rows(theirs, buckets)[0])
        named = {one.key: one.why for one in compared(dict(rows(mine, buckets)[0]), found)}
        assert named == {
            b"k0001": "only there",
            b"k0500": "older here: a change of host 2 is missing",
            b"k0999": "older here: a removal of host 2 is missing",
        }
        assert port.counters["answers"] == 1 + 11
        assert BUCKETS * 16 < sent < BUCKETS * 16 + 2_000


async def test_a_comparison_that_cannot_be_made_names_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with served(monkeypatch, Side({}), inquiries_max=1) as port:
        for place, name, text in (
            (HERE, "other", 'the map "other" is not served here'),
            ("127.0.0.1:2", "fx", "127.0.0.1:2 cannot be reached"),
        ):
            with pytest.raises(CannotCompare, match=text):
                async with open_remote(place, name):
                    pass
        with pytest.raises(ConfigError, match=r"the host at example\.org:1 is not of this machine"):
            async with open_remote("example.org:1", "fx"):
                pass
        async with open_remote(HERE, "fx"):
            with pytest.raises(CannotCompare, match="1 others compare maps here already"):
                async with open_remote(HERE, "fx"):
                    pass
        assert port.counters["inquiries"] == 1
        await trio.testing.wait_all_tasks_blocked()
        async with open_remote(HERE, "fx") as remote:  # there is room again
            assert await remote.digests() == [0] * BUCKETS
    async with served(monkeypatch, None):
        with pytest.raises(CannotCompare, match="not served here"):
            async with open_remote(HERE, "fx"):
                pass


async def test_strangers_end_no_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        served(monkeypatch, Side({}), strangers_max=1) as port,
        open_remote(HERE, "fx") as remote,
    ):
        await vars(remote_side)["connect"]("127.0.0.1", 1)  # it sends nothing
        await trio.testing.wait_all_tasks_blocked()
        assert await remote.digests() == [0] * BUCKETS
        assert port.counters["crowded"] == 0


def test_a_key_that_both_have_removed_is_equal() -> None:
    one, other = ({b"k": row_of(MapEntry(None, MapStamp(time, 1)))} for time in (1, 2))
    assert list(compared(one, other)) == list(compared(one, {})) == []


async def test_bytes_that_are_no_question_end_the_connection_and_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with served(monkeypatch, Side(entries(3))) as port:
        async with open_remote(HERE, "fx") as remote:
            monkeypatch.setattr(remote_side, "encode", lambda question: b"\xc1")
            with pytest.raises(CannotCompare):
                await remote.digests()
        assert port.counters["bad_inquiry"] == 1


async def test_a_host_with_impossible_answers_is_not_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from jgroups_py.maps import tcp

    for false in (
        encode(inquiry.Rows([], b"")),  # from the start again, without end
        encode(inquiry.Described("fx", 1, "str")),
        b"\xc1",
    ):
        async with served(monkeypatch, Side(entries(3))):
            monkeypatch.setattr(tcp, "answer", lambda side, data, false=false: false)
            async with open_remote(HERE, "fx") as remote:
                with pytest.raises(CannotCompare):
                    await remote.rows({1})


def test_a_question_has_limits() -> None:
    side = Side(entries(10))
    for bad in (
        b"",
        encode(AskRows([BUCKETS], b"")),
        encode(AskRows([0] * (BUCKETS + 1), b"")),
        encode(AskRows([0], bytes(600))),
        encode(inquiry.Rows([], None)),
    ):
        with pytest.raises(BadInquiry):
            answer(side, bad)
    with pytest.raises(BadInquiry):
        answered(encode(AskDigests()))
    assert side.looked == 0


def test_an_answer_looks_at_no_more_than_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inquiry, "SCAN_MAX", 10)
    side = Side(entries(100))
    told = answered(answer(side, encode(AskRows([0], b"k0050"))))
    assert isinstance(told, inquiry.Rows)
    assert side.looked == 10 and told.last == b"k0060"


def test_an_entry_that_is_over_and_not_buried_yet_counts_as_removed(tmp_path: Path) -> None:
    settings = FileSettings(max_bytes=1 << 24)
    with closing(SharedFile(tmp_path / "m", settings)) as shared, shared._merger.lock:
        # No host removes tombstones.
        shared.write(b"over", b"v", shared.clock.wall_time() - 1)
        shared.write(b"gone", None)
        shared.write(b"here", b"v")
        assert [key for key, _ in shared.items()] == [b"here"]
        found = {key: row.removed for key, row in rows(shared, range(BUCKETS))[0]}
        assert found == {b"over": True, b"gone": True, b"here": False}
        assert [key for key, _ in shared.items(after=b"gone", removed=True)] == [b"here", b"over"]
