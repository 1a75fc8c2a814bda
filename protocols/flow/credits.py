"""Flow control by credits: the base of MFC (multicasts) and UFC (unicasts).

A sender may have at most ``max_credits`` bytes under way to each member: sent, but not yet taken by the application there.
Messages that do not fit wait here, in order. FlowBlocked asks the channel to wait; FlowOpened ends that.

    message from above      fits: count it, send it; else: send the part of the run that fits, keep the rest
    message from below      attach the credit that its sender is owed
    Consumed                owe it; 60 % of max_credits (1 - min_threshold) or more: REPLENISH
    IncompleteBytes         so much belongs to messages of which the rest is still to come: REPLENISH it in advance
    REPLENISH from P        P has taken that much: send waiting messages
    blocked for too long    CREDIT_REQUEST to the members that are short
    CREDIT_REQUEST from P   REPLENISH the consumed bytes, the rest as soon as it is consumed
    ViewChange              members that left do not count any more, new ones begin with all credits

NO_FC and messages without bytes are exempt, but a message without bytes does not overtake. Members
count their own multicasts, so a member that does not read stops sending.

A message that is larger than ``max_credits`` goes when nothing else is under way, and blocks until it
has been taken. (Java needs FRAG2's frag_size below max_credits; so does a mixed group.) Fragments of a message that is larger
than the credits are given back before it is complete; account.py says how much. So a member that reads nothing has at most
``max_credits`` of each sender, and one message of it that was cut.

A sender with fewer credits than its receiver gives back unasked waits for ``max_block_time``, and asks. From then on the
receiver gives it less at a time.

Datagrams that a receive buffer does not hold are lost. So a sender has no more under way than its own buffer was granted: the
others' buffers are like it, as a rule, and no message tells their size. Such a sender asks sooner (SOON_SECONDS), and a member
that had to be asked, such as Java, is asked at once from then on.

Credits are totals here, but increments on the wire. A credit gets lost when a merge skips messages between groups that could
not hear each other. So a member of the other side that asks twice, and from which no message has come for a while, is
owed the requested bytes, without the bytes that are still to be consumed. This happens once in a merge, because the
credit may also be on its way. Any other member is owed them after LEAK_SECONDS without a message from it or to it.

Members that went on without this one (Exclude) have dropped its account, and what they owed is never given. So it begins with
all credits at them when they merge, as they do at it.

Source:  JGroups FlowControl, MFC, UFC, Credit; WIRE.md 11.6.
Differs: Java gives back received bytes; here consumed bytes are given back. A sender that would wait for a
         replenishment that cannot come by itself asks at once.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeAlias

from jgroups_py.protocols.flow.account import CreditAccount
from jgroups_py.protocols.flow.config import FlowConfig
from jgroups_py.stack.protocol import Protocol
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch, Credit
from jgroups_py.values.events import (
    Consumed,
    Event,
    Exclude,
    FlowBlocked,
    FlowOpened,
    HeldSenders,
    IncompleteBytes,
    LacksCredit,
    Query,
    ReceiveBuffer,
    SharedAttribute,
    ViewChange,
)
from jgroups_py.values.message import Flag, MessageType, Transient
from jgroups_py.values.native import has_settings, mypyc_attr
from jgroups_py.values.view import MergeView, View
from jgroups_py.wire.headers import FcHeader, FcType

LEAK_SECONDS: Final = 60.0
"""Seconds after which a credit that a sender waits for is no longer under way."""
LATE_SECONDS: Final = 0.1
"""A request so long after the last message is that of a sender that has waited, because it was given nothing unasked."""
SOON_SECONDS: Final = 0.2
"""A sender whose receive buffer limits it asks after so long: a member with more credits counts longer before it gives unasked."""
NO_FC: Final = int(Flag.NO_FC)
_DONT_LOOPBACK: Final = int(Transient.DONT_LOOPBACK)
_FLAGS: Final = int(Flag.OOB | Flag.DONT_BUNDLE)


class Lane:
    """The bytes to one destination.

    ``sent`` counts all so far. ``granted`` has for each member the number of these bytes that are not under way any
    more. ``room`` may be sent at once. ``queue`` has the messages that wait.
    """

    __slots__ = (
        "asked",
        "blocked",
        "blocked_at",
        "dest",
        "granted",
        "late",
        "peak",
        "queue",
        "queued",
        "room",
        "sent",
        "stuck_at",
    )

    def __init__(self, dest: Address | None) -> None:
        self.dest = dest
        self.sent = 0
        self.granted: dict[Address, int] = {}
        self.room = 1 << 62
        self.queue: deque[Batch] = deque()
        self.queued = 0
        self.peak = 0
        self.blocked = False
        """True when the channel was told to wait."""
        self.blocked_at = 0.0
        """The time when a message last got through, or members were asked, while messages wait."""
        self.stuck_at = 0.0
        """The time when a message last got through, while messages wait."""
        self.asked: dict[Address, None] = {}
        """The members that were asked for credits since then."""
        self.late: dict[Address, None] = {}
        """The members that gave nothing before they were asked, although the receive buffer limits this sender. They are
        asked as soon as messages wait."""

    def measure(self, max_credits: int) -> None:
        """Compute ``room`` after ``granted`` has changed."""
        low = min(self.granted.values(), default=None)
        self.room = 1 << 62 if low is None else max_credits - (self.sent - low)

    def grant(self, member: Address, amount: int, max_credits: int) -> None:
        self.granted[member] = min(self.granted[member] + amount, self.sent)
        self.measure(max_credits)


@dataclass(slots=True)
class _Debt(CreditAccount):
    """The account of one sender, and the time when it first asked for more than is owed (None if it did not)."""

    vain_at: float | None = None
    missing: int = 0
    """The least part of its requests since then that was neither held nor owed."""
    moved_at: float = 0.0
    """The time when a message last came from it or went to it."""
    asked_at: float | None = None
    """The time when the sender asked for more than was given back, if the application has taken none of its messages
    since."""
    merged: bool = False
    """True if it was on the other side of the last merge. Messages that it had sent before may be skipped."""


@mypyc_attr(allow_interpreted_subclasses=True)
class FlowControl(Protocol):
    """See the module's docstring."""

    multicast: ClassVar[bool]

    Config: TypeAlias = FlowConfig

    config: FlowConfig

    def start(self) -> None:
        config = self.config
        self._limit_to(config.max_credits)
        self._lanes: dict[Address | None, Lane] = {}
        self._debts: dict[Address, _Debt] = {}
        self._view: View | None = None
        self._excluded_by: tuple[Address, ...] = ()
        """The members that went on without this one, until the next view."""
        self._ask_timer = self.timer(self._on_ask)

        self.fitted_credits = 0
        """The bytes that may be under way in place of ``max_credits``, because the receive buffer holds no more. 0: it holds them."""
        self.bytes_sent = 0
        self.bytes_received = 0
        self.bytes_consumed = 0
        self.times_blocked = 0
        self.replenishments_sent = 0
        self.replenishments_received = 0
        self.requests_sent = 0
        self.requests_received = 0
        self.leaks_repaired = 0
        self.queue_overflows = 0
        self.queue_dropped = 0
        """The number of messages that waited for a member that left."""
        self.strangers_dropped = 0
        self.bad = 0

    def _limit_to(self, most: int) -> None:
        """Let ``most`` bytes be under way to a member."""
        config = self.config
        least = config.min_credits or int(config.max_credits * config.min_threshold)
        self._max = most
        self._threshold = most - least * most // config.max_credits

    def _fit_buffer(self) -> None:
        """Have no more under way than fits into a receive buffer. Members of a group have buffers like ours, as a rule."""
        config = self.config
        buffer = self.ask_down(ReceiveBuffer(self.multicast)) if config.fit_receive_buffer else None
        most = config.max_credits if buffer is None else min(buffer, config.max_credits)
        if most == self._max:
            return
        self._limit_to(most)
        self.fitted_credits = most if most < config.max_credits else 0
        if self.fitted_credits:
            self.log.info(
                "at most %d bytes are under way to a member in place of max_credits (%d), because the receive buffer has no more",
                most,
                config.max_credits,
            )
        for lane in self._lanes.values():
            lane.measure(most)
        for sender, debt in list(self._debts.items()):
            debt.threshold = min(debt.threshold, self._threshold)
            self._settle(sender, debt)

    # --- sending

    def send(self, lane: Lane, batch: Batch) -> None:
        """Send a run that is subject to flow control, or the part that fits."""
        length = batch.length
        if not lane.queue and length <= lane.room:
            self._pass(lane, batch, length)
            return
        lane.queue.append(batch)
        lane.queued += length
        if lane.queued > self.config.max_queue:
            self.queue_overflows += 1
            self.trace("queue_overflow", dest=lane.dest, queued=lane.queued)
        if len(lane.queue) == 1:
            lane.blocked_at = lane.stuck_at = self.now
            lane.asked.clear()
            self._drain(lane)
        if lane.queue:
            self._block(lane)

    def _pass(self, lane: Lane, batch: Batch, length: int) -> None:
        lane.sent += length
        lane.room -= length
        self.bytes_sent += length
        if batch.transient & _DONT_LOOPBACK and lane.dest is None and lane.granted:
            # No application here will ever consume this message.
            if self.local_address in lane.granted:
                lane.grant(self.local_address, length, self._max)
        self.pass_down(batch)

    def _drain(self, lane: Lane) -> None:
        """Send the waiting messages that fit now."""
        queue = lane.queue
        while queue:
            batch = queue[0]
            length = batch.length
            if length <= lane.room:
                queue.popleft()
            else:
                count = self._fitting(lane, batch)
                if count == 0:
                    return
                if count == len(batch.payloads):
                    queue.popleft()
                else:
                    queue[0] = batch.slice(count, len(batch.payloads))
                    batch = batch.slice(0, count)
                    length = batch.length
            lane.queued -= length
            lane.blocked_at = lane.stuck_at = self.now
            lane.asked.clear()
            self._pass(lane, batch, length)

    def _fitting(self, lane: Lane, batch: Batch) -> int:
        """Return the number of first messages that can go of a run that does not fit as a whole."""
        if len(batch.payloads) > 1:
            room = lane.room
            for index, payload in enumerate(batch.payloads):
                room -= 0 if payload is None else len(payload)
                if room < 0:
                    if index:
                        return index
                    break
        # A message larger than all credits may go when no other one is under way.
        return 1 if lane.room >= self._max else 0

    def _short(self, lane: Lane) -> tuple[Address, ...]:
        """Return the members whose credits hold up the first waiting message."""
        need = lane.queue[0].slice(0, 1).length
        room = self._max - lane.sent
        return tuple(
            [m for m, granted in lane.granted.items() if room + granted < min(need, self._max)]
        )

    def _block(self, lane: Lane) -> None:
        self._ask_if_idle(lane)
        lane.peak = max(lane.peak, lane.queued)
        if not lane.blocked:
            lane.blocked = True
            lane.peak = lane.queued
            self.times_blocked += 1
            short = self._short(lane)
            self.trace("blocked", dest=lane.dest, queued=lane.queued, waiting_for=short)
            self.pass_event_up(FlowBlocked(self.name, lane.dest, short))

    def _ask_if_idle(self, lane: Lane) -> None:
        """Ask members for missing credits, if they owe less than the amount that they replenish by
        themselves. Ask the others later."""
        timer, at = self._ask_timer, self._ask_at(lane)
        if timer.deadline is None or timer.deadline > at:
            timer.start_at(at)
        idle = [
            member
            for member in self._short(lane)
            if member not in lane.asked
            and (lane.sent - lane.granted[member] < self._threshold or member in lane.late)
        ]
        lane.asked.update(dict.fromkeys(idle))
        self._ask(lane, idle)

    def _open(self, lane: Lane) -> None:
        """Update the times after a message got through."""
        if lane.blocked and (not lane.queue or 2 * lane.queued < lane.peak):
            lane.blocked = False
            lane.peak = lane.queued
            self.trace("opened", dest=lane.dest, queued=lane.queued)
            self.pass_event_up(FlowOpened(self.name, lane.dest))

    def _ask(self, lane: Lane, members: list[Address] | tuple[Address, ...]) -> None:
        for member in members:
            if member == self.local_address:
                continue
            amount = lane.sent - lane.granted[member]
            self.requests_sent += 1
            self.trace("request", to=member, amount=amount)
            self._say(member, FcType.CREDIT_REQUEST, amount)

    def _ask_at(self, lane: Lane) -> float:
        """Return the time at which members are asked for credits that messages wait for."""
        wait = self.config.max_block_time
        if self.fitted_credits and lane.blocked_at == lane.stuck_at:
            wait = min(wait, SOON_SECONDS)
        return lane.blocked_at + wait

    def _on_ask(self) -> None:
        due = None
        for lane in self._lanes.values():
            if not lane.queue:
                continue
            at = self._ask_at(lane)
            if at <= self.now:
                lane.blocked_at = self.now
                at = self.now + self.config.max_block_time
                short = self._short(lane)
                if self.fitted_credits:
                    lane.late.update(dict.fromkeys(short))
                self._ask(lane, short)
            due = at if due is None else min(due, at)
        if due is not None:
            self._ask_timer.start_at(due)

    def _say(self, to: Address, kind: FcType, amount: int) -> None:
        self.pass_down(
            Batch.of(
                to,
                self.protocol_id,
                FcHeader(kind),
                payload=amount,
                type=MessageType.LONG,
                flags=_FLAGS,
            )
        )

    # --- receiving

    def received(self, batch: Batch, length: int) -> Batch:
        """Return the run with the credit that its sender is owed."""
        src = batch.src
        assert src is not None
        debt = self._debts.get(src)
        if debt is None:
            debt = self._new_debt(src)
        debt.held += length
        debt.moved_at = self.machine.now
        if not debt.merged:
            debt.vain_at = None
        self.bytes_received += length
        owing = Batch(
            batch.dest,
            batch.payloads,
            batch.headers,
            src,
            batch.flags,
            batch.transient,
            batch.type,
            (*batch.credits, Credit(src, self.multicast, length)),
        )
        owing.sizes_are(length, batch.size_of_each)
        return owing

    def _moved(self, debt: _Debt) -> None:
        debt.moved_at = self.now
        if not debt.merged:
            debt.vain_at = None

    def _new_debt(self, src: Address) -> _Debt:
        members = () if self._view is None else self._view.members
        if src not in members:
            strangers = [m for m in self._debts if m not in members]
            if len(strangers) >= self.config.max_strangers:
                self.strangers_dropped += 1
                del self._debts[strangers[0]]
        debt = self._debts[src] = _Debt(self._threshold)
        return debt

    def on_control(self, batch: Batch, header: object) -> None:
        """Take a REPLENISH or a CREDIT_REQUEST."""
        src, amount = batch.src, batch.payloads[0]
        if type(header) is not FcHeader or src is None or type(amount) is not int or amount < 0:
            self.bad += 1
            self.trace("bad_message", sender=src)
        elif header.type == FcType.REPLENISH:
            self.replenishments_received += 1
            self.trace("replenished", by=src, amount=amount)
            self._on_replenish(src, amount)
        elif header.type == FcType.CREDIT_REQUEST:
            self.requests_received += 1
            self._on_request(src, amount)
        else:
            self.bad += 1

    def _on_replenish(self, member: Address, amount: int) -> None:
        lane = self.lane_of(member)
        if lane is None or member not in lane.granted:
            return
        lane.grant(member, amount, self._max)
        self._go_on(lane)

    def _go_on(self, lane: Lane) -> None:
        if lane.queue:
            self._drain(lane)
            if lane.queue:
                self._ask_if_idle(lane)
            self._open(lane)

    def _on_request(self, src: Address, wanted: int) -> None:
        debt = self._debts.get(src) or self._new_debt(src)
        debt.wanted = wanted
        self._fit_threshold(debt)
        missing = wanted - debt.held - debt.owed
        if missing <= 0:
            debt.vain_at = None
        elif debt.vain_at is None:
            debt.vain_at = self.now
            debt.missing = missing
        else:
            debt.missing = min(debt.missing, missing)
            wait = self.config.max_block_time / 2 if debt.merged else LEAK_SECONDS
            if max(debt.vain_at, debt.moved_at) + wait <= self.now:
                self.leaks_repaired += 1
                self.trace("leak_repaired", sender=src, amount=debt.missing)
                debt.merged = False
                debt.owed += debt.missing
        if debt.due > 0:
            self._replenish(src, debt)
        if debt.wanted and debt.is_unread and debt.asked_at is None:
            debt.asked_at = self.now

    def _fit_threshold(self, debt: _Debt) -> None:
        """Give less at a time to a sender with few credits. It waits although it has less under way than is
        given unasked."""
        if debt.wanted >= self._threshold:
            debt.threshold = self._threshold
        elif debt.wanted and debt.moved_at + LATE_SECONDS <= self.now:
            debt.threshold = max(1, debt.wanted * self._threshold // self._max)

    def _replenish(self, to: Address, debt: _Debt) -> None:
        amount = debt.give()
        self._moved(debt)
        self.replenishments_sent += 1
        self.trace("replenish", to=to, amount=amount)
        self._say(to, FcType.REPLENISH, amount)

    def event_down(self, event: Event) -> None:
        if type(event) is Consumed:
            if len(event.credits) == 1 and event.credits[0].multicast == self.multicast:
                only = event.credits[0]
                self._on_consumed(only.sender, only.amount)
                return
            amounts: dict[Address, int] = {}
            others: list[Credit] = []
            for credit in event.credits:
                if credit.multicast == self.multicast:
                    amounts[credit.sender] = amounts.get(credit.sender, 0) + credit.amount
                else:
                    others.append(credit)
            for sender, amount in amounts.items():
                self._on_consumed(sender, amount)
            if not others:
                return
            event = Consumed(tuple(others))
        elif type(event) is IncompleteBytes and event.multicast == self.multicast:
            debt = self._debts.get(event.sender)
            if debt is not None:
                debt.hold_incomplete(event.amount)
                self._settle(event.sender, debt)
            return
        self.pass_event_down(event)

    def _on_consumed(self, sender: Address, amount: int) -> None:
        self.bytes_consumed += amount
        debt = self._debts.get(sender)
        if debt is not None:
            debt.read(amount)
            debt.asked_at = None
            self._settle(sender, debt)
        elif sender == self.stack.address:
            self._on_replenish(sender, amount)

    def _settle(self, sender: Address, debt: _Debt) -> None:
        """Give back the due bytes, if they are worth a message. Own bytes need none."""
        if sender == self.stack.address:
            if debt.due > 0:
                self._on_replenish(sender, debt.give())
        elif debt.is_worth_giving:
            self._replenish(sender, debt)

    # --- views

    def event_up(self, event: Event) -> None:
        if not isinstance(event, ViewChange):
            if isinstance(event, Exclude):
                self._excluded_by = event.view.members
            self.pass_event_up(event)
            return
        self._view = event.view
        self._fit_buffer()
        for member in event.view.left_since(event.old):
            self._debts.pop(member, None)
        if isinstance(event.view, MergeView):
            self._merged(event.view)
        self._excluded_by = ()
        self.on_view(event.view)
        self.pass_event_up(event)
        for lane in list(self._lanes.values()):
            lane.late = {member: None for member in lane.late if member in event.view}
            self._go_on(lane)

    def _merged(self, view: MergeView) -> None:
        mine = next((s.members for s in view.subgroups if self.local_address in s), ())
        for member in view:
            if member not in mine:
                debt = self._debts.get(member) or self._new_debt(member)
                debt.merged = True
                debt.vain_at = None
                lane = self.lane_of(member)
                if lane is not None and member in lane.granted and member in self._excluded_by:
                    lane.grant(member, lane.sent, self._max)

    def on_view(self, view: View) -> None:
        """Make the lanes match the members."""
        raise NotImplementedError

    def lane_of(self, member: Address) -> Lane | None:
        """Return the lane on which ``member`` grants credits."""
        raise NotImplementedError

    def answer(self, query: Query) -> Any:
        match query:
            case SharedAttribute("max_credits", self.name):
                return self._max
            case LacksCredit(dest):
                lane = self._lanes.get(dest)
                return self._short(lane) if lane is not None and lane.queue else None
            case HeldSenders():
                return self._held_senders()
        return None

    def _held_senders(self) -> dict[Address, float]:
        held = {a: debt.asked_at for a, debt in self._debts.items() if debt.asked_at is not None}
        for lane in self._lanes.values():
            if lane.queue and self.local_address in self._short(lane):
                held[self.local_address] = lane.stuck_at
        return held

    # --- looking

    def memory_limits(self, members: int) -> dict[str, int]:
        """Return the most memory of messages that the application has not taken, packed (backlog.py)."""
        return {
            "max_credits": self.config.max_credits * (members if self.multicast else members - 1)
        }

    def check(self) -> None:
        for lane in self._lanes.values():
            if lane.granted:
                granted = lane.granted.values()
                least = min(granted)
                assert 0 <= least <= max(granted) <= lane.sent
                assert lane.room == self._max - (lane.sent - least) <= self._max
            if not lane.queue:
                assert lane.queued == 0
                assert not lane.blocked
            else:
                assert lane.queued == sum(batch.length for batch in lane.queue)
                assert self._ask_timer.armed
                assert lane.queue[0].length > lane.room, "it fits and waits"
                assert self._fitting(lane, lane.queue[0]) == 0, "a part fits and waits"
        for debt in self._debts.values():
            assert 0 <= debt.incomplete <= debt.held
            assert debt.held + debt.owed >= 0, "more was given than received"
            assert debt.due < debt.threshold <= max(self._threshold, 1)

    def texts(self) -> dict[str, str]:
        """``waits_for``: the members for whose credits messages wait."""
        short = {m: None for lane in self._lanes.values() if lane.queue for m in self._short(lane)}
        return {"waits_for": ", ".join(self.name_of(member) for member in short)}

    def statistics(self) -> dict[str, int | float]:
        stats = super().statistics()
        stats["queued"] = sum(lane.queued for lane in self._lanes.values())
        stats["held"] = sum(debt.held for debt in self._debts.values())
        rooms = [lane.room for lane in self._lanes.values() if lane.granted]
        stats["room"] = min(rooms, default=self._max)
        return stats


has_settings(FlowControl, FlowConfig)
