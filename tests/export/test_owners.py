"""A follower reads all members of a cache with buddies: each change comes once, even after losses."""

from __future__ import annotations

import itertools
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Self, cast

import pytest
import trio
from cache_group import QUICK_MERGES, Group, group, settings
from export_kit import TOKEN, Tree, changes_of, client_of, in_thread, state_of, tree_of

from jgroups_py.buddy.messages import Changes
from jgroups_py.buddy.values import OwnedNode, Stamp
from jgroups_py.cache.holding import PlaceOfMember
from jgroups_py.cache.node import node_from_bytes
from jgroups_py.errors import CacheError, ConfigError
from jgroups_py.export import (
    ExportClient,
    ExportLimits,
    ExportPort,
    Offset,
    following,
    open_export,
    parts,
)
from jgroups_py.export.errors import Moving, NoMember, Trimmed
from jgroups_py.export.following import OwnersFollowed, merged
from jgroups_py.export.messages import LogPlace, Logs, PartOpened, place_of
from jgroups_py.export.owners import OwnerLog, OwnerLogs, text_of
from jgroups_py.export.parts import SnapshotParts, close_all, open_parts
from jgroups_py.values.address import Address

pytestmark = pytest.mark.sockets

A, B, C = (Address(name.encode() * 16) for name in "ABC")
NOTHING = place_of({}, ())
PATHS = [f"/n/{number}" for number in range(30)]


# --- the logs of one member


def stamp(version: int, owner: Address = A, view: int = 1) -> Stamp:
    return Stamp(0, (view, 0), version, owner)


def change(version: int, size: int = 10, *, removed: bool = False) -> Changes:
    value = None if removed else {"v": bytes(size)}
    return ((("p",), OwnedNode(value, (1, 0), stamp(version), removed)),)


class Here:
    """A source with the given answers."""

    seq = told = 0

    def __call__(self) -> PlaceOfMember:
        return PlaceOfMember("1|aa", bytes(A).hex(), {}, 0, "", self.seq, self.told)


def logs(**limits: int) -> tuple[OwnerLogs, Here]:
    here = Here()
    found = OwnerLogs(A, here, ExportLimits(**limits))
    found.begins(A, 0, 0)
    return found, here


def at(owner: Address, number: int) -> Offset:
    origin = bytes(owner).hex()
    return Offset(origin, number, {origin: number})


def numbers(log: OwnerLog, start: int, stop: int) -> list[int]:
    return [entry.number for entry in log.between(start, stop)]


def test_places_are_numbers_and_those_that_wrote_nothing_have_no_entry() -> None:
    found, here = logs()
    for seq in (1, 2, 5, 6):
        found.logged(A, seq, change(seq))
    here.seq, here.told = 8, 5
    (place,) = found.places().values()
    assert (place.floor, place.have, place.end) == (0, 8, 5)
    log = found.log_of(bytes(A).hex())
    assert numbers(log, 0, 8) == [1, 2, 5, 6] and numbers(log, 2, 5) == [5]
    assert log.after(at(A, 1), None) == (at(A, 8), 3)
    assert log.after(at(A, 1), 2) == (at(A, 5), 2)
    assert log.after(at(A, 3), 1) == (at(A, 5), 1)
    here.told = 0  # the smaller side of a partition confirms no new changes, and undoes none
    assert found.places()[bytes(A).hex()].end == 5


def test_a_change_has_the_new_node() -> None:
    found, _ = logs()
    found.logged(A, 1, change(1) + change(2, removed=True))
    (entry,) = found.log_of(bytes(A).hex()).between(0, 1)
    assert [node is None for node in entry.nodes] == [False, True]
    assert list(entry.stamps) == [text_of(stamp(1)), text_of(stamp(2))]


@pytest.mark.parametrize(
    ("lower", "higher"),
    [
        (stamp(9), stamp(10)),
        (stamp(99), stamp(1, view=2)),
        (Stamp(0, (7, 7), 7, B), Stamp(1, (1, 0), 1, A)),
        (Stamp(0, (1, 9), 7, B), Stamp(0, (1, 10), 1, A)),
        (stamp(5, A), stamp(5, B)),
    ],
)
def test_stamps_are_ordered_as_stamps(lower: Stamp, higher: Stamp) -> None:
    assert lower < higher and text_of(lower) < text_of(higher)


