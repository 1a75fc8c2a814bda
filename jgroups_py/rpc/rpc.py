"""Rpc: calls methods of other members of a channel's group, and serves their calls.

Calls of others, and the task that reads the channel, are in called_side.py. Replies do not wait in the stream: they go to
their callers as the stack hands them up.

All calls and replies of one turn of the loop leave together (outbox.py), so many callers cost little more than one. A
caller that calls again and again without others beside it has no calls to join, so its call leaves at once. Of tasks that
replies have woken together, the last one that calls sends the calls of all.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import trio

from jgroups_py.channel.channel import BatchItem, Channel, Item
from jgroups_py.channel.given import check_member, check_method
from jgroups_py.channel.outbox import OutboxRun
from jgroups_py.errors import (
    CallError,
    JGroupsError,
    NoAnswer,
    ReplyLost,
    Suspected,
    Unreachable,
)
from jgroups_py.rpc import other_sites
from jgroups_py.rpc.called_side import CalledSide
from jgroups_py.rpc.correlator import (
    CalledMember,
    CallOutcome,
    Correlator,
    OutcomeKind,
    PendingCall,
)
from jgroups_py.rpc.form import Encoded, Form, Unreadable
from jgroups_py.rpc.java import JavaForm
from jgroups_py.rpc.limits import RpcCounters, RpcLimits, RpcStatistics
from jgroups_py.rpc.methods import Method
from jgroups_py.rpc.ours import Codec, OurForm
from jgroups_py.rpc.replies import Answer, Raised, Reply
from jgroups_py.rpc.serving import ID, Server, is_ours
from jgroups_py.rpc.warned import wait_warned
from jgroups_py.stack.log_limit import LogLimit
from jgroups_py.stack.sizes import refuse_larger
from jgroups_py.values.address import UUID, Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.message import Flag, MessageType
from jgroups_py.values.view import View
from jgroups_py.wire.headers import CorrelatorHeader, CorrelatorType, MultiDestinationHeader

_BYTES = int(MessageType.BYTES)
_REPLY_KINDS = {CorrelatorType.RSP: OutcomeKind.VALUE, CorrelatorType.EXC_RSP: OutcomeKind.ERROR}


class _OpenRun(NamedTuple):
    """Calls to one member that leave at the end of this turn, as ``run``. ``first`` is the number of the first one in it."""

    dest: Address
    called: CalledMember
    run: OutboxRun
    first: int


class Rpc:
    """Made by ``open_rpc``. Any number of tasks may call; one may iterate."""

    def __init__(
        self,
        channel: Channel,
        methods: dict[str, Method],
        codec: Codec,
        limits: RpcLimits,
        *,
        in_order: bool,
    ) -> None:
        self._channel = channel
        self._outbox = channel.outbox
        self._driver = channel.driver
        self._stack = channel.stack
        self._site = None if channel.relay is None else channel.relay.site
        self._limits = limits
        self._counters = RpcCounters()
        self._correlator = Correlator(limits, self._counters)
        self._ours = OurForm(codec)
        self._forms: dict[int, Form] = {
            MessageType.BYTES: self._ours,
            MessageType.OBJECT: JavaForm(),
        }
        server = Server(
            methods,
            self._forms,
            channel.address,
            self._counters,
            self._trace,
            LogLimit(channel.driver.clock),
            channel.name_of,
            self._outbox.size_max,
        )
        self._called = CalledSide(
            channel,
            server,
            limits,
            self._counters,
            has_async=any(one.is_async for one in methods.values()),
            in_order=in_order,
        )
        self._items = self._called.items
        self._target_view = channel.view  # the view that _all_ours belongs to
        self._all_ours = all(map(is_ours, channel.view))
        self._callers = trio.lowlevel.ParkingLot()  # tasks that wait for pending_max
        self._waiting = 0  # tasks that wait for outcomes, or were woken and have not run since
        self._to_run = 0
        """Tasks that replies have woken and that have not run since. The last of them keeps the outbox's promise."""
        self._last_woken: trio.lowlevel.Task | None = None
        """The last of them, until it calls again."""
        self._one_by_one = False  # no other task waited when the last one began and ended
        self._open_run: _OpenRun | None = None
        self._held_back = 0  # tasks that wait for pending_max
        self._in_one_step = 0
        """Calls that were answered in the step that sent them, since other tasks could run."""
        self._steps_max = channel.driver.limits.watched_max
        self._error: Exception | None = None

    # --- reading properties

    @property
    def channel(self) -> Channel:
        """The channel that the calls use. Send messages on it, but do not read it."""
        return self._channel

    @property
    def view(self) -> View:
        """The view in which the request that is served now arrived. The channel's view may be newer."""
        return self._called.view

    def statistics(self) -> RpcStatistics:
        """Return the counters as they are now."""
        correlator = self._correlator
        return RpcStatistics(
            replace(self._counters), correlator.pending, correlator.held, self._called.handlers
        )

    def __repr__(self) -> str:
        return f"<Rpc of {self._channel.name} in {self._channel.cluster}>"

    # --- calling

    async def call(self, dest: Address, method: str, *args: Any, flags: int = 0) -> Any:
        """Call a method at one member, which may be this one, and return its value.

        For a time limit put the call into a cancel scope. A reply that comes later is dropped.

        Raises:
            RemoteError: the method raised.
            Unreachable, Refused: the method certainly did not run.
            Suspected, ReplyLost: the method may have run.
            ChannelClosed, Expelled, LocalProtocolError, TypeError: nothing was sent.
        """
        pending = None
        if not flags:
            begin = self._join if self._waiting else self._send_alone
            pending = begin(dest, method, args)
        try:
            if pending is None:
                pending = await self._begin(dest, method, args, flags)
            self._counters.calls += 1
            if self._waiting or not pending.outcomes or self._in_one_step >= self._steps_max:
                outcome = await self._outcome(pending)
            else:
                outcome = self._correlator.next_outcome(pending)
                self._one_by_one = True
        finally:
            if pending is not None and (pending.waiting or pending.outcomes):
                self._forget(pending)  # its outcome may have come when it was cancelled already
        if self._held_back:
            self._admit()
        if outcome.kind is OutcomeKind.VALUE and outcome.type == _BYTES:
            try:
                return self._ours.read_value(outcome.payload)
            except Unreadable:
                pass  # ``_read`` says so
        result = self._read(outcome)
        if isinstance(result, Answer):
            return result.value
        if isinstance(result, Raised):
            raise result.error
        raise result

    def _join(self, dest: Address, method: str, args: tuple[Any, ...]) -> PendingCall | None:
        """Put a call behind others to the same member that leave at the end of this turn. Return None if it cannot be such a call.

        Of calls that begin in one turn only the first takes the way of ``_begin``. This one has no header of its own.
        """
        open = self._open_run
        if open is None or dest != open.dest or type(dest) is not UUID or type(method) is not str:
            return None
        correlator, run = self._correlator, open.run
        called = open.called
        if correlator.is_full or called.next - open.first != len(run.payloads):
            return None
        payload = self._ours.request(method, args)
        most = self._outbox.size_max
        if (most is not None and len(payload) > most) or not self._outbox.put_next(run, payload):
            return None
        pending = correlator.call_next(called, dest)
        if self._last_woken is not None:
            self._last_has_called(called, run, pending)
        return pending

    def _last_has_called(self, called: CalledMember, run: OutboxRun, pending: PendingCall) -> None:
        """If all tasks that replies have woken have called again, send their calls at once and look for the answers. Do nothing while
        other answers of that member are under way: their calls may join."""
        if self._last_woken is not trio.lowlevel.current_task():
            return
        self._last_woken = None
        driver = self._driver
        if len(called.calls) == len(run.payloads) and driver.is_between_turns:
            driver.guarded(driver.turn)
            driver.watch(pending.is_answered)

    def _send_alone(self, dest: Address, method: str, args: tuple[Any, ...]) -> PendingCall | None:
        """Send a call at once and look for its answer, if calls come one after the other and nothing stands before it. Return None
        if it cannot be such a call: then it takes the way of ``_begin``, as every call does whose arguments are wrong."""
        if not self._one_by_one or self._waiting:
            return None
        driver, stack, outbox = self._driver, self._stack, self._outbox
        correlator = self._correlator
        if (
            outbox.buffered
            or type(dest) is not UUID
            or type(method) is not str
            or dest not in self._channel.view
            or self._error is not None
            or correlator.is_full
            or not driver.is_between_turns
            or stack.closed
        ):
            return None
        payload, size, flags, type_ = self._form_for(dest).write_request(method, args)
        most = outbox.size_max
        if most is not None and size > most:
            return None
        pending = correlator.call_one(dest)
        try:
            header = CorrelatorHeader(CorrelatorType.REQ, pending.id)
            batch = outbox.alone(payload, size, dest, {ID: header}, flags, type_)
            if batch is None:
                self._forget(pending)
                return None
            driver.send_at_once(stack.send, batch)
            if pending.outcomes or driver.watch(pending.is_answered):
                self._in_one_step += 1
        except BaseException:
            self._forget(pending)
            raise
        return pending

    async def _begin(
        self, dest: Address, method: str, args: tuple[Any, ...], flags: int
    ) -> PendingCall:
        """Send a call when there is room for it."""
        check_member(dest)
        check_method(method)
        form = self._form_for(dest)
        encoded = form.write_request(method, args)
        await self._room(dest, encoded.size)
        if dest not in self._channel.view:
            name = self._channel.name_of(dest)
            raise Unreachable(f"{name} is not in the view", dest)
        correlator = self._correlator
        pending = correlator.call_one(dest)
        header = CorrelatorHeader(CorrelatorType.REQ, pending.id)
        try:
            self._send_now(lambda: self._send(dest, header, encoded, flags))
            run = self._outbox.last_run
            if form is self._ours and run is not None and not flags:
                first = pending.id - len(run.payloads) + 1
                self._open_run = _OpenRun(dest, correlator.called(dest), run, first)
        except BaseException:
            self._forget(pending)
            raise
        return pending

    def call_all(
        self,
        method: str,
        *args: Any,
        dests: Iterable[Address] | Address | None = None,
        exclude: Iterable[Address] | Address = (),
        flags: int = 0,
    ) -> Replies:
        """Call a method at all members of the view, or at ``dests``, without ``exclude``:

            async for reply in rpc.call_all("add", 1, 2): ...

        One reply comes from each member, in the order of arrival; see replies.py. The call is sent when the first reply
        is asked for. You may stop early; replies that come later are dropped. A call to the whole group is one
        multicast, a call to ``dests`` is a message to each.
        """
        check_method(method)
        return Replies(self, method, args, _addresses(dests), _addresses(exclude) or (), flags)

    async def call_first(
        self,
        method: str,
        *args: Any,
        dests: Iterable[Address] | Address | None = None,
        exclude: Iterable[Address] | Address = (),
        flags: int = 0,
    ) -> Answer:
        """Call like ``call_all``, and return the first value.

        Raises:
            NoAnswer: every member raised, left, or was not there.
        """
        other: list[Reply] = []
        replies = self.call_all(method, *args, dests=dests, exclude=exclude, flags=flags)
        try:
            async for reply in replies:
                if isinstance(reply, Answer):
                    return reply
                other.append(reply)
        finally:
            replies.close()
        said = "; ".join(_said(self._channel, reply) for reply in other[:3]) or "nobody was called"
        definite = all(_error_of(reply).definite for reply in other)
        raise NoAnswer(f"{method}: no answer ({said})", tuple(other), definite=definite)

    async def cast(
        self,
        method: str,
        *args: Any,
        dests: Iterable[Address] | Address | None = None,
        exclude: Iterable[Address] | Address = (),
        flags: int = 0,
    ) -> None:
        """Call like ``call_all``, but without replies. Return when the call has room, as ``Channel.send`` does.

        Members of ``dests`` that are not in the view are left out. A member of another site (SiteUUID) stands for its
        whole site: all members there run the call (RELAY). Sites are sent to first. ``exclude`` has members of this
        group.

        Raises:
            Unreachable: ``dests`` has members of another site, and this site does not relay; nothing was sent.
            ChannelClosed, Expelled, LocalProtocolError: nothing was sent.
        """
        check_method(method)
        wanted, left_out = _addresses(dests), _addresses(exclude) or ()
        self._counters.casts += 1
        if wanted is not None:
            wanted, sites = other_sites.split(wanted, self._site)
            for site in sites:
                await self._cast_site(site, method, args, flags)
        if wanted is None:
            encoded = await self._request_to_all(method, args)
            self._send(None, _request(0, left_out), encoded, flags)
        else:
            for dest in wanted:
                if dest not in left_out:
                    encoded = self._form_for(dest).write_request(method, args)
                    await self._room(dest, encoded.size)
                    if dest in self._channel.view:
                        self._send(dest, CorrelatorHeader(CorrelatorType.REQ, 0), encoded, flags)
        if self._outbox.is_turn_over:
            await self._outbox.let_others_run()

    async def _cast_site(self, site: str, method: str, args: tuple[Any, ...], flags: int) -> None:
        request = self._forms[MessageType.BYTES].write_request(method, args)
        encoded = other_sites.wrapped(site, request)
        await self._room(None, encoded.size)
        relay = self._channel.relay
        if relay is None or not relay.status().relaying:
            raise Unreachable(f"{self._site} does not relay to {site}", self._channel.address)
        everybody = _request(0, self._channel.view.members)
        self._send(None, everybody, encoded, flags, relayed=True)

    async def _request_to_all(self, method: str, args: tuple[Any, ...]) -> Encoded:
        """Return the request, when there is room for it, in the form that the view of that moment needs."""
        while True:
            form = self._group_form()
            encoded = form.write_request(method, args)
            await self._room(None, encoded.size)
            if form is self._group_form():
                return encoded

    async def _room(self, dest: Address | None, size: int) -> None:
        """Wait for credit, and until fewer than ``pending_max`` calls are under way. Raise ``LocalProtocolError`` for a
        request too large for a packet; a request to this member itself needs none."""
        most = self._outbox.size_max
        if most is not None and dest != self._channel.address:
            refuse_larger(size, most)
        while self._correlator.is_full and self._error is None:
            self._counters.waits_pending += 1
            self._held_back += 1
            try:
                why = f"{self._limits.pending_max} calls are under way"
                await wait_warned(self._channel, self._callers, self._limits.warn_after, why)
            finally:
                self._held_back -= 1
        while self._error is None and not self._outbox.has_room(dest, size):
            await self._outbox.wait(dest, size)
        if self._error is not None:
            raise self._error

    def _send_now(self, send: Callable[[], None]) -> None:
        """Run ``send``. Its message leaves at once when calls come one after the other, otherwise with others' messages
        of this turn."""
        if self._one_by_one and not self._waiting:
            self._channel.driver.at_once(send)
        else:
            send()

    def _send(
        self,
        dest: Address | None,
        header: CorrelatorHeader,
        encoded: Encoded,
        flags: int,
        *,
        relayed: bool = False,
    ) -> None:
        """Send a payload for which there is room. All that found room in one turn may exceed the limit together."""
        if dest is None and not relayed:
            flags |= Flag.NO_RELAY  # a call is for this group, not for other sites
        if not self._outbox.put_headed(
            encoded.payload,
            encoded.size,
            dest,
            ID,
            header,
            flags=flags | encoded.flags,
            type=encoded.type,
            beyond=_ALWAYS,
        ):
            raise AssertionError("the outbox has no room beyond everything")

    async def _start(
        self,
        method: str,
        args: tuple[Any, ...],
        wanted: tuple[Address, ...] | None,
        exclude: tuple[Address, ...],
        flags: int,
    ) -> PendingCall:
        """Send a call to several members."""
        if wanted is None:
            encoded = await self._request_to_all(method, args)
            present = [m for m in self._channel.view if m not in exclude]
            pending = self._correlator.call_many(present)
            header = _request(pending.id, exclude)
            self._send_group(pending, {None: encoded} if present else {}, header, flags)
            return pending
        chosen = [m for m in dict.fromkeys(wanted) if m not in exclude]
        requests = {m: self._form_for(m).write_request(method, args) for m in chosen}
        for dest, encoded in requests.items():
            await self._room(dest, encoded.size)
        view = self._channel.view
        pending = self._correlator.call_many([m for m in chosen if m in view])
        for dest in chosen:
            if dest not in view:
                pending.add(CallOutcome(dest, OutcomeKind.UNREACHABLE))
        header = CorrelatorHeader(CorrelatorType.REQ, pending.id)
        sent = {dest: requests[dest] for dest in pending.waiting}
        self._send_group(pending, sent, header, flags)
        return pending

    def _send_group(
        self,
        pending: PendingCall,
        requests: Mapping[Any, Encoded],
        header: CorrelatorHeader,
        flags: int,
    ) -> None:
        def send() -> None:
            for dest, encoded in requests.items():
                self._send(dest, header, encoded, flags)

        try:
            self._send_now(send)
        except JGroupsError:
            self._forget(pending)
            raise
        self._counters.calls += 1

    def _forget(self, pending: PendingCall) -> None:
        self._correlator.forget(pending)
        self._admit()

    def _admit(self) -> None:
        """Let the next call be sent, because one is over."""
        if self._callers and not self._correlator.is_full:
            self._callers.unpark()

    async def _outcome(self, pending: PendingCall) -> CallOutcome:
        """Wait for and return the next outcome of a call. Only one task may wait for a call."""
        others = self._waiting
        task = None
        self._waiting += 1
        try:
            if self._in_one_step >= self._steps_max and pending.outcomes:
                self._in_one_step = 0
                await trio.lowlevel.checkpoint()
            while not pending.outcomes:
                task = trio.lowlevel.current_task()
                pending.wake = partial(trio.lowlevel.reschedule, task)

                def abort(_: object) -> trio.lowlevel.Abort:
                    pending.wake = None
                    return trio.lowlevel.Abort.SUCCEEDED

                await trio.lowlevel.wait_task_rescheduled(abort)
            outcome = self._correlator.take(pending)
        finally:
            self._waiting -= 1
            if pending.woken:
                pending.woken = False
                self._to_run -= 1
                if not self._to_run:
                    self._outbox.keep_promise()
                    self._last_woken = task
            self._one_by_one = not (others or self._waiting)
        assert outcome is not None
        return outcome

    def _read(self, outcome: CallOutcome) -> Reply:
        """Return the reply that the application gets for an outcome."""
        member = outcome.member
        try:
            if outcome.kind is OutcomeKind.VALUE:
                return Answer(member, self._form_of(outcome).read_value(outcome.payload))
            if outcome.kind is OutcomeKind.ERROR:
                return Raised(member, self._form_of(outcome).read_error(outcome.payload, member))
        except Unreadable as problem:
            self._counters.malformed += 1
            self._trace("malformed", {"src": str(member), "problem": str(problem)})
            return Raised(member, ReplyLost(f"the reply cannot be read: {problem}", member))
        name = self._channel.name_of(member)
        if outcome.kind is OutcomeKind.SUSPECTED:
            return Suspected(f"{name} left or crashed before it answered", member)
        if outcome.kind is OutcomeKind.UNREACHABLE:
            return Unreachable(f"{name} is not in the view", member)
        if self._error is None:
            return Raised(member, ReplyLost("there was no room (replies_max)", member))
        lost = ReplyLost(f"{self._error} before {name} answered", member)
        lost.__cause__ = self._error
        return Raised(member, lost)

    def _form_of(self, outcome: CallOutcome) -> Form:
        form = self._forms.get(outcome.type)
        if form is None:
            raise Unreadable(f"a message of type {outcome.type} is no reply")
        return form

    def _form_for(self, member: Address) -> Form:
        return self._forms[MessageType.BYTES if is_ours(member) else MessageType.OBJECT]

    def _group_form(self) -> Form:
        """Return the form of a multicast. Every member must read it, so one Java member decides the form."""
        view = self._channel.view
        if view is not self._target_view:
            self._target_view = view
            self._all_ours = all(map(is_ours, view))
        return self._forms[MessageType.BYTES if self._all_ours else MessageType.OBJECT]

    # --- views and messages

    def __aiter__(self) -> AsyncIterator[Item]:
        return self

    async def __anext__(self) -> Item:
        """Return the next View, Message or State of the channel that is not RPC.

        Raises:
            ChannelClosed, Expelled: the channel has ended; everything that came before was handed out.
        """
        return await self._items.next()

    async def next_batch(self) -> BatchItem:
        """Return the next item like ``Channel.next_batch``."""
        return await self._items.next_batch()

    async def _run(self) -> None:
        """Read the channel and serve requests, until it ends."""
        await self._called.run(self)

    # --- calls of the channel (Tap)

    def deliver(self, batch: Batch) -> bool:
        """Take replies, and requests that need not wait in the stream."""
        header = batch.headers.get(ID)
        if header is None:
            return False
        if not isinstance(header, CorrelatorHeader) or header.correlator_id != ID:
            self._drop(batch, "not a header of a call, or for another correlator")
            return True
        kind = _REPLY_KINDS.get(header.type)
        lowest = 0 if kind is None else 1
        if batch.src is None or not lowest <= header.request_id < _NUMBER_MAX:
            self._drop(batch, f"the number {header.request_id}")
        elif kind is None:
            return self._called.arrive(batch)
        else:
            woken = self._correlator.replied(
                batch.src, kind, header.request_id, batch.payloads, batch.type, batch.length
            )
            if woken:
                self._to_run += woken
                self._outbox.is_promised = True
        return True

    def view_changed(self, view: View) -> None:
        self._open_run = None
        self._correlator.view_changed(view.members)
        self._admit()

    def excluded(self, gone: tuple[Address, ...]) -> None:
        """Give up the answers of members that are gone: they may have dropped them with the connection."""
        self._open_run = None
        left = tuple(m for m in self._channel.view if m not in gone)
        self._correlator.view_changed(left)
        self._admit()

    def state_replaced(self, unread: list[Batch]) -> None:
        self._called.state_replaced(unread)

    def ended(self, error: Exception) -> None:
        if self._error is not None:
            return
        self._error = error
        self._open_run = None
        self._correlator.end()
        self._callers.unpark_all()
        self._called.end(error)

    def _drop(self, batch: Batch, problem: str) -> None:
        self._counters.malformed += len(batch)
        self._trace("malformed", {"src": str(batch.src), "problem": problem})

    def _trace(self, what: str, details: dict[str, Any]) -> None:
        machine = self._channel.stack.machine
        if machine.trace is not None:
            machine.trace(machine.now, machine.name, "RPC", what, details)

    def reading(self) -> tuple[object, int]:
        """Return a value that changes when the application reads views and messages. Calls are served whether it reads
        or not."""
        return self._items.position, self._items.waiting

    def unread(self) -> list[BatchItem]:
        """Remove and return unread items. The channel hands it out."""
        return self._items.clear()


