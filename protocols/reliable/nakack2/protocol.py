"""NAKACK2: reliable multicast. Every member gets every sender's messages, in order, once.

Place: above failure detection, below UNICAST3 and STABLE.

    multicast from above      number it, keep it until stable, send it
    MSG from P                next one: deliver; beyond a gap: keep, ask for the gap; old: drop
    MSG with OOB              deliver at once, it still takes its place in the order
    XMIT_REQ(P) from Q        send Q what it misses of P (P may be anybody whose messages are here)
    XMIT_RSP from Q           as MSG
    HIGHEST_SEQNO from P      P has sent that much: is something missing at the end?
    nothing sent for a while  HIGHEST_SEQNO
    Stable                    forget what everybody has; while a state is awaited, only own messages
    SetDigest, MergeDigest    where to start with a sender
    ViewChange                senders that left are closed, new ones begin at 0
    Freeze .. Release         survivors agree: nakack2_round.py
    Withhold                  the application's multicasts wait for the next view: the others have gone on
                              without us, and begin after what was numbered until now (``_settled``)

What is asked for and who answers: nakack2_repair.py.

Messages of senders that are not in the view wait (``max_buffered_before_join`` batches): after a
join their view is on its way. Those who never join are dropped with the next view.

Own multicasts come back from the transport and are delivered in their turn like all others.

Source:  JGroups NAKACK2.java; WIRE.md 11.4; RELAY.md "Survivors agree".
Differs: gaps are asked for once after ``xmit_delay`` and then at growing intervals, after
         ``ask_others_after`` vain requests at other members too; answers on behalf of others go
         to the asker alone. HIGHEST_SEQNO is repeated ``resend_last_seqno_max_count`` times.
         What its sender has forgotten is not asked for any more (GONE). Departed senders' messages
         are kept until all have installed a view without them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from jgroups_py.config.settings import Bytes, Seconds
from jgroups_py.protocols.reliable.nakack2.agreement import Round
from jgroups_py.protocols.reliable.nakack2.repair import Repair
from jgroups_py.protocols.reliable.nakack2.sender import Left, Sender, cut
from jgroups_py.stack.protocol import Protocol
from jgroups_py.stack.services import MULTICAST, STABILITY
from jgroups_py.stack.windows import GapClock, ReceiveWindow, compact
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import (
    Event,
    Fetch,
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
from jgroups_py.values.message import Flag, Transient
from jgroups_py.values.view import Digest, View
from jgroups_py.wire.headers import PROTOCOL_IDS, FragHeader, NakAckHeader2, NakAckType

_ID: Final = PROTOCOL_IDS["NAKACK2"]
_SEQNO_LIST: Final = 15
_OOB: Final = int(Flag.OOB)
_NO_RELIABILITY: Final = int(Flag.NO_RELIABILITY)
_DONT_LOOPBACK: Final = int(Transient.DONT_LOOPBACK)
_CONTROL: Final = int(Flag.OOB | Flag.NO_FC)
_MAX_ASKERS: Final = 1000
"""Members whose requests are answered within one ``xmit_interval``."""
_MSG: Final = NakAckType.MSG


class NAKACK2(Protocol):
    """See the module's docstring."""

    protocol_id: ClassVar[int] = _ID
    provides = (MULTICAST,)
    needs_above = (STABILITY,)

    @dataclass(frozen=True, kw_only=True)
    class Config(Protocol.Config):
        """Attributes of the protocol."""

        xmit_interval: Seconds = 1.0
        """A request that brought nothing is repeated after this, then after twice as long, ..."""
        xmit_delay: Seconds = 0.02
        """Packets may overtake each other by this before a gap is asked for; at most
        ``xmit_interval``."""
        use_mcast_xmit: bool = True
        """Answer requests for own messages by a multicast, not only to the member that asks."""
        max_xmit_req_size: int = 1024
        """Seqnos asked for, or answered, in one request."""
        ask_others_after: int = 3
        """After so many vain requests ask a member other than the sender."""
        xmit_from_random_member: bool = False
        """Always ask any member, to spare the sender."""
        max_xmit_bytes: Bytes = 4_000_000
        """Bytes retransmitted to one member per ``xmit_interval``."""
        resend_last_seqno_max_count: int = 3
        """How often HIGHEST_SEQNO is sent for the same seqno; 0 switches it off."""
        max_window: int = 131_072
        """Messages of one sender beyond the last delivered one; what is further off is dropped."""
        max_window_bytes: Bytes = 50_000_000
        """The same in bytes; the one that closes the gap is always taken."""
        max_buffered_before_join: int = 50
        """Batches of senders that are not in the view (yet)."""
        max_unstable: Bytes = 100_000_000
        """Own messages that are not stable; beyond, FlowBlocked asks the channel to wait."""
        max_departed: int = 100
        """Departed senders whose messages are kept until everybody has a view without them; and of
        so many how far they were is remembered for ``departed_remembered``."""
        departed_remembered: Seconds = 300.0
        """A merge may bring back who departed, known less far than it was here: longer than others
        take to find out that it is dead."""

        ignored: ClassVar[frozenset[str]] = frozenset(
            {
                "use_mcast_xmit_req",
                "discard_delivered_msgs",
                "log_discard_msgs",
                "log_not_found_msgs",
                "resend_last_seqno",
                "max_rebroadcast_timeout",
                "suppress_time_non_member_warnings",
                "sends_can_block",
                "max_batch_size",
                "xmit_table_*",
            }
        )
        aliases: ClassVar[dict[str, str]] = {
            "become_server_queue_size": "max_buffered_before_join",
        }

        def __post_init__(self) -> None:
            self._above(0, "xmit_interval")
            self._at_least(1, "max_xmit_req_size", "max_xmit_bytes")
            self._at_least(1, "max_window", "max_window_bytes", "max_unstable")
            self._at_least(0, "xmit_delay", "ask_others_after", "resend_last_seqno_max_count")
            self._at_least(0, "max_buffered_before_join", "max_departed", "departed_remembered")

    config: Config

    def start(self) -> None:
        config = self.config
        self.delay = min(config.xmit_delay, config.xmit_interval)
        self._seqno = 0
        self.senders: dict[Address, Sender] = {}
        self.own = self._new_sender(0)
        self.senders[self.local_address] = self.own
        self.departed: dict[Address, Sender] = {}
        self.left: dict[Address, Left] = {}
        self.round = Round(self)
        self._keeping = False
        """A state is awaited: what is stable is kept, we may have to go back."""
        self.view: View | None = None
        self._digest_set = False
        self._early: list[Batch] = []
        self._blocked = False
        self._withheld: list[Batch] | None = None
        """What the application has multicast since Withhold; at most what flow control lets through."""
        self._settled = 0
        """Own seqno at Withhold: who went on without us will not deliver anything up to here."""
        self.repair = Repair(self)
        self._last_timer = self.timer(self._on_last)
        self._last_seqno = 0
        self._last_count = 0

        self.sent = 0
        self.delivered = 0
        self.duplicates = 0
        self.gaps_seen = 0
        self.requests_sent = 0
        self.requests_received = 0
        self.retransmitted = 0
        self.not_found = 0
        self.lost = 0
        """Messages passed over because their sender has forgotten them."""
        self.limited = 0
        """Requests cut short because the asker had got its share (``max_xmit_bytes``)."""
        self.window_dropped = 0
        self.non_member_dropped = 0
        self.early_dropped = 0
        self.frozen_dropped = 0
        self.bad = 0
        self.last_sent = 0
        """HIGHEST_SEQNO sent."""
        self.departed_dropped = 0
        self.times_blocked = 0
        self.withheld = 0
        """Messages that waited for a view because the others had gone on without this member."""

    @property
    def seqno(self) -> int:
        """Of our last message; 0: none was sent."""
        return self._seqno

    def _new_sender(self, delivered: int) -> Sender:
        return Sender(delivered, self.config.xmit_interval)

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
        if self._last_timer.deadline is None:
            self._arm_last()
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
            self.pass_up(batch)
            return
        if type(header) is not NakAckHeader2 or batch.src is None:
            if type(header) is FragHeader and batch.src is not None:
                self.repair.on_gone(batch.src, header.id, header.index)
                return
            self.bad += 1
            self.trace("bad_header", sender=batch.src)
            return
        kind = header.type
        if kind == _MSG:
            first = header.seqno
            sender = self.senders.get(batch.src)
            if sender is not None:
                window = sender.window
                if (
                    first == window.delivered + 1
                    and not window.pending.firsts
                    and not window.closed
                ):
                    count = len(batch.payloads)
                    window.delivered = last = first + count - 1
                    if last > window.known:
                        window.known = last
                    if sender is not self.own:
                        batch = compact(batch)
                        sender.kept.append(first, batch)
                    self.delivered += count
                    self.pass_up(batch)
                    return
            self._on_data(batch, first)
        elif kind == NakAckType.XMIT_REQ:
            self.repair.on_request(batch, header)
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

    def _on_data(self, batch: Batch, first: int) -> None:
        """Any run that is not simply the next one."""
        src = batch.src
        assert src is not None
        count = len(batch.payloads)
        sender = self.senders.get(src)
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
        if too_far and sender is not self.own:  # own ones are kept anyway, and not asked for
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
            self.round.go_on()
        if window.has_gap and sender is not self.own and self.senders.get(src) is sender:
            self.repair.saw_gap(src, sender, self.delay)

    def deliver(self, sender: Sender) -> None:
        window = sender.window
        while (run := window.next()) is not None:
            self.delivered += len(run.payloads)
            self.pass_up(run)

    def _on_stranger(self, src: Address, batch: Batch, first: int) -> None:
        """A run of somebody who is not a sender of this view."""
        frozen = self.round.frozen.get(src)
        count = len(batch.payloads)
        if frozen is not None:
            if first <= frozen.goal:
                self.round.on_fetched(frozen, batch, first)
            else:
                self.frozen_dropped += count
        elif src in self.departed:
            self.non_member_dropped += count
        elif len(self._early) < self.config.max_buffered_before_join:
            self._early.append(batch)
        elif self._digest_set:
            self.non_member_dropped += count
        else:
            self.early_dropped += count

    def _on_highest(self, src: Address | None, seqno: int, delay: float = 0.0) -> None:
        """``src`` has sent up to ``seqno``; what we lack is asked for after ``delay``."""
        sender = None if src is None else self.senders.get(src)
        if src is None or sender is None or sender is self.own:
            return
        window = sender.window
        seqno = min(seqno, window.delivered + self.config.max_window)
        if seqno > window.known:
            window.known = seqno
            self.repair.saw_gap(src, sender, delay)

    # --- the last message

    def _arm_last(self) -> None:
        if self.config.resend_last_seqno_max_count > 0:
            self._last_seqno = self._seqno
            self._last_count = 0
            self._last_timer.start(self.config.xmit_interval)

    def _on_last(self) -> None:
        if self._seqno > self._last_seqno:
            self._arm_last()
            return
        if self.own.purged >= self._seqno:
            return
        self._last_count += 1
        self.last_sent += 1
        header = NakAckHeader2(NakAckType.HIGHEST_SEQNO, self._seqno)
        if self._last_count < self.config.resend_last_seqno_max_count:
            self._last_timer.start(self.config.xmit_interval * 2**self._last_count)
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
                self.round.freeze(event.departed)
            case Fetch():
                self.round.fetch(event)
            case Thaw():
                self.round.thaw(event.members)
            case Release():
                self.round.release()
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
                sender = self.find(member)
                if sender is not None:
                    return sender.window.delivered
                left = self.left.get(member)
                return None if left is None else left.delivered
            case GetSentAfter(seqno):
                after = max(seqno, self.own.purged) + 1
                return tuple(run for _, run in self.own.kept.between(after, self._seqno))
            case GetDeparted(members):
                return tuple(m for m in members if m in self.departed or m in self.left)
        return None

    def find(self, member: Address) -> Sender | None:
        return (
            self.senders.get(member) or self.round.frozen.get(member) or self.departed.get(member)
        )

    def _digest_of(self, members: tuple[Address, ...] | None) -> Digest:
        if members is None:
            first = () if self.view is None else self.view.members
            members = tuple(
                dict.fromkeys([*first, *self.senders, *self.round.frozen, *self.departed])
            )
        seqnos: dict[Address, tuple[int, int]] = {}
        for member in members:
            sender = self.find(member)
            if sender is None:
                seqnos[member] = (0, 0)
            elif sender is self.own:
                seqnos[member] = (max(sender.window.delivered, self._settled), self._seqno)
            elif member in self.round.frozen:
                seqnos[member] = (sender.window.delivered, sender.window.delivered)
            else:
                seqnos[member] = (sender.window.delivered, sender.window.received)
        return Digest(seqnos)

    def _set_digest(self, digest: Digest, replace_known: bool) -> None:
        self._digest_set = True
        for member, (delivered, _) in digest.seqnos.items():
            sender = self.senders.get(member)
            frozen = self.round.frozen.get(member)
            if frozen is not None:
                if replace_known:
                    self.round.again(member, frozen, delivered)
            elif sender is None:
                if replace_known:  # the state that it describes is as old as it says
                    self.departed.pop(member, None)
                self._begin(member, delivered)
            elif replace_known and sender is not self.own and delivered != sender.window.delivered:
                self.move(member, sender, delivered)

    def _merge_digest(self, digest: Digest) -> None:
        self._digest_set = True
        for member, (delivered, _) in digest.seqnos.items():
            sender = self.senders.get(member) or self.round.frozen.get(member)
            if sender is None:
                left = self.left.get(member)
                self._begin(member, delivered if left is None else max(delivered, left.delivered))
                if left is not None and member in self.senders:
                    self.senders[member].window.passed |= left.passed
            elif sender is not self.own and delivered > sender.window.delivered:
                self.move(member, sender, delivered)

    def _begin(self, member: Address, delivered: int) -> None:
        """Takes what ``member`` sends after ``delivered``, and nothing a second time."""
        if member in self.round.frozen:
            return
        departed = self.departed.pop(member, None)
        if departed is not None:
            delivered = max(delivered, departed.window.delivered)
        self.left.pop(member, None)
        sender = self.senders[member] = self._new_sender(delivered)
        sender.window.closed = self.round.held
        if departed is not None:
            sender.window.passed = departed.window.passed

    def move(self, member: Address, sender: Sender, delivered: int) -> None:
        """Goes on after ``delivered``; messages above it that are here are delivered (again)."""
        window = sender.window
        if delivered < sender.purged:
            self.trace("cannot_go_back", sender=member, to=delivered, stable=sender.purged)
            delivered = sender.purged
        self.trace("moved", sender=member, before=window.delivered, after=delivered)
        if delivered < window.delivered:
            window = ReceiveWindow(delivered)
            window.closed = self.round.held
            window.known = sender.window.known
            for first, run in sender.kept.between(delivered + 1, sender.kept.last):
                window.pending.append(first, run)
            sender.window.closed = True
            sender.window = window
        else:
            window.move_to(delivered)
        sender.gaps = GapClock(self.config.xmit_interval)

        def deliver() -> None:
            if self.senders.get(member) is sender:
                self.deliver(sender)
                if sender.window.has_gap:
                    self.repair.saw_gap(member, sender, self.delay)

        self.machine.soon(deliver)

    def _on_view(self, event: ViewChange) -> None:
        view = event.view
        self.view = view
        for member, sender in [*self.senders.items(), *self.round.frozen.items()]:
            if member in view.members:
                continue
            self.senders.pop(member, None)
            self.round.frozen.pop(member, None)
            if member == self.local_address:
                continue
            sender.window.closed = True
            sender.kept = cut(sender.kept, sender.window.delivered)
            sender.window.forget_pending()
            self.departed[member] = sender
            if len(self.departed) > self.config.max_departed:
                self._drop_departed(next(iter(self.departed)))
                self.departed_dropped += 1
        self.senders[self.local_address] = self.own
        for member in view.members:
            if member in self.round.frozen:
                self.round.unfreeze(member)
            elif member not in self.senders:
                self._begin(member, 0)
        self.round.end()

    def _send_withheld(self) -> None:
        withheld, self._withheld = self._withheld or [], None
        self._settled = 0
        for batch in withheld:
            self.down(batch)

    def _drop_departed(self, member: Address) -> None:
        """Nobody needs its messages any more; how far it was is remembered for a while."""
        window = self.departed.pop(member).window
        self.left[member] = Left(window.delivered, window.passed, self.now)
        if len(self.left) > self.config.max_departed:
            del self.left[next(iter(self.left))]

    def _take_early(self) -> None:
        """What came before its sender's view."""
        early, self._early = self._early, []
        for batch in early:
            if batch.src in self.senders:
                self.up(batch)
            else:
                self.non_member_dropped += len(batch.payloads)

    def _on_stable(self, digest: Digest) -> None:
        for member, (delivered, received) in digest.seqnos.items():
            sender = self.senders.get(member)
            if sender is None:
                continue
            window = sender.window
            stable = min(delivered, window.delivered)
            if stable > sender.purged and (sender is self.own or not self._keeping):
                sender.purged = stable
                sender.kept.drop_to(stable)
            if sender is not self.own:
                # The coordinator's word can overtake what that member itself has under way to us.
                self._on_highest(member, received, self.config.xmit_interval)
        for member in list(self.departed):
            self._drop_departed(member)
        if self.left:
            since = self.now - self.config.departed_remembered
            self.left = {m: entry for m, entry in self.left.items() if entry.at >= since}
        if self._blocked and self.own.kept.size <= self.config.max_unstable // 2:
            self._blocked = False
            self.pass_event_up(FlowOpened(self.name, None))

    # --- looking

    def check(self) -> None:
        assert self.senders[self.local_address] is self.own
        for member, sender in self.senders.items():
            self._check_sender(member, sender, True)
        for member, sender in self.round.frozen.items():
            self._check_sender(member, sender, False)
        assert not (self.senders.keys() & self.round.frozen.keys())
        if self.view is not None:
            for member in self.view.members:
                assert member in self.senders or member in self.round.frozen
        assert len(self._early) <= self.config.max_buffered_before_join
        waiting = any(s.gaps.deadline is not None for s in self.senders.values())
        assert self.repair.asks or not waiting

    def _check_sender(self, member: Address, sender: Sender, present: bool) -> None:
        """Again only when something of it changed."""
        window, kept, gaps = sender.window, sender.kept, sender.gaps
        pending = window.pending
        state = (
            window.delivered,
            window.known,
            window.closed,
            pending.count,
            pending.size,
            len(window.early),
            kept.count,
            kept.size,
            kept.firsts[-1] if kept.firsts else 0,
            sender.purged,
            gaps.new_at,
            gaps.again_at,
            present,
        )
        if state == sender.checked:
            if sender is not self.own:
                return
        else:
            window.check()
            kept.check()
            assert sender.purged <= window.delivered
            assert window.closed == (self.round.held or not present)
            sender.checked = state
        if sender is self.own:
            assert kept.last in (0, self._seqno)
            assert window.known <= self._seqno
        elif present and window.has_gap:
            assert gaps.deadline is not None, f"nobody asks {member}"

    def statistics(self) -> dict[str, int | float]:
        stats = super().statistics()
        everybody = [*self.senders.values(), *self.round.frozen.values(), *self.departed.values()]
        stats["kept"] = sum(sender.kept.count for sender in everybody)
        # Own ones are bounded by max_unstable.
        stats["pending"] = sum(s.window.pending.count for s in everybody if s is not self.own)
        stats["kept_bytes"] = sum(sender.kept.size for sender in everybody)
        stats["unstable"] = self.own.kept.count
        stats["seqno"] = self._seqno
        return stats
