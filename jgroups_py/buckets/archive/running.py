"""Export of a running instance to an archive, and import of archives into one (A22, A57).

No node is stopped. Stop the clients: an entry that changes meanwhile is archived as of some moment, and a new one may
be missing.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import trio

from jgroups_py.buckets.archive.errors import BadArchive
from jgroups_py.buckets.archive.frames import End, Record
from jgroups_py.buckets.archive.merge import merged
from jgroups_py.buckets.archive.reader import ArchiveReader
from jgroups_py.buckets.archive.writer import ArchiveWriter
from jgroups_py.buckets.errors import BucketError, EntryFailed, Refused
from jgroups_py.buckets.messages import EntryChange
from jgroups_py.buckets.node import BucketNode
from jgroups_py.driver.unwrap import reraise

PAGES_BYTES_MAX: Final = 64_000_000
"""The most bytes of the pages of all buckets together; each bucket has one in memory."""
PAGE_BYTES: Final = (1_000, 256_000)
"""The least and the most bytes of one page."""
AT_ONCE: Final = 32
"""The most entries on their way into an instance."""
TOLD_EVERY: Final = 1_000


class _Cursor:
    """The entries of one bucket, in the order of their keys."""

    def __init__(self, node: BucketNode, bucket: int, size: int) -> None:
        self._node, self._bucket, self._size = node, bucket, size
        self._page: Iterator[EntryChange] = iter(())
        self._after, self._more = "", True

    async def next(self) -> EntryChange | None:
        """Return the next entry. Raises Unavailable."""
        while True:
            for change in self._page:
                return change
            if not self._more:
                return None
            page, self._more = await self._node.next_entries(self._bucket, self._after, self._size)
            self._page = iter(page)
            if page:
                self._after = page[-1].key


async def export_instance(
    node: BucketNode, file: str | os.PathLike[str], *, instance: str, created: float
) -> End:
    """Write all entries to an archive, through any member, and return its end.

    Raises:
        BadArchive: the archive cannot be written. The old file is as it was.
        Unavailable, BucketsClosed: not all buckets can be read. The old file is as it was.
    """
    application = _application(node)
    buckets = len(node.state.rows)
    least, most = PAGE_BYTES
    size = max(least, min(most, PAGES_BYTES_MAX // max(1, buckets)))
    with ArchiveWriter(
        file, instance=instance, application=application, created=created, buckets=buckets
    ) as archive:
        waiting: list[tuple[str, int, EntryChange, _Cursor]] = []
        for bucket in node.state.rows:
            await _push(waiting, _Cursor(node, bucket, size), bucket)
        while waiting:
            _, bucket, change, cursor = heapq.heappop(waiting)
            archive.add(Record.of(change))
            await _push(waiting, cursor, bucket)
    with ArchiveReader(file) as written:
        return written.end()


async def _push(
    waiting: list[tuple[str, int, EntryChange, _Cursor]], cursor: _Cursor, bucket: int
) -> None:
    change = await cursor.next()
    if change is not None:
        heapq.heappush(waiting, (change.key, bucket, change, cursor))


async def import_archives(
    node: BucketNode, archives: Sequence[ArchiveReader], told: Callable[[int], None]
) -> int:
    """Put all entries of archives into the instance, in place of present ones, and return their number. The import can
    be repeated.

    Args: node: a member with the application's classifier, which chooses the buckets of entries.
        told: called with the number of entries now and then.

    Raises:
        BadArchive: an archive is damaged or of another application, or an entry is in a format that the instance does
            not read. Earlier entries may be imported.
        Busy, Unavailable, OutcomeUnknown, BucketsClosed: as ``BucketNode.put_entry``. Earlier entries may be imported.
    """
    for archive in archives:
        if archive.head.application != _application(node):
            raise BadArchive(
                archive.file,
                f"it is of the application {archive.head.application!r}, not {_application(node)!r}",
            )
    loading = _Loading(node, told)
    send, receive = trio.open_memory_channel[Record](AT_ONCE)
    try:
        async with trio.open_nursery() as nursery:
            for _ in range(AT_ONCE):
                nursery.start_soon(loading.work, receive, nursery.cancel_scope)
            for record in merged(archives):
                await send.send(record)
            await send.aclose()
    except BaseExceptionGroup as group:
        reraise(group)
    if loading.problem is not None:
        raise loading.problem
    return loading.done


class _Loading:
    """Entries on their way into an instance. ``problem``: the error of the first entry that was not taken; the others
    are then given up."""

    def __init__(self, node: BucketNode, told: Callable[[int], None]) -> None:
        self._node, self._told = node, told
        self.done = 0
        self.problem: BucketError | BadArchive | None = None

    async def work(
        self, records: trio.MemoryReceiveChannel[Record], scope: trio.CancelScope
    ) -> None:
        async for record in records:
            try:
                await self._node.put_entry(record.as_change())
            except BucketError as error:
                if self.problem is None:
                    self.problem = _named(record, error)
                scope.cancel()
                return
            self.done += 1
            if self.done % TOLD_EVERY == 0:
                self._told(self.done)


def _named(record: Record, error: BucketError) -> BucketError | BadArchive:
    if isinstance(error, EntryFailed):
        return BadArchive(f"entry {record.key!r}", f"the instance does not take it: {error}")
    return type(error)(f"entry {record.key!r}: {error}")


def _application(node: BucketNode) -> str:
    """Return the application of the instance's managers. Raises Refused."""
    found = {manager.info.application for manager in node.managers}
    if len(found) != 1:
        raise Refused(f"bucket managers of one application are needed, not {sorted(found)}")
    return found.pop()
