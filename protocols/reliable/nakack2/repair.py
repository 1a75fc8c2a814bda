"""NAKACK2, repairing: what is missing is asked for, and given to who asks.

    gap seen          asked for once after ``xmit_delay``, then all that is missing at growing intervals,
                      after ``ask_others_after`` vain requests at other members, too
    XMIT_REQ(P)       what it misses of P, from what is kept; ``max_xmit_bytes`` to one member in an
                      ``xmit_interval``
    ... of ourselves  what all of a view had in which the asker was not is forgotten: GONE up to there
    GONE from P       P's messages up to there cannot be had any more: go on behind them

Who was taken for dead and comes back by a merge is told where to begin. When that view is lost on its
way to it, and its maker too, it would ask for ever for what was forgotten while it was away.

On the wire GONE is a FragHeader (a class every Java member can parse) under NAKACK2's id: its id the
number, its index a sum over the sender's view. Who has another view has a merge or a view under way that
says it better. Only members of ours are told.

Source: see nakack2.py. GONE is not in JGroups.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final
from zlib import crc32

from jgroups_py.protocols.reliable.nakack2.sender import Sender
from jgroups_py.stack.windows import span_list, spans_of
from jgroups_py.values.address import UUID, Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.message import Flag, MessageType, Transient
from jgroups_py.values.payloads import SeqnoList, Streamable
from jgroups_py.values.view import View
from jgroups_py.wire.headers import PROTOCOL_IDS, FragHeader, NakAckHeader2, NakAckType
from jgroups_py.wire.primitives import encode_whole
from jgroups_py.wire.values import write_view_id

if TYPE_CHECKING:
    from jgroups_py.protocols.reliable.nakack2.protocol import NAKACK2

_ID: Final = PROTOCOL_IDS["NAKACK2"]
_SEQNO_LIST: Final = 15
_CONTROL: Final = int(Flag.OOB | Flag.NO_FC)
_DONT_LOOPBACK: Final = int(Transient.DONT_LOOPBACK)
_MAX_ASKERS: Final = 1000
"""Members whose requests are answered within one ``xmit_interval``."""


class Repair:
    """See the module's docstring."""

    def __init__(self, nak: NAKACK2) -> None:
        self.nak = nak
        self._timer = nak.timer(self._on_gaps)
        self._answered: dict[Address, list[float]] = {}

    @property
    def asks(self) -> bool:
        """Something will be asked for."""
        return self._timer.armed

    # --- asking

    def saw_gap(self, src: Address, sender: Sender, delay: float) -> None:
        nak = self.nak
        at = nak.now + delay
        if sender.gaps.saw(sender.window.known, at):
            nak.gaps_seen += 1
            nak.trace(
                "gap", sender=src, delivered=sender.window.delivered, known=sender.window.known
            )
            self.arm_gaps(at)

    def arm_gaps(self, at: float) -> None:
        timer = self._timer
        if timer.deadline is None or timer.deadline > at:
            timer.start_at(at)

    def _on_gaps(self) -> None:
        nak = self.nak
        limit = nak.config.max_xmit_req_size
        earliest: float | None = None
        for src, sender in [*nak.senders.items(), *nak.round.frozen.items()]:
            gaps = sender.gaps
            if gaps.deadline is None:
                continue
            frozen = src in nak.round.frozen
            window = sender.window
            if frozen and window.delivered >= sender.goal:
                gaps.new_at = gaps.again_at = None
                continue
            wanted = gaps.due(window, nak.now, nak.delay, limit)
            if wanted is not None and frozen:
                wanted = span_list(
                    ((a, min(b, sender.goal)) for a, b in spans_of(wanted, limit)), limit
                )
            if wanted is not None:
                self._ask(src, sender, wanted)
            if gaps.deadline is not None and (earliest is None or gaps.deadline < earliest):
                earliest = gaps.deadline
        if earliest is not None:
            self.arm_gaps(earliest)

    def _ask(self, src: Address, sender: Sender, wanted: SeqnoList) -> None:
        nak = self.nak
        to: Address = src
        tries = sender.gaps.tries
        if sender.holder is not None and (src in nak.round.frozen or tries % 2 == 0):
            to = sender.holder
        elif nak.config.xmit_from_random_member or (
            tries >= nak.config.ask_others_after and tries % 2
        ):
            others = [] if nak.view is None else nak.view.members
            choice = [m for m in others if m not in (nak.local_address, src)]
            if nak.config.xmit_from_random_member and src not in choice:
                choice.append(src)
            if choice:
                to = nak.random.choice(choice)
        nak.requests_sent += 1
        nak.trace("request", sender=src, to=to, seqno=wanted.offset, count=len(wanted))
        header = NakAckHeader2(NakAckType.XMIT_REQ, 0, src)
        payload = Streamable(_SEQNO_LIST, wanted)
        nak.pass_down(
            Batch.of(to, _ID, header, payload=payload, type=MessageType.OBJECT, flags=_CONTROL)
        )

    # --- answering

    def on_request(self, batch: Batch, header: NakAckHeader2) -> None:
        nak = self.nak
        asker, src = batch.src, header.sender
        payload = batch.payloads[0]
        seqnos = payload.value if isinstance(payload, Streamable) else None
        if asker is None or src is None or not isinstance(seqnos, SeqnoList):
            nak.bad += 1
            nak.trace("bad_request", asker=asker)
            return
        nak.requests_received += 1
        sender = nak.find(src)
        if sender is None:
            nak.not_found += len(seqnos)
            return
        budget = self._budget(asker)
        gone = 0
        for low, high in spans_of(seqnos, nak.config.max_xmit_req_size):
            found = 0
            for first, run in sender.kept.between(low, high):
                if budget[1] <= 0:
                    nak.limited += 1
                    nak.trace("limited", asker=asker, sender=src, seqno=first)
                    return
                budget[1] -= run.length
                found += len(run.payloads)
                self._resend(asker, sender, first, run)
            if found < high - low + 1:
                nak.not_found += high - low + 1 - found
                nak.trace("not_found", asker=asker, sender=src, seqno=low, last=high)
                if low <= sender.forgotten:
                    gone = min(high, sender.forgotten)
        ours = isinstance(asker, UUID) and asker.is_ours
        # Whom we took for dead does not know yet that it was: a merge tells where to begin.
        if gone and sender is nak.own and ours and nak.view is not None and asker in nak.view:
            told = FragHeader(gone, view_sum(nak.view), 0)
            nak.pass_down(Batch.of(asker, _ID, told, flags=_CONTROL))

    def on_gone(self, src: Address, gone: int, view: int) -> None:
        """``src`` keeps nothing up to ``gone`` any more. What is here of it is handed out all the same."""
        nak = self.nak
        sender = nak.senders.get(src) or nak.round.frozen.get(src)
        if sender is None or sender is nak.own or gone > sender.window.known:
            nak.bad += 1
            nak.trace("bad_gone", sender=src, seqno=gone)
            return
        if nak.view is None or view != view_sum(nak.view):
            return
        window = sender.window
        to = min(gone, window.pending.first - 1) if window.pending else gone
        if to <= window.delivered:
            return
        nak.lost += to - window.delivered
        nak.log.warning(
            "%d messages of %s are lost: its group had forgotten them when it went on without us",
            to - window.delivered,
            nak.name_of(src),
        )
        nak.move(src, sender, to)
        if nak.round.fetching:
            nak.machine.soon(nak.round.go_on)

    def _budget(self, asker: Address) -> list[float]:
        """[end of the current interval, bytes left in it] of a member that asks."""
        nak = self.nak
        answered = self._answered
        budget = answered.get(asker)
        if budget is None or budget[0] <= nak.now:
            answered = {m: b for m, b in answered.items() if b[0] > nak.now}
            self._answered = answered
            share = nak.config.max_xmit_bytes if len(answered) < _MAX_ASKERS else 0
            budget = [nak.now + nak.config.xmit_interval, share]
            if share:
                answered[asker] = budget
        return budget

    def _resend(self, asker: Address, sender: Sender, first: int, run: Batch) -> None:
        nak = self.nak
        nak.retransmitted += len(run.payloads)
        nak.trace("retransmit", to=asker, seqno=first, count=len(run.payloads))
        multicast = nak.config.use_mcast_xmit and sender is nak.own
        kind = NakAckType.MSG if multicast else NakAckType.XMIT_RSP
        nak.pass_down(
            replace(
                run,
                dest=None if multicast else asker,
                headers={**run.headers, _ID: NakAckHeader2(kind, first)},
                transient=run.transient | _DONT_LOOPBACK,
                credits=(),
            )
        )


def view_sum(view: View) -> int:
    """Of 31 bits: the same only for the same view."""
    return crc32(encode_whole(write_view_id, view.view_id)) & 0x7FFFFFFF
