"""All entries are read from a running instance, and written into one: by any member, page by page, while buckets move
and nodes are lost."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import trio
from bucket_group import ask, bucket_group, deployed_group
from seed_instance import Instance, key_in

from jgroups_py.buckets import BucketNode, EntryFailed, Request
from jgroups_py.buckets.archive import ArchiveReader, ArchiveWriter, BadArchive, Record, running
from jgroups_py.buckets.archive.running import export_instance, import_archives
from jgroups_py.buckets.bucket import Bucket
from jgroups_py.buckets.deployment import parse_deployment
from jgroups_py.buckets.messages import AskEntries, Entries, EntryChange
from jgroups_py.buckets.pages import ASKED_MAX, EXPORTS_MAX, Pages
from jgroups_py.buckets.upgrade import move_all
from jgroups_py.testing.explorer.buckets.ledger import NEW, OLD, LedgerProvider, ledger

KEYS = [f"seat-{number}" for number in range(60)]
OTHER = parse_deployment(
    "{name: new, buckets: 32, nodes: {a: , b: , c: , d: }, stack: sim.xml, settings: {lease: 1s}}"
)


def read(file: Path) -> dict[str, bytes]:
    with ArchiveReader(file) as reader:
        return {record.key: record.pieces[""] for record in reader}


async def load(node: BucketNode, *files: Path) -> int:
    with ExitStack() as stack:
        readers = [stack.enter_context(ArchiveReader(file)) for file in files]
        return await import_archives(node, readers, lambda number: None)


async def fill(node: BucketNode) -> dict[str, bytes]:
    await trio.sleep(2)  # wait until managers have their leases
    for number, key in enumerate(KEYS):
        await ask(node, key, f"+t{number}")
    return {key: f"t{number}".encode() for number, key in enumerate(KEYS)}


@pytest.mark.seed("A22", "A57")
@pytest.mark.parametrize("page", [1, 64_000])
async def test_a_running_instance_is_exported_and_put_into_another_one(
    autojump_clock: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    monkeypatch.setattr(running, "PAGE_BYTES", (page, page))
    file = tmp_path / "all.jgb"
    async with bucket_group() as group:
        client = await group.start("c", client=True)
        await client.wait_ready()
        expected = await fill(client)
        end = await export_instance(client, file, instance="old", created=1.0)
        assert end.entries == len(KEYS) and read(file) == expected
        assert await ask(client, KEYS[0], "+goes on") == "1"
    async with deployed_group(OTHER, ledger()) as nodes:
        await trio.sleep(2)
        await ask(nodes["b"], KEYS[1], "+is replaced")
        await ask(nodes["b"], "other", "+stays")
        for _ in range(2):
            assert await load(nodes["a"], file) == len(KEYS)
        for key, text in expected.items():
            assert await ask(nodes["d"], key, "?") == text.decode()
        assert await ask(nodes["d"], "other", "?") == "stays"
        assert await ask(nodes["c"], KEYS[1], "+more") == "1", "an entry that works on"
        again = tmp_path / "again.jgb"
        await export_instance(nodes["b"], again, instance="new", created=2.0)
        changed = {KEYS[1]: b"t1 more", "other": b"stays"}
        assert read(again) == {**expected, **changed}
        copies: dict[int, list[Any]] = {}
        for node in nodes.values():
            for number, copy in next(iter(node.machine.managers.values())).copies.items():
                copies.setdefault(number, []).append(copy.bucket.state())
        assert all(len(found) == 2 and found[0] == found[1] for found in copies.values())


@pytest.mark.seed("A22")
async def test_an_export_goes_on_while_buckets_move_and_a_node_is_lost(
    autojump_clock: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "PAGE_BYTES", (1, 1))
    async with bucket_group() as group:
        node = group.nodes["n1"]
        expected = await fill(node)
        ways = [(node.manager_at(a), node.manager_at(b)) for a, b in (("n2", "n1"), ("n1", "n3"))]

        async def disturb() -> None:
            for frm, to in ways:
                await move_all(node, frm, to)
            group.kill("n3")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(disturb)
            for number in range(3):
                file = tmp_path / f"{number}.jgb"
                await export_instance(node, file, instance="old", created=1.0)
                assert read(file) == expected, number
                await trio.sleep(0.1)


def archive(file: Path, version: int = OLD, application: str = "ledger", data: str = "x") -> Path:
    with ArchiveWriter(file, instance="old", application=application, created=1.0) as writer:
        writer.add(Record(KEYS[0], version, {"": data.encode()}))
    return file


async def test_an_entry_that_the_plug_in_does_not_take_changes_nothing(
    autojump_clock: Any, tmp_path: Path
) -> None:
    async with bucket_group(plugin=ledger(NEW)) as group:
        node = group.nodes["n1"]
        await trio.sleep(2)
        await ask(node, KEYS[0], "+before")
        for file, problem in (
            (archive(tmp_path / "a", 90), "'seat-0': the instance does not take it: .* version 90"),
            (archive(tmp_path / "b", NEW), "'seat-0': the instance does not take it: JSONDecode"),
            (archive(tmp_path / "c", OLD, "fares"), "it is of the application 'fares'"),
        ):
            with pytest.raises(BadArchive, match=problem):
                await load(node, file)
        assert await ask(node, KEYS[0], "?") == "before"
        assert await load(node, archive(tmp_path / "d", OLD, data="u v")) == 1
        assert await ask(node, KEYS[0], "+w") == "2", "an old format is read"
        damaged = archive(tmp_path / "e")
        damaged.write_bytes(damaged.read_bytes()[:-30])
        with pytest.raises(BadArchive):
            await load(node, damaged)
        with pytest.raises(EntryFailed, match="no whole entry"):
            await node.put_entry(EntryChange(KEYS[0], {}, True, OLD))


def test_the_slave_gets_an_entry_in_the_version_that_it_reads() -> None:
    instance = Instance()
    key = key_in(4)
    master, slave = instance.manager("n2"), instance.manager("n3")
    master.provider.version, master.provider.reads = NEW, (OLD,)
    master.provider.writes = (OLD,)
    found: list[Any] = []
    router = instance.router("n1")
    router.put_entry(EntryChange(key, {"": b'{"tokens": ["a"]}'}, True, NEW), found.append)
    instance.world.flush("n1.1")
    assert instance.world.run(5.0, lambda: bool(found)) and found == [[]]
    state = slave.copies[3].bucket.state()[key]
    assert state[1] == OLD and master.copies[3].bucket.state()[key][1] == NEW


def test_pages_have_keys_in_order_without_those_deleted_meanwhile() -> None:
    bucket = Bucket(0, LedgerProvider(OLD), 10)
    for key in ("c", "ä", "a", "b"):
        bucket.forward_to_entry(key, Request(b"+x"), None, modifies=True, now=0.0)
    pages = Pages(Counter())
    first, more = pages.next(bucket, "", 1)
    assert [change.key for change in first] == ["a"] and more
    bucket.forward_to_entry("b", Request(b"-"), None, modifies=True, now=0.0)
    rest, more = pages.next(bucket, "a", 10_000)
    assert [change.key for change in rest] == ["c", "ä"] and not more
    assert pages.next(bucket, "b", 1)[0][0].key == "c", "by a master that has not begun it"
    assert pages.next(Bucket(1, LedgerProvider(OLD), 1), "", 1) == ([], False)


def test_a_slave_and_a_master_without_a_lease_give_no_page() -> None:
    instance = Instance()
    row = instance.index("n1").state.rows[3]
    for name, moved in (("n2", False), ("n3", True), ("n1", True)):
        manager = instance.manager(name)
        said: list[Any] = []
        manager.port.post = lambda to, message, said=said: said.append(message)
        manager.handle(instance.cep("n1"), AskEntries(1, row, "", 10))
        assert [answer.moved for answer in said] == [moved], name
    master = instance.manager("n2")
    master.lease.holds = lambda: False
    said.clear()
    master.port.post = lambda to, message: said.append(message)
    master.handle(instance.cep("n1"), AskEntries(1, row, "", 10))
    assert said[0].moved


def test_copies_that_exports_keep_are_limited() -> None:
    counts: Counter[str] = Counter()
    pages = Pages(counts)
    for number in range(EXPORTS_MAX + 1):
        bucket = Bucket(number, LedgerProvider(OLD), 1)
        for key in "ab":
            bucket.forward_to_entry(key, Request(b"+x"), None, modifies=True, now=0.0)
        pages.next(bucket, "", 1)
    assert counts["exports_full"] == 1
    instance = Instance()
    pager = instance.world.machines[instance.member("n1")].pager
    answers: list[Entries | None] = []
    for _ in range(ASKED_MAX + 1):
        pager.ask(instance.index("n1").state.rows[0], "", 1, answers.append)
    assert answers == [None] and pager.counts["pages_full"] == 1
    instance.world.run(5.0)
    assert len(answers) == ASKED_MAX + 1 and None not in answers[1:]