class Replies:
    """The replies of ``Rpc.call_all``. Iterate once. The call is forgotten at ``close``, or when this object is freed."""

    def __init__(
        self,
        rpc: Rpc,
        method: str,
        args: tuple[Any, ...],
        dests: tuple[Address, ...] | None,
        exclude: tuple[Address, ...],
        flags: int,
    ) -> None:
        self._rpc = rpc
        self._what = (method, args, dests, exclude, flags)
        self._pending: PendingCall | None = None
        self._closed = False

    def __aiter__(self) -> Replies:
        return self

    async def __anext__(self) -> Reply:
        """Return the next reply.

        Raises:
            ChannelClosed, Expelled, LocalProtocolError: nothing was sent.
        """
        rpc = self._rpc
        if self._closed:
            raise StopAsyncIteration
        if self._pending is None:
            self._pending = await rpc._start(*self._what)
        if self._pending.done:
            self.close()
            raise StopAsyncIteration
        outcome = await rpc._outcome(self._pending)
        if not self._pending.waiting:
            rpc._admit()
        return rpc._read(outcome)

    def close(self) -> None:
        """Forget the call. Later replies are dropped."""
        self._closed = True
        pending, self._pending = self._pending, None
        if pending is not None and not pending.done:
            self._rpc._forget(pending)

    def __del__(self) -> None:
        self.close()


_ALWAYS = 1 << 62
_NUMBER_MAX = 1 << 62
"""Counting never reaches numbers from here on."""


def _addresses(given: Iterable[Address] | Address | None) -> tuple[Address, ...] | None:
    if given is None:
        return None
    members = (given,) if isinstance(given, Address) else tuple(given)
    for member in members:
        check_member(member)
    return members


def _request(number: int, exclude: tuple[Address, ...]) -> CorrelatorHeader:
    if exclude:
        return MultiDestinationHeader(CorrelatorType.REQ, number, excluded=exclude)
    return CorrelatorHeader(CorrelatorType.REQ, number)


def _error_of(reply: Reply) -> CallError:
    if isinstance(reply, Raised):
        return reply.error
    assert isinstance(reply, CallError)
    return reply


def _said(channel: Channel, reply: Reply) -> str:
    return f"{channel.name_of(reply.member)}: {_error_of(reply)}"
