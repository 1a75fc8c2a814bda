"""Re-partition by several processes: each one sorts a stretch of the keys into files of its own.

    found = repartition_in_stretches(archives, deployment, run, processes=4, created=now, clock=time.perf_counter, folder="new")

``run`` carries out tasks wherever it likes: in processes of this machine (``in_processes``), or as a Spark job (``jgroups_py.spark.repartition``). Archives and
folder must be reachable there by the same paths. Each node then has a file for each stretch, NODE.1of4.jgb to NODE.4of4.jgb, and needs all of them:
``check_stretches`` finds one that is missing.

Source: 4.4.9, as repartition.py. A stretch's own checksums are those of its records; counting shows missing ones.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

from jgroups_py.buckets.archive.errors import BadArchive
from jgroups_py.buckets.archive.frames import Record
from jgroups_py.buckets.archive.merge import merged
from jgroups_py.buckets.archive.reader import ArchiveReader
from jgroups_py.buckets.archive.repartition import Load, Partition, empty, sort_records
from jgroups_py.buckets.deployment.application import load_application
from jgroups_py.buckets.deployment.distribution import distribute
from jgroups_py.buckets.deployment.model import Deployment
from jgroups_py.buckets.digest import digest_of
from jgroups_py.driver.with_parent import end_with_parent

STRETCHES_MAX: Final = 1_000
"""The most stretches of one re-partition; each node has a file for each of them."""
_NAME: Final = re.compile(r"(?P<node>.+)\.(?P<number>[1-9][0-9]*)of(?P<of>[1-9][0-9]*)\.jgb")


@dataclass(frozen=True)
class StretchTask:
    """Sort the entries with keys from ``first`` on, before ``after`` (None: to the end)."""

    archives: tuple[str, ...]
    deployment: Deployment
    first: str
    after: str | None
    number: int
    of: int
    created: float
    folder: str | None


@dataclass
class StretchDone:
    """A stretch's Partition without the deployment, which need not travel back. ``read``: the load of each archive.
    ``problem``: the file and its fault."""

    buckets: list[Load] = field(default_factory=list)
    nodes: dict[str, Load] = field(default_factory=dict)
    total: Load = field(default_factory=Load)
    files: list[str] = field(default_factory=list)
    read: list[Load] = field(default_factory=list)
    problem: tuple[str, str] | None = None


Run = Callable[[Callable[[StretchTask], StretchDone], Sequence[StretchTask]], Iterable[StretchDone]]


def in_processes(processes: int) -> Run:
    """Carry out tasks with several processes of this machine."""

    def run(
        do: Callable[[StretchTask], StretchDone], tasks: Sequence[StretchTask]
    ) -> Iterator[StretchDone]:
        count = min(processes, len(tasks))
        with ProcessPoolExecutor(count, get_context("spawn"), end_with_parent) as pool:
            yield from pool.map(do, tasks)

    return run


def repartition_in_stretches(
    archives: Sequence[ArchiveReader],
    deployment: Deployment,
    run: Run,
    *,
    processes: int,
    clock: Callable[[], float],
    created: float,
    folder: str | Path | None = None,
) -> Partition:
    """Sort the entries of ``archives`` by the buckets of ``deployment``, one stretch of the keys for each process, or fewer where archives are small.

    Args:
        processes: the most that work at once. ``Partition.processes`` says how many had work.
        clock, created, folder: as for ``repartition``.

    Raises:
        BadArchive, ConfigError: as ``repartition``. No file of the folder has changed.
    """
    distribute(deployment)  # an error is reported before any task begins
    began = clock()
    ends = [archive.end() for archive in archives]
    cuts = _cuts([point.key for end in ends for point in end.points], processes)
    of = len(cuts) + 1
    found = empty(deployment)
    found.processes = min(processes, of)
    with ExitStack() as cleaning:
        made = None
        if folder is not None:
            made = tempfile.mkdtemp(prefix=".stretches-", dir=folder)
            cleaning.callback(shutil.rmtree, made, ignore_errors=True)
        files = tuple(os.path.abspath(archive.file) for archive in archives)
        tasks = [
            StretchTask(files, deployment, first, after, number, of, created, made)
            for number, (first, after) in enumerate(zip(["", *cuts], [*cuts, None], strict=True), 1)
        ]
        read = [Load() for _ in archives]
        for done in run(sort_stretch, tasks):
            if done.problem is not None:
                raise BadArchive(*done.problem)
            _add(found, read, done)
        for archive, end, load in zip(archives, ends, read, strict=True):
            if (load.entries, load.size) != (end.entries, end.size):
                raise BadArchive(
                    archive.file,
                    f"{load.entries} entries with {load.size} bytes were read, and its end names {end.entries} with {end.size}",
                )
        if folder is not None:
            found.files = [_kept(file, folder) for file in sorted(found.files, key=_order)]
    found.seconds = clock() - began
    return found


def sort_stretch(task: StretchTask) -> StretchDone:
    """Carry out a task, in any process."""
    deployment = task.deployment
    digest = load_application(deployment).classifier.digest if deployment.application else digest_of
    done = StretchDone(read=[Load() for _ in task.archives])
    try:
        with ExitStack() as opened:
            readers = [opened.enter_context(ArchiveReader(file)) for file in task.archives]
            streams = [
                _counted(reader.stretch(task.first, task.after), load)
                for reader, load in zip(readers, done.read, strict=True)
            ]
            found = sort_records(
                merged(readers, streams),
                deployment,
                distribute(deployment),
                readers[0].head.application,
                task.created,
                task.folder,
                f".{task.number}of{task.of}",
                digest,
            )
    except BadArchive as error:
        return StretchDone(problem=(error.file, str(error).removeprefix(f"{error.file}: ")))
    done.buckets, done.nodes, done.total = found.buckets, found.nodes, found.total
    done.files = found.files
    return done


def check_stretches(files: Iterable[str]) -> None:
    """Check that no node's files are incomplete. BadArchive: a file that belongs to one of these is missing."""
    there: dict[tuple[str, int], dict[int, str]] = {}
    for file in files:
        match = _NAME.fullmatch(os.path.basename(file))
        if match is not None:
            key = os.path.join(os.path.dirname(file), match["node"]), int(match["of"])
            there.setdefault(key, {})[int(match["number"])] = file
    for (_, of), found in there.items():
        missing = [number for number in range(1, min(of, STRETCHES_MAX) + 1) if number not in found]
        if missing:
            raise BadArchive(
                next(iter(found.values())),
                f"it is one of {of} files that belong together, and number {missing[0]} is not given",
            )


