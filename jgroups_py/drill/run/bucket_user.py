"""The application of a drill of bucket stores: entries to which clients add, and an administrator.

An entry is a list. A request adds ``[origin, number]`` to it, and its client gets the place and the item before it, as
in drills of live and backup (live_user.py). A repeated addition therefore shows. The first member of the view is also
the administrator: it recreates missing copies, and moves copies at the rate of ``moves``.
"""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import trio

from jgroups_py.buckets import (
    BucketError,
    Classification,
    Entry,
    EntryBehaviourProvider,
    EntryBucket,
    OutcomeUnknown,
    Plugin,
    ProxyId,
    Reply,
    Request,
    RequestClassifier,
)
from jgroups_py.buckets.ends import Cep
from jgroups_py.buckets.errors import BucketsClosed
from jgroups_py.buckets.messages import BucketRow
from jgroups_py.buckets.node import BucketNode
from jgroups_py.buckets.plugin import NOT_SENSIBLE
from jgroups_py.buckets.port import index_copies
from jgroups_py.buckets.upgrade import move_all
from jgroups_py.drill.file.bucket_keys import BucketWorkload
from jgroups_py.drill.run.user import Log, User

LOOK_SECONDS: Final = 0.1
"""Seconds between two looks of the administrator."""
ORDER_SECONDS: Final = 0.005
"""Seconds that the first move is expected to take."""
LAST_LOOK_SECONDS: Final = 15.0
"""The most seconds for reading all keys at the end, on an idle machine."""
READS_MAX: Final = 64
"""The most keys that are read at the same time at the end."""


OLD, NEW = 73, 81
"""Versions of the application. The new one keeps entries in another format, and reads and writes the old one, too."""


class DrillEntry(Entry):
    """A list of ``[origin, number]``."""

    def __init__(self, version: int = OLD) -> None:
        self.entries: list[list[Any]] = []
        self._version = version

    def manipulate(self, bucket: EntryBucket, request: Request, proxy_id: ProxyId | None) -> None:
        answer: Any = self.entries
        if request.body != b"?":
            answer = [len(self.entries), self.entries[-1] if self.entries else None]
            self.entries = [*self.entries, json.loads(request.body)]
            bucket.save_serialised_entry(self.serialise(self._version))
        if proxy_id is not None:
            bucket.specify_replies([Reply(proxy_id, json.dumps(answer).encode())])

    def serialise(self, version: int) -> bytes:
        return json.dumps(self.entries if version == OLD else {"entries": self.entries}).encode()

    def unserialise(self, data: bytes, version: int) -> None:
        found = json.loads(data)
        self.entries = found if version == OLD else found["entries"]


class DrillProvider(EntryBehaviourProvider):
    application = "drill"

    def __init__(self, version: int = OLD) -> None:
        self.version = version
        self.reads = self.writes = (OLD,) if version == NEW else ()

    def create_entry(self, key: str) -> Entry:
        return DrillEntry(self.version)


class DrillClassifier(RequestClassifier):
    def classify(self, request: Request) -> Classification:
        if request.body == b"?":
            return Classification(key=request.key, modifies=False)
        return Classification(key=request.key) if request.body[:1] == b"[" else NOT_SENSIBLE


def plugin(settings: Mapping[str, Any], origin: str) -> Plugin:
    """Return the application of this incarnation. With ``versions: yes`` every other incarnation has the new version,
    so restarts upgrade and fall back. Members that are ``newer`` begin with the new one."""
    name, _, incarnation = origin.rpartition("#")
    later = int(incarnation) % 2 == 0 and settings.get("versions") == "yes"
    later ^= name in settings.get("newer", ())
    return Plugin(DrillProvider(NEW if later else OLD), DrillClassifier())


class SentRequest(NamedTuple):
    key: int
    reads: bool