def test_the_oldest_entries_of_all_owners_go_first() -> None:
    found, here = logs(log_changes=3)
    found.begins(B, 4, 3)
    found.logged(B, 5, change(1))
    for seq in (1, 2, 3):
        found.logged(A, seq, change(seq))
    here.seq = 3
    places = found.places()
    assert places[bytes(B).hex()].floor == 5 and places[bytes(A).hex()].floor == 0
    found.logged(A, 4, change(4))
    here.seq = 4
    log = found.log_of(bytes(A).hex())
    assert found.places()[log.origin].floor == 1 and numbers(log, 1, 4) == [2, 3, 4]
    with pytest.raises(Trimmed, match="begin at 1 here, after number 0"):
        numbers(log, 0, 4)
    for seq in range(5, 3000):
        found.logged(A, seq, change(seq))
    here.seq = 2999
    assert numbers(log, 2996, 2999) == [2997, 2998, 2999] and found.trimmed == 2997
    assert log.after(at(A, 2997), None) == (at(A, 2999), 2)


def test_bytes_are_limited_too() -> None:
    found, _ = logs(log_bytes=10_000)
    for seq in range(1, 50):
        found.logged(A, seq, change(seq, 3000))
    assert found.places()[bytes(A).hex()].floor == 46


def test_a_holder_that_missed_entries_begins_anew() -> None:
    found, _ = logs()
    found.begins(B, 0, 0)
    found.logged(B, 1, change(1))
    found.begins(B, 7, 1)  # no member has written since
    found.logged(B, 8, change(2))
    assert numbers(found.log_of(bytes(B).hex()), 0, 8) == [1, 8]
    found.begins(B, 20, 15)
    place = found.places()[bytes(B).hex()]
    assert (place.floor, place.have, place.end) == (15, 20, -1)
    found.logged(B, 21, change(3))
    found.ended(B, 21)
    assert found.places()[bytes(B).hex()].end == 21
    found.logged(A, 1, change(1))
    assert numbers(found.log_of(bytes(B).hex()), 15, 21) == [21]


def test_the_end_of_an_origin_without_changes_here_is_known() -> None:
    found, _ = logs(log_origins=2)
    found.ended(B, 17)
    place = found.places()[bytes(B).hex()]
    assert (place.floor, place.have, place.end) == (17, 17, 17)
    found.ended(C, 3)
    assert set(found.places()) == {bytes(A).hex(), bytes(C).hex()}
    with pytest.raises(Trimmed, match="no change of"):
        found.log_of(bytes(B).hex())


def test_owners_that_are_gone_are_forgotten_first() -> None:
    found, _ = logs(log_origins=3)
    found.begins(B, 0, 0)
    dead = [Address(bytes([n]) * 16) for n in range(4)]
    for owner in dead:
        found.ended(owner, 1)
    assert set(found.places()) == {bytes(o).hex() for o in (A, B, dead[-1])}
    few, _ = logs(log_origins=2)
    few.begins(B, 0, 0)
    few.logged(B, 1, change(1))
    few.begins(C, 0, 0)
    few.logged(B, 2, change(2))  # this member is its owner's buddy
    place = few.places()[bytes(B).hex()]
    assert (place.floor, place.have) == (1, 2) and bytes(C).hex() not in few.places()
    assert numbers(few.log_of(bytes(B).hex()), 1, 2) == [2]


def test_a_target_bounds_each_owner_and_nothing_goes_back() -> None:
    """Otherwise changes of one owner beyond the target would be reported twice."""
    start, target = place_of({"a": 2, "b": 2}, ()), place_of({"a": 5, "b": 9}, ())
    end = place_of({"a": 7, "b": 4, "c": 3, "d": 1}, ("c",))
    first = following.bounded(end, start, target)
    assert first == place_of({"a": 5, "b": 4, "c": 0, "d": 0}, ())
    last = following.bounded(place_of({"a": 9, "b": 12}, ("b",)), first, target)
    assert last == place_of({"a": 5, "b": 9}, ())


# --- all members


