"""MoveQuestions: the questions of a manager's moves to the index, repeated until there is an answer.

    Reserve        before the bucket is locked: prepare the new row at all copies, so that one message decides it later
    Redeem         the bucket is locked and everything has arrived: decide the prepared row
    SetLocation    the question without preparation, when there is no reservation or it is over

All managers ask the first copy, where their questions become one update or wait for each other, while simultaneous updates of several
copies refuse each other's locks. Another copy would need the same locks, so it is asked only after ``FIRST_ASKED``
questions. A copy in this process is asked last: if its buckets leave, this process may soon be stopped, and its decision would be known
only after its loss.
"""

from __future__ import annotations

from jgroups_py.buckets.copy import Copy
from jgroups_py.buckets.messages import Redeem, Reserve, Reserved, SetLocation
from jgroups_py.buckets.port import Port, index_copies
from jgroups_py.buckets.settings import InstanceSettings
from jgroups_py.buckets.transfer import Transfer

FIRST_ASKED = 5
"""The number of times that a move asks one index copy, once in each ``ask_timeout``, before it asks another one."""


class MoveQuestions:
    """Asking twice does no harm: a row is changed only from the epoch before it."""

    def __init__(self, port: Port, settings: InstanceSettings) -> None:
        self._port, self._settings = port, settings
        self._asks: dict[int, tuple[Copy, Transfer]] = {}

    def find(self, ask: int) -> tuple[Copy, Transfer] | None:
        """Return the move that still waits for the answer to this question."""
        return self._asks.get(ask)

    def forget(self, transfer: Transfer) -> None:
        """Forget the questions of this move. It is over, or asks anew."""
        self._asks = {n: a for n, a in self._asks.items() if a[1] is not transfer}

    def ask(self, copy: Copy, transfer: Transfer) -> None:
        """Ask for a reservation, or for the decision, as the move's phase needs. A repeated question keeps its number, so that an
        answer counts although it needs longer than ``ask_timeout``."""
        if transfer.phase not in ("reserving", "deciding"):
            return
        reserve = transfer.phase == "reserving"
        wanted = transfer.wanted()
        question = (transfer.phase, wanted)
        number = transfer.ask
        if number not in self._asks or transfer.question != question:
            number = transfer.ask = self._port.random.getrandbits(62)
            transfer.question = question
            self.forget(transfer)
            self._asks[number] = (copy, transfer)
        found = index_copies(self._port, self._settings)
        indices = sorted(found, key=lambda index: index.member == self._port.cep.member)
        transfer.asked = transfer.reserved = None
        if indices:
            index = transfer.asked = indices[transfer.silent // FIRST_ASKED % len(indices)]
            self._port.post(
                index, Reserve(number, wanted) if reserve else SetLocation(number, wanted)
            )
        self._again_later(number, transfer)

    def redeem(self, transfer: Transfer, reserved: Reserved) -> None:
        """Let the index decide the reserved row. Each copy is notified, so that no copy waits for another copy."""
        for cep in reserved.copies:
            self._port.post(cep, Redeem(reserved.txn, True))
        self._again_later(reserved.ask, transfer)

    def give_up(self, reserved: Reserved) -> None:
        """Let the index go on without this row."""
        self._port.post(reserved.txn[0], Redeem(reserved.txn, False))

    def _again_later(self, number: int, transfer: Transfer) -> None:
        transfer.again_at = self._port.now + self._settings.ask_timeout
        self._port.after(self._settings.ask_timeout, lambda: self._again(number))

    def _again(self, number: int) -> None:
        asked = self._asks.get(number)
        if asked is not None and self._port.now >= asked[1].again_at:
            asked[1].silent += 1
            self.ask(*asked)