def _cuts(keys: list[str], count: int) -> list[str]:
    """Return at most ``count - 1`` keys that divide these into stretches of about equal length. Points lie at equal
    distances of bytes."""
    keys.sort()
    count = min(count, STRETCHES_MAX)
    found = [keys[len(keys) * number // count] for number in range(1, count)] if keys else []
    return [key for at, key in enumerate(found) if key > (found[at - 1] if at else keys[0])]


def _counted(records: Iterable[Record], load: Load) -> Iterator[Record]:
    for record in records:
        load.add(record)
        yield record


def _add(found: Partition, read: list[Load], done: StretchDone) -> None:
    pairs: list[tuple[Load, Load]] = [(found.total, done.total)]
    pairs += zip(found.buckets, done.buckets, strict=True)
    pairs += [(found.nodes[name], load) for name, load in done.nodes.items()]
    pairs += zip(read, done.read, strict=True)
    for total, load in pairs:
        total.entries += load.entries
        total.size += load.size
    found.files += done.files


def _order(file: str) -> Any:
    match = _NAME.fullmatch(os.path.basename(file))
    assert match is not None
    return match["node"], int(match["number"])


def _kept(file: str, folder: str | Path) -> str:
    target = os.path.join(folder, os.path.basename(file))
    try:
        os.replace(file, target)
    except OSError as error:
        raise BadArchive(target, f"cannot be written: {error.strerror}") from None
    return target