class Exported:
    """A port at each running member."""

    def __init__(self, g: Group) -> None:
        self.g = g
        self.ports: dict[str, ExportPort] = {}
        self._scopes: dict[str, trio.CancelScope] = {}
        self._gone: dict[str, trio.Event] = {}
        self.addresses: list[tuple[str, int]] = []
        """The addresses of all members until now."""

    async def start(self, names: str, buddies: int = 1) -> None:
        await self.g.start(names, settings(buddies, stack=QUICK_MERGES))
        await self.g.together()
        for name in names:
            await self.g.nursery.start(self._serve, name)

    async def _serve(self, name: str, *, task_status: trio.TaskStatus[None]) -> None:
        self._gone[name] = trio.Event()
        with trio.CancelScope() as self._scopes[name]:
            async with open_export(self.g.caches[name], token=TOKEN) as port:
                self.ports[name] = port
                self.addresses.append(port.address)
                task_status.started()
                await trio.sleep_forever()
        del self.ports[name]
        self._gone[name].set()

    async def end(self, name: str, *, dies: bool) -> None:
        if dies:
            self._scopes[name].cancel()
            await self._gone[name].wait()
            await self.g.kill(name)
        else:
            await self.g.close(name)
            self._scopes[name].cancel()
            await self._gone[name].wait()


@asynccontextmanager
async def exported() -> AsyncIterator[Exported]:
    async with group() as g:
        yield Exported(g)


class Table:
    """A follower's table: for each path the change with the highest stamp. A change that comes twice fails."""

    def __init__(self, tree: Tree | None = None, offset: Offset = NOTHING) -> None:
        self.rows: dict[str, tuple[str, dict[str, bytes] | None]] = {
            path: ("", node) for path, node in (tree or {}).items()
        }
        self.offset = offset
        self.changes = 0
        self._seen: set[tuple[str, int, str]] = set()

    def follow(self, members: list[tuple[str, int]], most: int | None = None) -> None:
        with OwnersFollowed(members, TOKEN, "cache") as owners:
            stop = owners.after(self.offset, most)
            for piece in owners.pieces(self.offset, stop):
                for row in changes_of(piece.client, piece.start, piece.stop):
                    self._take(*row)
            self.offset = stop

    def _take(
        self,
        origin: str,
        number: int,
        time: int,
        key: str,
        stamp: str,
        removed: bool,
        data: bytes,
    ) -> None:
        assert (origin, number, key) not in self._seen, "told twice"
        self._seen.add((origin, number, key))
        self.changes += 1
        if key not in self.rows or stamp > self.rows[key][0]:
            self.rows[key] = stamp, None if removed else dict(node_from_bytes(data).attributes)

    @property
    def tree(self) -> Tree:
        return {path: node for path, (_, node) in self.rows.items() if node is not None}


def read(parts: SnapshotParts) -> Tree:
    tree: Tree = {}
    for picture in parts.pictures:
        with ExportClient(picture.member, TOKEN) as client:
            tree |= state_of(client, picture.id)
    return tree


def owned(g: Group) -> Tree:
    found: Tree = {}
    for cache in g.caches.values():
        found |= {p: n for p, n in tree_of(cache).items() if not p.startswith("/_buddy_backup_")}
    return found


async def caught_up(e: Exported, table: Table) -> None:
    with trio.fail_after(60):
        while table.tree != owned(e.g):
            await trio.sleep(0.05)
            await in_thread(table.follow, e.addresses)


async def test_each_change_once_while_members_take_nodes_from_each_other_die_leave_and_join() -> (
    None
):
    async with exported() as e:
        await e.start("ABC")
        choose = random.Random(5)
        table = Table()

        async def traffic(name: str) -> None:
            with trio.CancelScope() as e.g.work[name]:
                while True:
                    try:
                        cache = e.g.caches[name]
                        path = choose.choice(PATHS)
                        if choose.random() < 0.2:
                            await cache.remove_node(path)
                        else:
                            await cache.put(path, "v", choose.random())
                    except CacheError:
                        pass  # a view changed
                    await trio.sleep(choose.choice((0.001, 0.01, 0.03)))

        async with trio.open_nursery() as nursery:
            for name in "ABC":
                nursery.start_soon(traffic, name)
            for turn in itertools.count():
                if turn > 23 and table.changes > 100:
                    break
                await in_thread(table.follow, e.addresses, choose.choice((None, 3)))
                if turn in (6, 14):
                    e.g.work["C"].cancel()
                    await e.end("C", dies=turn == 6)
                if turn in (10, 18):
                    await e.start("C")
                    nursery.start_soon(traffic, "C")
                await trio.sleep(0.05)
            nursery.cancel_scope.cancel()
        await e.g.protected()
        await caught_up(e, table)
        with trio.fail_after(60):
            while len(table.offset.ended) < 2:
                await in_thread(table.follow, e.addresses)
        assert len(table.offset.ended) == 2, table.offset


