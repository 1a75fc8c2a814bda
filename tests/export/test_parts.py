"""All members of a cache with buddies are read: each node comes once, even if nodes move meanwhile."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec
import pytest
import trio
from cache_group import Group, group, settings
from export_kit import TOKEN, Tree, client_of, in_thread, state_of, tree_of

from jgroups_py.cache import TreeCache
from jgroups_py.drill.run.patience import patient
from jgroups_py.errors import CacheError, ConfigError
from jgroups_py.export import (
    ExportClient,
    ExportError,
    ExportLimits,
    ExportPort,
    open_export,
    parts,
)
from jgroups_py.export.client import Address
from jgroups_py.export.errors import Moving, NoMember, UnknownSnapshot
from jgroups_py.export.messages import PartOpened
from jgroups_py.export.parts import KeptPicture, SnapshotParts, close_all, open_parts
from jgroups_py.export.tree import TreeSource

pytestmark = pytest.mark.sockets

Step = Callable[[], Awaitable[Any]]
PATHS = [f"/n/{number}" for number in range(40)]


@asynccontextmanager
async def ports_of(caches: Sequence[TreeCache]) -> AsyncIterator[list[ExportPort]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(open_export(c, token=TOKEN)) for c in caches]


def addresses(ports: Sequence[ExportPort]) -> list[Address]:
    return [port.address for port in ports]


async def joined(g: Group, names: str) -> list[TreeCache]:
    found = await g.start(names, settings())
    await g.together()
    return found


async def opened(members: Sequence[Address], *under: str, **more: Any) -> SnapshotParts:
    call = lambda: open_parts(members, TOKEN, "cache", under or ("/",), **more)  # noqa: E731
    found: SnapshotParts = await in_thread(call)
    return found


def rows_of(pictures: Sequence[KeptPicture]) -> list[tuple[str, dict[str, bytes]]]:
    rows: list[tuple[str, dict[str, bytes]]] = []
    for picture in pictures:
        with ExportClient(picture.member, TOKEN) as client:
            part = state_of(client, picture.id)
        assert len(part) == picture.rows
        rows += part.items()
    return rows


def snapshots(ports: Sequence[ExportPort]) -> int:
    return sum(len(port._snapshots) for port in ports)


def without_told(part: PartOpened | None) -> PartOpened | None:
    return part and msgspec.structs.replace(part, told=0)


async def moved_to(cache: TreeCache, path: str) -> None:
    await cache.get(path, "v", gravitation=True)


# --- contents of parts


async def test_the_parts_together_have_all_owned_nodes() -> None:
    async with group() as g:
        caches = await joined(g, "ABC")
        for number, path in enumerate(PATHS):
            await caches[number % 2].put(path, "v", number)  # C owns nothing
        await caches[1].put("/other/x", "v", 1)
        async with ports_of(caches) as ports:
            found = await opened(addresses(ports))
            assert found.tries == 1 and len(found.pictures) == 3
            rows = await in_thread(rows_of, found.pictures)
            owned: Tree = {}
            for cache in caches:
                owned |= tree_of(cache)
            assert len(rows) == len(owned) == len(PATHS) + 1 and dict(rows) == owned
            less = await opened(addresses(ports), "/other", "/n/7", "/_buddy_backup_")
            assert sorted(dict(await in_thread(rows_of, less.pictures))) == ["/n/7", "/other/x"]
            assert snapshots(ports) == 6
            await in_thread(close_all, [*found.pictures, *less.pictures], TOKEN)
            assert snapshots(ports) == 0
            with pytest.raises(UnknownSnapshot):
                await in_thread(rows_of, found.pictures)


async def test_each_node_once_while_nodes_are_written_and_move(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All members take nodes from each other in bursts, also while parts are opened: then the parts must be opened
    again."""
    async with group() as g:
        caches = await joined(g, "ABC")
        for number, path in enumerate(PATHS):
            await caches[number % 3].put(path, "v", 0)
        choose, when = random.Random(7), random.Random(8)

        async def burst(cache: TreeCache) -> None:
            for path in choose.sample(PATHS, 2):
                await cache.put(path, "v", 1)  # the node comes here, if it is elsewhere

        async def traffic(cache: TreeCache) -> None:
            while True:
                await burst(cache)
                await trio.sleep(patient(0.1 + 0.2 * choose.random()))

        class Client(ExportClient):
            def open_snapshot(self, *args: Any, **more: Any) -> Any:
                if when.random() < 0.15:
                    trio.from_thread.run(burst, when.choice(caches))
                return super().open_snapshot(*args, **more)

        monkeypatch.setattr(parts, "ExportClient", Client)
        async with ports_of(caches) as ports, trio.open_nursery() as nursery:
            for cache in caches:
                nursery.start_soon(traffic, cache)
            taken = tries = 0
            while taken < 12 or tries < taken + 2:
                assert taken < 200, "nothing moved while parts were opened: the test shows nothing"
                try:
                    found = await opened(addresses(ports))
                except (
                    Moving
                ):  # a busy machine opens parts so slowly that a burst comes during each try
                    tries += parts.TRIES_MAX
                    assert tries < 400, "no snapshot could be taken"
                    continue
                taken, tries = taken + 1, tries + found.tries
                rows = await in_thread(rows_of, found.pictures)
                assert sorted(path for path, _ in rows) == sorted(PATHS)
                await in_thread(close_all, found.pictures, TOKEN)
            assert snapshots(ports) == 0, "those of tries that failed are closed"
            nursery.cancel_scope.cancel()


