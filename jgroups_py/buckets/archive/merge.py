"""Several archives of one instance as one stream of records, such as one of each node."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence

from jgroups_py.buckets.archive.errors import BadArchive
from jgroups_py.buckets.archive.frames import Record
from jgroups_py.buckets.archive.reader import ArchiveReader


def merged(
    archives: Sequence[ArchiveReader], streams: Sequence[Iterable[Record]] | None = None
) -> Iterator[Record]:
    """Yield the records of all archives in the order of keys. ``streams``: one of each archive, to be read instead of
    the whole archive. An entry may be in several archives if it is equal in all of them.

    BadArchive: an archive is damaged, two belong to different applications, or an entry differs between two of them."""
    for archive in archives[1:]:
        first = archives[0]
        if archive.head.application != first.head.application:
            raise BadArchive(
                archive.file,
                f"it is of the application {archive.head.application!r}, {first.file} of {first.head.application!r}",
            )
    last: tuple[str, int, Record] | None = None
    read = archives if streams is None else streams
    for key, number, record in heapq.merge(*map(_numbered, range(len(archives)), read)):
        if last is not None and last[0] == key:
            if (record.version, record.pieces) != (last[2].version, last[2].pieces):
                raise BadArchive(
                    archives[number].file,
                    f"entry {key!r} differs from that in {archives[last[1]].file}",
                )
            continue
        last = (key, number, record)
        yield record


def _numbered(number: int, records: Iterable[Record]) -> Iterator[tuple[str, int, Record]]:
    for record in records:
        yield record.key, number, record
