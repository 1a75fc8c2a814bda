"""All entries of an instance are moved into another one with other nodes and another number of buckets (A22)."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from bucket_group import ask, bucket_group
from split_network import SplitNetwork

from jgroups_py.buckets import Refused
from jgroups_py.buckets.administration import compare_copies
from jgroups_py.buckets.archive import ArchiveReader, ArchiveWriter, BadArchive, Record
from jgroups_py.buckets.archive.contents import export_managers, read_contents
from jgroups_py.buckets.archive.repartition import repartition
from jgroups_py.buckets.deployed import open_deployed
from jgroups_py.buckets.deployment import parse_deployment
from jgroups_py.buckets.messages import EntryChange
from jgroups_py.buckets.node import BucketNode
from jgroups_py.testing.explorer.buckets.ledger import ledger

KEYS = [f"seat-{number}" for number in range(60)]
NEW = parse_deployment(
    "{name: new, buckets: 32, nodes: {a: , b: , c: , d: }, stack: sim.xml, settings: {lease: 1s}}"
)


@contextmanager
def opened(files: list[Path]) -> Iterator[list[ArchiveReader]]:
    with ExitStack() as stack:
        yield [stack.enter_context(ArchiveReader(file)) for file in files]


def export(node: BucketNode, file: Path) -> Path:
    managers = node.machine.managers.values()
    export_managers(managers, file, instance="old", created=1.0, buckets=9)
    return file


@pytest.mark.seed("A21", "A22", "A57")
@pytest.mark.parametrize("without", ["", "b"])
async def test_an_instance_is_exported_sorted_and_loaded_by_another_one(
    autojump_clock: Any, tmp_path: Path, without: str
) -> None:
    async with bucket_group() as group:
        for number, key in enumerate(KEYS):
            await ask(group.nodes["n1"], key, f"+t{number}")
        files = [export(node, tmp_path / name) for name, node in group.nodes.items()]
    folder = tmp_path / "new"
    folder.mkdir()
    with opened(files) as readers:
        found = repartition(readers, NEW, clock=lambda: 0.0, created=2.0, folder=folder)
    assert found.total.entries == len(KEYS), "each stands in two archives and counts once"
    network = SplitNetwork()
    nodes: dict[str, BucketNode] = {}

    async def run(name: str, *, task_status: trio.TaskStatus[None]) -> None:
        with opened([folder / f"{name}.jgb"] if name != without else []) as readers:
            contents = read_contents(readers, NEW.buckets, ledger().provider)
        async with open_deployed(
            NEW,
            name,
            plugin=ledger(),
            contents=contents,
            transport=network,
            wall=trio.current_time,
        ) as nodes[name]:
            task_status.started()
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        for node in NEW.nodes:
            await nursery.start(run, node.name)
        for member in nodes.values():
            await member.wait_ready()
        if without:
            with pytest.raises(Refused, match=r"its (master|slave) 0|its master has 0 entries"):
                await compare_copies(nodes["a"])
            nursery.cancel_scope.cancel()
            return
        await compare_copies(nodes["a"])
        for number, key in enumerate(KEYS):
            assert await ask(nodes["d"], key, "?") == f"t{number}"
        copies = [
            copy.bucket.state()
            for member in nodes.values()
            for manager in member.machine.managers.values()
            for copy in manager.copies.values()
        ]
        assert sum(map(len, copies)) == 2 * len(KEYS) and len(copies) == 64
        nursery.cancel_scope.cancel()


class Contents(dict[int, list[EntryChange]]):
    """A dictionary that can be watched."""


async def test_an_instance_does_not_keep_its_contents_beside_its_buckets(
    autojump_clock: Any,
) -> None:
    network = SplitNetwork()
    watched: list[weakref.ref[Contents]] = []

    def contents() -> Contents:
        found = Contents(
            {n: [EntryChange(KEYS[n], {"": b"x"}, True, 73)] for n in range(NEW.buckets)}
        )
        watched.append(weakref.ref(found))
        return found

    async with AsyncExitStack() as stack:
        nodes = [
            await stack.enter_async_context(
                open_deployed(
                    NEW,
                    node.name,
                    plugin=ledger(),
                    contents=contents(),
                    transport=network,
                    wall=trio.current_time,
                )
            )
            for node in NEW.nodes
        ]
        for node in nodes:
            await node.wait_ready()
        await trio.sleep(1)
        managers = [one for node in nodes for one in node.machine.managers.values()]
        assert sum(len(copy.bucket) for one in managers for copy in one.copies.values()) == 64
        gc.collect()
        assert not any(ref() for ref in watched) and not any(one.contents for one in managers)


def write(file: Path, version: int = 73, application: str = "ledger") -> Path:
    with ArchiveWriter(file, instance="old", application=application, created=1.0) as archive:
        archive.add(Record("a", version, {"": b"x"}))
    return file


def test_entries_that_the_application_does_not_read_are_refused(tmp_path: Path) -> None:
    for version, application, problem in (
        (90, "ledger", "entry 'a' is in format 90, and ledger reads 73"),
        (73, "fares", "it is of the application 'fares', not 'ledger'"),
    ):
        file = write(tmp_path / "a", version, application)
        with opened([file]) as readers, pytest.raises(BadArchive, match=problem):
            read_contents(readers, 4, ledger().provider)
    with opened([write(tmp_path / "a", 73)]) as readers:
        assert len(read_contents(readers, 4, ledger(81).provider)) == 1
    assert read_contents([], 4, ledger().provider) == {}
