"""The host of a map: file, replica and links on trio (jgroups_py/maps/host.py)."""

from __future__ import annotations

import fcntl
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import pytest
import trio

from jgroups_py.maps.errors import InboxFull, MapFull
from jgroups_py.maps.file_settings import FileSettings
from jgroups_py.maps.host import MapEvent, MapHost, replicate
from jgroups_py.maps.memory import MemoryLinks
from jgroups_py.maps.orders import Told
from jgroups_py.maps.replica_settings import ReplicaSettings
from jgroups_py.maps.shared import SharedFile

pytestmark = pytest.mark.usefixtures("patient_puts")
SIZE = 1 << 28


class Member:
    """A process of a host, in this process."""

    def __init__(
        self,
        folder: Path,
        node: int,
        links: MemoryLinks,
        inbox_bytes: int,
        peers: frozenset[int] = frozenset(),
    ) -> None:
        self.file = SharedFile(
            folder,
            FileSettings(
                identifier=node, max_bytes=SIZE, inbox_bytes=inbox_bytes, full_timeout=60.0
            ),
        )
        self.settings = ReplicaSettings(
            map="m", node=node, origin=self.file.origin, file=self.file.file_id, peers=peers
        )
        self.links = links
        self.events: list[MapEvent] = []
        self.host: MapHost | None = None

    async def run(self) -> None:
        await replicate(
            self.file,
            self.settings,
            [self.links],
            watch=self.events.append,
            started=self.started,
        )

    def started(self, host: MapHost) -> None:
        self.host = host

    @property
    def speaks(self) -> MapHost:
        """Yield the host after its start."""
        assert self.host is not None
        return self.host

    def told(self, kind: str) -> list[str]:
        return [e.text for e in self.events if isinstance(e, Told) and e.kind == kind]


@asynccontextmanager
async def members(
    tmp_path: Path,
    *nodes: int,
    inbox_bytes: int = 1 << 20,
    peers: frozenset[int] = frozenset(),
) -> AsyncIterator[tuple[MemoryLinks, list[Member]]]:
    links = MemoryLinks()
    opened = [Member(tmp_path / f"host{node}", node, links, inbox_bytes, peers) for node in nodes]
    try:
        async with trio.open_nursery() as nursery:
            for member in opened:
                nursery.start_soon(member.run)
            yield links, opened
            nursery.cancel_scope.cancel()
    finally:
        for member in opened:
            await trio.to_thread.run_sync(member.file.close)


async def until(condition: Callable[[], object]) -> None:
    with trio.fail_after(60):
        while not condition():  # noqa: ASYNC110 - files change, and nobody tells
            await trio.sleep(0.005)


@pytest.mark.seed("K1")
async def test_a_write_is_at_all_hosts_a_moment_later(tmp_path: Path) -> None:
    async with members(tmp_path, 1, 2, 3) as (_, hosts):
        for number, member in enumerate(hosts):
            member.file.write(b"from %d" % number, b"value")
        await until(lambda: all(m.file.get(b"from %d" % n) for m in hosts for n in range(3)))
        hosts[1].file.write(b"from 0", None)
        await until(lambda: not any(m.file.get(b"from 0") for m in hosts))


async def test_hosts_that_were_apart_have_the_newer_value_when_they_meet(tmp_path: Path) -> None:
    async with members(tmp_path, 1, 2) as (links, (one, two)):
        await until(lambda: one.told("connected"))
        links.cut(1, 2)
        one.file.write(b"key", b"older")
        two.file.write(b"key", b"newer")
        assert one.file.get(b"key") == b"older"
        links.heal()
        await until(lambda: one.file.get(b"key") == b"newer")
        assert two.file.get(b"key") == b"newer" and one.told("gone")


@pytest.mark.seed("K18")
async def test_two_hosts_of_one_identifier_are_told_and_share_nothing(tmp_path: Path) -> None:
    links = MemoryLinks()
    one, two = (Member(tmp_path / name, 1, links, 1 << 20) for name in ("one", "two"))
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.run)
            nursery.start_soon(two.run)
            await until(lambda: one.told("same identifier") and two.told("same identifier"))
            one.file.write(b"key", b"value")
            assert one.file.wait_merged()
            assert two.file.get(b"key") is None
            nursery.cancel_scope.cancel()
    finally:
        one.file.close()
        two.file.close()


