"""Channel: one member of one group. Users send, read one ordered stream of views and messages, and fetch state.

    async with open_channel("udp.xml", cluster="demo", name="A") as channel:
        await channel.send(b"hello everyone")
        async for item in channel:
            match item:
                case View(members=members): ...
                case Message(sender=sender, payload=payload): ...
                case Excluded(lost=lost): ...     # the others went on without us

Messages sent while the loop was busy leave as runs, one run per destination and turn. So batching needs no
timer. Taking an item from the stream gives flow-control credit back to its sender, so a slow reader slows
its senders. Nothing runs behind the user's back: the task that reads makes the state for a joiner when it
reaches the request.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import trio

from jgroups_py.channel.asked_state import AskedState
from jgroups_py.channel.exclusions import Exclusions, in_words
from jgroups_py.channel.listeners import UserFunctions
from jgroups_py.channel.outbox import Outbox, Payload
from jgroups_py.channel.state import StateGiver
from jgroups_py.channel.stream import ItemStream, Iterated
from jgroups_py.channel.values import ChannelLimits, ChannelStatistics, State
from jgroups_py.channel.view_waits import ViewWaits
from jgroups_py.channel.waiting import WaitingSends
from jgroups_py.channel.watch import WAIT_SECONDS
from jgroups_py.errors import (
    ChannelClosed,
    Expelled,
    JoinError,
    LocalProtocolError,
)
from jgroups_py.stack.doorkeeper import Doorkeeper, Source
from jgroups_py.stack.log_limit import LogLimit
from jgroups_py.stack.raised import loggable
from jgroups_py.stack.sizes import message_max
from jgroups_py.stack.stack import StackLog
from jgroups_py.values.address import UUID, Address, IpAddress
from jgroups_py.values.batch import Batch, Credit
from jgroups_py.values.events import (
    Consumed,
    Disconnected,
    Event,
    Exclude,
    Expel,
    Failed,
    FlowBlocked,
    FlowOpened,
    GetPhysical,
    GetState,
    StateFailed,
    StateReady,
    StateReceived,
    StateRequested,
    ViewChange,
)
from jgroups_py.values.lost import Excluded, lost_of
from jgroups_py.values.message import Message
from jgroups_py.values.turned_away import TurnedAway
from jgroups_py.values.view import View

if TYPE_CHECKING:
    from jgroups_py.channel.relay import RelayControl
    from jgroups_py.channel.state import StateProvider
    from jgroups_py.channel.tap import Tap
    from jgroups_py.driver import Driver
    from jgroups_py.stack.machine import Trace
    from jgroups_py.stack.stack import Stack

_log = logging.getLogger("jgroups_py.channel.channel")


Item = View | Message | State | Excluded
BatchItem = View | Batch | State | Excluded

_READ_BY_TAP = "this channel is read by the RPC that is open on it: iterate that"


class Channel:
    """A member of a group. Made by ``open_channel``; used by one reading and many sending tasks."""

    def __init__(
        self,
        driver: Driver,
        limits: ChannelLimits,
        *,
        state: StateProvider | None = None,
    ) -> None:
        self._driver = driver
        self._limits = limits
        self._stack: Stack
        self._stream = ItemStream(limits.receive_buffer_max)
        self._view: View | None = None
        self._waits = ViewWaits(
            lambda: self.view,
            lambda: self._error,
            self.name_of,
            lambda view: f"the view of {self.name} is {view.named(self._stack.names)}",
        )
        self._view_watch = self._waits.watch
        self._error: Exception | None = None
        self._joined = trio.Event()
        self._disconnected = trio.Event()
        self._disconnecting = False
        self._discarding = False
        self._outbox = Outbox(limits, driver.wake, self._warn_waiting)
        self._waiting = WaitingSends(self.warn, lambda: self.reading()[1])
        # Receiving: the rest of the batch that is being read message by message.
        self._rest: Batch | None = None
        self._rest_index = 0
        self._credits: list[Credit] = []
        self._received = 0
        self._exclusions = Exclusions()
        self._tap: Tap | None = None
        self._take_at_once: Callable[[Batch], bool] | None = None
        limit = LogLimit(driver.clock)
        self._listeners = UserFunctions(self.warn, limit)
        self._giver = StateGiver(state, limits, self.warn, limit)
        self._asked = AskedState(self.name_of)
        self._doorkeepers: dict[str, Doorkeeper] = {}
        self.more_metrics: list[Callable[[], Iterable[Any]]] = []
        """Functions of blocks on top that return Samples for the page of ``metrics``."""

    # --- reading properties

    @property
    def name(self) -> str:
        """The logical name of this member."""
        return self._stack.name

    @property
    def cluster(self) -> str:
        return self._stack.cluster

    @property
    def address(self) -> UUID:
        """The address of this member; new each time a channel is opened."""
        return self._stack.address

    @property
    def view(self) -> View:
        """The newest view of the stack; the stream may still hold messages from before it."""
        assert self._view is not None, "the channel was not opened with open_channel"
        return self._view

    @property
    def physical_address(self) -> IpAddress | None:
        """The network address at which this member can be reached."""
        address = self._stack.ask(GetPhysical())
        assert address is None or isinstance(address, IpAddress)
        return address

    @property
    def stack(self) -> Stack:
        """The protocols, for tools and tests."""
        return self._stack

    @property
    def driver(self) -> Driver:
        """The driver that runs the stack, for tools and tests."""
        return self._driver

    @property
    def relay(self) -> RelayControl | None:
        """The state and the operations of RELAY; None if the stack has no RELAY."""
        if not any(protocol.name == "RELAY" for protocol in self._stack.protocols):
            return None
        from jgroups_py.channel.relay import RelayControl
        from jgroups_py.protocols.relay.protocol import RELAY

        protocol = self._stack.find(RELAY)
        assert protocol is not None
        return RelayControl(self._stack, protocol, self._driver)

    def name_of(self, member: Address | None) -> str:
        """Return the logical name of a member; its address as text where the name is not known."""
        return self._stack.name_of(member)

    def statistics(self) -> ChannelStatistics:
        """Return the counters as they are now."""
        outbox = self._outbox
        protocols = {k: MappingProxyType(v) for k, v in self._stack.statistics().items()}
        return ChannelStatistics(
            outbox.sent,
            outbox.sent_bytes,
            self._received,
            self._stream.length,
            outbox.buffered,
            outbox.waits,
            self._stream.merged_views,
            self._exclusions.times,
            self._exclusions.lost,
            MappingProxyType(protocols),
            MappingProxyType(self._driver.statistics()),
            self._giver.failures,
            self._listeners.trace_failures,
            MappingProxyType(dict(self._stack.machine.turned_away)),
            self._listeners.turned_away_failures,
        )

    def __repr__(self) -> str:
        return f"<Channel {self.name} in {self.cluster}>"

    # --- waiting for others

    async def wait_view(
        self, wanted: int | Callable[[View], bool], *, timeout: float | None = WAIT_SECONDS
    ) -> View:
        """Wait until the newest view is as ``wanted``, and return it.

        Nothing is taken from the stream. A view that is replaced before this task runs is not seen.

        Args:
            wanted: the exact number of members, or a function of the view that returns whether it is the
                wanted one.
            timeout: seconds; None waits without a limit.

        Raises:
            WaitTimeout: no such view came in time. The text has the newest view.
            ChannelClosed, Expelled: the channel has ended.
        """
        return await self._waits.view(wanted, timeout)

    async def wait_members(
        self, wanted: int | Iterable[str], *, timeout: float | None = WAIT_SECONDS
    ) -> View:
        """Wait until at least the ``wanted`` members are in the view, and return the view.

        Nothing is taken from the stream.

        Args:
            wanted: the least number of members, this one included, or the logical names of members.
            timeout: seconds; None waits without a limit.

        Raises:
            WaitTimeout: they did not all come in time. The text names the missing members.
            ChannelClosed, Expelled: the channel has ended.
        """
        return await self._waits.members(wanted, timeout)

    # --- sending

    async def send(
        self,
        payload: Payload,
        to: Address | None = None,
        *,
        flags: int = 0,
        loopback: bool = True,
    ) -> None:
        """Send to the group, or to one member.

        The call returns when the payload has room in the send buffer, not when it has arrived. It waits for credit.
        Other tasks run while it waits, and after every ``turn_bytes`` bytes (``ChannelLimits``).

        Raises:
            ChannelClosed, Expelled: nothing was sent.
            LocalProtocolError: an unknown flag, or a payload too large for a packet in a stack without FRAG2; nothing
                was sent.
            TypeError: ``to`` is no member's address, or the payload is not bytes; nothing was sent.
        """
        outbox = self._outbox
        while not outbox.put(payload, to, flags, loopback):
            await outbox.wait(to, len(payload))
        if outbox.is_turn_over:
            await outbox.let_others_run()

    def send_nowait(
        self,
        payload: Payload,
        to: Address | None = None,
        *,
        flags: int = 0,
        loopback: bool = True,
    ) -> None:
        """Send like ``send``, but raise trio.WouldBlock and send nothing where ``send`` would wait."""
        if not self._outbox.put(payload, to, flags, loopback):
            raise trio.WouldBlock

    def send_at_once(
        self,
        payload: Payload,
        to: Address | None = None,
        *,
        flags: int = 0,
        loopback: bool = True,
    ) -> bool:
        """Send like ``send``, and hand the message to the network before this call returns, or at the end of the stack's step if
        one runs. Return False if ``send`` would wait; nothing was sent then.

        It is for a message that is large enough already: it waits for no other one of this turn of the loop.
        """
        was_put = False

        def put() -> None:
            nonlocal was_put
            was_put = self._outbox.put(payload, to, flags, loopback)

        self._driver.at_once(put)
        return was_put

    async def send_many(
        self,
        payloads: Iterable[Payload],
        to: Address | None = None,
        *,
        flags: int = 0,
        loopback: bool = True,
    ) -> None:
        """Send all payloads in order. This is cheaper than sending one by one. When the call raises, some of them may
        have been sent."""
        await self._outbox.put_many(payloads, to, flags, loopback)

    def _warn_waiting(self, to: Address | None, seconds: float) -> None:
        self._waiting.tell(self._stack, self._outbox, to, seconds)

    def _before_flush(self) -> None:
        """Hand down sent messages; called once per turn. Credits of read ones may let blocked ones go, so they come first then."""
        stack = self._stack
        if self._view_watch.count:
            self._view_watch.changed()  # a view has come, or the name of a member
        if stack.closed:
            return
        if self._outbox.blocked:
            self._give_credits()
        self._outbox.hand_down(stack.send)

    def _give_credits(self) -> None:
        """Give back credits of read messages."""
        if self._credits and not self._stack.closed:
            credits, self._credits = tuple(self._credits), []
            self._stack.event_down(Consumed(credits))

    # --- receiving

    def __aiter__(self) -> AsyncIterator[Item]:
        return self

    async def __anext__(self) -> Item:
        """Return the next View, Message or Excluded, or a State that was asked for.

        Raises:
            ChannelClosed, Expelled: the channel has ended, and all earlier items were delivered.
            LocalProtocolError: an RPC reads this channel; iterate the RPC (``async for item in rpc``).
        """
        while True:
            rest = self._rest
            if rest is not None:
                index = self._rest_index
                payload = rest.payloads[index]
                index += 1
                if index == len(rest.payloads):
                    self._rest = None
                    if rest.credits:
                        self.give_back(rest)
                else:
                    self._rest_index = index
                data = payload if type(payload) is bytes else rest.bytes_of(payload)
                assert rest.src is not None
                return Message(rest.src, data, rest.dest, rest.flags)
            if self._tap is not None:
                raise LocalProtocolError(_READ_BY_TAP)
            item = await self._next()
            if not isinstance(item, Batch):
                return item
            if item.payloads:
                self._rest, self._rest_index = item, 0

    def batches(self) -> AsyncIterator[BatchItem]:
        """Iterate the same stream with whole runs of messages. ``Batch.payloads`` are bytes or read-only
        views (other values where ``Batch.type`` is not BYTES)."""
        return Iterated(self.next_batch)

    async def next_batch(self) -> BatchItem:
        """Return the next item of ``batches``."""
        item = await self.next_held()
        if isinstance(item, Batch) and item.credits:
            self.give_back(item)
        return item

    async def next_held(self, tap: Tap | None = None) -> BatchItem:
        """Return the next item like ``next_batch``, for a block: the credits stay with the batch until ``give_back``."""
        if self._tap is not tap:
            raise LocalProtocolError(_READ_BY_TAP)
        rest = self._rest
        if rest is not None:
            self._rest = None
            return rest.slice(self._rest_index, len(rest.payloads))
        return await self._next()

    async def _next(self) -> BatchItem:
        stream = self._stream
        await trio.lowlevel.checkpoint_if_cancelled()
        while True:
            item = stream.take()
            if item is None:
                await stream.wait()
            elif type(item) is StateRequested:
                await self._provide_state(item)
            else:
                return item  # type: ignore[no-any-return]

    def take_at_once(self, take: Callable[[Batch], bool]) -> None:
        """Give ``take`` each run of messages in the step in which it arrives, if the reading task waits for the next item. It returns
        True if it has taken the run. Otherwise the run goes into the stream. ``take`` must not wait or run a user's
        code."""
        self._take_at_once = take

    def give_back(self, batch: Batch) -> None:
        """Give the flow-control credits of a consumed batch back to its sender."""
        if batch.credits:
            self._credits += batch.credits
            self._driver.want_rest(self._give_credits)

    # --- blocks on top

    @property
    def limits(self) -> ChannelLimits:
        """The limits that the channel was opened with."""
        return self._limits

    @property
    def outbox(self) -> Outbox:
        """Messages that were sent and not yet handed down. Blocks use it to send under headers of their own."""
        return self._outbox

    @property
    def error(self) -> Exception | None:
        """The error that ``send`` raises after the end of the channel; None before it."""
        return self._error

    @property
    def is_reader_idle(self) -> bool:
        """True when the reading task waits for the next item, and no other item waits."""
        return self._stream.is_waited_for

    def reading(self) -> tuple[object, int]:
        """Return a value that changes when the application reads, and the number of unread messages."""
        if self._tap is not None:
            position, unread = self._tap.reading()
            return position, unread + self._stream.length
        position = (self._stream.taken, self._rest_index)
        return position, self._stream.length + self._unread_rest()

    def waiting_since(self, now: float) -> float:
        """Return the time since which the oldest item may wait: when the last item was taken, or when the first item
        came to an empty stream. Return ``now`` if no item waits."""
        return self._stream.taken_at if len(self._stream) else now

    def attach(self, tap: Tap) -> None:
        """Let ``tap`` get all items first and be the only reader, until ``detach``."""
        if self._tap is not None:
            raise LocalProtocolError("an RPC is open on this channel already")
        if self._error is not None:
            raise self._error
        self._tap = tap

    def detach(self, unread: Iterable[BatchItem]) -> None:
        """Let the user read the channel again. ``unread`` items of the tap come first."""
        self._tap = None
        stream = self._stream
        rest = stream.clear()
        for item in [*unread, *rest]:
            if type(item) is not Batch:
                stream.put(item)
            elif self._discarding:
                self.give_back(item)
            else:
                stream.put_batch(item)

    def _unread_rest(self) -> int:
        return 0 if self._rest is None else len(self._rest.payloads) - self._rest_index

    # --- state

    async def fetch_state(
        self, frm: Address | None = None, *, timeout: float = 60.0
    ) -> AsyncIterator[bytes]:
        """Yield the state of ``frm`` in chunks; None asks the coordinator, or the member after it.

        Unread multicasts that the state contains are dropped from the stream. Messages that still follow in the stream
        are not in the state.

        Raises:
            StateTransferError: the state did not come; the channel still works, without the state.
        """
        if self._error is not None:
            raise self._error
        if self._asked.is_wanted:
            raise trio.BusyResourceError("a state is being fetched already")
        if frm == self.address or (frm is None and self.view.members == (self.address,)):
            raise LocalProtocolError("there is nobody else to ask for the state")
        self._asked.begin()
        try:
            self._step(lambda: self._stack.event_down(GetState(frm, timeout)))
            received = await self._asked.wait(frm, timeout, lambda: self._error)
        finally:
            self._asked.end()
        for start in range(0, len(received.payload), 65536):
            yield received.payload[start : start + 65536]

    def _on_state(self, event: StateReceived | StateFailed) -> None:
        if not self._asked.is_wanted:
            return
        if isinstance(event, StateReceived):
            first = None
            if self._asked.is_first and event.state is not None:
                first = State(event.provider, event.state)
            if self._rest is not None and self._rest.dest is None:
                self.give_back(self._rest)
                self._rest = None
            unread = self._stream.drop_multicasts(first)
            for batch in unread:
                self.give_back(batch)
            if self._tap is not None:
                self._tap.state_replaced(unread)
        self._asked.answered(event)

    async def _provide_state(self, request: StateRequested) -> None:
        try:
            answer = await self._giver.answer(request)
        except BaseException:  # cancelled: the next reader makes the state
            self._stream.put_back(request)
            raise
        self._answer_state(answer)

    def _step(self, step: Callable[[], None]) -> None:
        """Call into the stack from a task that is not the driver's. If a protocol raises, the driver ends with that error, and
        so does the block of ``open_channel``."""
        self._driver.guarded(step)
        self._driver.wake()

    def _answer_state(self, answer: StateReady) -> None:
        if not self._stack.closed:
            self._step(lambda: self._stack.event_down(answer))

    # --- calls of the stack (StackOwner)

    def deliver(self, batch: Batch) -> None:
        """Take a run of messages from the stack."""
        self._received += len(batch.payloads)
        if self._discarding or (self._tap is not None and self._tap.deliver(batch)):
            self.give_back(batch)
            return
        stream, take = self._stream, self._take_at_once
        if take is not None and stream.is_waited_for and take(batch):
            self.give_back(batch)
            return
        stream.put_batch(batch)
        if stream.is_overfull:
            waiting = f"{stream.length} messages, {stream.uncredited} bytes"
            self.abandon(f"the reader did not keep up: {waiting} unread (receive_buffer_max)")

    def notify(self, event: Event) -> None:
        """Take an event from the stack."""
        match event:
            case ViewChange(bare):
                view = bare.named(self._stack.names)
                self._view = view
                self._outbox.numbers.view_changed(view)
                self._stream.put(view)
                self._joined.set()
                self._waits.changed()  # a step of a waiting caller may have no turn (Driver.take_answer)
                if self._tap is not None:
                    self._tap.view_changed(view)
            case Exclude():
                self._on_excluded(event)
            case FlowBlocked():
                self._outbox.on_blocked(event)
            case FlowOpened(source, dest):
                self._outbox.on_opened(source, dest)
            case StateRequested():
                if self._discarding:
                    answer = StateReady(event.token, None, "the provider is leaving")
                    self._stack.machine.soon(lambda: self._answer_state(answer))
                else:
                    self._stream.put(event)
            case StateReceived() | StateFailed():
                self._on_state(event)
            case Disconnected():
                self._disconnected.set()
            case Expel(_, problem, runs):
                lost = lost_of(runs)
                self._exclusions.count(lost)
                self._end(Expelled(f"{problem}{in_words(lost, self.name_of, certain=False)}", lost))
            case Failed(problem):
                joined = self._joined.is_set()
                self._end(Expelled(problem) if joined else JoinError(problem))

    def listen(self, trace: Trace | None, turned_away: Callable[[TurnedAway], None] | None) -> None:
        """Call these functions of the user from now on."""
        machine = self._stack.machine
        if trace is not None:
            machine.trace = self._listeners.guarded_trace(trace)
        if turned_away is not None:
            machine.on_turned_away = self._listeners.guarded_listener(turned_away)

    def turn_away(
        self, by: str, cause: str, source: Source = None, *, causes: Mapping[str, str] = {}
    ) -> None:
        """Count and report that ``by``, a block on top of this channel, refused something. ``by`` and ``cause`` are
        constants of the program. ``causes`` maps all causes of that block to a sentence each (doorkeeper.py)."""
        doorkeeper = self._doorkeepers.get(by)
        if doorkeeper is None:
            log = StackLog(logging.getLogger(f"jgroups_py.{by}"), self._stack)
            doorkeeper = Doorkeeper(by, self._stack.machine, log, causes)
            self._doorkeepers[by] = doorkeeper
        if not self._stack.closed:
            self._step(lambda: doorkeeper.turn_away(cause, source))

    def _on_excluded(self, event: Exclude) -> None:
        item = Excluded.of(event)
        self._exclusions.count(item.lost)
        self.warn(
            "%s and %d others went on without this member, sending waits for a merge%s",
            self.name_of(event.by),
            len(event.view) - 1,
            in_words(item.lost, self.name_of, certain=item.certain),
        )
        self._stream.put(item)
        if self._tap is not None and self._view is not None:
            self._tap.excluded(tuple(m for m in self._view if m in event.view))

    # --- the end

    def _end(self, error: Exception) -> None:
        """End the channel: ``send`` raises ``error``, and so does the stream after its last item."""
        if self._error is None:
            self._error = error
            self._outbox.end(error)
        self._stream.end(self._error)
        if self._tap is not None:
            self._tap.ended(self._error)
        self._joined.set()
        self._asked.wake()
        self._waits.changed()

    def abandon(self, problem: str) -> None:
        """Leave the group because of this member's own reader."""
        if self._error is not None:
            return
        self.warn("%s: leaving the group", problem)
        self._end(Expelled(problem))
        self._discard()
        machine = self._stack.machine
        machine.enter()
        machine.soon(self._disconnect)  # we may be in the middle of a step
        machine.leave()

    def _discard(self) -> None:
        """Give back the credits of unread messages, and of messages that still come."""
        self._discarding = True
        if self._rest is not None:
            self.give_back(self._rest)
            self._rest = None
        for item in self._stream.clear():
            if type(item) is Batch:
                self.give_back(item)
            elif type(item) is StateRequested:
                self._answer_state(StateReady(item.token, None, "the provider is leaving"))

    def _disconnect(self) -> None:
        if not self._disconnecting and not self._stack.closed:
            self._disconnecting = True
            self._step(self._stack.disconnect)

    async def _join(self, cluster: str, get_state: bool, timeout: float) -> None:
        """Return after the first view, and after the state if it was asked for and another member has one."""
        self._outbox.size_max = message_max(self._stack.protocols)
        self._giver.packet_max = self._outbox.size_max
        if get_state:
            self._asked.begin(first=True)
        self._step(lambda: self._stack.connect(cluster, with_state=get_state))
        with trio.move_on_after(timeout):
            await self._joined.wait()
        if self._error is not None:
            raise self._error
        if self._view is None:
            raise JoinError(f"no view of {cluster} within {timeout:g} s")
        if get_state and self._view.coordinator != self.address:
            await self._asked.wait(None, timeout, lambda: self._error)
        self._asked.end()

    async def _leave(self) -> None:
        """Leave the group within ``leave_timeout``. The caller shields it."""
        was_expelled = self._error is not None and not self._disconnecting
        with trio.move_on_after(self._limits.leave_timeout) as scope:
            if not was_expelled:
                self._discard()
                self._step(self._driver.turn)
                while self._outbox and self._error is None and not self._driver.failed:
                    await self._outbox.wait_turn()
            self._end(ChannelClosed("the channel is closed"))
            if not was_expelled:
                self._disconnect()
                if not self._driver.failed:
                    await self._disconnected.wait()
        if scope.cancelled_caught:
            alone = self._view is not None and len(self._view) == 1
            who = "our own stack" if alone else "the group"
            self.warn("%s did not let us go within %.1f s", who, self._limits.leave_timeout)
        if self._outbox.buffered:
            lost = self._outbox.buffered
            self.warn("%d bytes were still waiting for credit and are lost", lost)
        self._close()

    def _close(self) -> None:
        """Close at once, without a message to the group."""
        self._end(ChannelClosed("the channel is closed"))
        self._discarding = True
        self._stream.clear()
        self._rest = None
        self._outbox.clear()
        if not self._stack.closed:
            self._driver.guarded(self._stack.close)

    def driver_ended(self) -> None:
        """Tell the channel that the driver has ended, so that no task waits for the stack any more."""
        self._disconnected.set()

    def warn(self, text: str, *values: object, error: Exception | None = None) -> None:
        """Log a warning under this member's name, with the traceback of ``error``."""
        extra = {"member": self.name, "cluster": self.cluster}
        _log.warning(
            f"%s/%s: {text}",
            self.name,
            self.cluster,
            *values,
            extra=extra,
            exc_info=error and loggable(error),
        )
