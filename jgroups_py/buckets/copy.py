"""Copy: a bucket at its manager, with the requests that wait for the slave or for the lock.

A copy does not know its role. It has the newest row of the index, and the row names the master (A33).
"""

from __future__ import annotations

from collections import Counter, deque

from jgroups_py.buckets.bucket import Bucket
from jgroups_py.buckets.ends import Cep
from jgroups_py.buckets.messages import Answer, BucketRow, Forward, Save
from jgroups_py.buckets.transfer import Transfer


class Copy:
    """``sequence``: the last save sent to, or taken from, the other copy in this epoch. ``unacknowledged``: saves
    without the slave's acknowledgement; they are sent again at ``repeat_at``."""

    def __init__(self, bucket: Bucket, row: BucketRow) -> None:
        self.bucket = bucket
        self.row = row
        self.sequence = 0
        self.acknowledged = 0
        self.unacknowledged: deque[Save] = deque()
        self.repeat_at = 0.0
        self.locked = False
        self.held = False
        self.transfer: Transfer | None = None
        self.queue: deque[tuple[Cep, Forward]] = deque()
        self.answers: deque[tuple[int, Cep, Answer]] = deque()
        self.counts: Counter[str] = Counter()

    @property
    def outstanding(self) -> int:
        """Count the saves that the slave has not acknowledged."""
        return self.sequence - self.acknowledged

    def acknowledge(self, sequence: int) -> None:
        """Note that the slave has all saves up to this number."""
        if self.acknowledged < sequence <= self.sequence:
            self.acknowledged = sequence
            while self.unacknowledged and self.unacknowledged[0].sequence <= sequence:
                self.unacknowledged.popleft()

    def lock(self) -> bool:
        """Lock the copy for a move. False: the copy is locked already (LockBucket)."""
        if self.locked:
            return False
        self.locked = True
        self.counts["locks"] += 1
        return True

    def unlock(self) -> None:
        """Let requests in again (UnLockBucket)."""
        self.locked = False

    def new_epoch(self, row: BucketRow) -> None:
        self.row = row
        self.sequence = self.acknowledged = 0
        self.unacknowledged.clear()
        self.held = False

    def ready(self) -> list[tuple[Cep, Answer]]:
        """Return, once, the answers whose saves the slave has acknowledged."""
        found = []
        while self.answers and self.answers[0][0] <= self.acknowledged:
            _, router, answer = self.answers.popleft()
            found.append((router, answer))
        return found
