"""The export port: tokens, snapshots under traffic, change ranges, bulk writes in two phases, limits."""

from __future__ import annotations

import socket
import struct
import time
from contextlib import suppress
from typing import Any

import pytest
import trio
import trio.lowlevel
from export_kit import (
    TOKEN,
    changes_of,
    client_of,
    commit,
    exported,
    in_thread,
    log_of,
    played,
    stage,
    state_of,
    tree_of,
    write,
)

from jgroups_py import MemoryNetwork
from jgroups_py.cache import Fqn, load_cache_settings, open_tree_cache
from jgroups_py.cache.node import Node, node_bytes
from jgroups_py.errors import CacheRefused, ConfigError
from jgroups_py.export import (
    ExportClient,
    ExportError,
    ExportLimits,
    ExportPort,
    Marker,
    NoMember,
    Offset,
    Trimmed,
    UnknownMap,
    WrongToken,
    connect,
    open_export,
)
from jgroups_py.export.client import parse_members
from jgroups_py.export.columns import WRITES, pack
from jgroups_py.export.errors import Busy, Diverged, UnknownJob, UnknownSnapshot
from jgroups_py.export.messages import Committed, StageRows
from jgroups_py.export.source import RowWrite

pytestmark = pytest.mark.sockets

# --- admission of clients


async def test_a_client_without_the_token_is_refused_and_learns_nothing() -> None:
    async with exported() as (_, port):
        with pytest.raises(WrongToken, match="another token"):
            await in_thread(ExportClient, port.address, "a token of somebody else")
        async with client_of(port) as client:
            assert client.member == "local"
        with pytest.raises(ConfigError, match="16 characters"):
            await in_thread(ExportClient, port.address, "short")
        assert port.counters["refused"] == 1


async def test_a_port_that_does_not_know_the_token_is_found_out() -> None:
    """Another server that listens there must not get rows."""
    from jgroups_py.export.messages import VERSION, Challenge, Welcome, written

    async def pretend(stream: trio.SocketStream) -> None:
        await stream.send_all(written(Challenge(VERSION, b"n" * 32)))
        await stream.receive_some()
        await stream.send_all(written(Welcome(b"p" * 32, "A")))

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, pretend, 0)
        address = ("127.0.0.1", listeners[0].socket.getsockname()[1])
        with pytest.raises(WrongToken, match="does not know"):
            await in_thread(ExportClient, address, TOKEN)
        nursery.cancel_scope.cancel()


def throw(port: ExportPort, data: bytes) -> bytes:
    """Send bytes, and return the answer until the port closes the connection."""
    said = b""
    with socket.create_connection(port.address, 30) as sock:
        sock.sendall(data)
        while part := sock.recv(65536):
            said += part
    return said


async def test_garbage_is_answered_and_hurts_nobody() -> None:
    async with exported(hello_timeout=60) as (cache, port):
        assert b"too long" in await in_thread(throw, port, b"\xff" * 100)
        for header, body in ((5000, 0), (100, 1)):  # few bytes are kept for strangers
            assert b"too long" in await in_thread(throw, port, struct.pack(">II", header, body))
        assert b"not a hello" in await in_thread(throw, port, b"\0\0\0\4\0\0\0\0abcd")
        async with client_of(port) as client:
            assert (await in_thread(client.describe)).kind == "tree"
        assert await cache.exists("/a") is False


async def test_a_stranger_that_sends_nothing_more_is_disconnected() -> None:
    async with exported(hello_timeout=0.3) as (_, port):
        with suppress(ConnectionResetError):  # the port may close before it has read the bytes
            assert b"problem" not in await in_thread(throw, port, b"\0\0")
        assert port.counters["late"] == 1 and port.counters["refused"] == 0


async def test_clients_beyond_the_limit_are_reported() -> None:
    async with exported(connections_max=2) as (_, port), client_of(port), client_of(port):
        with pytest.raises(Busy, match="connections_max"):
            await in_thread(ExportClient, port.address, TOKEN)