async def test_whenever_members_say_that_nothing_moved_each_node_is_in_one_part(
    autojump_clock: Any,
) -> None:
    """Parts are frozen at different times in all orders, during gravitation, removals, crashes and joins."""
    async with group() as g:
        await joined(g, "ABCD")
        choose = random.Random(11)
        for number, path in enumerate(PATHS):
            await g.caches["ABCD"[number % 4]].put(path, "v", 0)

        async def traffic(name: str) -> None:
            with trio.CancelScope() as g.work[name]:
                while True:
                    try:
                        cache = g.caches[name]
                        await cache.put(choose.choice(PATHS), "v", 1)
                        at = f"/gone/{choose.randrange(3)}"
                        await (
                            cache.put(at, "v", 1)
                            if choose.random() < 0.5
                            else cache.remove_node(at)
                        )
                    except CacheError:
                        pass  # a view changed
                    await trio.sleep(choose.choice((0.01, 0.02, 0.05)))

        async def steps() -> None:
            if choose.random() < 0.2:
                await trio.sleep(choose.choice((0.0001, 0.001, 0.003)))
            for _ in range(choose.randrange(6)):
                await trio.lowlevel.checkpoint()

        said: Counter[str] = Counter()
        views: set[str] = set()

        async def look() -> None:
            sources = [TreeSource(cache, ExportLimits()) for cache in g.caches.values()]
            choose.shuffle(sources)
            frozen = []
            for source in sources:
                frozen.append(await source.freeze(["/"]))
                await steps()
            before = [without_told(each.part) for each in frozen]
            after = [without_told(source.part()) for source in sources]
            first = before[0]
            assert first is not None
            if set(first.members) != {p.member for p in before if p is not None}:
                said["not all members"] += 1
                return
            if before != after or len({p.view for p in before if p is not None}) > 1:
                said["changed"] += 1
                return
            if any(p.moving for p in before if p is not None):
                return
            said["still"] += 1
            views.add(first.view)
            count = Counter(str(path) for each in frozen for path, _ in each.rows)
            assert [path for path in PATHS if count[path] != 1] == []
            assert [path for path, n in count.items() if n > 1] == []

        async with trio.open_nursery() as nursery:
            for name in "ABCD":
                nursery.start_soon(traffic, name)
            for turn in range(2000):
                if said["still"] > 80 and said["changed"] > 15 and len(views) > 3:
                    break
                await look()
                await trio.sleep(choose.choice((0.0, 0.001, 0.02)))
                if turn in (20, 70):
                    g.work["D"].cancel()
                    nursery.start_soon(_leave_and_come_back, g, nursery, traffic, turn == 20)
            nursery.cancel_scope.cancel()
        assert said["still"] > 80 and said["changed"] > 15 and len(views) > 3, said