async def test_changes_of_a_dead_member_are_read_at_its_buddies() -> None:
    async with exported() as e:
        await e.start("ABC", 2)
        for number, path in enumerate(PATHS):
            await e.g.caches["ABC"[number % 3]].put(path, "v", number)
        await e.end("A", dies=True)
        await e.g.protected()
        table = Table()
        await caught_up(e, table)
        assert table.changes == len(PATHS)


async def test_a_snapshot_and_later_changes_give_the_present_state() -> None:
    async with exported() as e:
        await e.start("ABC")
        for number, path in enumerate(PATHS):
            await e.g.caches["ABC"[number % 3]].put(path, "v", 0)
        await e.end("C", dies=True)
        await e.g.protected()

        puts = 0

        async def traffic(name: str) -> None:
            nonlocal puts
            while True:
                for path in PATHS[:10]:
                    await e.g.caches[name].put(path, name, 1)
                    puts += 1
                    await trio.sleep(0.03)

        addresses = [port.address for port in e.ports.values()]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(traffic, "A")
            with trio.fail_after(60):
                while puts < 3:  # noqa: ASYNC110
                    await trio.sleep(0.01)
            before = puts
            taken = await in_thread(open_parts, addresses, TOKEN, "cache")
            await trio.sleep(0.2)
            nursery.cancel_scope.cancel()
        tree = await in_thread(read, taken)
        await in_thread(close_all, taken.pictures, TOKEN)
        table = Table(tree, taken.offset)
        await e.g.caches["B"].remove_node("/n/29")
        await e.g.caches["B"].put("/new", "v", 1)
        await e.g.protected()
        await caught_up(e, table)
        # Besides the two changes above, one put may be in the log that was cancelled.
        assert 2 <= table.changes <= puts + 1 - before + 2, "only what came after the snapshot"


async def test_members_are_replaced_one_by_one_and_a_reader_that_keeps_up_loses_nothing() -> None:
    """No member at the end was ever in a view with the first one."""
    async with exported() as e:
        await e.start("AB")
        table = Table()
        for number, name in enumerate("CDE"):
            for cache in [*e.g.caches.values()]:
                await cache.put(f"/n/{number}", "v", number)
            await in_thread(table.follow, e.addresses)
            await e.end("ABC"[number], dies=False)
            await e.start(name)
            with trio.fail_after(60):
                while len(table.offset.ended) == 0:
                    await in_thread(table.follow, e.addresses)
        await caught_up(e, table)
        assert len(table.offset.origins) <= 4, "who is forgotten by all is forgotten"
        late = Table(offset=place_of({"aa" * 16: 5}, ()))
        with pytest.raises(Trimmed, match=r"knows how the changes of aaaa.* ended after number 5"):
            await in_thread(late.follow, e.addresses)
        known = table.offset
        read = Table(offset=place_of({**known.origins, "aa" * 16: 5}, [*known.ended, "aa" * 16]))
        await in_thread(read.follow, e.addresses)
        assert "aa" * 16 not in read.offset.origins, "it had ended, and was read to its end"


async def test_latest_earliest_and_a_bound_are_places() -> None:
    async with exported() as e:
        await e.start("AB")
        for number in range(10):
            await e.g.caches["AB"[number % 2]].put(f"/n/{number}", "v", 1)
        await e.g.protected()

        def places() -> tuple[Offset, Offset, list[int]]:
            with OwnersFollowed(e.addresses, TOKEN, "cache") as owners:
                begin, at, counts = owners.begin(), owners.begin(), []
                while at != owners.end():
                    then = owners.after(at, 4)
                    counts.append(
                        sum(
                            len(changes_of(p.client, p.start, p.stop))
                            for p in owners.pieces(at, then)
                        )
                    )
                    at = then
                return begin, owners.end(), counts

        begin, end, counts = await in_thread(places)
        assert set(begin.origins.values()) == {0} and sum(counts) == 10 and max(counts) <= 4
        assert merged([begin, end]) == end
        await e.g.caches["A"].put("/later", "v", 1)
        later = Table(offset=end)
        await in_thread(later.follow, e.addresses)
        assert [*later.tree] == ["/later"]


