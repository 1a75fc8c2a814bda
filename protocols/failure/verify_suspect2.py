"""VERIFY_SUSPECT2: ask a suspected member whether it is alive before GMS learns of the suspicion.

Place: above the failure detectors, below GMS and the reliable protocols.

    Suspect(P) from below     hold it, send ARE_YOU_DEAD to P; again at half time
    I_AM_NOT_DEAD from P      forget P, Unsuspect(P) up and down
    silence for `timeout`     Suspect(P, and all other members due by now) up
      Suspect(P, gone)        silence for `gone_timeout` is enough
    Unsuspect(P), view without P    forget P
    Lag from above            the answer may have been lost while this process stood still: ask again, and
                              do not count that time
    ARE_YOU_DEAD              answer I_AM_NOT_DEAD to the member that asks

Why `window`: members that crash together should leave in one view, not one view each.
Why `gone_timeout`: a member whose connection broke and whose ports refuse is dead, not slow. It is asked all the same
(a firewall may have refused), but a short wait is enough.

Source:  JGroups VERIFY_SUSPECT2; WIRE.md sections 10 and 11.7.
Differs: Java polls every `timeout`, so silence counts after 1-2 x timeout; here it counts after
         `timeout` to `timeout + window`. The question is repeated at half time. A process that is
         late itself waits longer (Protocol.patience). No use_mcast_rsps.
Limits:  a live member that answers later than that is still expelled. At most one entry a member
         of the view.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from jgroups_py.config.settings import Seconds
from jgroups_py.stack.machine import Timer
from jgroups_py.stack.protocol import Protocol
from jgroups_py.stack.services import VERIFICATION, VIEWS
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import Event, Lag, Suspect, Unsuspect, ViewChange
from jgroups_py.wire.headers import PROTOCOL_IDS, VerifyHeader2, VerifyType


class VERIFY_SUSPECT2(Protocol):
    """See the module's docstring."""

    protocol_id = PROTOCOL_IDS["VERIFY_SUSPECT2"]
    provides = (VERIFICATION,)
    wants_above = (VIEWS,)
    writable = frozenset({"timeout", "window"})

    @dataclass(frozen=True, kw_only=True)
    class Config(Protocol.Config):
        timeout: Seconds = 1.0
        """The longest time for which a suspected member may stay silent."""
        window: Seconds = 0.1
        """Suspicions that fall due this close together go up as one event."""
        num_msgs: int = 1
        """The number of copies of each question and answer. Raise it on lossy networks."""
        gone_timeout: Seconds = 0.05
        """The ``timeout`` of members whose death is proved (FD_SOCK2). The suspicion falls due up to half of this time
        later, so that members that died at the same time go in one event. It counts as ``timeout`` at most."""

        ignored: ClassVar[frozenset[str]] = frozenset({"use_icmp", "use_mcast_rsps", "bind_addr"})

        def __post_init__(self) -> None:
            self._above(0, "timeout", "gone_timeout")
            self._at_least(0, "window")
            self._within(1, 100, "num_msgs")

    config: Config

    def start(self) -> None:
        self._members: tuple[Address, ...] | None = None
        self._due: dict[Address, float] = {}
        """The time when a suspected member's silence counts."""
        self._again: dict[Address, float] = {}
        """The time when a suspected member is asked again."""
        self._gone: dict[Address, float] = {}
        """The time when the silence of a suspected member with a proved death counts."""
        self._put_off: dict[Address, float] = {}
        """Additional seconds because of own lags."""
        self._silence = self.timer(self._on_silence)
        self._repeat = self.timer(self._on_repeat)
        self.suspected = 0
        """The number of suspicions that came."""
        self.confirmed = 0
        """The number of suspicions that were passed on after silence."""
        self.confirmed_gone = 0
        """The number of confirmed suspicions that needed no long wait, because the death was proved."""
        self.refuted = 0
        """The number of suspicions that the suspect answered."""

    @property
    def gone(self) -> Collection[Address]:
        """Return the suspected members that are proved dead, until they are confirmed or answer."""
        return self._gone.keys()

    def stop(self) -> None:
        self._silence.cancel()
        self._repeat.cancel()

    # --- messages

    def up(self, batch: Batch) -> None:
        header = batch.headers.get(self.protocol_id)
        if type(header) is not VerifyHeader2:
            self.pass_up(batch)
            return
        if header.type == VerifyType.ARE_YOU_DEAD:
            # The question is for a former member, whose port this member has now. That member is dead.
            if header.sender is not None and batch.dest == self.local_address:
                self._say(VerifyType.I_AM_NOT_DEAD, header.sender)
        elif batch.src is not None:
            self._refute(batch.src)
        self.consume(batch)

    def _say(self, kind: VerifyType, to: Address) -> None:
        for _ in range(self.config.num_msgs):
            header = VerifyHeader2(kind, self.local_address)
            self.pass_down(Batch.of(to, self.protocol_id, header))

    # --- events

    def event_up(self, event: Event) -> None:
        match event:
            case Suspect(members, gone):
                self._question(members, gone)
            case Unsuspect(members):
                self._forget(members)
                self.pass_event_up(event)
            case _:
                self.pass_event_up(event)

    def event_down(self, event: Event) -> None:
        if isinstance(event, ViewChange):
            self._members = event.view.members
            self._forget(tuple(m for m in self._due if m not in event.view))
        elif isinstance(event, Unsuspect):
            self._forget(event.members)
        elif isinstance(event, Lag):
            self._stood_still(event.seconds)
        self.pass_event_down(event)

    def _question(self, members: tuple[Address, ...], gone: bool) -> None:
        timeout = self.patience(self.config.timeout)
        # With a proof, own lateness adds at most the same time again.
        gone_timeout = self.config.gone_timeout
        gone_timeout = min(self.patience(gone_timeout), 2 * gone_timeout, self.config.timeout)
        fresh = []
        for member in members:
            if member == self.local_address or not self._is_member(member):
                continue
            if member not in self._due:
                self._due[member] = self.now + timeout
                self._again[member] = self.now + timeout / 2
                self.suspected += 1
                fresh.append(member)
            if gone and member not in self._gone:
                self._gone[member] = min(self.now + gone_timeout, self._due[member])
                self.trace("gone", member=member)
        self._rearm()
        if fresh:
            self.trace("ask", members=tuple(fresh))
        for member in fresh:
            self._say(VerifyType.ARE_YOU_DEAD, member)

    def _stood_still(self, seconds: float) -> None:
        lateness, now = self.machine.lateness, self.now
        for member, due in self._due.items():
            before = self._put_off.get(member, 0.0)
            more = lateness.forgiven(seconds, before)
            if more <= 0:
                continue
            self._put_off[member] = before + more
            fresh = now + min(more, self.config.timeout)  # the packets that wait must be read first
            self._due[member] = max(due + more, fresh)
            if member in self._again:
                self._again[member] += more
            if member in self._gone and before == 0:
                # Do this once only: afterwards all waiting packets have been read.
                self._gone[member] = max(self._gone[member], now + self.config.gone_timeout)
        self._rearm()
        for member in list(self._due):
            self._say(VerifyType.ARE_YOU_DEAD, member)

    def _is_member(self, member: Address) -> bool:
        return self._members is None or member in self._members

    def _refute(self, member: Address) -> None:
        if member in self._due:
            self.refuted += 1
            self._forget((member,))
            self.trace("alive", member=member)
            self.pass_event_down(Unsuspect((member,)))
            self.pass_event_up(Unsuspect((member,)))

    def _forget(self, members: tuple[Address, ...]) -> None:
        for member in members:
            self._due.pop(member, None)
            self._again.pop(member, None)
            self._gone.pop(member, None)
            self._put_off.pop(member, None)
        self._rearm()

    # --- timers

    def _on_silence(self) -> None:
        now = self.now
        gone = [m for m, at in self._gone.items() if at <= now]
        silent = tuple(m for m, at in self._due.items() if at <= now or m in gone)
        assert silent, "the timer fired with nobody due"
        self.confirmed += len(silent)
        self.confirmed_gone += len(gone)
        self._forget(silent)
        self.trace("silent", members=silent)
        for proved in (True, False):
            members = tuple(m for m in silent if (m in gone) is proved)
            if members:
                self.pass_event_up(Suspect(members, proved))

    def _on_repeat(self) -> None:
        ask = [m for m, at in self._again.items() if at <= self.now]
        for member in ask:
            del self._again[member]
        self._rearm()
        for member in ask:
            self._say(VerifyType.ARE_YOU_DEAD, member)

    def _rearm(self) -> None:
        config = self.config
        ends = [min(self._due.values()) + config.window] if self._due else []
        if self._gone:
            ends.append(min(self._gone.values()) + min(config.window, config.gone_timeout / 2))
        _arm(self._silence, ends)
        _arm(self._repeat, list(self._again.values()))

    def check(self) -> None:
        assert self.local_address not in self._due
        assert self._silence.armed == bool(self._due)
        assert self._repeat.armed == bool(self._again)
        assert all(m in self._due for m in self._again)
        assert all(m in self._due for m in self._gone)
        assert all(m in self._due for m in self._put_off)


def _arm(timer: Timer, times: list[float]) -> None:
    if times:
        timer.start_at(min(times))
    else:
        timer.cancel()