async def test_a_node_that_is_on_its_way_is_in_no_part_and_its_giver_says_so() -> None:
    async with group() as g:
        caches = await joined(g, "AB")
        sources = [TreeSource(cache, ExportLimits()) for cache in caches]
        await caches[0].put("/x", "v", 1)
        await g.protected()
        under_way = 0
        for turn in range(20):
            done = trio.Event()

            async def move(to: TreeCache, done: trio.Event) -> None:
                await moved_to(to, "/x")
                done.set()

            g.nursery.start_soon(move, caches[(turn + 1) % 2], done)
            while not done.is_set():
                frozen = [await source.freeze(["/"]) for source in sources]
                moving = [each.part.moving for each in frozen if each.part and each.part.moving]
                assert moving == [] or moving == [
                    "1 of its nodes are on their way to other members"
                ]
                rows = sum(len(each.rows) for each in frozen)
                assert rows == 1 or (rows == 0 and moving)
                under_way += rows == 0
                await trio.lowlevel.checkpoint()
        assert under_way, "it was never seen on its way"


async def _leave_and_come_back(
    g: Group, nursery: trio.Nursery, traffic: Callable[[str], Awaitable[None]], dies: bool
) -> None:
    await (g.kill("D") if dies else g.close("D"))
    await g.start("D", settings())
    nursery.start_soon(traffic, "D")


# --- events while parts are opened


class Between:
    """An event after the opening of the first member's part. It happens a given number of times."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, first: str, step: Step, times: int = 1
    ) -> None:
        self.left = times
        between = self

        class Client(ExportClient):
            def open_snapshot(self, *args: Any, **more: Any) -> Any:
                said = super().open_snapshot(*args, **more)
                if self.member == first and between.left:
                    between.left -= 1
                    trio.from_thread.run(step)
                return said

        monkeypatch.setattr(parts, "ExportClient", Client)


@pytest.mark.parametrize(
    "what", ["comes", "goes", "removed and made", "purged and made", "touched"]
)
async def test_a_node_that_moves_between_two_parts_is_seen(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the check /x would be in no part or in two parts. A write alone does not make the reader try again."""
    async with group() as g:
        a, b, _ = caches = await joined(g, "ABC")
        await (b if what == "comes" else a).put("/x", "v", 1)

        async def step() -> None:
            if what == "comes":
                await moved_to(a, "/x")
            elif what == "goes":
                await moved_to(b, "/x")
            elif what == "touched":
                await a.put("/x", "v", 2)
                await b.put("/y", "v", 2)
            else:
                await a.remove_node("/x")
                if what.startswith("purged"):
                    with trio.fail_after(30):
                        while ("x",) in a.buddies.entries:  # noqa: ASYNC110
                            await trio.sleep(0.02)
                await b.put("/x", "v", 2)
            await g.protected()

        async with ports_of(caches) as ports:
            Between(monkeypatch, "A", step)
            found = await opened(addresses(ports))
            rows = await in_thread(rows_of, found.pictures)
            assert [path for path, _ in rows if path == "/x"] == ["/x"]
            assert (found.tries == 1) == (what == "touched")
            assert snapshots(ports) == 3


