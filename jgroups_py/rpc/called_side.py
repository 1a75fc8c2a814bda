"""CalledSide: serves the calls of others, and reads the channel for that.

The task that reads the channel serves requests where they stand in the stream. So a method that is not async sees the
group as it was when the request arrived (``Rpc.view``), and is done before the next item is looked at. Async methods
are started in that order and run side by side. Items that are no calls go to ``items``.

A request without items before it, for which that task waits, needs no task (arrived.py): it is served when the stack
has handed it up, and its reply leaves in the same turn.
"""

from __future__ import annotations

from contextvars import Context
from typing import Any

import trio

from jgroups_py.channel.channel import BatchItem, Channel
from jgroups_py.channel.tap import Tap
from jgroups_py.errors import JGroupsError
from jgroups_py.rpc import other_sites
from jgroups_py.rpc.arrived import ArrivedCalls
from jgroups_py.rpc.early import EarlyCalls
from jgroups_py.rpc.items import Items
from jgroups_py.rpc.limits import RpcCounters, RpcLimits
from jgroups_py.rpc.serving import ID, OutgoingValues, ServedCall, Server
from jgroups_py.rpc.serving import OutgoingReply as Sending
from jgroups_py.rpc.warned import wait_warned
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.message import MessageType
from jgroups_py.values.view import View
from jgroups_py.wire.headers import CorrelatorHeader

TURNED_AWAY_CAUSES = {
    "not_member": "a call of somebody who is not in the view and did not join soon after",
}


