"""GMS, strangers: they check that a joiner answers at its claimed place.

A request to join costs one datagram. Without this check, one datagram could make the group wait for members that do not
exist. So the coordinator sends the joiner a discovery request whose sender is an unguessable number, and lets the
joiner in when an answer to that number comes in the joiner's name. Java members answer to the sender of a request, so
they get in.

    JOIN_REQ of a stranger    ProveReach down: discovery asks. Again after ASK_AGAIN, and twice as long each time
    Reached from below        the joiner goes on: change.py
    no answer in time         turned away as ``unproved``; a real joiner asks again
    too many                  the one that has waited longest is turned away

A table that knows no GMS; the protocol owns the timer.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Final

from jgroups_py.values.address import UUID, Address

ASK_AGAIN: Final = 0.2
"""Seconds until a joiner that has not answered is asked again the first time."""
PATIENCE: Final = 2.0
"""Seconds that a joiner has to answer."""
NONCE_SIZE: Final = 16


@dataclass(slots=True)
class _Doubt:
    nonce: UUID
    until: float
    ask_at: float
    pause: float


class Strangers:
    """See the module's docstring.

    Args: most: joiners that are asked at the same time. secrets: returns so many unguessable bytes.
    """

    def __init__(self, most: int, secrets: Callable[[int], bytes]) -> None:
        self._most = most
        self._secrets = secrets
        self._doubts: dict[Address, _Doubt] = {}

    def doubt(self, joiner: Address, now: float) -> Address | None:
        """Remember that ``joiner`` must answer. Return the joiner that is dropped for it."""
        if joiner in self._doubts:
            return None
        crowded = None
        if len(self._doubts) >= self._most:
            crowded = next(iter(self._doubts))
            del self._doubts[crowded]
        nonce = UUID(self._secrets(NONCE_SIZE))
        self._doubts[joiner] = _Doubt(nonce, now + PATIENCE, now, ASK_AGAIN)
        return crowded

    def answered(self, joiner: Address, nonce: Address) -> bool:
        """Return whether this answer proves the presence of ``joiner``."""
        doubt = self._doubts.get(joiner)
        if doubt is None or doubt.nonce != nonce:
            return False
        del self._doubts[joiner]
        return True

    def to_ask(self, now: float) -> list[tuple[Address, UUID, float]]:
        """Return the joiners to ask now, each with its nonce and the time until which the nonce counts."""
        due = []
        for joiner, doubt in self._doubts.items():
            if doubt.ask_at <= now:
                doubt.ask_at, doubt.pause = now + doubt.pause, 2 * doubt.pause
                due.append((joiner, doubt.nonce, doubt.until))
        return due

    def late(self, now: float) -> list[Address]:
        """Forget and return the joiners whose time is over."""
        late = [joiner for joiner, doubt in self._doubts.items() if doubt.until <= now]
        for joiner in late:
            del self._doubts[joiner]
        return late

    @property
    def next_at(self) -> float | None:
        """Return the time of the next question or time limit."""
        return min((min(d.ask_at, d.until) for d in self._doubts.values()), default=None)

    def forget(self, joiners: Container[Address]) -> None:
        """Forget these joiners, because they are in the view."""
        self._doubts = {j: d for j, d in self._doubts.items() if j not in joiners}

    def clear(self) -> None:
        self._doubts.clear()