@pytest.mark.parametrize("how", ["dies", "leaves", "joins"])
async def test_a_view_that_comes_between_two_parts_is_seen(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with group() as g:
        caches = await joined(g, "ABC")
        for cache in caches:
            await cache.put(f"/{cache.name}", "v", 1)
        scopes: dict[str, trio.CancelScope] = {}
        members: list[Address] = []

        async def serve(cache: TreeCache, *, task_status: trio.TaskStatus[None]) -> None:
            with trio.CancelScope() as scopes[cache.name]:
                async with open_export(cache, token=TOKEN) as port:
                    members.append(port.address)
                    task_status.started()
                    await trio.sleep_forever()

        async with trio.open_nursery() as nursery:
            for cache in caches:
                await nursery.start(serve, cache)

            async def step() -> None:
                if how == "joins":
                    (d,) = await joined(g, "D")
                    await d.put("/D", "v", 1)
                    await nursery.start(serve, d)
                else:
                    scopes["C"].cancel()
                    await (g.kill("C") if how == "dies" else g.close("C"))
                await g.protected()

            Between(monkeypatch, "A", step)
            found = await opened(members)
            rows = await in_thread(rows_of, found.pictures)
            want = ["/A", "/B", "/C"] + (["/D"] if how == "joins" else [])
            assert sorted(path for path, _ in rows) == want
            assert found.tries > 1
            nursery.cancel_scope.cancel()


# --- errors


async def test_a_member_whose_port_is_not_given_is_named() -> None:
    async with group() as g:
        caches = await joined(g, "ABC")
        async with ports_of(caches) as ports, open_export(caches[0], token=TOKEN) as again:
            members = [again.address, *addresses(ports)]
            assert len((await opened(members)).pictures) == 3, "A is asked once"
            with pytest.raises(ConfigError, match="no export port of B, C is among those given"):
                await opened(members[:2])
            said = r"tried 20 times .*: no export port of C .* reached: 127\.0\.0\.1:1: .*refused"
            with pytest.raises(Moving, match=said):
                await opened([*members[:3], ("127.0.0.1", 1)], sleep=lambda _: None)
            with pytest.raises(NoMember, match=r"no member can be reached: 127\.0\.0\.1:1"):
                await opened([("127.0.0.1", 1)])


async def test_parts_that_never_hold_still_are_an_error_that_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with group() as g:
        a, b, _ = caches = await joined(g, "ABC")
        await a.put("/x", "v", 1)
        pauses: list[float] = []
        moved = 0

        async def step() -> None:
            nonlocal moved
            moved += 1
            await moved_to(b if moved % 2 else a, "/x")
            await g.protected()

        async with ports_of(caches) as ports:
            Between(monkeypatch, "A", step, times=100)
            with pytest.raises(Moving, match=r"tried 20 times .*: A: \d+ nodes changed hands"):
                await opened(addresses(ports), sleep=pauses.append)
            assert moved == parts.TRIES_MAX and len(pauses) == moved - 1
            assert pauses == sorted(pauses) and pauses[-1] == parts.PAUSE_MAX
            assert snapshots(ports) == 0

            b.buddies.machine.membership.settled = False
            with pytest.raises(Moving, match="B: its view is not settled"):
                await opened(addresses(ports), sleep=pauses.append)
            b.buddies.machine.membership.settled = True


async def test_members_of_two_groups_are_no_cache() -> None:
    """The two sides of a partition are two groups, too."""
    async with group() as g, group() as h:
        (a,) = await joined(g, "A")
        (b,) = await joined(h, "B")
        async with ports_of([a, b]) as ports:
            with pytest.raises(Moving, match="not in one view: A in 0 of A, B in 0 of B"):
                await opened(addresses(ports), sleep=lambda _: None)


async def test_a_part_is_no_snapshot_of_all_and_the_reverse() -> None:
    from jgroups_py.cache import open_tree_cache

    async with group() as g, open_tree_cache("local.xml") as alone:
        (a,) = await joined(g, "A")
        async with (
            open_export({"parts": a, "alone": alone}, token=TOKEN) as port,
            client_of(port) as client,
        ):
            assert (await in_thread(client.describe, "parts")).parts
            assert not (await in_thread(client.describe, "alone")).parts
            with pytest.raises(ExportError, match='map "parts": each member has a part of it'):
                await in_thread(client.open_snapshot, "parts")
            for call in (
                lambda: client.open_snapshot("alone", part=True),
                lambda: client.part("alone"),
            ):
                with pytest.raises(ExportError, match='map "alone" has no parts'):
                    await in_thread(call)


async def test_a_member_that_dies_while_its_part_is_read_is_an_error() -> None:
    async with group() as g:
        a, b = await joined(g, "AB")
        await b.put("/x", "v", 1)
        async with ports_of([a]) as (at_a,):
            async with ports_of([b]) as (at_b,):
                found = await opened(addresses([at_a, at_b]))
            with pytest.raises(NoMember):
                await in_thread(rows_of, found.pictures)
            async with open_export(b, token=TOKEN, port=at_b.address[1]):
                with pytest.raises(UnknownSnapshot):
                    await in_thread(rows_of, found.pictures)