async def test_other_hosts_must_be_meant_and_refused_exports_have_a_reason() -> None:
    async with open_tree_cache("local.xml") as cache:
        with pytest.raises(ConfigError, match="allow_remote"):
            async with open_export(cache, token=TOKEN, host="0.0.0.0"):
                pass
        with pytest.raises(ConfigError, match="16 characters"):
            async with open_export(cache, token="short"):
                pass
        async with open_export(cache, token=TOKEN) as port:
            with pytest.raises(ConfigError, match="cannot listen"):
                async with open_export(cache, token=TOKEN, port=port.address[1]):
                    pass
            with pytest.raises(ConfigError, match="host:port"):
                parse_members("nowhere")
            assert parse_members("a:1, [::1]:2") == [("a", 1), ("::1", 2)]
            client = await in_thread(connect, [("127.0.0.1", 1), port.address], TOKEN)
            client.close()
        with pytest.raises(NoMember, match=r"no member can be reached: 127\.0\.0\.1:1: .*refused"):
            await in_thread(connect, [("127.0.0.1", 1), port.address], TOKEN)
        assert cache.tree.observers == []


async def test_maps_have_names_and_kinds() -> None:
    async with (
        open_tree_cache("local.xml") as one,
        open_tree_cache("local.xml") as two,
        open_export({"one": one, "two": two}, token=TOKEN) as port,
        client_of(port) as client,
    ):
        await one.put("/a", "k", 1)
        said = await in_thread(client.describe, "one", "tree")
        assert (said.map, said.rows, said.values, said.members) == ("one", 1, "msgpack", ("local",))
        for map, kind in ((None, None), ("three", None), ("two", "queue")):
            with pytest.raises(UnknownMap):
                await in_thread(client.describe, map, kind)
        with pytest.raises(UnknownMap, match="there is one, two"):
            await in_thread(client.open_snapshot, "three")


# --- reading


async def test_a_snapshot_under_traffic_is_the_state_at_its_place_in_the_log() -> None:
    """The snapshot is read piece by piece during changes; the log, applied up to the snapshot's place,
    gives the same contents."""
    async with exported(frame_rows=7) as (cache, port), client_of(port) as client:
        begin = (await in_thread(lambda: client.find_offset("cache", earliest=True))).offset
        stop = trio.Event()

        async def traffic() -> None:
            number = 0
            while not stop.is_set():
                number += 1
                await cache.put(f"/n/{number % 50}", "v", number)
                if not number % 3:
                    await cache.remove_node(f"/n/{(number * 7) % 50}")
                if not number % 10:
                    async with cache.batch() as batch:
                        batch.put("/two/a", "v", number)
                        batch.put("/two/b", "v", number)
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(traffic)
            for _ in range(5):
                await trio.sleep(0.02)
                opened = await in_thread(client.open_snapshot, "cache")
                half = opened.rows // 2
                tree = await in_thread(state_of, client, opened.id, 0, half)
                tree |= await in_thread(state_of, client, opened.id, half, opened.rows)
                assert len(tree) == opened.rows
                assert tree.get("/two/a") == tree.get("/two/b")
                told = await in_thread(changes_of, client, begin, opened.offset)
                assert played({}, told) == tree
                await in_thread(client.close_snapshot, opened.id)
            stop.set()
        end = (await in_thread(client.find_offset, "cache")).offset
        rest = await in_thread(changes_of, client, opened.offset, end)
        assert played(tree, rest) == tree_of(cache)
        numbers = [row[1] for row in rest]
        assert numbers == sorted(numbers) and min(numbers) > opened.offset.at


