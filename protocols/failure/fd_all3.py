"""FD_ALL3: every member multicasts heartbeats; a member that is not heard for `timeout` is suspected.

Place: below VERIFY_SUSPECT2, above the transport and FD_SOCK2.

    any message of P          P is alive; if it was suspected, Unsuspect(P) up
    every `interval`          a heartbeat, unless this member multicast within the last interval; members
                              that were silent for `timeout` are suspected, all in one event
    suspects change           Silent(all suspects) down
    Lag from above            this process was stopped or busy and could not hear the others: do not count that time
                              against them, and send a heartbeat
    slow all the time         `timeout` is longer by the lateness of the process (Protocol.patience)

Source:  JGroups FD_ALL3, FailureDetection; WIRE.md section 11.7.
Differs: one timer instead of two tasks, a time of last hearing instead of a bitmap of intervals.
         Own delays are forgiven (Java suspects all members after a long pause).
Limits:  detection takes up to timeout + interval. One entry for each member of the view.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jgroups_py.config.settings import Seconds
from jgroups_py.errors import ConfigError
from jgroups_py.stack.protocol import Protocol
from jgroups_py.stack.services import DETECTION, VERIFICATION
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import Event, Lag, Silent, Suspect, Unsuspect, ViewChange
from jgroups_py.wire.headers import PROTOCOL_IDS, HeartbeatHeader

_HEARTBEAT = HeartbeatHeader()


class FD_ALL3(Protocol):
    """See the module's docstring."""

    protocol_id = PROTOCOL_IDS["FD_ALL3"]
    provides = (DETECTION,)
    wants_above = (VERIFICATION,)
    writable = frozenset({"interval", "timeout"})

    @dataclass(frozen=True, kw_only=True)
    class Config(Protocol.Config):
        interval: Seconds = 8.0
        """The time between two heartbeats, and between two checks."""
        timeout: Seconds = 40.0
        """A member that is silent for this long is suspected. Use at least two intervals, better five, so that one lost
        heartbeat is not enough."""

        ignored: ClassVar[frozenset[str]] = frozenset(
            {
                "use_time_service",
                "use_timer",
                "num_bits",
                "timeout_check_interval",
                "msg_counts_as_heartbeat",
                "has_multicasts",
            }
        )

        def __post_init__(self) -> None:
            self._above(0, "interval")
            if not self.timeout > self.interval:
                raise ConfigError(
                    f"timeout must be > interval, got {self.timeout} and {self.interval}"
                )

    config: Config

    def start(self) -> None:
        self._heard: dict[Address, float] = {}
        """The time when each other member of the view was last heard."""
        self._suspects: dict[Address, None] = {}
        self._last_multicast = -self.config.interval
        self._tick = self.timer(self._on_tick)
        self._forgiven: dict[Address, tuple[float, float]] = {}
        """Seconds of each member's present silence that this process caused itself."""
        self.heartbeats_sent = 0
        self.suspected = 0
        """The number of members that are suspected."""
        self.delays_forgiven = 0
        """Lags of this process for which others' silence was excused."""

    def stop(self) -> None:
        self._tick.cancel()

    # --- messages

    def up(self, batch: Batch) -> None:
        source = batch.src
        if source in self._heard:
            assert source is not None
            self._heard[source] = self.machine.now
            if source in self._suspects:
                self._unsuspect(source)
        if self.protocol_id in batch.headers:
            self.consume(batch)
            return
        self.pass_up(batch)

    def down(self, batch: Batch) -> None:
        if batch.dest is None:
            self._last_multicast = self.machine.now
        self.pass_down(batch)

    def _unsuspect(self, member: Address) -> None:
        self._suspects.pop(member, None)
        self.trace("heard", member=member)
        self._say_silent()
        self.pass_event_up(Unsuspect((member,)))

    def _say_silent(self) -> None:
        self.pass_event_down(Silent(tuple(self._suspects)))

    # --- events

    def event_down(self, event: Event) -> None:
        match event:
            case ViewChange(view):
                self._set_members(view.members)
            case Unsuspect(members):
                self._answered(members)
            case Lag(seconds):
                self._forgive(seconds)
                if self._heard:
                    self._say_alive()
        self.pass_event_down(event)

    def _answered(self, members: tuple[Address, ...]) -> None:
        """Note that a protocol above has heard these members."""
        known = [m for m in members if m in self._heard]
        self._heard.update(dict.fromkeys(known, self.now))
        cleared = [m for m in known if m in self._suspects]
        for member in cleared:
            del self._suspects[member]
        if cleared:
            self._say_silent()

    def _set_members(self, members: tuple[Address, ...]) -> None:
        others = [m for m in members if m != self.local_address]
        self._heard = {m: self._heard.get(m, self.now) for m in others}
        self._suspects = {m: None for m in self._suspects if m in self._heard}
        self._forgiven = {m: f for m, f in self._forgiven.items() if m in self._heard}
        if not others:
            self._tick.cancel()
        elif not self._tick.armed:
            # A random phase, so that the members of a view do not all send at the same instant.
            self._tick.start(self.random.uniform(0.0, self.config.interval))

    # --- time

    def _on_tick(self) -> None:
        self._tick.start(self.config.interval)
        if self.now - self._last_multicast >= self.config.interval:
            self._say_alive()
        self._suspect_silent()

    def _say_alive(self) -> None:
        self.heartbeats_sent += 1
        self.pass_down(Batch.of(None, self.protocol_id, _HEARTBEAT))

    def _suspect_silent(self) -> None:
        limit = self.now - self.patience(self.config.timeout)
        silent = tuple(m for m, at in self._heard.items() if at <= limit)
        fresh = tuple(m for m in silent if m not in self._suspects)
        self._suspects.update(dict.fromkeys(fresh))
        if fresh:
            self.suspected += len(fresh)
            self.trace("suspect", members=fresh)
            self.log.info(
                "not heard for %.1f s: %s",
                self.config.timeout,
                ", ".join(self.name_of(m) for m in fresh),
            )
            self._say_silent()
            self.pass_event_up(Suspect(fresh))

    def _forgive(self, seconds: float) -> None:
        """Forgive others the time in which this process could not listen."""
        self.delays_forgiven += 1
        lateness, forgiven = self.machine.lateness, self._forgiven
        self._forgiven = {}
        for member, at in self._heard.items():
            told_at, before = forgiven.get(member, (at, 0.0))
            if told_at != at:
                before = 0.0  # a later heartbeat has come
            more = lateness.forgiven(seconds, before)
            self._heard[member] = at = min(self.now, at + more)
            self._forgiven[member] = (at, before + more)

    def check(self) -> None:
        assert self.local_address not in self._heard
        assert self._tick.armed == bool(self._heard)
        assert all(m in self._heard for m in self._suspects)
        assert all(m in self._heard for m in self._forgiven)
