"""NAKACK2, repair: makes requests for missing messages, and answers to other members' requests.

    gap seen          Ask for it once after ``xmit_delay``, then for all missing messages at growing intervals.
                      After ``ask_others_after`` vain requests ask other members, too.
    XMIT_REQ(P)       Send the kept messages of P that the asker lacks, at most ``max_xmit_bytes`` to one
                      member in an ``xmit_interval``.
    ... of ourselves  Send GONE if this member has forgotten the wanted messages, because all members of a view without
                      the asker had them.
    GONE from P       P's messages up to its number are lost. Go on behind them.

A member that was regarded as dead and comes back learns from a merge where to begin. If that view and its maker are lost,
the member would, without GONE, ask for ever for messages that were forgotten in its absence.

On the wire GONE is a FragHeader (a class every Java member can parse) under NAKACK2's id. The header's id is the
number, and its index a sum over the sender's view. A receiver with another view ignores it: a merge or a newer view is
under way to that receiver. GONE goes only to members of ours.

This part knows no protocol. It owns the bytes that each asker got in the present interval.

Source: see protocol.py. JGroups has no GONE.
"""

from __future__ import annotations

from random import Random
from typing import Final, NamedTuple
from zlib import crc32

from jgroups_py.protocols.reliable.nakack2.senders import Sender, Senders
from jgroups_py.stack.windows import ReceiveWindow, span_list, spans_of
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.payloads import SeqnoList
from jgroups_py.values.view import View
from jgroups_py.wire.primitives import encode_whole
from jgroups_py.wire.values import write_view_id

MAX_ASKERS: Final = 1000
"""Members whose requests are answered within one ``xmit_interval``."""


class RepairRequest(NamedTuple):
    """Ask ``to`` for these messages of ``sender``."""

    sender: Address
    to: Address
    wanted: SeqnoList


class Resend(NamedTuple):
    """Send this run again."""

    first: int
    run: Batch


class NotHere(NamedTuple):
    """A part of the answer: ``lacking``, some of the messages ``low`` to ``high``, are not here."""

    low: int
    high: int
    lacking: int


class Limited(NamedTuple):
    """The asker has got its share. The answer ends before ``first``."""

    first: int


class RepairAnswer(NamedTuple):
    """The answer to a request: steps in their order. ``gone``: up to here the sender has forgotten the requested
    messages; 0: none was forgotten."""

    steps: list[Resend | NotHere | Limited]
    gone: int


class Repair:
    """See the module's docstring. The arguments are attributes of the protocol, but for ``me`` (this member),
    ``delay`` (``xmit_delay``) and ``limit`` (``max_xmit_req_size``)."""

    def __init__(
        self,
        me: Address,
        random: Random,
        *,
        delay: float,
        limit: int,
        ask_others_after: int,
        xmit_from_random_member: bool,
        max_xmit_bytes: int,
        xmit_interval: float,
    ) -> None:
        self._me = me
        self._random = random
        self._delay = delay
        self._limit = limit
        self._ask_others_after = ask_others_after
        self._from_random_member = xmit_from_random_member
        self._max_xmit_bytes = max_xmit_bytes
        self._interval = xmit_interval
        self._answered: dict[Address, list[float]] = {}
        """Asker -> [end of the present interval, bytes left in it]."""

    # --- asking

    def due(
        self, senders: Senders, members: tuple[Address, ...], now: float
    ) -> tuple[list[RepairRequest], float | None]:
        """Return the due requests, and the time to look again. ``members``: of the view."""
        limit = self._limit
        requests = []
        earliest: float | None = None
        for src, sender in [*senders.present.items(), *senders.frozen.items()]:
            gaps = sender.gaps
            deadline = gaps.deadline
            if deadline is None:
                continue
            frozen = src in senders.frozen
            window = sender.window
            if frozen and window.delivered >= sender.goal:
                gaps.new_at = gaps.again_at = None
                continue
            wanted = gaps.due(window, now, self._delay, limit)
            if wanted is not None and frozen:
                wanted = span_list(
                    ((a, min(b, sender.goal)) for a, b in spans_of(wanted, limit)), limit
                )
            if wanted is not None:
                requests.append(
                    RepairRequest(src, self._asked(src, sender, frozen, members), wanted)
                )
            deadline = gaps.deadline
            if deadline is not None and (earliest is None or deadline < earliest):
                earliest = deadline
        return requests, earliest

    def _asked(
        self, src: Address, sender: Sender, frozen: bool, members: tuple[Address, ...]
    ) -> Address:
        """Return the member that is asked for messages of ``src``."""
        tries = sender.gaps.tries
        if sender.holder is not None and (frozen or tries % 2 == 0):
            return sender.holder
        if self._from_random_member or (tries >= self._ask_others_after and tries % 2):
            choice = [m for m in members if m not in (self._me, src)]
            if self._from_random_member and src not in choice:
                choice.append(src)
            if choice:
                return self._random.choice(choice)
        return src

    # --- answering

    def answer(self, asker: Address, sender: Sender, seqnos: SeqnoList, now: float) -> RepairAnswer:
        """Return the wanted messages of ``sender`` that ``asker`` gets."""
        budget = self._budget(asker, now)
        steps: list[Resend | NotHere | Limited] = []
        gone = 0
        for low, high in spans_of(seqnos, self._limit):
            found = 0
            for first, run in sender.kept.between(low, high):
                if budget[1] <= 0:
                    steps.append(Limited(first))
                    return RepairAnswer(steps, 0)
                budget[1] -= run.length
                found += len(run.payloads)
                steps.append(Resend(first, run))
            if found < high - low + 1:
                steps.append(NotHere(low, high, high - low + 1 - found))
                if low <= sender.forgotten:
                    gone = min(high, sender.forgotten)
        return RepairAnswer(steps, gone)

    def _budget(self, asker: Address, now: float) -> list[float]:
        answered = self._answered
        budget = answered.get(asker)
        if budget is None or budget[0] <= now:
            answered = {m: b for m, b in answered.items() if b[0] > now}
            self._answered = answered
            share = self._max_xmit_bytes if len(answered) < MAX_ASKERS else 0
            budget = [now + self._interval, share]
            if share:
                answered[asker] = budget
        return budget


def behind_gone(window: ReceiveWindow, gone: int) -> int:
    """Return the number from which to go on when all messages up to ``gone`` are lost. Those that this member has are still
    delivered."""
    return min(gone, window.pending.first - 1) if window.pending else gone


def view_sum(view: View) -> int:
    """Return a sum of 31 bits that distinguishes views."""
    return crc32(encode_whole(write_view_id, view.view_id)) & 0x7FFFFFFF