async def test_a_subtree_and_no_markers() -> None:
    async with exported() as (cache, port), client_of(port) as client:
        for path in ("/a", "/a/b", "/a/b/c", "/ab", "/d"):
            await cache.put(path, "k", 1)
        opened = await in_thread(client.open_snapshot, "cache", ["/a/b", "/d", "/x"])
        assert set(await in_thread(state_of, client, opened.id)) == {"/a/b", "/a/b/c", "/d"}
        parts = [await in_thread(stage, client, "j", 0, 0, [write(1)])]
        marker = Marker("q", 1)
        await in_thread(lambda: commit(client, "j", parts, marker=marker))
        opened = await in_thread(client.open_snapshot, "cache")
        assert len(await in_thread(state_of, client, opened.id)) == opened.rows == 6
        with pytest.raises(ExportError, match="begins with /"):
            await in_thread(client.open_snapshot, "cache", ["a"])


async def test_snapshots_have_limits_and_end() -> None:
    async with exported(snapshots_max=2) as (cache, port), client_of(port) as client:
        await cache.put("/a", "k", 1)
        one = await in_thread(client.open_snapshot, "cache")
        await in_thread(client.open_snapshot, "cache")
        with pytest.raises(Busy, match="snapshots_max"):
            await in_thread(client.open_snapshot, "cache")
        await in_thread(client.close_snapshot, one.id)
        with pytest.raises(UnknownSnapshot):
            await in_thread(state_of, client, one.id)
    limits = {"snapshots_max": 1, "snapshot_ttl": 0.2}
    async with exported(**limits) as (_, port), client_of(port) as client:
        for _ in range(2):
            await in_thread(client.open_snapshot, "cache")
            await trio.sleep(0.3)


async def test_changes_in_steps_and_a_trimmed_log() -> None:
    async with exported(log_changes=10) as (cache, port), client_of(port) as client:
        begin = (await in_thread(client.find_offset, "cache")).offset
        for number in range(8):
            await cache.put(f"/n/{number}", "v", number)
        found = await in_thread(lambda: client.find_offset("cache", begin, max_changes=3))
        assert found.changes == 3 and found.offset.at == 3
        told = await in_thread(changes_of, client, begin, found.offset)
        assert [row[3] for row in told] == ["/n/0", "/n/1", "/n/2"]
        assert abs(told[0][2] / 1e6 - time.time()) < 60
        for number in range(8):
            await cache.put(f"/n/{number}", "v", number)
        for call in (client.find_offset, lambda m, o: changes_of(client, o, found.offset)):
            with pytest.raises(Trimmed, match="take a snapshot"):
                await in_thread(call, "cache", begin)
        assert (await in_thread(lambda: client.find_offset("cache", earliest=True))).first == 6


async def test_large_values_come_in_frames_of_their_own() -> None:
    async with exported(frame_bytes=10_000) as (cache, port), client_of(port) as client:
        for number in range(10):
            await cache.put(f"/n/{number}", "v", b"x" * (30_000 if number == 5 else 4_000))
        opened = await in_thread(client.open_snapshot, "cache")
        frames = await in_thread(lambda: list(client.read_snapshot(opened.id, 0, 10)))
        assert [rows for rows, *_ in frames] == [2, 2, 1, 1, 2, 2]
        assert await in_thread(state_of, client, opened.id) == tree_of(cache)


# --- bulk writes


async def test_only_the_attempts_that_are_named_are_written_once() -> None:
    async with exported() as (cache, port), client_of(port) as client, client_of(port) as other:
        await in_thread(stage, client, "j", 0, 0, [write(n, b"\x07") for n in range(100)])
        await in_thread(stage, other, "j", 0, 1, [write(n) for n in range(1200)])
        await in_thread(stage, client, "j", 1, 0, [write(n) for n in range(1200, 1300)])
        assert tree_of(cache) == {}
        done = await in_thread(commit, client, "j", [(0, 1), (1, 0)])
        assert done == Committed(1300, False) and len(tree_of(cache)) == 1300
        assert {value for node in tree_of(cache).values() for value in node.values()} == {b"\x01"}
        end = log_of(port).end
        assert await in_thread(commit, other, "j", [(0, 1), (1, 0)]) == done
        assert log_of(port).end == end, "written once"
        with pytest.raises(ExportError, match="being written, or was"):
            await in_thread(stage, client, "j", 2, 0, [write(0)])
        assert port._staging["cache"].size == 0


