"""IndexMirror: a copy of the decided state, for a router at a member without index copy.

    Follow to the first index copy in the view: send your rows, and each change from now on
    Rows       all rows, or those that differ from the version before

An old mirror does no harm: a manager answers "moved" to a request that was sent by an old row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from jgroups_py.buckets.ends import Cep
from jgroups_py.buckets.messages import EMPTY, BucketRow, Follow, IndexState, Message, Rows
from jgroups_py.buckets.port import Port, index_copies
from jgroups_py.buckets.settings import InstanceSettings


class IndexMirror:
    """It takes no part in updates and counts for no quorum."""

    def __init__(self, port: Port, settings: InstanceSettings) -> None:
        self.port, self.settings = port, settings
        self.state: IndexState = EMPTY
        self.on_rows: list[Callable[[], None]] = []
        self.counts: Counter[str] = Counter()
        self._followed: Cep | None = None

    def get_bucket_location(self, bucket: int) -> BucketRow | None:
        return self.state.rows.get(bucket)

    def on_view(self, merged: bool = False) -> None:
        """Follow the first index copy in the view. After a merge messages may be lost, so ask for the rows again."""
        copies = index_copies(self.port, self.settings)
        first = copies[0] if copies else None
        if first != self._followed or merged:
            self._followed = first
            self._follow()

    def handle(self, frm: Cep, message: Message) -> None:
        if not isinstance(message, Rows) or frm != self._followed:
            self.counts["unexpected"] += 1
            return
        state = message.state
        if state.version <= self.state.version:
            return
        if not state.whole:
            if message.before != self.state.version:
                self._follow()
                return
            rows = {**self.state.rows, **state.rows}
            state = IndexState(state.version, rows, state.copies, state.managers)
        self.state = state
        for job in self.on_rows:
            job()

    def _follow(self) -> None:
        if self._followed is not None:
            self.counts["follows"] += 1
            self.port.post(self._followed, Follow(self.state.version))
