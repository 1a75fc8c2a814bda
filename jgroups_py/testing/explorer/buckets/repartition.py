"""Random re-partitions of a bucket store in virtual time (A22, A57): export, sorting, and import into an instance with another number of buckets, while nodes are
killed and cut off and buckets move.

The clients have stopped, as for each re-partition, so every answered token must be in the new instance, at its place. A step that is interrupted is begun again, as
an administrator does: an export whose member is killed, a sorting that ends in the middle, an import of which an entry was not taken. Entries come in pages of one, so
faults meet every step. The new instance either gets the entries when it is made, or while it runs. Then its clients begin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from jgroups_py.buckets.archive import ArchiveReader, ArchiveWriter
from jgroups_py.buckets.archive.contents import read_contents
from jgroups_py.buckets.archive.frames import Record
from jgroups_py.buckets.archive.merge import merged
from jgroups_py.buckets.archive.repartition import sort_records
from jgroups_py.buckets.deployment import Deployment, distribute, parse_deployment
from jgroups_py.buckets.digest import digest_of
from jgroups_py.buckets.errors import BucketError
from jgroups_py.buckets.machine import BucketMachine
from jgroups_py.buckets.messages import EntryChange
from jgroups_py.buckets.pages import PAGE_SECONDS
from jgroups_py.testing.explorer.buckets.ledger import OLD, LedgerProvider
from jgroups_py.testing.explorer.buckets.schedule import (
    ANSWER_MAX,
    KEYS,
    NODES,
    BucketCase,
    Run,
    Stage,
)

SIZES: Final = (3, 5, 11, 12)
"""Numbers of buckets of the new instance."""
PART: Final = 15.0
"""Faults before this time meet the export, later ones the import."""
PAUSE: Final = 0.5
"""The longest time between two entries."""
ATTEMPTS_MAX: Final = 20
"""The most attempts of a step that is interrupted."""
MEMORY: Final = Path("/dev/shm")
"""The folder on Linux where files cost no wait for a disk."""
PAGES_MAX: Final = 60
"""The most questions for one page."""


class _Interrupted(Exception):
    """The step must be begun again."""


def play_repartition(case: BucketCase) -> Run:
    """Play and judge one."""
    old = Stage(case)
    old.plan_asks(case.asks)
    old.world.run(PART)
    old.finish()
    if old.run.problems:
        return old.run
    old.clients_work = False
    old.plan_faults([fault for fault in case.faults if fault[0] < PART])
    with TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        return _carried_over(case, old, Path(folder))


def _carried_over(case: BucketCase, old: Stage, folder: Path) -> Run:
    buckets = old.random.choice(SIZES)
    all_entries = folder / "all.jgb"
    if not _done(old, "export", lambda: _export(old, all_entries)):
        return old.run
    files = _sorted(old, all_entries, folder / "new", buckets)
    with ExitStack() as opened:
        archives = [opened.enter_context(ArchiveReader(file)) for file in files]
        at_the_start = old.random.random() < 0.3
        contents = read_contents(archives, buckets, LedgerProvider(OLD)) if at_the_start else {}
        new = Stage(case, buckets=buckets, contents=contents)
        new.clients_work = False
        new.plan_faults([(at - PART, fault) for at, fault in case.faults if at >= PART])
        if not at_the_start:
            entries = [record.as_change() for record in merged(archives)]
            _done(new, "import", lambda: _import(new, entries))
    new.clients_work = True
    new.plan_asks(
        [(at, name, key, token and f"n{token}") for at, name, key, token in case.asks[:50]]
    )
    new.world.run(2 * PART)
    new.finish()
    return _judged(old, new)


def _done(stage: Stage, check: str, step: Callable[[], None]) -> bool:
    for _ in range(ATTEMPTS_MAX):
        try:
            step()
        except _Interrupted as why:
            stage.world.tell(f"{check} begins again: {why}")
        else:
            return True
    stage.run.violated(check, f"it was interrupted {ATTEMPTS_MAX} times")
    return False


def _member(stage: Stage) -> str:
    """Return a member with a router."""
    stage.world.run(PAUSE)
    found = [m for name in NODES[:3] if (m := stage.world.alive(name)) is not None]
    return stage.random.choice(found)


def _machine(stage: Stage, member: str) -> BucketMachine:
    """Let some time pass. Raises _Interrupted: the member is gone."""
    stage.world.run(stage.random.uniform(0.0, PAUSE))
    machine = stage.world.machines.get(member)
    if machine is None:
        raise _Interrupted(f"{member} is gone")
    machine.advance(stage.world.now)
    return machine


# --- export


def _export(stage: Stage, file: Path) -> None:
    member = _member(stage)
    entries: list[EntryChange] = []
    for bucket in range(stage.buckets):
        after, more = "", True
        while more:
            changes, more = _page(stage, member, bucket, after)
            entries += changes
            after = changes[-1].key if changes else after
    with ArchiveWriter(file, instance="old", application="ledger", created=1.0) as archive:
        for change in sorted(entries, key=lambda change: change.key):
            archive.add(Record.of(change))


def _page(stage: Stage, member: str, bucket: int, after: str) -> tuple[list[EntryChange], bool]:
    for _ in range(PAGES_MAX):
        machine, answers = _machine(stage, member), list[Any]()
        row = next(iter(machine.routers.values())).index.get_bucket_location(bucket)
        if row is None:
            continue
        machine.pager.ask(row, after, 1, answers.append)
        stage.world.flush(member)
        stage.world.run(PAGE_SECONDS + 1, lambda: bool(answers))  # noqa: B023
        if answers and answers[0] is not None and not answers[0].moved:
            return answers[0].changes, answers[0].more
    raise _Interrupted(f"no page of bucket {bucket}")


# --- sorting


def _sorted(stage: Stage, file: Path, folder: Path, buckets: int) -> list[str]:
    """Sort for the new instance, at first only up to a random entry: that must leave nothing."""
    deployment = parse_deployment(
        f"{{name: new, buckets: {buckets}, nodes: {{n1: , n2: , n3: , n4: }}, stack: sim.xml}}"
    )
    folder.mkdir()
    with ArchiveReader(file) as archive:
        records = list(merged([archive]))
    cut = stage.random.randrange(len(records) + 1)
    try:
        _sort(_broken(records, cut), deployment, folder)
    except _Interrupted:
        left = sorted(path.name for path in folder.iterdir())
        if left:
            stage.run.violated("sorting", f"what was interrupted has left {left}")
    return _sort(iter(records), deployment, folder)


def _broken(records: Sequence[Record], cut: int) -> Iterator[Record]:
    yield from records[:cut]
    raise _Interrupted("killed")


def _sort(records: Iterator[Record], deployment: Deployment, folder: Path) -> list[str]:
    places = distribute(deployment)
    found = sort_records(records, deployment, places, "ledger", 2.0, folder, "", digest_of)
    return found.files


# --- import


def _import(stage: Stage, entries: Sequence[EntryChange]) -> None:
    member = _member(stage)
    for change in entries:
        machine, answers = _machine(stage, member), list[Any]()
        router = next(iter(machine.routers.values()))
        if not router.index.state.version:
            raise _Interrupted(f"{member} does not know the buckets yet")
        router.put_entry(change, answers.append)
        stage.world.flush(member)
        stage.world.run(ANSWER_MAX + 5, lambda: bool(answers))  # noqa: B023
        if not answers or isinstance(answers[0], BucketError):
            raise _Interrupted(f"{change.key}: {answers}")


# --- judge


def _judged(old: Stage, new: Stage) -> Run:
    run = old.run
    run.kills, run.cuts, run.moves = (
        run.kills + new.run.kills,
        run.cuts + new.run.cuts,
        run.moves + new.run.moves,
    )
    run.problems += new.run.problems
    run.story += ["--- the new instance", *new.run.story]
    for key in KEYS if not run.problems else ():
        before, after = (str(stage.final[key].answer).split() for stage in (old, new))
        if after[: len(before)] != before:
            run.violated("carried over", f"{key} had {before}, and has {after} in the new instance")
    run.asked += new.run.asked
    return run
