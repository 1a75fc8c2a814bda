"""Pages: the entries of a bucket in the order of their keys, some at a time. Pager: asks masters for them.

    AskEntries    to the master's manager: entries after this key
    Entries       these entries, and whether there are more; or: the master is elsewhere

A page has each entry as of the moment when the page is made. Entries that are made after the first page may be missing.
If no requests run meanwhile, no entry is missing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from typing import Final

from jgroups_py.buckets.bucket import Bucket
from jgroups_py.buckets.ends import Cep
from jgroups_py.buckets.messages import AskEntries, BucketRow, Entries, EntryChange, Message
from jgroups_py.buckets.port import Port

NAME: Final = "pager"
"""The component of each member that asks."""
EXPORTS_MAX: Final = 1_000
"""The most buckets of a manager whose keys are kept sorted for the next page. Beyond it the oldest bucket's keys are
dropped and sorted again when needed, counted ``exports_full``."""
ASKED_MAX: Final = 1_000
"""The most unanswered questions of one member. Beyond it the oldest ends without an answer, counted ``pages_full``."""
PAGE_SECONDS: Final = 3.0
"""The longest wait for a page."""


class Pages:
    """At a manager: sorted keys of buckets under export."""

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts
        self._keys: dict[int, list[str]] = {}

    def next(self, bucket: Bucket, after: str, size: int) -> tuple[list[EntryChange], bool]:
        """Return entries after this key, about ``size`` bytes, and whether there are more. ``after`` "": from the
        beginning."""
        keys = self._keys.get(bucket.id)
        if keys is None or not after:
            if len(self._keys) >= EXPORTS_MAX:
                self._counts["exports_full"] += 1
                del self._keys[next(iter(self._keys))]
            keys = self._keys[bucket.id] = sorted(bucket.all_keys())
        found: list[EntryChange] = []
        at = bisect_right(keys, after)
        while at < len(keys) and size > 0:
            for change in bucket.serialise(0, iter([keys[at]])):  # the saved bytes
                found.append(change)
                size -= 50 + len(change.key) + sum(map(len, change.pieces.values()))
            at += 1
        if at == len(keys):
            del self._keys[bucket.id]
            return found, False
        return found, True


Paged = Callable[[Entries | None], None]
"""Called once with the answer. None: no answer came in time."""


class Pager:
    """Asks for pages, at any member."""

    def __init__(self, port: Port) -> None:
        self.port = port
        self.counts: Counter[str] = Counter()
        self._asked: dict[int, Paged] = {}

    def ask(self, row: BucketRow, after: str, size: int, paged: Paged) -> None:
        if len(self._asked) >= ASKED_MAX:
            self.counts["pages_full"] += 1
            self._end(next(iter(self._asked)), None)
        number = self.port.random.getrandbits(62)
        self._asked[number] = paged
        self.port.post(row.master, AskEntries(number, row, after, size))
        self.port.after(PAGE_SECONDS, lambda: self._end(number, None))

    def handle(self, frm: Cep, message: Message) -> None:
        if isinstance(message, Entries):
            self._end(message.ask, message)
        else:
            self.counts["unexpected"] += 1

    def _end(self, number: int, answer: Entries | None) -> None:
        paged = self._asked.pop(number, None)
        if paged is not None:
            paged(answer)
