"""Re-partition off line: the entries of archives, sorted into one archive for each node of another deployment (A22, A57).

The new classifier chooses the bucket, so the old number of buckets does not matter. Each node gets every entry of which it is to have a copy, and loads
its file when it starts.

Source: 4.4.9. Differs: the seed sends each entry from the old instance to the new one; here files lie between them, so both need not run at the same time.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from jgroups_py.buckets.archive.errors import BadArchive
from jgroups_py.buckets.archive.frames import Record
from jgroups_py.buckets.archive.merge import merged
from jgroups_py.buckets.archive.reader import ArchiveReader
from jgroups_py.buckets.archive.writer import ArchiveWriter
from jgroups_py.buckets.deployment.distribution import Distribution, distribute
from jgroups_py.buckets.deployment.model import Deployment
from jgroups_py.buckets.digest import DIGESTS, bucket_of, digest_of
from jgroups_py.errors import ConfigError

OUTAGE: Final = 3 * 3600.0
"""Seconds of planned outage in a year (A21)."""
PROJECT_BYTES: Final = 10_000_000
"""A run with fewer bytes measures mostly its own start."""
PROJECT_TIMES: Final = 100
"""A run with fewer bytes may be projected to at most this many times its size."""


@dataclass
class Load:
    """The entries at one place: numbers and bytes."""

    entries: int = 0
    size: int = 0

    def add(self, record: Record) -> None:
        self.entries += 1
        self.size += record.size


@dataclass
class Partition:
    """The result of a re-partition. ``buckets``, ``nodes``: their loads; a node's load has both roles. ``seconds``:
    measured."""

    deployment: Deployment
    total: Load = field(default_factory=Load)
    buckets: list[Load] = field(default_factory=list)
    nodes: dict[str, Load] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    seconds: float = 0.0
    processes: int = 1

    def projected(self, size: int) -> float:
        """Return the seconds for ``size`` bytes at the rate of this run; infinite if nothing was read."""
        return size * self.seconds / self.total.size if self.total.size else float("inf")

    def within(self, seconds: float) -> int:
        """Return the bytes for this many seconds at the rate of this run."""
        return int(self.total.size * seconds / self.seconds) if self.seconds else 0

    def as_json(self) -> dict[str, Any]:
        counts = [load.entries for load in self.buckets]
        sizes = [load.size for load in self.buckets]
        return {
            "name": self.deployment.name,
            "buckets": len(self.buckets),
            "entries": self.total.entries,
            "bytes": self.total.size,
            "seconds": round(self.seconds, 3),
            "processes": self.processes,
            "bytes_in_3h": self.within(OUTAGE),
            "entries_of_a_bucket": _spread(counts),
            "bytes_of_a_bucket": _spread(sizes),
            "nodes": {
                name: {"entries": load.entries, "bytes": load.size}
                for name, load in self.nodes.items()
            },
            "files": self.files,
        }


def repartition(
    archives: Sequence[ArchiveReader],
    deployment: Deployment,
    *,
    clock: Callable[[], float],
    created: float,
    folder: str | Path | None = None,
    digest: Callable[[str], int] = digest_of,
) -> Partition:
    """Sort the entries of ``archives`` by the buckets of ``deployment``.

    Args:
        clock: seconds, for the measured rate.
        created: seconds since 1970, for the new files.
        folder: gets NODE.jgb of each node with a bucket manager; None: only count.
        digest: of the new classifier.

    Raises:
        BadArchive: an archive is damaged, or a file cannot be written. No file of the folder has changed.
        ConfigError: the deployment has no distribution.
    """
    distribution = distribute(deployment)
    began = clock()
    application = archives[0].head.application if archives else ""
    found = sort_records(
        merged(archives), deployment, distribution, application, created, folder, "", digest
    )
    found.seconds = clock() - began
    return found


def check_projection(files: Iterable[str], size: int) -> None:
    """Check that these archives can tell the time for ``size`` bytes. ConfigError: the archives have too few bytes.
    BadArchive: one has no end."""
    there = 0
    for file in files:
        with ArchiveReader(file) as reader:
            there += reader.end().size
    if there < min(PROJECT_BYTES, size / PROJECT_TIMES):
        raise ConfigError(
            f"--project {size} bytes: the archives have {there} bytes, too few to measure a rate; give some with at least "
            f"10 MB, or a smaller size"
        )


def empty(deployment: Deployment) -> Partition:
    """Return a result without entries."""
    return Partition(
        deployment,
        buckets=[Load() for _ in range(deployment.buckets)],
        nodes={node.name: Load() for node in deployment.nodes if node.managers},
    )


def sort_records(
    records: Iterable[Record],
    deployment: Deployment,
    distribution: Distribution,
    application: str,
    created: float,
    folder: str | Path | None,
    suffix: str,
    digest: Callable[[str], int],
) -> Partition:
    """Sort records that come in the order of keys, into NODE with ``suffix`` and ``.jgb`` in the folder. Raises BadArchive as ``repartition``."""
    found = empty(deployment)
    with ExitStack() as files:
        writers: dict[str, ArchiveWriter] = {}
        if folder is not None:
            for name in found.nodes:
                writer = ArchiveWriter(
                    Path(folder) / f"{name}{suffix}.jgb",
                    instance=deployment.name,
                    application=application,
                    created=created,
                    buckets=deployment.buckets,
                )
                writers[name] = files.enter_context(writer)
                found.files.append(writer.file)
        _sort(records, distribution, found, writers, digest)
    return found


def _sort(
    records: Iterable[Record],
    distribution: Distribution,
    found: Partition,
    writers: dict[str, ArchiveWriter],
    digest: Callable[[str], int],
) -> None:
    for record in records:
        number = digest(record.key)
        if not 0 <= number < DIGESTS:
            raise BadArchive(
                "the classifier", f"its digest of {record.key!r} is {number}, not 0 to 2**64 - 1"
            )
        bucket = bucket_of(number, len(found.buckets))
        found.total.add(record)
        found.buckets[bucket].add(record)
        for name in distribution.nodes[bucket]:
            found.nodes[name].add(record)
            if writers:
                writers[name].add(record)


def _spread(values: Sequence[int]) -> dict[str, float]:
    return {"least": min(values), "median": statistics.median(values), "most": max(values)}