@contextmanager
def nobody_merges(folder: Path) -> Iterator[None]:
    """Keep the merger's lock until the end of the block."""
    folder.mkdir(exist_ok=True)
    with open(folder / "merger", "a+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


async def test_changes_wait_at_a_host_without_room_and_at_its_peer(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        halted = stack.enter_context(ExitStack())
        halted.enter_context(nobody_merges(tmp_path / "host2"))
        _, (one, two) = await stack.enter_async_context(
            members(tmp_path, 1, 2, inbox_bytes=1 << 14)
        )
        await until(lambda: two.host and one.told("connected") and two.told("connected"))
        for number in range(100):  # six inboxes; one message of a host has more than an inbox
            one.file.write(b"k%03d" % number, bytes(1000))
        await until(lambda: two.speaks.held_bytes)
        held = two.speaks.held_bytes
        for number in range(100, 150):
            one.file.write(b"k%03d" % number, bytes(1000))
        await until(lambda: two.speaks.held_bytes > held)
        assert two.told("full") == ["messages of a host wait: the inbox of this process is full"]
        assert not one.told("gone") and one.speaks.replica.lag()[2] > 100
        halted.close()
        await until(lambda: len(list(two.file.items())) == 150)
        await until(lambda: one.speaks.replica.lag() == {2: 0})
        assert two.speaks.held_bytes == 0 and two.speaks.counters["links_closed_full"] == 0
        assert not one.told("gone")


async def test_changes_held_of_a_link_that_ends_are_sent_again(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        halted = stack.enter_context(ExitStack())
        halted.enter_context(nobody_merges(tmp_path / "host2"))
        links, (one, two) = await stack.enter_async_context(
            members(tmp_path, 1, 2, inbox_bytes=1 << 14)
        )
        await until(lambda: two.host and one.told("connected") and two.told("connected"))
        for number in range(100):
            one.file.write(b"k%03d" % number, bytes(1000))
        await until(lambda: two.speaks.held_bytes)
        links.cut(1, 2)
        assert two.speaks.held_bytes == 0
        halted.close()
        links.heal()
        await until(lambda: len(list(two.file.items())) == 100)


async def test_a_change_that_never_fits_closes_the_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with members(tmp_path, 1, 2) as (links, (one, two)):
        await until(lambda: one.told("connected") and two.told("connected"))

        def full(*_: object) -> None:
            raise MapFull("more than half an inbox")

        with monkeypatch.context() as patch:
            patch.setattr(two.file, "apply", full)
            one.file.write(b"key", b"value")
            await until(lambda: two.told("full") and one.told("gone"))
        assert two.host is not None and two.speaks.counters["links_closed_full"] == 1
        links.heal()
        await until(lambda: two.file.get(b"key") == b"value")


async def test_a_host_that_cannot_forget_tombstones_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with members(tmp_path, 1, 2, peers=frozenset((1, 2))) as (_, (one, two)):
        await until(lambda: one.told("connected") and two.told("connected"))
        one.file.write(b"key", b"value")
        await until(lambda: two.file.get(b"key") == b"value")

        def full(*_: object) -> None:
            raise InboxFull(100)

        with monkeypatch.context() as patch:
            patch.setattr(one.file, "forget", full)
            one.file.write(b"key", None)
            await until(lambda: one.speaks.replica.counters["forget_full"])
            one.file.write(b"other", b"value")
            await until(lambda: two.file.get(b"other") == b"value")
        await until(lambda: not list(one.file.tombstones()))


def may_replicate(folder: Path) -> bool:
    """Ask for the lock as another process does. (LMDB opens a file once in a process.)"""
    with open(folder / "replicator", "r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True


@pytest.mark.seed("K14")
async def test_one_process_of_a_host_replicates_until_it_ends(tmp_path: Path) -> None:
    async with members(tmp_path, 1) as (_, (one,)):
        await until(lambda: one.host)
        assert not may_replicate(tmp_path / "host1")
    assert may_replicate(tmp_path / "host1")


async def test_a_host_waits_until_the_process_that_replicates_is_gone(tmp_path: Path) -> None:
    folder = tmp_path / "host1"
    folder.mkdir()
    lock = os.open(folder / "replicator", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        async with members(tmp_path, 1, 2) as (_, (one, two)):
            await until(lambda: two.host)
            one.file.write(b"key", b"value")
            assert one.host is None
            fcntl.flock(lock, fcntl.LOCK_UN)
            await until(lambda: two.file.get(b"key") == b"value")
    finally:
        os.close(lock)
