"""Accounts as objects of a bucket store, in two versions, and requests to them while their buckets move.

Half of the requests are for objects of one bucket: the moving one, or, while none moves, another one every
``TURN_SECONDS``. So requests to the moving bucket can be compared with requests to other buckets at the same time, on
the same machine.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import trio

from jgroups_py.buckets import BucketError, BucketNode, OutcomeUnknown
from jgroups_py.buckets.digest import bucket_of, digest_of
from jgroups_py.buckets.messages import BucketRow
from jgroups_py.buckets.objects import Earlier, Kind, Objects, modifies, object_plugin
from jgroups_py.buckets.objects.plugin import kind_of
from jgroups_py.tools.bench.latencies import figures

PHASES: Final = ("quiet", "up", "quiet", "down")
LOADERS: Final = 64
"""Entries that are made at the same time."""
TURN_SECONDS: Final = 0.1
SLOW_SECONDS: Final = 0.015
"""A request that takes longer is counted as slow (A26)."""
OWNER: Final = "owner of an account"
PAGE_BYTES: Final = 256_000


@dataclass
class Account:
    owner: str = ""
    euros: int = 0

    @modifies
    async def pay(self, owner: str, euros: int) -> int:
        self.owner, self.euros = owner, self.euros + euros
        return self.euros

    async def balance(self) -> int:
        return self.euros


@dataclass
class NewAccount(Account):
    """The new version counts cents."""

    cents: int = 0

    @modifies
    async def pay(self, owner: str, euros: int) -> int:
        self.owner, self.cents = owner, self.cents + 100 * euros
        return self.cents // 100

    async def balance(self) -> int:
        return self.cents // 100


OLD = object_plugin(Account, application="accounts", version=73)
NEW = object_plugin(
    Kind(
        NewAccount,
        name="Account",
        earlier={
            73: Earlier(
                Account,
                up=lambda old: NewAccount(old.owner, 0, 100 * old.euros),
                down=lambda new: Account(new.owner, new.cents // 100),
            )
        },
    ),
    application="accounts",
    version=81,
    reads=(73,),
    writes=(73,),
)


def key_of(number: int) -> str:
    """The key of an account, as the bucket store knows it."""
    return f"Account/{number}"


class AccountLoad:
    """Requests at fixed times, half of them changes. ``took``: phase -> seconds of each request, also as ``PHASE
    moving`` and ``PHASE beside``: whether its bucket was moving meanwhile. ``failed``: by the same names and by
    error, the number of failed requests. ``paid``: answered changes by account. ``unknown``: changes with an unknown
    outcome."""

    def __init__(
        self, client: BucketNode, entries: int, rate: float, chance: random.Random, buckets: int
    ) -> None:
        self._client, self._accounts = client, Objects(client, Account)
        self._entries, self._rate, self._chance = entries, rate, chance
        self.paid = [0] * entries
        self.unknown: Counter[int] = Counter()
        self.took: dict[str, list[float]] = {}
        for phase in dict.fromkeys(PHASES):
            for name in _rows(phase):
                self.took[name] = []
        self.failed: dict[str, Counter[str]] = {}
        self._bucket_of = [
            bucket_of(digest_of(key_of(number)), buckets) for number in range(entries)
        ]
        self._numbers: list[list[int]] = [[] for _ in range(buckets)]
        for number, bucket in enumerate(self._bucket_of):
            self._numbers[bucket].append(number)
        self._bucket = 0
        self._turn = -1.0
        self._moving: int | None = None
        self._moved_until: dict[int, float] = {}
        """Bucket -> time when its last move ended."""
        self.answered = self.moves = self.read = 0
        """Requests, moves, and objects that ``lost`` has looked at."""

    async def fill(self) -> None:
        """Make every entry."""
        numbers = iter(range(self._entries))

        async def worker() -> None:
            for number in numbers:
                await self._accounts[str(number)].pay(OWNER, 1)
                self.paid[number] += 1

        async with trio.open_nursery() as nursery:
            for _ in range(LOADERS):
                nursery.start_soon(worker)

    def move_begins(self, row: BucketRow) -> None:
        self._moving = self._bucket = row.bucket

    def move_ends(self, row: BucketRow) -> None:
        self._moved_until[row.bucket] = trio.current_time()
        self._moving = None
        self.moves += 1

    async def run(self, phase: str, over: trio.Event) -> None:
        """Send requests until ``over``; return when all are answered."""
        due = trio.current_time()
        async with trio.open_nursery() as nursery:
            while not over.is_set():
                nursery.start_soon(self._one, phase, due, self._drawn(due))
                due += 1 / self._rate
                await trio.sleep_until(due)

    def _drawn(self, now: float) -> int:
        if self._moving is None and now >= self._turn + TURN_SECONDS:
            self._turn, self._bucket = now, self._chance.randrange(len(self._numbers))
        numbers = self._numbers[self._bucket]
        if numbers and self._chance.random() < 0.5:
            return self._chance.choice(numbers)
        return self._chance.randrange(self._entries)

    async def _one(self, phase: str, due: float, number: int) -> None:
        account = self._accounts[str(number)]
        changes = self._chance.random() < 0.5
        problem: BucketError | None = None
        try:
            if changes:
                await account.pay(OWNER, 1)
                self.paid[number] += 1
            else:
                await account.balance()
        except BucketError as error:
            problem = error
            if changes and isinstance(error, OutcomeUnknown):
                self.unknown[number] += 1
        took = trio.current_time() - due
        whole, moving, beside = _rows(phase)
        for name in (whole, moving if self.was_moving(number, due) else beside):
            if problem is None:
                self.took[name].append(took)
            else:
                self.failed.setdefault(name, Counter())[type(problem).__name__] += 1
        self.answered += problem is None

    def was_moving(self, number: int, since: float) -> bool:
        bucket = self._bucket_of[number]
        return bucket == self._moving or self._moved_until.get(bucket, -1.0) >= since

    def phases(self) -> dict[str, dict[str, float]]:
        """Return percentiles of each kind of phase, and the numbers of slow and failed requests."""
        found = {}
        for name, took in self.took.items():
            if took or name in PHASES:
                found[name] = {
                    **figures(took),
                    "slow": sum(seconds > SLOW_SECONDS for seconds in took),
                    "failed": sum(self.failed.get(name, {}).values()),
                }
        return found

    async def lost(self) -> int:
        """Return the number of objects that are missing, or whose balance is below the answered or above the requested
        changes. Read the saved entries of all buckets."""
        kind = kind_of(NEW, NewAccount)
        right = 0
        for bucket, numbers in enumerate(self._numbers):
            found: dict[str, NewAccount] = {}
            more, after = bool(numbers), ""
            while more:
                changes, more = await self._client.next_entries(bucket, after, PAGE_BYTES)
                for change in changes:
                    found[change.key] = kind.state.decode(change.pieces[""], change.version)
                    after = change.key
            right += sum(self._is_right(number, found.get(key_of(number))) for number in numbers)
            self.read += len(numbers)
        return self._entries - right

    def _is_right(self, number: int, account: NewAccount | None) -> bool:
        least = self.paid[number]
        return account is not None and least <= account.cents // 100 <= least + self.unknown[number]


def _rows(phase: str) -> Sequence[str]:
    return phase, f"{phase} moving", f"{phase} beside"


def moves_text(phases: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return, for each phase with moves, the number of requests beyond 15 ms to the moving bucket, and of those to
    other buckets."""
    lines = []
    for phase in dict.fromkeys(PHASES):
        _, moving, beside = (phases.get(name) for name in _rows(phase))
        if moving and beside:
            lines.append(
                f"{phase}: beyond {1000 * SLOW_SECONDS:g} ms {moving['slow']} of {moving['requests']} requests to the bucket that moved,"
                f" {beside['slow']} of {beside['requests']} to others meanwhile; p99.9 {moving['p99.9'] / max(0.001, beside['p99.9']):.2f} times theirs"
            )
    return lines