class CalledSide:
    """See the module's docstring. ``has_async``: whether ``server`` has async methods."""

    def __init__(
        self,
        channel: Channel,
        server: Server,
        limits: RpcLimits,
        counters: RpcCounters,
        *,
        has_async: bool,
        in_order: bool,
    ) -> None:
        self._channel = channel
        self._outbox = channel.outbox
        self._driver = channel.driver
        self._site = None if channel.relay is None else channel.relay.site
        self._server = server
        self._limits = limits
        self._counters = counters
        self._has_async = has_async
        self._in_order = in_order
        self._early = EarlyCalls(limits.early_max, limits.early_bytes_max, limits.early_wait)
        self._arrived = ArrivedCalls(channel.stack.machine, self._serve_arrived)
        self._slots = trio.lowlevel.ParkingLot()  # tasks that wait for handlers_max
        self._owed: list[Sending] = []  # replies to arrived calls that found no room
        self._ended = False
        self._nursery: trio.Nursery
        self._context: Context
        """The context variables of methods: those of the task that opened the RPC, in any task."""
        self.handlers = 0
        """Async methods that run."""
        self.items = Items(channel.limits.receive_buffer_max, channel.give_back)
        self.view = channel.view
        """The view in which the request that is served now arrived."""

    async def run(self, tap: Tap) -> None:
        """Read the channel for ``tap``, serve requests, and put other items aside. It ends with the channel."""
        channel = self._channel
        self._context = trio.lowlevel.current_task().context
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            while not self._ended:
                try:
                    item = await channel.next_held(tap)
                except JGroupsError:
                    break  # ``ended`` has told every waiting task
                if isinstance(item, Batch) and is_call(item):
                    try:
                        await self._serve_or_keep(item)
                    finally:
                        channel.give_back(item)
                    continue
                if (
                    self._site is not None
                    and isinstance(item, Batch)
                    and other_sites.is_relayed(item)
                ):
                    try:
                        for is_cast, part in other_sites.parts(item, self._site):
                            await (self._serve(part) if is_cast else self._hand_on(part))
                    finally:
                        channel.give_back(item)
                    continue
                if isinstance(item, View):
                    self.view = item
                    for batch in self._early.view(item.members):
                        await self._serve(batch)
                await self._hand_on(item)
            nursery.cancel_scope.cancel()

    async def _hand_on(self, item: BatchItem) -> None:
        """Hand an item on to the application."""
        items = self.items
        items.put(item)
        if items.is_overfull:
            self._channel.abandon(f"{items.waiting} messages unread (receive_buffer_max)")
        if self._in_order:
            await items.until_read()

    async def _serve_or_keep(self, batch: Batch) -> None:
        """Serve a call of a member, and keep any other: the next view may have its caller."""
        if batch.src in self.view:
            await self._serve(batch)
            return
        if not len(self._early):
            self._nursery.start_soon(self._expire_early)
        self._refuse_early(self._early.take(batch, trio.current_time()))

    async def _expire_early(self) -> None:
        while (deadline := self._early.deadline) is not None:
            await trio.sleep_until(deadline)
            self._refuse_early(self._early.expire(trio.current_time()))

    def _refuse_early(self, batches: list[Batch]) -> None:
        for batch in batches:
            self._counters.strangers += len(batch)
            self._channel.turn_away("RPC", "not_member", batch.src, causes=TURNED_AWAY_CAUSES)

    async def _serve(self, batch: Batch) -> None:
        left = self._limits.turn_requests
        for one in self._server.read(batch):
            if type(one) is ServedCall and one.method.is_async:
                await self._slot()
            reply = self._reply_to(one)
            if reply is not None and not self._put_reply(reply):
                await self._send_reply(reply)
            left -= 1
            if not left:
                await trio.lowlevel.checkpoint()
                left = self._limits.turn_requests

    def _reply_to(self, one: ServedCall | Sending) -> Sending | None:
        """Run a plain method and return its reply. Start an async one, for which there is a slot."""
        if type(one) is not ServedCall:
            assert isinstance(one, Sending)
            return one
        if not one.method.is_async:
            return self._server.run(one)
        self.handlers += 1
        self._nursery.start_soon(self._handle, one)
        return None

    def arrive(self, batch: Batch) -> bool:
        """Take a call that can be served without the reading task. Return False if it must wait in the stream."""
        if not self._may_arrive(batch):
            return False
        self._arrived.add(batch)
        return True

    def _may_arrive(self, batch: Batch) -> bool:
        """Return whether a call can be served without the reading task: nothing stands before it, it comes from a member, and
        no limit would make that task wait."""
        if not self._channel.is_reader_idle or batch.src not in self.view or self._owed:
            return False
        count = self._arrived.count + len(batch)
        if self._has_async and self.handlers + count > self._limits.handlers_max:
            return False
        return count <= self._limits.turn_requests

    def _serve_arrived(self, batches: list[Batch]) -> None:
        if not self._ended:
            self._context.run(self._serve_without_waiting, batches)

    def _serve_without_waiting(self, batches: list[Batch]) -> None:
        alone = len(batches) == 1 == len(batches[0].payloads)
        for batch in batches:
            for one in self._server.serve(batch):
                if type(one) is OutgoingValues:
                    self._driver.answered += len(one.payloads)
                    self._answer(one, alone)
                    continue
                assert not isinstance(one, OutgoingValues)
                reply = self._reply_to(one)
                if reply is None:
                    continue
                dest, header, encoded, flags = reply
                payload, size, _, type_ = encoded
                if not (alone and self._send_reply_now(payload, size, dest, header, flags, type_)):
                    self._put_or_owe(reply)

    def _answer(self, values: OutgoingValues, alone: bool) -> None:
        """Send values, ``alone`` if it is the only reply of a step."""
        dest, header, payloads, flags = values
        if alone:
            payload = payloads[0]
            if self._send_reply_now(payload, len(payload), dest, header, flags, MessageType.BYTES):
                return
        if self._owed or not self._put_values(values):
            for reply in values.one_by_one():
                self._put_or_owe(reply)

    def _put_or_owe(self, reply: Sending) -> None:
        if self._owed or not self._put_reply(reply):
            if not self._owed:
                self._nursery.start_soon(self._send_owed)
            self._owed.append(reply)

    def _send_reply_now(
        self,
        payload: Any,
        size: int,
        dest: Address,
        header: CorrelatorHeader,
        flags: int,
        type: int,
    ) -> bool:
        """Give a reply to the stack, if nothing stands before it. Else return False."""
        stack = self._channel.stack
        if stack.closed:
            return False
        batch = self._outbox.alone(payload, size, dest, {ID: header}, flags, type)
        if batch is None:
            return False
        stack.send(batch)
        return True

    def _put_values(self, values: OutgoingValues) -> bool:
        """Put a run of replies, as ``_put_reply``."""
        sizes = list(map(len, values.payloads))
        each = sizes[0] if sizes.count(sizes[0]) == len(sizes) else -1
        try:
            return self._outbox.put_run(
                values.payloads,
                sum(sizes),
                values.dest,
                ID,
                values.header,
                flags=values.flags,
                beyond=self._limits.reply_buffer_max,
                each=each,
            )
        except JGroupsError:
            return True  # the channel has ended: no caller can be answered

    async def _send_owed(self) -> None:
        """Send the replies to arrived calls that found no room. Until then calls wait in the stream."""
        while self._owed:
            await self._send_reply(self._owed[0])
            del self._owed[0]

    async def _handle(self, invocation: ServedCall) -> None:
        """Run one async method."""
        try:
            value = await invocation.call()
        except Exception as error:
            reply = self._server.raised(invocation, error)
        else:
            reply = self._server.value(invocation, value)
        finally:
            self.handlers -= 1
            self._slots.unpark()
        if reply is not None and not self._put_reply(reply):
            await self._send_reply(reply)

    async def _slot(self) -> None:
        """Return when one more async method may run."""
        while self.handlers >= self._limits.handlers_max:
            self._counters.waits_handlers += 1
            why = f"{self.handlers} handlers run (handlers_max)"
            await wait_warned(self._channel, self._slots, self._limits.warn_after, why)

    async def _send_reply(self, reply: Sending) -> None:
        """Send a reply when there is room for it."""
        self._counters.waits_replies += 1
        while not self._put_reply(reply):
            await self._outbox.wait_turn()

    def _put_reply(self, reply: Sending) -> bool:
        """Put a reply without waiting for credit. Otherwise one slow caller would stop all others."""
        encoded = reply.encoded
        try:
            return self._outbox.put_headed(
                encoded.payload,
                encoded.size,
                reply.dest,
                ID,
                reply.header,
                flags=reply.flags,
                type=encoded.type,
                beyond=self._limits.reply_buffer_max,
            )
        except JGroupsError:
            return True  # the channel has ended: no caller can be answered

    # --- calls of the channel, through the Rpc

    def state_replaced(self, unread: list[Batch]) -> None:
        self.items.drop_multicasts()
        for batch in self._arrived.drop_multicasts() + unread:
            if is_call(batch):
                for reply in self._server.refuse(batch, "the member has just fetched the state"):
                    self._put_reply(reply)

    def end(self, error: Exception) -> None:
        self._ended = True
        self.items.end(error)


def is_call(batch: Batch) -> bool:
    """Return whether a batch is a request. ``Rpc.deliver`` has taken everything else under our header."""
    return isinstance(batch.headers.get(ID), CorrelatorHeader)
