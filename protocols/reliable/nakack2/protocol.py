"""NAKACK2: reliable multicast. Every member gets every sender's messages, in order, once.

Place: above failure detection, below UNICAST3 and STABLE.

    multicast from above      Number it, keep it until it is stable, send it.
    MSG from P                Deliver the next one. Keep one beyond a gap, and ask for the gap. Drop an old one.
    multicast without number  Turn it away, unless it says NO_RELIABILITY and is of a member.
    MSG with OOB              Deliver it at once. It still takes its place in the order.
    XMIT_REQ(P) from Q        Send Q the messages of P that it lacks. P may be any sender whose messages are here.
    XMIT_RSP from Q           As MSG.
    HIGHEST_SEQNO from P      P reports its last number. Ask for missing messages at the end.
    nothing sent for a while  HIGHEST_SEQNO.
    Stable                    Forget messages that all members have. While a state is awaited, forget only own ones.
    SetDigest, MergeDigest    Begin with each sender at the digest's number.
    ViewChange                Close senders that are not in the view. New ones begin at 0.
    Freeze .. Release         Survivors agree: agreement.py.
    Withhold                  Keep the application's multicasts until the next view. The others have gone on without us,
                              and begin after the messages numbered until now (``_settled``).

The parts know no protocol. senders.py has the table of senders, agreement.py the round of survivors, and repair.py the
requests and the answers. Only the protocol sends, passes on, counts and keeps time.

Up to ``max_buffered_before_join`` batches of senders that are not in the view wait: after a join their view is on
its way. The next view drops the batches of senders that have not joined.

The transport hands own multicasts back, and they are delivered in their turn like all others.

Source:  JGroups NAKACK2.java; WIRE.md 11.4; RELAY.md "Survivors agree".
Differs: a member asks for a gap once after ``xmit_delay`` and then at growing intervals, sooner if an answer stops, after
         ``ask_others_after`` vain requests at other members too. Answers on behalf of others go
         to the asker alone. HIGHEST_SEQNO is repeated ``resend_last_seqno_max_count`` times.
         No member asks for messages that their sender has forgotten (GONE). Departed senders' messages are kept
         until all have installed a view without them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Final, TypeAlias

from jgroups_py.protocols.reliable.nakack2.agreement import Round, RoundStep
from jgroups_py.protocols.reliable.nakack2.config import Nakack2Config
from jgroups_py.protocols.reliable.nakack2.last import LastNumber
from jgroups_py.protocols.reliable.nakack2.repair import (
    Limited,
    NotHere,
    Repair,
    RepairRequest,
    Resend,
    behind_gone,
    view_sum,
)
from jgroups_py.protocols.reliable.nakack2.senders import Sender, Senders
from jgroups_py.stack.protocol import Protocol
from jgroups_py.stack.services import MULTICAST, STABILITY
from jgroups_py.stack.windows import compact
from jgroups_py.values.address import UUID, Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import (
    Event,
    Fetch,
    Fetched,
    FlowBlocked,
    FlowOpened,
    Freeze,
    GetDelivered,
    GetDeparted,
    GetDigest,
    GetSentAfter,
    GetSeqno,
    MergeDigest,
    Query,
    Release,
    SetDigest,
    Stable,
    StateAwaited,
    Thaw,
    ViewChange,
    Withhold,
)
from jgroups_py.values.message import Flag, MessageType, Transient
from jgroups_py.values.native import has_settings, mypyc_attr
from jgroups_py.values.payloads import SeqnoList, Streamable
from jgroups_py.values.view import Digest, View
from jgroups_py.wire.headers import PROTOCOL_IDS, FragHeader, NakAckHeader2, NakAckType

_ID: Final = PROTOCOL_IDS["NAKACK2"]
_SEQNO_LIST: Final = 15
_OOB: Final = int(Flag.OOB)
_NO_RELIABILITY: Final = int(Flag.NO_RELIABILITY)
_DONT_LOOPBACK: Final = int(Transient.DONT_LOOPBACK)
_CONTROL: Final = int(Flag.OOB | Flag.NO_FC)
_MSG: Final = NakAckType.MSG


@mypyc_attr(allow_interpreted_subclasses=True)
class NAKACK2(Protocol):
    """See the module's docstring."""

    protocol_id: ClassVar[int] = _ID
    provides = (MULTICAST,)
    needs_above = (STABILITY,)
    turns_away = {
        "unnumbered": "a multicast without a number that does not say NO_RELIABILITY: no member sends such",
    }

    Config: TypeAlias = Nakack2Config

    config: Nakack2Config

    def start(self) -> None:
        config = self.config
        self.delay = min(config.xmit_delay, config.xmit_interval)
        self._seqno = 0
        self.senders = Senders(self.local_address, config.xmit_interval, config.max_departed)
        self.own = self.senders.own
        self._present = self.senders.present.get
        """Function: address -> its sender, if present. Messages that come in order need only this."""
        self.round = Round(self.local_address, config.max_window)
        self.repair = Repair(
            self.local_address,
            self.random,
            delay=self.delay,
            limit=config.max_xmit_req_size,
            ask_others_after=config.ask_others_after,
            xmit_from_random_member=config.xmit_from_random_member,
            max_xmit_bytes=config.max_xmit_bytes,
            xmit_interval=config.xmit_interval,
        )
        self._gap_timer = self.timer(self._on_gaps)
        self._keeping = False
        """True: a state is awaited. Stable messages are kept meanwhile, because we may have to go back."""
        self.view: View | None = None
        self._digest_set = False
        self._early: list[Batch] = []
        self._blocked = False
        self._withheld: list[Batch] | None = None
        """Multicasts of the application since Withhold. Flow control bounds them."""
        self._settled = 0
        """Own seqno at Withhold: members that went on without us will not deliver undelivered messages up to here."""
        self._last = LastNumber(
            self.timer(self._on_last), config.xmit_interval, config.resend_last_seqno_max_count
        )

        self.sent = 0
        self.delivered = 0
        self.duplicates = 0
        self.gaps_seen = 0
        self.requests_sent = 0
        self.requests_received = 0
        self.retransmitted = 0
        self.not_found = 0
        self.lost = 0
        """Messages that were skipped because their sender has forgotten them."""
        self.limited = 0
        """Answers that were cut short because the asker had got its share (``max_xmit_bytes``)."""
        self.window_dropped = 0
        self.non_member_dropped = 0
        self.early_dropped = 0
        self.frozen_dropped = 0
        self.bad = 0
        self.last_sent = 0
        """HIGHEST_SEQNO messages that were sent."""
        self.departed_dropped = 0
        self.times_blocked = 0
        self.withheld = 0
        """Messages that waited for a view because the others had gone on without this member."""

    @property
    def seqno(self) -> int:
        """The number of our last message. 0: we have sent none."""
        return self._seqno

    # --- down

    def down(self, batch: Batch) -> None:
        if batch.dest is not None or batch.flags & _NO_RELIABILITY:
            self.pass_down(batch)
            return
        if self._withheld is not None and batch.number:
            self._withheld.append(batch)
            self.withheld += len(batch.payloads)
            return
        first = self._seqno + 1
        count = len(batch.payloads)
        self._seqno += count
        self.sent += count
        batch = batch.with_header(_ID, NakAckHeader2(_MSG, first))
        own = self.own
        own.kept.append(first, batch)
        if batch.transient & _DONT_LOOPBACK:
            own.window.skip(first, batch)
        self._last.sent(self._seqno)
        self.pass_down(batch)
        if batch.transient & _DONT_LOOPBACK:
            self.deliver(own)
        if own.kept.size > self.config.max_unstable and not self._blocked:
            self._block()

    def _block(self) -> None:
        self._blocked = True
        self.times_blocked += 1
        self.trace("blocked", unstable=self.own.kept.count)
        others = () if self.view is None else self.view.members
        waiting = tuple(m for m in others if m != self.local_address)
        self.pass_event_up(FlowBlocked(self.name, None, waiting, "stability"))

    # --- up

    def up(self, batch: Batch) -> None:
        header = batch.headers.get(_ID)
        if header is None:
            if batch.dest is not None or self._may_be_unnumbered(batch):
                self.pass_up(batch)
            return
        if type(header) is not NakAckHeader2 or batch.src is None:
            if type(header) is FragHeader and batch.src is not None:
                self._on_gone(batch.src, header.id, header.index)
                return
            self.bad += 1
            self.trace("bad_header", sender=batch.src)
            return
        kind = header.type
        if kind == _MSG:
            first = header.seqno
            sender = self._present(batch.src)
            if sender is not None:
                window = sender.window
                if (
                    first == window.delivered + 1
                    and not window.pending.firsts
                    and not window.closed
                ):
                    count = len(batch.payloads)
                    window.delivered = last = first + count - 1
                    if last >= window.known:
                        window.known = last
                    elif sender.gaps.again_at is not None:
                        self._on_answered(sender)
                    if sender is not self.own:
                        batch = compact(batch)
                        sender.kept.append(first, batch)
                    self.delivered += count
                    self.pass_up(batch)
                    return
            self._on_data(batch, first)
        elif kind == NakAckType.XMIT_REQ:
            self._on_request(batch, header)
        elif kind == NakAckType.XMIT_RSP:
            self._on_data(
                replace(
                    batch,
                    dest=None,
                    headers={**batch.headers, _ID: NakAckHeader2(_MSG, header.seqno)},
                ),
                header.seqno,
            )
        elif kind == NakAckType.HIGHEST_SEQNO:
            self._on_highest(batch.src, header.seqno)
        else:
            self.bad += 1

    def _may_be_unnumbered(self, batch: Batch) -> bool:
        """Return whether a multicast may pass without a number. Without this rule any datagram would count as a
        member's message."""
        src = batch.src
        if not batch.flags & _NO_RELIABILITY:
            self.turn_away("unnumbered", src, len(batch))
            return False
        if src == self.local_address or (self.view is not None and src in self.view):
            return True
        self.non_member_dropped += len(batch)  # perhaps a member that left a moment ago
        return False

    def _on_data(self, batch: Batch, first: int) -> None:
        """Take a run that is not simply the next one."""
        src = batch.src
        assert src is not None
        count = len(batch.payloads)
        sender = self._present(src)
        if first < 1:
            self.bad += 1
            return
        if sender is None:
            self._on_stranger(src, batch, first)
            return
        window = sender.window
        too_far = first + count - 1 > window.delivered + self.config.max_window or (
            first > window.delivered + 1
            and window.pending.size + batch.length > self.config.max_window_bytes
        )
        # Own messages are kept anyway, and a member does not ask for them.
        if too_far and sender is not self.own:
            self.window_dropped += count
            self.trace("window_full", sender=src, seqno=first, delivered=window.delivered)
            return
        if sender is self.own and first + count - 1 > self._seqno:
            self.bad += count
            self.trace("own_seqno_unknown", seqno=first, sent=self._seqno)
            return
        pieces = window.add(first, compact(batch))
        if not pieces:
            self.duplicates += count
            return
        if sender is not self.own:
            for low, piece in pieces:
                sender.kept.insert(low, piece)
        if batch.flags & _OOB:
            for piece in window.fresh(pieces):
                self.delivered += len(piece.payloads)
                self.pass_up(piece)
        self.deliver(sender)
        if self.round.fetching:
            self._go_on()
        if window.has_gap and sender is not self.own and self._present(src) is sender:
            if first <= sender.gaps.asked_to:
                self._on_answered(sender)
            self._saw_gap(src, sender, self.delay)

    def deliver(self, sender: Sender) -> None:
        window = sender.window
        while (run := window.next()) is not None:
            self.delivered += len(run.payloads)
            self.pass_up(run)

    def _on_stranger(self, src: Address, batch: Batch, first: int) -> None:
        """Take a run of a sender outside this view."""
        frozen = self.senders.frozen.get(src)
        count = len(batch.payloads)
        if frozen is not None:
            if first <= frozen.goal:
                self._on_fetched(frozen, batch, first)
            else:
                self.frozen_dropped += count
        elif src in self.senders.departed:
            self.non_member_dropped += count
        elif len(self._early) < self.config.max_buffered_before_join:
            self._early.append(batch)
        elif self._digest_set:
            self.non_member_dropped += count
        else:
            self.early_dropped += count

    def _on_highest(self, src: Address | None, seqno: int, delay: float = 0.0) -> None:
        """Note that ``src`` has sent up to ``seqno``, and ask for missing messages after ``delay``."""
        sender = None if src is None else self._present(src)
        if src is None or sender is None or sender is self.own:
            return
        window = sender.window
        seqno = min(seqno, window.delivered + self.config.max_window)
        if seqno > window.known:
            window.known = seqno
            self._saw_gap(src, sender, delay)

    # --- missing messages

    def _saw_gap(self, src: Address, sender: Sender, delay: float) -> None:
        """Ask for missing messages of ``src`` after ``delay``."""
        at = self.now + delay
        if sender.gaps.saw(sender.window.known, at):
            self.gaps_seen += 1
            self.trace(
                "gap", sender=src, delivered=sender.window.delivered, known=sender.window.known
            )
            self._ask_at(at)

    def _ask_at(self, at: float) -> None:
        timer = self._gap_timer
        if timer.deadline is None or timer.deadline > at:
            timer.start_at(at)

    def _on_answered(self, sender: Sender) -> None:
        """Note that a part of the requested messages came."""
        gaps = sender.gaps
        gaps.answered(self.now, self.delay)
        if gaps.again_at is not None:
            self._ask_at(gaps.again_at)

    def _on_gaps(self) -> None:
        members = () if self.view is None else self.view.members
        requests, earliest = self.repair.due(self.senders, members, self.now)
        for request in requests:
            self._ask(request)
        if earliest is not None:
            self._ask_at(earliest)

    def _ask(self, request: RepairRequest) -> None:
        src, to, wanted = request
        self.requests_sent += 1
        self.trace("request", sender=src, to=to, seqno=wanted.offset, count=len(wanted))
        header = NakAckHeader2(NakAckType.XMIT_REQ, 0, src)
        payload = Streamable(_SEQNO_LIST, wanted)
        self.pass_down(
            Batch.of(to, _ID, header, payload=payload, type=MessageType.OBJECT, flags=_CONTROL)
        )

    def _on_request(self, batch: Batch, header: NakAckHeader2) -> None:
        asker, src = batch.src, header.sender
        payload = batch.payloads[0]
        seqnos = payload.value if isinstance(payload, Streamable) else None
        if asker is None or src is None or not isinstance(seqnos, SeqnoList):
            self.bad += 1
            self.trace("bad_request", asker=asker)
            return
        self.requests_received += 1
        sender = self.senders.find(src)
        if sender is None:
            self.not_found += len(seqnos)
            return
        answer = self.repair.answer(asker, sender, seqnos, self.now)
        for step in answer.steps:
            match step:
                case Resend(first, run):
                    self._resend(asker, sender, first, run)
                case NotHere(low, high, lacking):
                    self.not_found += lacking
                    self.trace("not_found", asker=asker, sender=src, seqno=low, last=high)
                case Limited(first):
                    self.limited += 1
                    self.trace("limited", asker=asker, sender=src, seqno=first)
        ours = isinstance(asker, UUID) and asker.is_ours
        # The asker does not know yet that we took it for dead: a merge tells it where to begin.
        view = self.view
        if answer.gone and sender is self.own and ours and view is not None and asker in view:
            told = FragHeader(answer.gone, view_sum(view), 0)
            self.pass_down(Batch.of(asker, _ID, told, flags=_CONTROL))

    def _resend(self, asker: Address, sender: Sender, first: int, run: Batch) -> None:
        self.retransmitted += len(run.payloads)
        self.trace("retransmit", to=asker, seqno=first, count=len(run.payloads))
        multicast = self.config.use_mcast_xmit and sender is self.own
        kind = NakAckType.MSG if multicast else NakAckType.XMIT_RSP
        self.pass_down(
            replace(
                run,
                dest=None if multicast else asker,
                headers={**run.headers, _ID: NakAckHeader2(kind, first)},
                transient=run.transient | _DONT_LOOPBACK,
                credits=(),
            )
        )

    def _on_gone(self, src: Address, gone: int, view: int) -> None:
        """Skip messages up to ``gone``, which ``src`` has forgotten."""
        sender = self.senders.active(src)
        if sender is None or sender is self.own or gone > sender.window.known:
            self.bad += 1
            self.trace("bad_gone", sender=src, seqno=gone)
            return
        if self.view is None or view != view_sum(self.view):
            return
        window = sender.window
        to = behind_gone(window, gone)
        if to <= window.delivered:
            return
        self.lost += to - window.delivered
        self.log.warning(
            "%d messages of %s are lost: its group had forgotten them when it went on without us",
            to - window.delivered,
            self.name_of(src),
        )
        self._move(src, sender, to)
        if self.round.fetching:
            self.machine.soon(self._go_on)

    # --- survivors agree

    def _freeze(self, departed: tuple[Address, ...]) -> None:
        for member, sender in self.round.freeze(self.senders, departed).items():
            self.trace("frozen", sender=member, delivered=sender.window.delivered)
        for member, sender in self.senders.present.items():
            if sender.window.has_gap and sender is not self.own:  # perhaps an earlier goal
                self._saw_gap(member, sender, self.delay)

    def _go_on(self) -> None:
        for step in self.round.go_on(self.senders, self.now):
            if step is RoundStep.ASK:
                self._ask_at(self.now)
            elif step is RoundStep.FETCHED:
                self.trace("fetched", senders=tuple(self.senders.frozen))
                self.pass_event_up(Fetched())
            else:
                self.delivered += len(step.payloads)
                self.pass_up(step)

    def _on_fetched(self, sender: Sender, batch: Batch, first: int) -> None:
        """Take a run of a frozen sender. The run begins at or below the goal."""
        count = len(batch.payloads)
        wanted = self.round.wanted(sender, batch, first)
        if wanted is None:
            self.window_dropped += count
            return
        pieces = sender.window.add(first, compact(wanted))
        if not pieces:
            self.duplicates += count
            return
        for low, piece in pieces:
            sender.kept.insert(low, piece)
        if wanted.flags & _OOB:
            for piece in sender.window.fresh(pieces):
                self.delivered += len(piece.payloads)
                self.pass_up(piece)
        self._go_on()

    def _thaw(self, member: Address) -> None:
        sender = self.round.thaw(self.senders, member)
        if sender is not None:
            self._deliver_soon(member, sender, 0.0)

    def _deliver_soon(self, member: Address, sender: Sender, delay: float) -> None:
        """Hand out messages in order, if ``member`` is still present, and ask for the rest after ``delay``."""

        def deliver() -> None:
            if self._present(member) is sender:
                self.deliver(sender)
                if sender.window.has_gap:
                    self._saw_gap(member, sender, delay)

        self.machine.soon(deliver)

    def _deliver_held(self) -> None:
        for member, sender in list(self.senders.present.items()):
            if self._present(member) is sender:
                self.deliver(sender)
                if sender.window.has_gap and sender is not self.own:
                    self._saw_gap(member, sender, self.delay)

    def _hand_out_again(self, member: Address, sender: Sender, delivered: int) -> None:
        """Hand out messages of a frozen sender once more, because an arrived state contains fewer of them. We have
        reported our number, so the number stays as it is."""
        reached = sender.window.delivered
        if delivered >= reached:
            return
        after = self._back_to(member, sender, delivered)
        self.trace("again", sender=member, after=after, to=reached)
        runs = [run for _, run in sender.kept.between(after + 1, reached)]

        def deliver() -> None:
            for run in runs:
                self.pass_up(run)

        self.machine.soon(deliver)

    def _back_to(self, member: Address, sender: Sender, delivered: int) -> int:
        """Return ``delivered``, or the nearest number that ``sender`` can go back to."""
        possible = sender.not_before(delivered)
        if possible > delivered:
            self.trace("cannot_go_back", sender=member, to=delivered, stable=possible)
        return possible

    # --- the last message

    def _on_last(self) -> None:
        if not self._last.is_due(self._seqno, self.own.purged):
            return
        self.last_sent += 1
        header = NakAckHeader2(NakAckType.HIGHEST_SEQNO, self._seqno)
        message = Batch.of(None, _ID, header, flags=_CONTROL)
        message.transient = _DONT_LOOPBACK
        self.pass_down(message)

    # --- events

    def event_down(self, event: Event) -> None:
        match event:
            case ViewChange():
                self._on_view(event)
                self.pass_event_down(event)
                self.machine.soon(self._take_early)
                if self._withheld is not None:
                    self.machine.soon(self._send_withheld)
            case Withhold():
                if self._withheld is None:
                    self._withheld = []
                self._settled = self._seqno
                self.pass_event_down(event)
            case SetDigest():
                self._set_digest(event.digest, event.replace)
            case MergeDigest():
                self._merge_digest(event.digest)
            case Stable():
                self._on_stable(event.digest)
                self.pass_event_down(event)
            case Freeze():
                self._freeze(event.departed)
            case Fetch():
                self.round.fetch(self.senders, event.goals, self._seqno)
                self.machine.soon(self._go_on)
            case Thaw():
                for member in event.members:
                    self._thaw(member)
                self.round.thawed(self.senders)
            case Release():
                if self.round.release(self.senders):
                    self.machine.soon(self._deliver_held)
            case StateAwaited():
                self._keeping = event.awaited
            case _:
                self.pass_event_down(event)

    def answer(self, query: Query) -> Any:
        match query:
            case GetDigest(members):
                return self._digest_of(members)
            case GetSeqno():
                return self._seqno
            case GetDelivered(member):
                return self.senders.delivered(member)
            case GetSentAfter(seqno):
                after = max(seqno, self.own.purged) + 1
                return tuple(run for _, run in self.own.kept.between(after, self._seqno))
            case GetDeparted(members):
                return self.senders.gone(members)
        return None

    def _digest_of(self, members: tuple[Address, ...] | None) -> Digest:
        if members is None:
            members = self.senders.names(() if self.view is None else self.view.members)
        seqnos: dict[Address, tuple[int, int]] = {}
        for member in members:
            sender = self.senders.find(member)
            if sender is None:
                seqnos[member] = (0, 0)
            elif sender is self.own:
                seqnos[member] = (max(sender.window.delivered, self._settled), self._seqno)
            elif member in self.senders.frozen:
                seqnos[member] = (sender.window.delivered, sender.window.delivered)
            else:
                seqnos[member] = (sender.window.delivered, sender.window.received)
        return Digest(seqnos)

    def _set_digest(self, digest: Digest, replace_known: bool) -> None:
        self._digest_set = True
        senders, held = self.senders, self.round.held
        for member, (delivered, _) in digest.seqnos.items():
            sender = self._present(member)
            frozen = senders.frozen.get(member)
            if frozen is not None:
                if replace_known:
                    self._hand_out_again(member, frozen, delivered)
            elif sender is None:
                if replace_known:
                    senders.begin_as_told(member, delivered, held)
                else:
                    senders.begin(member, delivered, held)
            elif replace_known and sender is not self.own and delivered != sender.window.delivered:
                self._move(member, sender, delivered)

    def _merge_digest(self, digest: Digest) -> None:
        self._digest_set = True
        for member, (delivered, _) in digest.seqnos.items():
            sender = self.senders.active(member)
            if sender is None:
                self.senders.begin_again(member, delivered, self.round.held)
            elif sender is not self.own and delivered > sender.window.delivered:
                self._move(member, sender, delivered)

    def _move(self, member: Address, sender: Sender, delivered: int) -> None:
        """Go on after ``delivered``, and deliver (again) the messages above it that are here."""
        after = self._back_to(member, sender, delivered)
        self.trace("moved", sender=member, before=sender.window.delivered, after=after)
        sender.move_to(after, self.round.held)
        self._deliver_soon(member, sender, self.delay)

    def _on_view(self, event: ViewChange) -> None:
        view = event.view
        self.view = view
        senders = self.senders
        self.departed_dropped += senders.close_others(view.members, self.now)
        for member in view.members:
            if member in senders.frozen:
                self._thaw(member)
            elif member not in senders.present:
                senders.begin(member, 0, self.round.held)
        if self.round.end(senders):
            self.machine.soon(self._deliver_held)

    def _send_withheld(self) -> None:
        withheld, self._withheld = self._withheld or [], None
        self._settled = 0
        for batch in withheld:
            self.down(batch)

    def _take_early(self) -> None:
        """Take the batches that came before their sender's view."""
        early, self._early = self._early, []
        for batch in early:
            if batch.src in self.senders.present:
                self.up(batch)
            else:
                self.non_member_dropped += len(batch.payloads)

    def _on_stable(self, digest: Digest) -> None:
        for member, (delivered, received) in digest.seqnos.items():
            sender = self._present(member)
            if sender is None:
                continue
            window = sender.window
            stable = min(delivered, window.delivered)
            if stable > sender.purged and (sender is self.own or not self._keeping):
                sender.purged = stable
                sender.kept.drop_to(stable)
            if sender is not self.own:
                # The coordinator's message can overtake messages of that member under way to us.
                self._on_highest(member, received, self.config.xmit_interval)
        self.senders.forget_departed(self.now, self.config.departed_remembered)
        if self._blocked and self.own.kept.size <= self.config.max_unstable // 2:
            self._blocked = False
            self.pass_event_up(FlowOpened(self.name, None))

    # --- looking

    def check(self) -> None:
        senders = self.senders
        senders.check(self.round.held, self._seqno)
        if self.view is not None:
            for member in self.view.members:
                assert member in senders.present or member in senders.frozen
        assert len(self._early) <= self.config.max_buffered_before_join
        waiting = any(s.gaps.deadline is not None for s in senders.present.values())
        assert self._gap_timer.armed or not waiting

    def statistics(self) -> dict[str, int | float]:
        stats = super().statistics()
        everybody = self.senders.everybody()
        stats["kept"] = sum(sender.kept.count for sender in everybody)
        # max_unstable bounds own messages.
        stats["pending"] = sum(s.window.pending.count for s in everybody if s is not self.own)
        stats["kept_bytes"] = sum(sender.kept.size for sender in everybody)
        stats["unstable"] = self.own.kept.count
        stats["seqno"] = self._seqno
        return stats


has_settings(NAKACK2, Nakack2Config)