class BucketUser(User[BucketWorkload, SentRequest]):
    """One member's clients. ``settings``: of the drill file."""

    def __init__(
        self,
        node: BucketNode,
        site: str,
        origin: str,
        chance: random.Random,
        log: Log,
        settings: Mapping[str, Any],
    ) -> None:
        super().__init__(site, origin, chance, log)
        self._node = node
        self._moves: float = settings.get("moves", 0.0)
        self._repairs = settings.get("repair", "yes") == "yes"
        self._orders = random.Random(chance.random())
        self._ordered: dict[int, None] = {}
        self._next_move = 0.0
        self._upgrading: int | None = None
        """The bucket that an upgrade moves; -1 before the first one."""
        self._took = ORDER_SECONDS
        self._tasks: trio.Nursery
        self.on_move: Callable[..., None] = lambda **told: None
        """Called when an order to move begins: ``standing``, and ``master``, ``slave``, ``target`` of the bucket, ``took`` (seconds of the last one),
        ``upgrade`` (is it part of one?), ``number`` and ``of`` (its moves)."""

    @property
    def protected(self) -> bool:
        """Does each bucket have both copies, as far as this member knows?"""
        rows = self._node.state.rows
        return bool(rows) and all(row.slave is not None for row in rows.values())

    def source(self, load: BucketWorkload) -> Callable[[], SentRequest]:
        chance = self._chance
        return lambda: SentRequest(chance.randrange(load.keys), chance.random() < load.read_ratio)

    def refuse(self, request: SentRequest, why: str) -> None:
        self._log("failed", keys=[request.key], why=why, definite=True)

    async def do(self, request: SentRequest, load: BucketWorkload) -> None:
        if request.reads:
            await self._read(request.key)
            return
        self._seqno += 1
        seqno, keys = self._seqno, [request.key]
        self._log("put", self._origin, seqno, keys=keys)
        try:
            at = await self._asked(request.key, json.dumps([self._origin, seqno]).encode())
        except BucketError as error:
            definite, why = not isinstance(error, OutcomeUnknown), str(error)
            self._log("failed", self._origin, seqno, keys=keys, why=why, definite=definite)
        else:
            self._log("acked", self._origin, seqno, keys=keys, at=[at])

    async def _read(self, key: int) -> None:
        began = trio.current_time()
        try:
            entries = await self._asked(key, b"?")
        except BucketError as error:
            self._log("failed", keys=[key], why=str(error), definite=True)
            return
        took = round(trio.current_time() - began, 6)
        self._log("got", key=key, took=took, length=len(entries), newest=entries[-1:])

    async def _asked(self, key: int, body: bytes) -> Any:
        (reply,) = await self._node.request(Request(body, f"k{key}"))
        return json.loads(reply)

    async def census(self, keys: int, within: float = LAST_LOOK_SECONDS) -> None:
        """Read each key, at the end. ``within``: seconds for all of them together; keys without an answer by then are
        missing."""
        found: dict[int, Any] = {}
        left = iter(range(keys))

        async def reader() -> None:
            for key in left:
                with contextlib.suppress(BucketError):
                    found[key] = await self._asked(key, b"?")

        # There is one wait for all keys, because without a quorum no member answers, and each key by itself would wait as long.
        with trio.move_on_after(within):
            async with trio.open_nursery() as nursery:
                for _ in range(min(keys, READS_MAX)):
                    nursery.start_soon(reader)
        owned = {str(key): found[key] for key in range(keys) if key in found}
        missing = [key for key in range(keys) if key not in found]
        alone = sum(row.slave is None for row in self._node.state.rows.values())
        self._log("census", owned=owned, missing=missing, alone=alone)

    # --- the administrator

    async def watch(self) -> None:
        """Give the administrator's orders as long as this member is the first of its view."""
        async with trio.open_nursery() as nursery:
            self._tasks = nursery
            while True:
                await trio.sleep(LOOK_SECONDS)
                channel = self._node.channel
                if self.awake and channel.view.coordinator == channel.address:
                    self._give_orders(nursery)

    def _give_orders(self, nursery: trio.Nursery) -> None:
        state = self._node.state
        if self._repairs:
            for bucket, row in state.rows.items():
                if row.slave is None and self._is_free(bucket):
                    nursery.start_soon(self._repair, bucket, row)
        if self._moves and self._upgrading is None and trio.current_time() >= self._next_move:
            self._next_move = trio.current_time() + 1 / self._moves
            whole = self._movable()
            if whole:
                nursery.start_soon(self._move, self._orders.choice(whole))

    def _movable(self) -> list[int]:
        rows = self._node.state.rows
        return [b for b, row in rows.items() if row.slave and self._is_free(b)]

    def _is_free(self, bucket: int) -> bool:
        """Return whether no order for the bucket is under way."""
        return bucket not in self._ordered and bucket != self._upgrading

    def standing(self) -> dict[str, Any]:
        """Return the components of all members, as far as this member knows: ``pairs`` of master and slave, and members
        with ``managers`` and ``indices`` in the order of the view."""
        state, node = self._node.state, self._node
        copies = index_copies(node.router.port, node.machine.settings)
        return {
            "pairs": [[_name(row.master), _name(row.slave)] for row in state.rows.values()],
            "managers": [_name(manager.cep) for manager in state.managers],
            "indices": [_name(cep) for cep in copies],
        }

    def begin_move(self) -> None:
        """Order a move as soon as there is a bucket with both copies and a place for one."""
        self._tasks.start_soon(self._move_one)

    def begin_upgrade(self, frm: str, to: str) -> None:
        """Order all buckets of one member's manager to another's."""
        self._tasks.start_soon(self._upgrade, frm, to)

    async def _move_one(self) -> None:
        while not (whole := self._movable()):  # noqa: ASYNC110 - rarely more than once
            await trio.sleep(LOOK_SECONDS)
        await self._move(self._orders.choice(whole))

    async def _upgrade(self, frm: str, to: str) -> None:
        node, number = self._node, 0

        def begins(row: BucketRow) -> None:
            nonlocal number
            number += 1
            self._upgrading = row.bucket
            self._moving(row, to, True, number, of)

        self._upgrading = -1
        try:
            ends = node.manager_at(f"m/{frm}"), node.manager_at(f"m/{to}")
            of = sum(row.role_of(ends[0]) is not None for row in node.state.rows.values())
            done = await move_all(node, *ends, before_move=begins)
            for bucket in done.moved:
                self._log("ordered", bucket=bucket)
            for bucket, why in done.refused.items():
                self._log("ordered", bucket=bucket, why=why)
        except (BucketError, BucketsClosed) as error:
            self._log("ordered", bucket=None, why=str(error))
        finally:
            self._upgrading = None

    def _moving(
        self, row: BucketRow, target: str, upgrade: bool = False, number: int = 1, of: int = 1
    ) -> None:
        self.on_move(
            **self.standing(),
            master=_name(row.master),
            slave=_name(row.slave),
            target=target,
            took=self._took,
            upgrade=upgrade,
            number=number,
            of=of,
        )

    async def _repair(self, bucket: int, row: BucketRow) -> None:
        others = [m.cep for m in self._node.managers if m.cep != row.master]
        if others:
            cep = others[bucket % len(others)]
            await self._order(bucket, lambda: self._node.recreate_bucket(cep, bucket=bucket))

    async def _move(self, bucket: int) -> None:
        row, node = self._node.state.rows[bucket], self._node
        free = [m.cep for m in node.managers if m.cep not in (row.master, row.slave)]
        if not free or row.slave is None:
            return
        to, slave = self._orders.choice(free), row.slave
        self._moving(row, _name(to))
        if self._orders.random() < 0.5:
            await self._order(
                bucket, lambda: node.migrate_master_bucket(row.master, to, bucket=bucket)
            )
        else:
            await self._order(bucket, lambda: node.migrate_slave_bucket(slave, to, bucket=bucket))

    async def _order(self, bucket: int, order: Callable[[], Any]) -> None:
        self._ordered[bucket] = None
        try:
            began = trio.current_time()
            await order()
            self._took = trio.current_time() - began
            self._log("ordered", bucket=bucket)
        except (BucketError, BucketsClosed) as error:
            self._log("ordered", bucket=bucket, why=str(error))
        finally:
            del self._ordered[bucket]


def _name(cep: Cep | None) -> str:
    """Return the member's name: components are called ``m/NAME`` and ``i/NAME``."""
    return "" if cep is None else cep.component.partition("/")[2]