async def test_an_aborted_job_and_one_that_is_not_here_are_reported() -> None:
    async with exported() as (cache, port), client_of(port) as client:
        await in_thread(stage, client, "j", 0, 0, [write(1)])
        with pytest.raises(UnknownJob, match="task 0, attempt 1"):
            await in_thread(commit, client, "j", [(0, 1)])
        await in_thread(client.abort, "cache", "j")
        with pytest.raises(UnknownJob):
            await in_thread(commit, client, "j", [(0, 0)])
        assert (await in_thread(commit, client, "empty", [])) == Committed(0, False)
        assert tree_of(cache) == {} and port._staging["cache"].size == 0


async def test_a_commit_goes_on_without_its_client_and_is_joined() -> None:
    async with exported(write_nodes=1) as (cache, port), client_of(port) as client:
        parts = [await in_thread(stage, client, "j", 0, 0, [write(n) for n in range(500)])]

        def lose() -> None:
            with ExportClient(port.address, TOKEN) as lost:
                next(lost.commit("cache", "j", parts))

        await in_thread(lose)
        assert (await in_thread(commit, client, "j", parts)).rows == 500
        assert log_of(port).end == 500 and len(tree_of(cache)) == 500


@pytest.mark.parametrize("replace", [False, True])
async def test_equal_rows_are_not_written_again(replace: bool) -> None:
    """A load is repeated at another member, which has received a part of it before."""
    async with exported() as (cache, port), client_of(port) as client:
        await cache.put_node("/n/1", {"v": 1, "w": 2})
        await cache.put_node("/n/2", {"v": 1})
        begin = (await in_thread(client.find_offset, "cache")).offset
        rows = [write(number) for number in (1, 2, 3)]  # the value is 1
        rows.append(RowWrite("/n/2/gone", True, b""))

        def load() -> Committed:
            parts = [stage(client, f"j{replace}", 0, 0, rows)]
            return commit(client, f"j{replace}", parts, skip_equal=True, replace=replace)

        assert (await in_thread(load)).rows == 4
        end = (await in_thread(client.find_offset, "cache")).offset
        told = [row[3] for row in await in_thread(changes_of, client, begin, end)]
        assert told == (["/n/1", "/n/3"] if replace else ["/n/3"])


@pytest.mark.parametrize("atomic", [1000, 10])
async def test_a_marked_batch_is_written_once(atomic: int) -> None:
    limits = {"atomic_nodes": atomic, "write_nodes": 30}
    async with exported(**limits) as (cache, port), client_of(port) as client:

        async def once(batch: int, job: str, value: bytes) -> Committed:
            rows = [write(n, value) for n in range(100)]
            parts = [await in_thread(stage, client, job, 0, 0, rows)]
            marker = Marker("query", batch)
            done: Committed = await in_thread(lambda: commit(client, job, parts, marker=marker))
            return done

        assert await once(0, "j0", b"\x01") == Committed(100, False)
        assert await once(1, "j1", b"\x02") == Committed(100, False)
        assert log_of(port).end == (2 if atomic > 100 else 8)
        for batch in (0, 1):
            assert await once(batch, f"again{batch}", b"\x03") == Committed(0, True)
        assert {v for path, node in tree_of(cache).items() if path[1] == "n" for v in node.values()}
        assert tree_of(cache)["/n/5"] == {"v": b"\x02"}


