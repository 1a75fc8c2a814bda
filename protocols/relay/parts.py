"""The parts of RELAY, made in the order of their dependencies, and their view for users.

RELAY itself, which orders the parts, is in protocol.py.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from jgroups_py.protocols.relay.bridge.direction import Direction
from jgroups_py.protocols.relay.bridge.link import RelayBridge
from jgroups_py.protocols.relay.config import RelayConfig
from jgroups_py.protocols.relay.duty import RelayDuty
from jgroups_py.protocols.relay.holders.collect import CopyHolding
from jgroups_py.protocols.relay.home.buffer import RelayBuffer
from jgroups_py.protocols.relay.home.departures import Departures
from jgroups_py.protocols.relay.home.keep import CopyKeeping
from jgroups_py.protocols.relay.home.origins import Origins
from jgroups_py.protocols.relay.home.spill import SpillFile
from jgroups_py.protocols.relay.home.stability import Stability
from jgroups_py.protocols.relay.home.stream import HomeStream
from jgroups_py.protocols.relay.home.trim import Trimming
from jgroups_py.protocols.relay.out import RelayOut
from jgroups_py.protocols.relay.remote.incoming import RelayedIncoming
from jgroups_py.protocols.relay.site.control import ControlRecords
from jgroups_py.protocols.relay.site.forgetting import Forgetting
from jgroups_py.protocols.relay.site.joining import Joining
from jgroups_py.protocols.relay.site.leaving import RelayLeaving
from jgroups_py.protocols.relay.site.reports import Reporting
from jgroups_py.protocols.relay.site.roles import Roles
from jgroups_py.protocols.relay.state import RelayState
from jgroups_py.protocols.relay.status import RelayNumbers, RelayStatus
from jgroups_py.stack.protocol import Protocol
from jgroups_py.values.address import Address
from jgroups_py.values.events import Disconnect


class RelayParts(Protocol):
    """The parts. A subclass handles records and intervals."""

    config: RelayConfig

    def on_record(self, src: Address, record: Any) -> None:
        """Handle a record of a member of this site, perhaps of this member."""
        raise NotImplementedError

    def on_tick(self) -> None:
        """Carry out orders after ``ack_interval``."""
        raise NotImplementedError

    def on_retry(self) -> None:
        """Repeat unanswered questions after ``retry_interval``."""
        raise NotImplementedError

    def ask_round(self) -> None:
        """Begin the prepared round of COLLECT, if there is one."""
        raise NotImplementedError

    # --- life

    def start(self) -> None:
        config = self.config
        spill = config.overflow == "spill"
        max_age = 0.0 if config.overflow == "block" else config.max_age
        file = SpillFile(config.spill_dir, config.max_spill) if spill else None
        self.out = out = RelayOut(self, self.on_record, self.on_tick, self.on_retry)
        self.counters = out.counters
        self.out_of_sync = out.out_of_sync
        self.state = RelayState(config.site, config.first_primary, config.sites, max_age)
        self.buffer = RelayBuffer(config.max_messages, config.max_bytes, max_age, file, _length)
        self.roles = roles = Roles(out.me, config.buffering_members)
        self.control = ControlRecords(out, config.site)
        self.reporting = Reporting(config.ack_every)
        self.holding = CopyHolding(out, roles, self.state, self.buffer)
        self.stability = Stability(config.max_messages)
        self.keeping = CopyKeeping(config, out, roles, self.state, self.buffer)
        self.stream = HomeStream(roles, self.state, self.keeping)
        self.departures = Departures(out, roles, config.cut_off_wait)
        self.trimming = Trimming()
        self.origins = Origins(
            roles,
            self.state,
            self.holding,
            self.buffer,
            self.departures,
            self.trimming,
            self.stability if config.relay_when == "stable" else None,
            lambda member: self.stack.names.get(member),
        )
        self.incoming = RelayedIncoming(out, self.state)
        self.joining = Joining(out, roles, config.join_queue)
        self.direction = Direction(config, out, roles, self.state, self.origins)
        self.bridge = RelayBridge(
            config,
            out,
            roles,
            self.state,
            self.buffer,
            self.origins,
            self.direction,
            self.trimming,
            self.joining,
            self.open_stack,
        )
        self._make_orders(out, roles)
        self.direction.say()

    def _make_orders(self, out: RelayOut, roles: Roles) -> None:
        """Make the parts that use other parts."""
        config = self.config
        self.posts = self.bridge.posts
        self.forgetting = Forgetting(
            out,
            roles,
            self.state,
            self.keeping,
            self.departures,
            self.trimming,
            self.origins,
            self.bridge,
            config.gap_wait,
            (self.stability, self.holding),
        )
        self.duty = RelayDuty(
            config,
            out,
            roles,
            self.state,
            self.control,
            self.keeping,
            self.departures,
            self.trimming,
            self.origins,
            self.holding,
            self.joining,
            self.direction,
            self.bridge,
            self.forgetting,
            self.ask_round,
        )
        self.leaving = RelayLeaving(
            out,
            roles,
            self.state,
            self.origins,
            self.direction,
            self.bridge,
            config.leave_timeout,
            lambda: self.pass_event_down(Disconnect()),
        )

    def stop(self) -> None:
        out = self.out
        for timer in (out.ticks, out.retry, self.leaving.timer, self.departures.lost_timer):
            timer.cancel()
        self.buffer.close()

    # --- for owners of the stack

    @property
    def line(self) -> tuple[Address, ...]:
        """Return the members that run this package, oldest first: relay, standbys, others."""
        return self.roles.line

    @property
    def is_relay(self) -> bool:
        return self.roles.is_relay

    @property
    def is_holder(self) -> bool:
        return self.roles.is_holder

    @property
    def is_relaying(self) -> bool:
        """Does this site relay to others now?"""
        return self.direction.is_relaying

    def status(self) -> RelayStatus:
        """Return role, holders, buffer, epoch and lost ranges."""
        roles, holding, bridge, buffer = self.roles, self.holding, self.bridge, self.buffer
        complete = self.duty.complete_holders() if roles.is_relay else 0
        return RelayStatus(
            site=self.config.site,
            role="relay" if roles.is_relay else "standby" if roles.is_holder else "member",
            relay=self.name_of(roles.line[0]) if roles.line else None,
            relaying=self.is_relaying,
            epoch=self.state.epoch,
            holders_complete=complete + (1 if holding.complete and roles.is_holder else 0),
            holders=min(self.config.buffering_members, max(1, len(roles.line))),
            complete=holding.complete,
            bridge=tuple(bridge.sites()) if bridge.view is not None else (),
            sessions={s.site: s.ready for s in bridge.sessions.values() if s.site},
            sites=tuple(self.state.sites),
            buffered_messages=buffer.messages,
            buffered_bytes=buffer.bytes,
            spilled_messages=buffer.spilled,
            buffer_fill=buffer.fill,
            blocked=self.keeping.blocked,
            out_of_sync=self.out_of_sync.ranges(),
        )

    def statistics(self) -> dict[str, int | float]:
        refused = {k: v for k, v in super().statistics().items() if k.startswith("turned_away_")}
        return {**asdict(self.counters), **refused}

    def texts(self) -> dict[str, str]:
        """Return a part of ``status`` as texts. ``buffered``: messages that some site lacks. ``sites``: one with a
        session is ``up``."""
        status = self.status()
        sites = {**dict.fromkeys(status.sites, False), **status.sessions}
        return {
            "role": status.role,
            "buffered": str(status.buffered_messages),
            "buffer_fill": f"{status.buffer_fill:.3f}",
            "sites": " ".join(
                f"{site}:{'up' if up else 'down'}" for site, up in sorted(sites.items())
            ),
        }

    def memory_limits(self, members: int) -> dict[str, int]:
        """Return the limit of the buffer. Any member may come to hold one."""
        return {"max_bytes": self.config.max_bytes}

    def numbers(self) -> RelayNumbers:
        """Return RELAY's tables, for tests and the simulator's oracle."""
        state, bridge = self.state, self.bridge
        return RelayNumbers(
            not self.joining.waits,
            self.holding.complete,
            self.is_relaying,
            state.delivered,
            state.trimmed,
            state.base,
            state.site_digest,
            state.left,
            bridge.forwarded.sites,
            [s.cursor for s in bridge.sessions.values()] if bridge.sessions else (),
            self.buffer,
        )

    # --- invariants

    def check(self) -> None:
        self.buffer.check()
        self.bridge.check()
        assert self.buffer.messages - self.buffer.spilled <= self.config.max_messages
        assert self.buffer.bytes <= self.config.max_bytes
        for origin in self.buffer.origins():
            first = next(self.buffer.runs(origin)).first
            assert first > self.state.trimmed.get(origin, 0), "kept although acknowledged"
        if self.bridge.is_open:
            assert self.roles.is_relay, "on the bridge without being relay"
        for site, numbers in self.bridge.forwarded.sites.items():
            assert site != self.config.site, "own messages came back"
            assert all(n >= 0 for n in numbers.values())


def _length(type: int, payload: Any) -> int:
    from jgroups_py.wire.objects import payload_length

    return payload_length(type, payload)
