"""Writes entries of managers to an archive, and reads entries of archives for the buckets of a new instance
(A22, A57).

Both are off line: while no requests are worked on, all copies of a bucket are equal.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable, Iterable, Iterator, Sequence

from jgroups_py.buckets.archive.errors import BadArchive
from jgroups_py.buckets.archive.frames import End, Record
from jgroups_py.buckets.archive.merge import merged
from jgroups_py.buckets.archive.reader import ArchiveReader
from jgroups_py.buckets.archive.writer import ArchiveWriter
from jgroups_py.buckets.bucket import Bucket
from jgroups_py.buckets.digest import bucket_of, digest_of
from jgroups_py.buckets.manager import BucketManager
from jgroups_py.buckets.messages import EntryChange
from jgroups_py.buckets.plugin import EntryBehaviourProvider


def export_managers(
    managers: Iterable[BucketManager],
    file: str | os.PathLike[str],
    *,
    instance: str,
    created: float,
    buckets: int,
) -> End:
    """Write all entries of these managers' copies, masters and slaves, to an archive; return its end. A bucket that has both copies here is
    written once.

    Raises:
        BadArchive: the file cannot be written, or the managers have different applications. The old file is as it was.
    """
    copies: dict[int, Bucket] = {}
    application = ""
    for manager in managers:
        if application and manager.provider.application != application:
            raise BadArchive(
                os.fspath(file), f"managers of {application!r} and {manager.provider.application!r}"
            )
        application = manager.provider.application
        for number, copy in manager.copies.items():
            if number not in copies or copy.row.master == manager.cep:
                copies[number] = copy.bucket
    with ArchiveWriter(
        file, instance=instance, application=application, created=created, buckets=buckets
    ) as archive:
        for record in heapq.merge(*map(_records, copies.values()), key=lambda record: record.key):
            archive.add(record)
    with ArchiveReader(file) as written:
        return written.end()


def _records(bucket: Bucket) -> Iterator[Record]:
    # Version 0: as they were saved.
    for change in bucket.serialise(0, iter(sorted(bucket.all_keys()))):
        yield Record.of(change)


def read_contents(
    archives: Sequence[ArchiveReader],
    buckets: int,
    provider: EntryBehaviourProvider,
    digest: Callable[[str], int] = digest_of,
) -> dict[int, list[EntryChange]]:
    """Return entries by bucket, for ``open_buckets(contents=...)``.

    Raises:
        BadArchive: an archive is damaged, is of another application, or has an entry in a format that the provider does
            not read.
    """
    for archive in archives:
        if archive.head.application != provider.application:
            raise BadArchive(
                archive.file,
                f"it is of the application {archive.head.application!r}, not {provider.application!r}",
            )
    reads = (provider.version, *provider.reads)
    found: dict[int, list[EntryChange]] = {}
    for record in merged(archives):
        if record.version not in reads:
            raise BadArchive(
                archives[0].file,
                f"entry {record.key!r} is in format {record.version}, and {provider.application} reads"
                f" {', '.join(map(str, reads))}",
            )
        found.setdefault(bucket_of(digest(record.key), buckets), []).append(record.as_change())
    return found