@pytest.mark.parametrize("memory", [1_000_000, 0])
async def test_a_write_that_fails_says_so_and_may_be_tried_again(memory: int) -> None:
    """The error comes at once where rows are prepared in memory, otherwise when they are written. No row of the failed
    write is kept."""
    async with exported(stage_memory=memory) as (cache, port), client_of(port) as client:
        for number, (key, data, match) in enumerate(
            (
                ("n", node_bytes(Node({})), "begins with /"),
                ("/", node_bytes(Node({})), "root"),
                ("/_buddy_backup_/x", node_bytes(Node({})), "cache's own"),
                ("/_export_/q", node_bytes(Node({})), "cache's own"),
                ("/a", b"\xc1", "not a node"),
            )
        ):
            job = f"j{number}"
            if memory:
                with pytest.raises(ExportError, match=match):
                    await in_thread(stage, client, job, 0, 0, [RowWrite(key, False, data)])
                with pytest.raises(UnknownJob):
                    await in_thread(commit, client, job, [(0, 0)])
                continue
            parts = [await in_thread(stage, client, job, 0, 0, [RowWrite(key, False, data)])]
            for _ in range(2):
                with pytest.raises(ExportError, match=match):
                    await in_thread(commit, client, job, parts)
        assert tree_of(cache) == {}
        with pytest.raises(CacheRefused, match="max_value_bytes"):
            cache._values.checked(Node({"v": b"x" * 20_000_000}))


async def test_an_attempt_that_lacks_a_frame_is_never_complete() -> None:
    """Later frames do not replace a frame that was refused."""
    async with exported() as (cache, port), client_of(port) as client:
        for key, last in (("no path", False), ("/n/1", True)):
            sizes, body = pack(WRITES, [[key], [False], [node_bytes(Node({}))]])
            frame = StageRows("cache", "j", 0, 0, 1, sizes, last)
            if last:
                with pytest.raises(ExportError, match="begins with /"):
                    await in_thread(client.stage, frame, body)
            else:
                await in_thread(client.stage, frame, body)
        async with client_of(port) as another:
            with pytest.raises(UnknownJob, match="task 0, attempt 0"):
                await in_thread(commit, another, "j", [(0, 0)])
        assert tree_of(cache) == {}


async def test_rows_that_are_too_much_for_memory_wait_in_a_file() -> None:
    """Frames of one task are accepted in their order, even where a later one would fit first."""
    big, small = (write(n, bytes([0xC5, 3, 0xE8]) + bytes(1000)) for n in (1, 2)), (write(3),)
    async with exported(stage_memory=1500) as (cache, port), client_of(port) as client:
        first, second = ([row] for row in big)
        for rows, last in ((first, False), (second, False), ([write(1)], False), (small, True)):
            sizes, body = pack(WRITES, [list(column) for column in zip(*rows, strict=True)])
            frame = StageRows("cache", "j", 0, 0, len(rows), sizes, last)
            count = await in_thread(client.stage, frame, body)
        assert count == 4
        (staged,) = port._staging["cache"]._jobs["j"].staged.values()
        assert (len(staged.ready), len(staged.frames)) == (1, 3)
        assert await in_thread(commit, client, "j", [(0, 0)]) == Committed(4, False)
        tree = tree_of(cache)
        assert tree["/n/1"] == tree["/n/3"] == {"v": b"\x01"} and len(tree["/n/2"]["v"]) == 1003
        assert port._staging["cache"].size == port._staging["cache"]._memory == 0


