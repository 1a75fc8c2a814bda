"""BucketNode: the components of one member, on a channel.

One task reads the channel and feeds views and messages to the machine; a second one lets time pass. posts.py sends the
machine's messages.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import trio

from jgroups_py.buckets.ends import Cep, ProxyId
from jgroups_py.buckets.errors import (
    BucketError,
    BucketsClosed,
    Busy,
    OutcomeUnknown,
    Refused,
    Unavailable,
)
from jgroups_py.buckets.machine import BucketMachine
from jgroups_py.buckets.messages import (
    BucketRow,
    Entries,
    EntryChange,
    IndexState,
    KnownManager,
    NodeStatistics,
    Replies,
    RequestId,
)
from jgroups_py.buckets.plugin import Plugin, Request
from jgroups_py.buckets.port import index_copies
from jgroups_py.buckets.posts import Posts
from jgroups_py.buckets.proxies import ProxyManager
from jgroups_py.buckets.router import Router
from jgroups_py.buckets.statistics import (
    InstanceStatistics,
    counts_of_pairs,
    samples_of,
    samples_of_pairs,
)
from jgroups_py.channel.channel import Channel
from jgroups_py.channel.metrics import Sample
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.lost import Excluded
from jgroups_py.values.message import MessageType
from jgroups_py.values.view import MergeView, View

T = TypeVar("T")
_HERE = "the node itself"


class BucketNode:
    """A member of an instance, with copies or only as a client. Made by ``open_buckets``."""

    def __init__(
        self, channel: Channel, machine: BucketMachine, plugin: Plugin, nursery: trio.Nursery
    ) -> None:
        self._channel, self._machine, self._plugin = channel, machine, plugin
        self._posts = Posts(channel, nursery)
        machine.outbox_bytes = lambda: self._posts.waiting
        self._addresses: dict[str, Address] = {}
        self.on_view: Callable[[View], None] | None = None
        """Called with each view after the machine has taken it."""
        self._changed = trio.Event()
        self._timer = trio.CancelScope()
        self._entered = 0
        self._pairs: tuple[Any, dict[str, int]] = (None, {})
        self._inside = _Inside(self._enter, self._leave)
        self._waiting: dict[_Waiter[Any], None] = {}
        self._closed = False
        self._routers = itertools.cycle(machine.routers.values())
        self.router.index.on_rows.append(self._tell)
        self._here = self.proxies.create_proxy(_HERE, lambda body: None)

    # --- for users

    @property
    def channel(self) -> Channel:
        return self._channel

    @property
    def plugin(self) -> Plugin:
        """Return the application."""
        return self._plugin

    @property
    def machine(self) -> BucketMachine:
        """Return the components, for reading only; changes go through the node."""
        return self._machine

    @property
    def router(self) -> Router:
        """Return the first router."""
        return next(iter(self._machine.routers.values()))

    @property
    def proxies(self) -> ProxyManager:
        return next(iter(self._machine.proxies.values()))

    @property
    def state(self) -> IndexState:
        """Return the decided state of the index that this member knows: rows, index copies, managers."""
        return self.router.index.state

    async def wait_ready(self) -> None:
        """Wait until the instance exists and this member knows where its buckets are."""
        await self.wait_until(lambda state: state.version > 0)

    async def wait_until(self, holds: Callable[[IndexState], bool]) -> IndexState:
        """Wait for a state of the index, such as one without pairs that lack a slave."""
        while not holds(self.state):
            self._check_open()
            await self._changed.wait()
        return self.state

    async def request(self, request: Request, proxy: ProxyId | None = None) -> list[bytes]:
        """Let an entry work on a request, and return its replies to the requestor. If the caller is cancelled, the
        request may be carried out or not.

        Args:
            proxy: the requestor, whose replies are returned and delivered; by default the node itself.

        Raises:
            NotSensible, BadKey, Busy, Unavailable: no entry has seen the request.
            EntryFailed: the entry raised. Nothing was changed.
            OutcomeUnknown: no answer came in time. It may have been carried out or not.
            BucketsClosed: the node is closed. Nothing was sent.
        """
        requestor = proxy or self._here
        replies = await self._answered(
            lambda router, end: router.route_a_request(request, requestor, end)
        )
        return [body for to, body in replies if to == requestor]

    async def put_entry(self, change: EntryChange) -> None:
        """Put an entry from ``next_entries`` or an archive; it replaces the present entry of its key.

        Raises:
            EntryFailed: the plug-in does not take it. Nothing was changed.
            Others: as ``request``.
        """
        await self._answered(lambda router, end: router.put_entry(change, end))

    async def next_entries(
        self, bucket: int, after: str, size: int
    ) -> tuple[list[EntryChange], bool]:
        """Return saved entries of a bucket after this key, in order, about ``size`` bytes; and whether there are more.
        Entries created after the first page may be missing.

        Raises:
            Unavailable: the bucket has no master for ``request_timeout``.
            BucketsClosed: the node is closed.
        """
        settings = self._machine.settings
        with trio.move_on_after(settings.request_timeout):
            while True:
                found = await self._page(self.state.rows[bucket], after, size)
                if not found.moved:
                    return found.changes, found.more
                await trio.sleep(settings.backoff_max)
        raise Unavailable(f"bucket {bucket} has no master for {settings.request_timeout:g} s")

    @trio.lowlevel.enable_ki_protection
    async def _page(self, row: BucketRow, after: str, size: int) -> Entries:
        self._check_open()
        waiter: _Waiter[Entries] = _Waiter()

        def paged(answer: Entries | None) -> None:
            waiter.end(answer or Entries(0, [], True, moved=True))

        with self._inside:
            self._machine.pager.ask(row, after, size, paged)
        return await self._wait(waiter)

    @trio.lowlevel.enable_ki_protection
    async def _answered(
        self, begin: Callable[[Router, Callable[[Replies | BucketError], None]], RequestId | None]
    ) -> Replies:
        self._check_open()
        if self._posts.waiting > self._machine.settings.outbox_bytes_max:
            self._machine.counts["outbox_full"] += 1
            raise Busy("outbox_bytes_max: other members take too little from this one")
        router = next(self._routers)
        waiter: _Waiter[Replies] = _Waiter()
        with self._inside:
            number = begin(router, waiter.end)
        try:
            return await self._wait(waiter)
        except trio.Cancelled:
            if number is not None:
                router.forget(number)
            raise

    def create_proxy(
        self,
        channel: Hashable,
        deliver: Callable[[bytes], None],
        *,
        static: str | None = None,
        attributes: Mapping[str, str] | None = None,
    ) -> ProxyId:
        """Make a proxy for a client of this member (CreateProxy): entries can send it messages. ``deliver`` is called with each one; it does not wait.

        Args:
            channel: stands for the way to the client; any value. A channel has one proxy at most.
            static: the name of a proxy that an administrator makes, and makes again after a failure, with a new id.
                Entries find it by its name, ``find_proxy(static=...)``.
            attributes: entries can find the proxy by them, with ``find_proxy``.

        Raises:
            Busy, Refused, BucketsClosed: there is no new proxy.
        """
        self._check_open()
        with self._inside:
            made = self.proxies.create_proxy(channel, deliver, static=static, attributes=attributes)
            if attributes or static is not None:
                self._machine.tell_findable()
        return made

    def delete_proxy(self, which: ProxyId | Hashable) -> bool:
        """Forget a proxy by its id or its channel (DeleteProxy). False: there is none."""
        with self._inside:
            found = self.proxies.delete_proxy(which)
            if found:
                self._machine.tell_findable()
        return found

    # --- for administrators

    def manager_at(self, where: str) -> Cep:
        """Return the bucket manager of this name or on this node. Raises Refused: there is none, or more than one."""
        found = [m.cep for m in self.state.managers if where in (m.cep.component, m.info.node)]
        if len(found) != 1:
            known = ", ".join(
                sorted(f"{m.cep.component} on {m.info.node}" for m in self.state.managers)
            )
            problem = "more than one bucket manager" if found else "no bucket manager"
            raise Refused(f"there is {problem} {where!r}; there are: {known or 'none'}")
        return found[0]

    @property
    def managers(self) -> list[KnownManager]:
        """Return the bucket managers that the index knows."""
        return self.state.managers

    async def migrate_master_bucket(
        self, frm: Cep, to: Cep, *, bucket: int | None = None, lock_first: bool = False
    ) -> BucketRow:
        """Move the master of ``bucket``, or any master, between two managers (MigrateMasterBucket). Return the new row.
        If the caller is cancelled, the move continues.

        Args:
            lock_first: lock the bucket while it is copied, as the seed does.

        Raises:
            Refused: nothing was changed.
            OutcomeUnknown: the master's manager is lost. The rows show the result.
        """
        router = self.router
        return await self._do(router.migrate_master_bucket, frm, to, bucket, lock_first)

    async def migrate_slave_bucket(
        self, frm: Cep, to: Cep, *, bucket: int | None = None, lock_first: bool = False
    ) -> BucketRow:
        """Move a slave, as ``migrate_master_bucket`` moves a master (MigrateSlaveBucket)."""
        return await self._do(self.router.migrate_slave_bucket, frm, to, bucket, lock_first)

    async def recreate_bucket(
        self, at: Cep, *, bucket: int | None = None, lock_first: bool = False
    ) -> BucketRow:
        """Create a missing slave at this manager (RecreateBucket). Result and errors as above."""

        def begin(ended: Callable[[BucketRow | BucketError], None]) -> None:
            self.router.recreate_bucket(at, ended, bucket=bucket, lock_first=lock_first)

        return await self._seen(await self._ask(begin))

    async def cancel_move(self, bucket: int) -> None:
        """Give up the move of this bucket. Once the index was asked, it decides, and the move may succeed. Raises
        Refused, OutcomeUnknown."""
        await self._ask(lambda ended: self.router.cancel(bucket, ended))

    async def _do(
        self, migrate: Any, frm: Cep, to: Cep, bucket: int | None, lock_first: bool
    ) -> BucketRow:
        return await self._seen(
            await self._ask(
                lambda ended: migrate(frm, to, ended, bucket=bucket, lock_first=lock_first)
            )
        )

    async def _seen(self, row: BucketRow) -> BucketRow:
        """Wait until this member knows the new row, because the next order builds on it. Give up at the time when
        another index copy would be asked."""
        with trio.move_on_after(self._machine.settings.ask_timeout):
            await self.wait_until(lambda state: state.rows[row.bucket].epoch >= row.epoch)
        return row

    async def _ask(
        self, begin: Callable[[Callable[[BucketRow | BucketError], None]], None]
    ) -> BucketRow:
        self._check_open()
        waiter: _Waiter[BucketRow] = _Waiter()
        with self._inside:
            begin(waiter.end)
        return await self._wait(waiter)

    async def create_index(self, name: str) -> None:
        """Become the index copy of this name, whose former holder has left (CreateIndex). Return when it is registered and has all rows.

        Raises:
            Refused: the name is not in the static set, or a member has this copy. Nothing was changed.
        """
        self._check_open()
        if name not in self._machine.settings.index_copies:
            known = ", ".join(self._machine.settings.index_copies)
            raise Refused(f"{name!r} is not one of the index copies: {known}")
        await self.wait_ready()
        holder = self.state.copies.get(name)
        said = index_copies(self.router.port, self._machine.settings)
        if any(cep.component == name for cep in said) or (
            holder is not None and holder.member in self._machine.members
        ):
            raise Refused(f"another member has the index copy {name!r}")
        with self._inside:
            index = self._machine.create_index(name)
            index.on_rows.append(self._tell)
        await self.wait_until(lambda state: name in index.state.copies)

    def statistics(self) -> Mapping[str, int]:
        """Return counters of this member; those of components begin with their name."""
        found = {
            f"{part.name}.{count}": value
            for part in self._machine.statistics().components
            for count, value in part.counts.items()
        }
        return found | {"outbox_bytes": self._posts.waiting}

    def samples(self) -> Iterator[Sample]:
        """Yield this member's counters for Prometheus, and the pairs of buckets as this member sees them."""
        machine, channel = self._machine, self._channel
        yield from samples_of([machine.statistics()], channel.cluster, channel.name)
        seen = self.state.version, machine.members
        if self._pairs[0] != seen:  # counting thousands of rows for each page would cost too much
            self._pairs = seen, counts_of_pairs(self.state.rows, machine.members)
        yield from samples_of_pairs(self._pairs[1], channel.cluster, channel.name)

    async def instance_statistics(
        self, *, buckets: bool = False, timeout: float = 3.0
    ) -> InstanceStatistics:
        """Return counters of all members at three levels (A23). Members that do not answer within ``timeout`` seconds
        are listed as missing.

        Args: buckets: with entries and requests of each copy, for a picture of all places.
        """
        self._check_open()
        waiter: _Waiter[InstanceStatistics] = _Waiter()

        def counted(nodes: list[NodeStatistics], missing: list[str]) -> None:
            waiter.end(InstanceStatistics(nodes, missing, self.state.rows))

        with self._inside:
            self._machine.census.ask(counted, buckets=buckets, timeout=timeout)
        return await self._wait(waiter)

    # --- the machine

    def _enter(self) -> None:
        """Begin a use of the machine: update its time."""
        self._machine.advance(trio.current_time())
        self._entered += 1

    def _leave(self) -> None:
        """End a use of the machine: send its messages, unless the use is nested in another use."""
        self._entered -= 1
        if not self._entered:
            self._flush()

    def _flush(self) -> None:
        machine, posts = self._machine, self._posts
        for member, data in machine.take():
            if member is not None:
                if member in self._addresses:
                    posts.send(data, self._addresses[member])
                continue
            # One by one, because members rely on the order of one member's messages.
            for name, address in self._addresses.items():
                if name != machine.member:
                    posts.send(data, address)
        due = machine.next_due
        if due is not None and due < self._timer.deadline:
            # A later deadline is not set: one useless wake-up is cheaper than setting it for each message.
            self._timer.deadline = due

    @trio.lowlevel.enable_ki_protection
    async def read(self) -> None:
        """Read the channel, as a task."""
        async for item in self._channel.batches():
            match item:
                case Batch(src=Address() as sender):
                    payloads = item.payloads
                    if item.type != MessageType.BYTES:  # no message of a component
                        payloads = [item.bytes_of(payload) for payload in payloads]
                    self._take(str(sender), payloads)
                case View():
                    self._on_view(item.members, merged=isinstance(item, MergeView))
                    if self.on_view is not None:
                        self.on_view(item)
                case Excluded():
                    # Others went on without this member. A merge brings it back.
                    self._on_view((self._channel.address,), merged=False)

    def _take(self, sender: str, payloads: Sequence[Any]) -> None:
        """Handle messages that came together. The machine's answers leave together, too."""
        with self._inside:
            for payload in payloads:
                self._machine.receive(sender, payload)

    def _on_view(self, members: tuple[Address, ...], *, merged: bool) -> None:
        self._addresses = {str(member): member for member in members}
        self._posts.view(members)
        with self._inside:
            self._machine.on_view(tuple(self._addresses), merged=merged)
        self._tell()

    @trio.lowlevel.enable_ki_protection
    async def tick(self) -> None:
        """Let time pass, as a task."""
        while True:
            with self._inside:
                pass
            due = self._machine.next_due
            self._timer = trio.CancelScope(deadline=math.inf if due is None else due)
            with self._timer:
                await trio.sleep_forever()

    # --- waiting

    async def _wait(self, waiter: _Waiter[T]) -> T:
        self._waiting[waiter] = None
        try:
            await waiter.done.wait()
        finally:
            del self._waiting[waiter]
        if isinstance(waiter.value, BucketError):
            raise waiter.value
        assert waiter.value is not None
        return waiter.value

    def _tell(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    def _check_open(self) -> None:
        if self._closed:
            raise BucketsClosed("the node is closed")

    def close(self) -> None:
        """End all waits."""
        self._closed = True
        for waiter in list(self._waiting):
            waiter.end(OutcomeUnknown("the node was closed"))
        self._tell()


class _Inside:
    """The block around a use of the machine. One object serves all uses."""

    __slots__ = ("_enter", "_leave")

    def __init__(self, enter: Callable[[], None], leave: Callable[[], None]) -> None:
        self._enter, self._leave = enter, leave

    def __enter__(self) -> None:
        self._enter()

    def __exit__(self, *error: object) -> None:
        self._leave()


class _Waiter(Generic[T]):
    """One task that waits for the end of a request."""

    def __init__(self) -> None:
        self.done = trio.Event()
        self.value: T | BucketError | None = None

    def end(self, value: T | BucketError) -> None:
        if not self.done.is_set():
            self.value = value
            self.done.set()
