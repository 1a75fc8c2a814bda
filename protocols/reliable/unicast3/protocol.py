"""UNICAST3: reliable unicast. Messages between two members come in order, once.

Place: above NAKACK2, below STABLE.

    unicast from above        Number it on the connection to its destination, keep it until it is acked.
    DATA from P               Deliver the next one. Keep one beyond a gap, and ask for the gap. Drop an old
                              one. Drop one that is too far off, and ask for the ones before it.
    unicast without number    Turn it away, unless it says NO_RELIABILITY.
    DATA, first               The connection of P to us begins (again) at this seqno.
    DATA, no such connection  Keep a few. SEND_FIRST_SEQNO to P.
    SEND_FIRST_SEQNO from P   Send the oldest message that is not acked again, as first.
    ACK from P                Forget the messages that P has.
    XMIT_REQ from P           Send those messages again.
    nothing acked for a while Send the last message again, at growing intervals.
    CLOSE from P              Forget P's connection to us.
    connection to P idle      After expiry and close time-out: CLOSE to P, forget the connection.
    ViewChange                Close connections to members that left.

Unicasts to this member itself, to physical addresses and with NO_RELIABILITY pass by.

The tables know no protocol: outgoing.py has the connections to destinations, incoming.py those from senders, and
unknown.py the messages whose connection is not known. Only the protocol sends, passes on, counts and keeps time.

Source:  JGroups UNICAST3.java; WIRE.md 11.5.
Differs: a member asks for a gap once after ``xmit_delay`` and then at growing intervals. It ignores a
         first message of an older connection (their numbers are a counter). It gives up a connection to a member
         outside the view that sends no ack for ``max_retransmit_time``. It remembers for ``departed_remembered`` the
         delivered number of a sender outside the view. Messages kept for destinations outside the view have limits for
         all of them together (max_strangers, max_strangers_bytes). The ack for ack_threshold messages leaves after
         the other messages of its turn, since somebody may wait for these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final, TypeAlias

from jgroups_py.protocols.reliable.unicast3.config import Unicast3Config
from jgroups_py.protocols.reliable.unicast3.incoming import IncomingConnection, UnicastSenders
from jgroups_py.protocols.reliable.unicast3.outgoing import (
    CONN_IDS,
    Destinations,
    OutgoingConnection,
)
from jgroups_py.protocols.reliable.unicast3.unknown import UnknownConnections
from jgroups_py.stack.protocol import Protocol
from jgroups_py.stack.services import UNICAST
from jgroups_py.stack.windows import compact, spans_of
from jgroups_py.values.address import Address, IpAddress
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import (
    Event,
    FlowBlocked,
    FlowOpened,
    GetUnacknowledged,
    Query,
    ViewChange,
)
from jgroups_py.values.message import Flag, MessageType
from jgroups_py.values.native import has_settings, mypyc_attr
from jgroups_py.values.payloads import SeqnoList, Streamable
from jgroups_py.values.view import View
from jgroups_py.wire.headers import PROTOCOL_IDS, UnicastHeader3, UnicastType

_ID: Final = PROTOCOL_IDS["UNICAST3"]
_SEQNO_LIST: Final = 15
_OOB: Final = int(Flag.OOB)
_NO_FC: Final = int(Flag.NO_FC)
_NO_RELIABILITY: Final = int(Flag.NO_RELIABILITY)
_CONTROL: Final = int(Flag.OOB | Flag.NO_FC)
_DATA: Final = UnicastType.DATA
_ACK_AFTER: Final = 0.5
"""Acks leave after this part of xmit_interval. After a whole xmit_interval the sender repeats its last message."""
_FACTOR_MAX: Final = 8
"""The last message is sent again after 1, 2, 4, 8, 8, ... times xmit_interval."""


@mypyc_attr(allow_interpreted_subclasses=True)
class UNICAST3(Protocol):
    """See the module's docstring."""

    protocol_id: ClassVar[int] = _ID
    provides = (UNICAST,)
    turns_away: ClassVar[Mapping[str, str]] = {
        "unnumbered": "a unicast without a number that does not say NO_RELIABILITY: no member sends such",
        "stranger": "messages to a destination outside the view were given up for others, max_strangers or max_strangers_bytes",
    }

    Config: TypeAlias = Unicast3Config

    config: Unicast3Config

    def start(self) -> None:
        config = self.config
        self._delay = min(config.xmit_delay, config.xmit_interval)
        self._ack_threshold = config.ack_threshold
        self.destinations = Destinations(config.max_strangers, config.max_strangers_bytes)
        self.senders = UnicastSenders(config.xmit_interval, config.max_strangers)
        self.unknown = UnknownConnections(config.max_strangers, config.max_cached)
        self._outgoing = self.destinations.connections
        self._incoming = self.senders.connections
        self._timestamp = 0
        self._acks_due: dict[Address, IncomingConnection] = {}
        """Connections with ``ack_threshold`` messages that are acknowledged at the end of this turn."""
        self._view: View | None = None
        self._tick = self.timer(self._on_tick)
        self._gap_timer = self.timer(self._on_gaps)
        self._expiry = self.timer(self._on_expiry)

        self.sent = 0
        self.delivered = 0
        self.duplicates = 0
        self.gaps_seen = 0
        self.requests_sent = 0
        self.requests_received = 0
        self.retransmitted = 0
        self.not_found = 0
        self.limited = 0
        self.acks_sent = 0
        self.acks_received = 0
        self.stale_acks = 0
        self.last_resent = 0
        """Number of times that the last message was sent again for lack of an ack."""
        self.first_requested = 0
        self.window_dropped = 0
        self.unknown_dropped = 0
        self.unacked_dropped = 0
        """Messages that were not acked when their connection was given up."""
        self.given_up = 0
        self.closed = 0
        self.strangers_dropped = 0
        self.bad = 0
        self.times_blocked = 0

    # --- down

    def down(self, batch: Batch) -> None:
        dest = batch.dest
        if (
            dest is None
            or batch.flags & _NO_RELIABILITY
            or dest == self.stack.address
            or type(dest) is IpAddress
        ):
            self.pass_down(batch)
            return
        conn = self._outgoing.get(dest)
        if conn is None:
            conn = self._connect(dest)
        conn.used_at = self.machine.now
        if conn.stranger:
            self._send_to_stranger(dest, conn, batch)
        else:
            self._send(dest, conn, batch)

    def _send(self, dest: Address, conn: OutgoingConnection, batch: Batch) -> None:
        now = self.machine.now
        count = len(batch.payloads)
        self.sent += count
        first = conn.seqno + 1
        conn.seqno += count
        if conn.resend_at is None:
            conn.resend_at = conn.progress_at = now + self.config.xmit_interval
            conn.tries = 0
            self._arm_tick(conn.resend_at)
        if first == 1:
            head = batch.slice(0, 1).with_header(_ID, UnicastHeader3(_DATA, 1, conn.conn_id, True))
            conn.kept.append(1, head)
            if count == 1:
                self.pass_down(head)
                return
            batch = batch.slice(1, count).with_header(_ID, UnicastHeader3(_DATA, 2, conn.conn_id))
            conn.kept.append(2, batch)
            self.pass_down(head)
            self.pass_down(batch)
            return
        batch = batch.with_header(_ID, UnicastHeader3(_DATA, first, conn.conn_id))
        conn.kept.append(first, batch)
        self.pass_down(batch)
        if conn.kept.size > self.config.max_unacked and not conn.blocked:
            conn.blocked = True
            self.times_blocked += 1
            self.trace("blocked", dest=dest, unacked=conn.kept.count)
            self.pass_event_up(FlowBlocked(self.name, dest, (dest,), "acknowledgement"))

    def _connect(self, dest: Address) -> OutgoingConnection:
        conn = self.destinations.connect(dest, self.now, dest not in self._members())
        self.trace("connect", dest=dest, conn_id=conn.conn_id)
        self._arm_expiry()
        return conn

    def _send_to_stranger(self, dest: Address, conn: OutgoingConnection, batch: Batch) -> None:
        """Send to a destination outside the view. Give up connections to others if too much is kept for them."""
        destinations = self.destinations
        while (former := destinations.crowded_out(dest, batch.length)) is not None:
            self.turn_away("stranger", former[0])
            self._give_up(*former)
        destinations.use_stranger(dest, conn)
        before = conn.kept.size
        self._send(dest, conn, batch)
        destinations.kept_more(conn.kept.size - before)

    # --- up

    def up(self, batch: Batch) -> None:
        header = batch.headers.get(_ID)
        if header is None:
            if (
                batch.dest is None
                or batch.flags & _NO_RELIABILITY
                or batch.src == self.local_address
            ):
                self.pass_up(batch)
            else:
                self.turn_away("unnumbered", batch.src, len(batch))
            return
        src = batch.src
        if type(header) is not UnicastHeader3 or src is None or batch.dest is None:
            self.bad += 1
            self.trace("bad_header", sender=src)
            return
        kind = header.type
        if kind == _DATA:
            conn = self._incoming.get(src)
            if conn is not None and conn.conn_id == header.conn_id:
                window = conn.window
                first = header.seqno
                count = len(batch.payloads)
                if first == window.delivered + 1 and not window.pending.firsts:
                    window.delivered = last = first + count - 1
                    if last > window.known:
                        window.known = last
                    self.delivered += count
                    conn.unacked += count
                    if not conn.ack_due or conn.unacked >= self._ack_threshold:
                        self._ack_soon(src, conn)
                    self.pass_up(batch)
                else:
                    self._on_data(src, conn, batch, first)
                return
            self._on_other(src, conn, batch, header)
        elif kind == UnicastType.ACK:
            self._on_ack(src, header)
        elif kind == UnicastType.XMIT_REQ:
            self._on_request(src, batch)
        elif kind == UnicastType.SEND_FIRST_SEQNO:
            self._on_send_first(src, header.timestamp)
        elif kind == UnicastType.CLOSE:
            self._on_close(src, header.conn_id)
        else:
            self.bad += 1

    def _on_data(self, src: Address, conn: IncomingConnection, batch: Batch, first: int) -> None:
        """Take a run that is not simply the next one of its connection."""
        window = conn.window
        count = len(batch.payloads)
        if first < 1:
            self.bad += 1
            return
        last, most = first + count - 1, window.delivered + self.config.max_window
        if last > most or (
            first > window.delivered + 1 and window.pending.size + batch.length > self._room(src)
        ):
            self.window_dropped += count
            self.trace("window_full", sender=src, seqno=first, delivered=window.delivered)
            # The sender repeats only its last message by itself, which may stay too far off for ever.
            window.known = max(window.known, min(last, most))
            self._look_for_gap(src, conn)
            return
        pieces = window.add(first, compact(batch))
        conn.unacked += count
        if not conn.ack_due or conn.unacked >= self._ack_threshold:
            self._ack_soon(src, conn)
        if not pieces:
            self.duplicates += count
            return
        if batch.flags & _OOB:
            for piece in window.fresh(pieces):
                self.delivered += len(piece.payloads)
                self.pass_up(piece)
        while (run := window.next()) is not None:
            self.delivered += len(run.payloads)
            self.pass_up(run)
        self._look_for_gap(src, conn)

    def _look_for_gap(self, src: Address, conn: IncomingConnection) -> None:
        window = conn.window
        if window.has_gap and not window.closed:
            at = self.now + self._delay
            if conn.gaps.saw(window.known, at):
                self.gaps_seen += 1
                self.trace("gap", sender=src, delivered=window.delivered, known=window.known)
                self._arm_gaps(at)

    def _room(self, src: Address) -> int:
        """Return the bytes of ``src`` that may wait for a gap to close. Strangers share one member's room."""
        config = self.config
        if src in self._members():
            return config.max_window_bytes
        return config.max_window_bytes // config.max_strangers

    def _on_other(
        self, src: Address, conn: IncomingConnection | None, batch: Batch, header: UnicastHeader3
    ) -> None:
        """Take data of an unknown connection: a new one, an old one, or one that we forgot."""
        if conn is not None and (conn.conn_id - header.conn_id) % CONN_IDS < CONN_IDS // 2:
            self.duplicates += len(batch.payloads)
            return
        if header.first:
            if header.seqno < 1:
                self.bad += 1
                return
            if conn is not None:
                self.senders.forget(src)
            elif src not in self._members() and self.senders.make_room(self._members()):
                self.strangers_dropped += 1
            self.senders.accept(src, header.conn_id, header.seqno, self.now)
            self.trace("accept", sender=src, conn_id=header.conn_id, seqno=header.seqno)
            self._arm_expiry()
            cached = self.unknown.take(src)
            self.up(batch)
            for waiting in cached:
                told = waiting.headers[_ID]
                assert isinstance(told, UnicastHeader3)
                if told.conn_id == header.conn_id:
                    self.up(waiting)
            return
        if self.unknown.make_room(src):
            self.strangers_dropped += 1
        if not self.unknown.keep(src, batch, self._room(src)):
            self.unknown_dropped += len(batch.payloads)
        self._arm_expiry()
        if self.unknown.may_ask(src, self.now, self.config.sync_min_interval):
            self.first_requested += 1
            self.trace("ask_first", sender=src, conn_id=header.conn_id)
            ask = UnicastHeader3(UnicastType.SEND_FIRST_SEQNO, timestamp=self._stamp())
            self.pass_down(Batch.of(src, _ID, ask, flags=_CONTROL))

    def _members(self) -> tuple[Address, ...]:
        return () if self._view is None else self._view.members

    # --- acks

    def _stamp(self) -> int:
        self._timestamp += 1
        return self._timestamp

    def _ack_soon(self, src: Address, conn: IncomingConnection) -> None:
        if conn.unacked >= self._ack_threshold:
            self._acks_due[src] = conn
            self.machine.want_rest(self._send_acks)
        else:
            conn.ack_due = True
            conn.used_at = self.now
            self._arm_tick(self.now + self.config.xmit_interval * _ACK_AFTER)

    def _send_acks(self) -> None:
        """Acknowledge what came in this turn. The answers to it have left before."""
        due, self._acks_due = self._acks_due, {}
        if self.stack.closed:
            return
        for src, conn in due.items():
            if conn.unacked >= self._ack_threshold and self._incoming.get(src) is conn:
                self._ack(src, conn)

    def _ack(self, src: Address, conn: IncomingConnection) -> None:
        conn.unacked = 0
        conn.ack_due = False
        conn.used_at = self.now
        self.acks_sent += 1
        ack = UnicastHeader3(
            UnicastType.ACK, conn.window.delivered, conn.conn_id, timestamp=self._stamp()
        )
        self.pass_down(Batch.of(src, _ID, ack, flags=_NO_FC))

    def _on_ack(self, src: Address, header: UnicastHeader3) -> None:
        conn = self._outgoing.get(src)
        if (
            conn is None
            or conn.conn_id != header.conn_id
            or header.timestamp <= conn.last_ack
            or header.seqno > conn.seqno
        ):
            self.stale_acks += 1
            return
        self.acks_received += 1
        conn.last_ack = header.timestamp
        if header.seqno <= conn.acked:
            return
        conn.acked = header.seqno
        self.destinations.drop_to(conn, header.seqno)
        conn.tries = 0
        conn.progress_at = self.now
        if conn.acked >= conn.seqno:
            conn.resend_at = None
        else:
            conn.resend_at = self.now + self.config.xmit_interval
            self._arm_tick(conn.resend_at)
        if conn.blocked and conn.kept.size <= self.config.max_unacked // 2:
            conn.blocked = False
            self.pass_event_up(FlowOpened(self.name, src))

    # --- sending again

    def _on_request(self, asker: Address, batch: Batch) -> None:
        payload = batch.payloads[0]
        seqnos = payload.value if isinstance(payload, Streamable) else None
        if not isinstance(seqnos, SeqnoList):
            self.bad += 1
            self.trace("bad_request", asker=asker)
            return
        self.requests_received += 1
        conn = self._outgoing.get(asker)
        if conn is None:
            self.not_found += len(seqnos)
            return
        conn.begin_share(self.now, self.config.xmit_interval, self.config.max_xmit_bytes)
        for low, high in spans_of(seqnos, self.config.max_xmit_req_size):
            found = 0
            for first, run in conn.kept.between(low, high):
                if conn.share <= 0:
                    self.limited += 1
                    self.trace("limited", asker=asker, seqno=first)
                    return
                conn.share -= run.length
                found += len(run.payloads)
                self.retransmitted += len(run.payloads)
                self.trace("retransmit", to=asker, seqno=first, count=len(run.payloads))
                self.pass_down(run)
            self.not_found += high - low + 1 - found

    def _on_send_first(self, src: Address, timestamp: int) -> None:
        conn = self._outgoing.get(src)
        if conn is None or timestamp <= conn.last_ack:
            self.stale_acks += 1
            return
        conn.last_ack = timestamp
        for first, run in conn.kept.between(conn.acked + 1, conn.acked + 1):
            self.retransmitted += 1
            self.trace("send_first", to=src, seqno=first)
            header = UnicastHeader3(_DATA, first, conn.conn_id, True)
            self.pass_down(replace(run, headers={**run.headers, _ID: header}))

    def _arm_tick(self, at: float) -> None:
        timer = self._tick
        if timer.deadline is None or timer.deadline > at:
            timer.start_at(at)

    def _on_tick(self) -> None:
        """Send due acks, and the last message of connections without progress."""
        now = self.now
        for src, incoming in list(self._incoming.items()):
            if incoming.ack_due:
                self._ack(src, incoming)
        earliest: float | None = None
        for dest, conn in list(self._outgoing.items()):
            if conn.resend_at is None:
                continue
            if conn.resend_at <= now:
                if self._is_hopeless(dest, conn):
                    self._give_up(dest, conn)
                    continue
                self._resend_last(dest, conn)
            if earliest is None or conn.resend_at < earliest:
                earliest = conn.resend_at
        if earliest is not None:
            self._arm_tick(earliest)

    def _resend_last(self, dest: Address, conn: OutgoingConnection) -> None:
        interval = self.config.xmit_interval
        # Messages still flow: only a message whose last sending was a full interval ago may be lost.
        if conn.tries == 0 and conn.used_at + interval > self.now:
            conn.resend_at = conn.used_at + interval
            return
        conn.resend_at = self.now + interval * min(2**conn.tries, _FACTOR_MAX)
        conn.tries += 1
        self.last_resent += 1
        self.trace("resend_last", dest=dest, seqno=conn.seqno)
        for _, run in conn.kept.between(conn.seqno, conn.seqno):
            self.pass_down(run)

    def _is_hopeless(self, dest: Address, conn: OutgoingConnection) -> bool:
        return (
            dest not in self._members()
            and self.now - max(conn.progress_at, 0.0) >= self.config.max_retransmit_time
        )

    def _give_up(self, dest: Address, conn: OutgoingConnection) -> None:
        """Forget the connection and its unacked messages."""
        lost = conn.seqno - conn.acked
        self.unacked_dropped += lost
        self.given_up += 1
        self.trace("give_up", dest=dest, unacked=lost)
        self.destinations.forget(dest, conn)
        if conn.blocked:
            self.pass_event_up(FlowOpened(self.name, dest))

    # --- asking

    def _arm_gaps(self, at: float) -> None:
        timer = self._gap_timer
        if timer.deadline is None or timer.deadline > at:
            timer.start_at(at)

    def _on_gaps(self) -> None:
        earliest: float | None = None
        for src, conn in list(self._incoming.items()):
            gaps = conn.gaps
            deadline = gaps.deadline
            if deadline is None:
                continue
            wanted = gaps.due(conn.window, self.now, self._delay, self.config.max_xmit_req_size)
            if wanted is not None:
                self.requests_sent += 1
                self.trace("request", to=src, seqno=wanted.offset, count=len(wanted))
                self.pass_down(
                    Batch.of(
                        src,
                        _ID,
                        UnicastHeader3(UnicastType.XMIT_REQ),
                        payload=Streamable(_SEQNO_LIST, wanted),
                        type=MessageType.OBJECT,
                        flags=_CONTROL,
                    )
                )
            deadline = gaps.deadline
            if deadline is not None and (earliest is None or deadline < earliest):
                earliest = deadline
        if earliest is not None:
            self._arm_gaps(earliest)

    # --- the end of connections

    def _on_close(self, src: Address, conn_id: int) -> None:
        conn = self._incoming.get(src)
        if conn is not None and conn.conn_id == conn_id:
            self.trace("closed_by_peer", sender=src, conn_id=conn_id)
            self.senders.forget(src)

    def _arm_expiry(self) -> None:
        if self.config.conn_expiry_timeout > 0 and not self._expiry.armed:
            self._expiry.start(self.config.conn_expiry_timeout)

    def _on_expiry(self) -> None:
        config = self.config
        idle = self.now - config.conn_expiry_timeout - config.conn_close_timeout
        members = self._members()
        for dest, conn in list(self._outgoing.items()):
            if conn.used_at <= idle and conn.acked >= conn.seqno:
                self.destinations.forget(dest, conn)
                self.closed += 1
                self.trace("close", dest=dest, conn_id=conn.conn_id)
                if dest in members:
                    close = UnicastHeader3(UnicastType.CLOSE, conn_id=conn.conn_id)
                    self.pass_down(Batch.of(dest, _ID, close, flags=_NO_FC))
        # A member that still has us in its view may repeat unacked messages, even very late.
        long_ago = min(idle, self.now - config.departed_remembered)
        self.senders.forget_idle(members, idle, long_ago)
        self.unknown.forget_idle(idle)
        if self._outgoing or self._incoming or self.unknown:
            self._arm_expiry()

    def event_down(self, event: Event) -> None:
        if isinstance(event, ViewChange):
            self._view = event.view
            for member in event.view.left_since(event.old):
                conn = self._outgoing.get(member)
                if conn is not None:
                    self._give_up(member, conn)
                self.unknown.take(member)
                incoming = self._incoming.get(member)
                if incoming is not None:
                    # It is kept, so that no message is delivered twice; but no member is left to fill its gaps.
                    incoming.window.forget_pending()
            self.destinations.view_installed(event.view.members)
        self.pass_event_down(event)

    # --- looking

    def answer(self, query: Query) -> Any:
        match query:
            case GetUnacknowledged(members):
                known = [conn for m in members if (conn := self._outgoing.get(m)) is not None]
                return tuple(
                    run
                    for conn in known
                    for _, run in conn.kept.between(conn.acked + 1, conn.seqno)
                )
        return None

    def check(self) -> None:
        for dest, conn in self._outgoing.items():
            kept = conn.kept
            if conn.acked == conn.seqno and not (kept.firsts or kept.runs):
                assert kept.count == kept.size == 0
                assert conn.resend_at is None, dest
                continue
            kept.check()
            assert conn.acked <= conn.seqno
            assert conn.kept.last in (0, conn.seqno)
            assert (conn.resend_at is not None) == (conn.acked < conn.seqno), dest
            assert conn.resend_at is None or self._tick.armed
        self.destinations.check()
        for src, incoming in self._incoming.items():
            incoming.window.check()
            assert not incoming.ack_due or self._tick.armed
            if incoming.window.has_gap:
                assert incoming.gaps.deadline is not None, f"nobody asks {src}"
                assert self._gap_timer.armed
        self.unknown.check()

    def statistics(self) -> dict[str, int | float]:
        stats = super().statistics()
        stats["connections_out"] = len(self._outgoing)
        stats["connections_in"] = len(self._incoming)
        stats["unacked"] = sum(conn.kept.count for conn in self._outgoing.values())
        stats["pending"] = sum(conn.window.pending.count for conn in self._incoming.values())
        return stats


has_settings(UNICAST3, Unicast3Config)
