"""Reservation: an update of the index that waits for a move, so that the bucket's lock need not wait for the index.

    Reserve         manager -> index: prepare this row
    lock            as for any update; then the new state goes to all copies, which keep it apart: it is no proposal yet
    Reserved        index -> manager: lock the bucket now
    Redeem          manager -> each copy: the kept state is a proposal from now on, and the copy tells the initiator
    unlock          when all copies have told it, as for any update

A reservation ends if it is not redeemed within ``ask_timeout``, or within twice the time of its preparation, if that is longer. It also
ends if one of its parties leaves the view, or if it holds up a change after a view. Then its manager asks without preparation. Kept states
are forgotten with the lock of their update; a redeemed one is a proposal as any other, which the next update finds and finishes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from jgroups_py.buckets.ends import Cep
from jgroups_py.buckets.messages import BucketRow, IndexState, Txn


@dataclass
class Reservation:
    """A move and the row that it asks for."""

    manager: Cep
    ask: int
    row: BucketRow

    def parties(self) -> set[str]:
        """Return the members without which the move makes no sense."""
        ceps = (self.manager, self.row.master, self.row.slave)
        return {cep.member for cep in ceps if cep is not None}


@dataclass(frozen=True)
class KeptState:
    """A state that is no proposal before its manager redeems it."""

    txn: Txn
    manager: Cep
    state: IndexState


class Reservations:
    """The moves that wait for their turn at one index copy."""

    def __init__(self) -> None:
        self._waiting: deque[Reservation] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, reservation: Reservation) -> None:
        """Put a reservation last, or in the place of an earlier one of the same manager for the same bucket."""
        who = (reservation.manager, reservation.row.bucket)
        for place, waiting in enumerate(self._waiting):
            if (waiting.manager, waiting.row.bucket) == who:
                self._waiting[place] = reservation
                return
        self._waiting.append(reservation)

    def put_back(self, reservation: Reservation) -> None:
        """Put a reservation first again, unless its manager has asked anew."""
        who = (reservation.manager, reservation.row.bucket)
        if all((r.manager, r.row.bucket) != who for r in self._waiting):
            self._waiting.appendleft(reservation)

    def next(self, members: tuple[str, ...]) -> Reservation | None:
        """Take the first reservation whose parties are all in the view. Those before it are forgotten: their managers
        ask again."""
        while self._waiting:
            reservation = self._waiting.popleft()
            if reservation.parties() <= set(members):
                return reservation
        return None