async def test_removals_replacement_and_staging_limits() -> None:
    async with exported(stage_bytes=2000, jobs_max=2) as (cache, port), client_of(port) as client:
        await cache.put_node("/n/1", {"w": 1, "v": 2})
        await cache.put_node("/n/2", {"w": 1})
        rows = [write(1), RowWrite("/n/2", True, b"")]
        parts = [await in_thread(stage, client, "j", 0, 0, rows)]
        await in_thread(commit, client, "j", parts)
        assert tree_of(cache) == {"/n/1": {"w": b"\x01", "v": b"\x01"}}
        parts = [await in_thread(stage, client, "k", 0, 0, [write(1)])]
        await in_thread(lambda: commit(client, "k", parts, replace=True))
        assert tree_of(cache) == {"/n/1": {"v": b"\x01"}}
        # Finished jobs make room, the oldest first; running jobs do not.
        await in_thread(stage, client, "l", 0, 0, [write(1)])
        with pytest.raises(UnknownJob):
            await in_thread(commit, client, "j", parts)
        await in_thread(stage, client, "m", 0, 0, [write(1)])
        with pytest.raises(Busy, match="jobs_max"):
            await in_thread(stage, client, "n", 0, 0, [write(1)])
    async with exported(stage_bytes=2000) as (_, port), client_of(port) as client:
        with pytest.raises(Busy, match="stage_bytes"):
            await in_thread(lambda: [stage(client, "j", n, 0, [write(1)] * 20) for n in range(9)])


# --- several members


async def test_a_reader_goes_on_at_another_member() -> None:
    """Origins and numbers are the same at all members, and so is a reader's place."""
    network = MemoryNetwork()
    settings = load_cache_settings("replicated.xml", properties={"cache.stack": "sim.xml"})

    def member(name: str) -> Any:
        return open_tree_cache(settings, cluster="t", name=name, transport=network)

    async with (
        member("A") as a,
        open_export(a, token=TOKEN) as port_a,
        client_of(port_a) as client_a,
    ):
        await a.put("/before", "k", 1)
        async with (
            member("B") as b,
            open_export(b, token=TOKEN, limits=ExportLimits(behind_wait=0.5)) as port_b,
            client_of(port_b) as client_b,
        ):
            for cache in (a, b):  # a slow join
                await cache.wait_members(2, timeout=90)
            for member_of_two in (a, b):  # if two groups existed that merged, the merge is over now
                await member_of_two.put("/settled", "k", 1)
            opened = await in_thread(client_b.open_snapshot, "cache")
            tree = await in_thread(state_of, client_b, opened.id)
            for number in range(20):
                await (a, b)[number % 2].put(f"/n/{number}", "v", number)
            middle = (
                await in_thread(lambda: client_b.find_offset("cache", opened.offset, max_changes=7))
            ).offset
            first = await in_thread(changes_of, client_b, opened.offset, middle)
            end = (await in_thread(client_a.find_offset, "cache")).offset
            rest = await in_thread(changes_of, client_a, middle, end)
            assert len(first) == 7 and len(rest) == 13
            assert played(played(tree, first), rest) == tree_of(a) == tree_of(b)
            assert len({row[0] for row in rest}) == 2
            assert sorted((await in_thread(client_b.describe)).members) == ["A", "B"]
            strange = Offset("x", 0, {**end.origins, "00": 5})
            with pytest.raises(Diverged, match="not seen number 5 of 00, which has left"):
                await in_thread(client_b.find_offset, "cache", strange)
            port_b.limits = ExportLimits(behind_wait=60)
            (by_a,) = {row[0] for row in first if row[3] == "/n/0"}
            soon = Offset("x", 0, {**end.origins, by_a: end.origins[by_a] + 1})
            async with trio.open_nursery() as nursery:
                nursery.start_soon(in_thread, client_b.find_offset, "cache", soon)
                await trio.sleep(0.1)
                await a.put("/soon", "v", 1)
            parts = [await in_thread(stage, client_b, "j", 0, 0, [write(n) for n in range(50)])]
            await in_thread(commit, client_b, "j", parts)
            assert tree_of(a) == tree_of(b) and "/n/49" in tree_of(a)
            assert Fqn(("n", "49")) in a.tree.container.nodes()
            old = (await in_thread(client_b.find_offset, "cache")).offset
            b.tree.apply((), local=False)  # like a merge: the tree of another side, no origin
            with pytest.raises(Trimmed):
                await in_thread(changes_of, client_b, end, old)
            assert await in_thread(changes_of, client_b, old, old) == []
            assert log_of(port_b).id != old.log