async def test_changes_that_nobody_keeps_are_named() -> None:
    async with group() as g:
        (a,) = await g.start("A", settings())
        limits = ExportLimits(log_changes=5)
        async with open_export(a, token=TOKEN, limits=limits) as port:
            for number in range(10):
                await a.put("/n", "v", number)
            table = Table()
            with pytest.raises(Trimmed, match="after number 0, up to 10, are kept by no member"):
                await in_thread(table.follow, [port.address])
            async with client_of(port) as client:
                me = a.buddies.machine.me
                with pytest.raises(Trimmed, match="begin at 5 here"):
                    await in_thread(changes_of, client, at(me, 2), at(me, 3))


async def test_ports_that_are_missing_are_named_and_those_that_are_gone_do_no_harm() -> None:
    async with exported() as e:
        await e.start("AB")
        await e.g.caches["A"].put("/a", "v", 1)
        only = [e.ports["A"].address]

        def connect(members: list[Any]) -> Offset:
            with OwnersFollowed(members, TOKEN, "cache") as owners:
                return owners.end()

        with pytest.raises(ConfigError, match="no export port of B is among those given"):
            await in_thread(connect, only)
        gone = ("127.0.0.1", 1)

        def unreached() -> list[str]:
            with OwnersFollowed([gone, *only], TOKEN, "cache") as owners:
                return owners.unreached

        assert await in_thread(unreached) == ["B"]
        end = await in_thread(connect, [gone, *only])
        assert max(end.origins.values()) > 0
        with pytest.raises(NoMember, match=r"no member can be reached: 127\.0\.0\.1:1"):
            await in_thread(connect, [gone])


def test_a_part_counts_when_all_buddies_have_its_content() -> None:
    """Otherwise a crash could take back a value of a snapshot, and no change would report that."""

    class Fake:
        said = 0

        def part(self, map: str) -> PartOpened:
            self.said += 1
            return PartOpened("1|aa", "aa", {"aa": "A"}, 0, "", told=2 + self.said)

    slept: list[float] = []
    parts._wait_until_told(cast(ExportClient, Fake()), "cache", 5, slept.append)
    assert len(slept) == 2
    with pytest.raises(Moving, match="A: not all its buddies have what it wrote"):
        parts._wait_until_told(cast(ExportClient, Fake()), "cache", 500, slept.append)
    assert len(slept) == 2 + parts.TOLD_TRIES


def test_no_more_of_a_dead_owner_is_read_than_was_adopted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A holder's later entries were never acknowledged, and are lost."""
    place = LogPlace(floor=0, have=9, end=-1)

    class Fake:
        def __init__(self, address: Any, token: str) -> None:
            if address == 1:
                raise NoMember("1: refused")

        def logs(self, map: str) -> Logs:
            return Logs(PartOpened("2|bb", "bb", {"bb": "B", "aa": "A"}, 0, ""), {"aa": place})

        def find_offset(self, map: str, after: Offset, max_changes: int | None) -> Any:
            raise AssertionError("there is nothing to ask for")

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(following, "ExportClient", Fake)

    def end() -> tuple[Offset, int]:
        with OwnersFollowed(cast(Any, [1, 2]), TOKEN, "cache") as owners:
            assert owners.unreached == ["A"]
            then = owners.after(place_of({"aa": 4}, ()))
            return owners.end(), then.origins["aa"]

    assert end() == (place_of({"aa": 0}, ()), 4)
    place = LogPlace(floor=0, have=9, end=4)
    assert end() == (place_of({"aa": 4}, ()), 4)


def test_changes_that_one_member_trimmed_are_read_at_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No change is skipped silently; changes that all members have forgotten are reported."""
    floors = {1: 6, 2: 0}

    class Fake:
        def __init__(self, address: Any, token: str) -> None:
            self.address = address

        def logs(self, map: str) -> Logs:
            have = {1: 9, 2: 7}[self.address]
            place = LogPlace(floor=floors[self.address], have=have, end=have)
            member = f"{self.address}{self.address}"
            return Logs(PartOpened(f"1|{member}", member, {}, 0, ""), {"aa": place})

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(following, "ExportClient", Fake)

    def read() -> list[tuple[int, int, int]]:
        with OwnersFollowed(cast(Any, [1, 2]), TOKEN, "cache") as owners:
            pieces = owners.pieces(place_of({}, ()), owners.end())
            return [(cast(Any, p.client).address, p.start.at, p.stop.at) for p in pieces]

    assert read() == [(2, 0, 7), (1, 7, 9)]
    floors[2] = 6
    with pytest.raises(Trimmed, match="after number 0, up to 9, are kept by no member"):
        read()
