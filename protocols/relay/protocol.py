"""RELAY: multicasts of one site reach every other site, also when relays crash. Nothing is lost.

Place: top of the local stack. Owns the stack of the global cluster ("bridge"; relay_bridge.py), which is
connected only while this member is relay: the first member of ours in the view.

    multicast from above        number it, keep a copy, pass it down
    DATA from below             holders keep it, the relay sends it to the other sites; pass it up
    RELAYED from below          the next one of its origin: pass it up, the sender prints as C:NYC
    view                        who is relay, who holds; COLLECT where that is new (relay_collect.py)
    Snapshot, StateMark         where a joiner begins
    reports                     what all members have: acknowledged to home, trimmed there
    Gap, Forget, Cut, Block     from the relay, in the stream of what it relays
    Disconnect of the relay     flush, tell the other sites, leave

A unicast to a member of another site is dropped and counted; unicasts are never relayed.

Source:  seed 001 (JGRP-747); RELAY.md, which has the reasons for every rule here.
Differs: members are numbered by their origin, not by relay and standby; acknowledgements come from
         reports to the relay, not from STABLE. See design/relay.md.
Limits:  members without RELAY see its control multicasts as messages of their own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from jgroups_py.errors import LocalProtocolError
from jgroups_py.protocols.relay.bridge.direction import Direction
from jgroups_py.protocols.relay.bridge.link import Bridge
from jgroups_py.protocols.relay.config import RelayConfig
from jgroups_py.protocols.relay.holders.handover import Holding
from jgroups_py.protocols.relay.home.buffer import Buffer
from jgroups_py.protocols.relay.home.keep import Keeping
from jgroups_py.protocols.relay.home.spill import SpillFile
from jgroups_py.protocols.relay.home.stability import Stability
from jgroups_py.protocols.relay.home.trim import Home
from jgroups_py.protocols.relay.out import Out
from jgroups_py.protocols.relay.posts import Posts
from jgroups_py.protocols.relay.remote.incoming import Incoming
from jgroups_py.protocols.relay.site.control import Control
from jgroups_py.protocols.relay.site.joining import Joining
from jgroups_py.protocols.relay.site.leaving import Leaving
from jgroups_py.protocols.relay.site.reports import Reporting, Reports
from jgroups_py.protocols.relay.site.roles import Roles
from jgroups_py.protocols.relay.state import ALL, Epoch, Numbers, RelayState
from jgroups_py.protocols.relay.status import OutOfSync, RelayNumbers, RelayStatus
from jgroups_py.protocols.relay.wire import (
    DONT_LOOPBACK,
    ID,
    MULTICASTS,
    OOB,
    SEQNO_MAX,
    SOURCE_ID,
    UNNUMBERED,
    Begun,
    Block,
    CollectAnswer,
    CollectAsk,
    Cut,
    Fetch,
    Fetched,
    Forget,
    Gap,
    Kind,
    Known,
    Lack,
    Need,
    PromoteAsk,
    Record,
    Report,
    Snapshot,
    StateMark,
    Trim,
    ViewKey,
)
from jgroups_py.stack.protocol import Protocol
from jgroups_py.stack.services import MULTICAST, UNICAST, VIEWS
from jgroups_py.values.address import UUID, Address, SiteUUID
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import (
    Connect,
    Covered,
    Disconnect,
    Event,
    FlowBlocked,
    FlowOpened,
    GetState,
    Stable,
    StateFailed,
    StateReceived,
    StateRequested,
    ViewChange,
)
from jgroups_py.values.view import MergeView, View
from jgroups_py.wire.headers import FragHeader, RelayHeader


class RELAY(Protocol):
    """See the module's docstring."""

    protocol_id = ID
    needs_below = (MULTICAST, UNICAST, VIEWS)

    @dataclass(frozen=True, kw_only=True)
    class Config(RelayConfig):
        """See relay_config.py."""

    config: Config

    # --- life

    def start(self) -> None:
        config = self.config
        block = config.overflow == "block"
        spill = config.overflow == "spill"
        max_age = 0.0 if block else config.max_age
        self.state = RelayState(config.site, config.first_primary, config.sites, max_age)
        self.buffer = Buffer(
            config.max_messages,
            config.max_bytes,
            max_age,
            SpillFile(config.spill_dir, config.max_spill) if spill else None,
            _length,
        )
        self.out = Out(self, self.on_record, self._on_tick, self._on_retry)
        self.counters = self.out.counters
        self.roles = Roles(self.out.me, config.buffering_members)
        self.control = Control(self.out, config.site)
        self.posts = Posts(self)
        self.bridge = Bridge(self)
        self.home = Home(self)
        self.holding = Holding(self)
        self.joining = Joining(self)
        self.direction = Direction(self)
        self.leaving = Leaving(self)
        self.reports = Reports()
        self.reporting = Reporting(config.ack_every)
        self.keeping = Keeping(self)
        self.stability = Stability(self)
        self.incoming = Incoming(self)
        self.out_of_sync = OutOfSync()
        self.announced: Epoch = self.state.epoch
        """The newest epoch this member, as relay, has told its site."""
        self._me = bytes(self.local_address)
        self._next = 1
        self._quiet: deque[tuple[int, int]] = deque()
        """Own runs that the application does not want back."""
        self.sources: dict[bytes, SiteUUID] = {}
        self.direction.say()

    def stop(self) -> None:
        for timer in (self.out.ticks, self.out.retry, self.leaving.timer, self.home.lost_timer):
            timer.cancel()
        self.buffer.close()

    # --- asked by the bridge and by owners

    @property
    def watched(self) -> bool:
        return self.machine.trace is not None

    @property
    def view(self) -> View | None:
        return self.roles.view

    @property
    def view_key(self) -> ViewKey:
        return self.roles.key

    @property
    def line(self) -> tuple[Address, ...]:
        return self.roles.line

    @property
    def is_relay(self) -> bool:
        return self.roles.is_relay

    @property
    def is_holder(self) -> bool:
        return self.roles.is_holder

    @property
    def is_relaying(self) -> bool:
        """Is this site one that relays to others now?"""
        return self.state.relays(self.announced)

    def is_member(self, origin: bytes) -> bool:
        return self.roles.is_member(origin)

    def known(self, origin: bytes) -> int:
        """The highest number of a home origin that a survivor is known to have delivered."""
        return self.holding.known(origin)

    def sendable(self, origin: bytes) -> int:
        """Up to here other sites may have it now."""
        known = self.known(origin)
        if self.config.relay_when == "stable" and self.is_member(origin):
            if known == self.state.delivered.get(origin, 0):
                return min(known, self.stability.numbers.get(origin, 0))
            # Delivered on the other side of a partition: it will never be stable here.
        return known

    def sendable_origins(self) -> list[bytes]:
        return list(self.origins())

    def sent_so_far(self) -> Numbers:
        """What a new session counts as replay: everything that was delivered before it."""
        return {origin: self.known(origin) for origin in self.origins()}

    def origins(self) -> dict[bytes, None]:
        origins = dict.fromkeys(self.state.delivered)
        origins.update(dict.fromkeys(self.state.trimmed))
        for numbers in self.holding.floors.values():
            origins.update(dict.fromkeys(numbers))
        return {o: None for o in origins if not self.state.is_forgotten(o)}

    def known_origins(self) -> list[bytes]:
        """What other sites must not forget: members, and whom anything is remembered of."""
        origins = self.origins()
        for member in self.line:
            origins[bytes(member)] = None
        origins.update(dict.fromkeys(self.buffer.origins()))
        origins.update(dict.fromkeys(self.home.forgetting))
        # Whom we lost may be alive beyond a partition, with another relay.
        origins.update(dict.fromkeys(self.home.gone_at))
        return list(origins)

    def source(self, origin: bytes) -> SiteUUID:
        """The sender other sites see."""
        source = self.sources.get(origin)
        if source is None:
            name = self.stack.names.get(UUID(origin))
            source = SiteUUID(origin, self.config.site, name)
            if name is not None:
                self.sources[origin] = source
        return source

    def shown(self, origin: bytes) -> str:
        return self.name_of(UUID(origin))

    def status(self) -> RelayStatus:
        """Role, holders, buffer, epoch, what is out of sync."""
        holders = self.line[: self.config.buffering_members]
        others = [m for m in holders if m != self.local_address]
        complete = self.reports.complete(self.view_key, others) if self.is_relay else 0
        role = "relay" if self.is_relay else "standby" if self.is_holder else "member"
        return RelayStatus(
            site=self.config.site,
            role=role,
            relay=self.name_of(self.line[0]) if self.line else None,
            relaying=self.is_relaying,
            epoch=self.state.epoch,
            holders_complete=complete + (1 if self.holding.complete and self.is_holder else 0),
            holders=min(self.config.buffering_members, max(1, len(self.line))),
            complete=self.holding.complete,
            bridge=tuple(self.bridge.sites()) if self.bridge.view is not None else (),
            sessions={s.site: s.ready for s in self.bridge.sessions.values() if s.site},
            sites=tuple(self.state.sites),
            buffered_messages=self.buffer.messages,
            buffered_bytes=self.buffer.bytes,
            spilled_messages=self.buffer.spilled,
            buffer_fill=self.buffer.fill,
            blocked=self.keeping.blocked,
            out_of_sync=self.out_of_sync.ranges(),
        )

    def promote(self) -> None:
        """This site becomes primary. Any member may be told; its relay does it.

        Raises:
            LocalProtocolError: all sites relay anyway, or there is no view yet.
        """
        self.direction.promote()

    def give_up(self, site: str) -> None:
        """``site`` no longer holds messages back; what it then lacks is listed as out of sync."""
        if self.state.sites.pop(site, 0) is None:
            self.log.warning("site %s is given up; it will be out of sync", site)
            self.home.trim_all = True
            self.out.wake()

    def reconciled(self, site: str) -> None:
        """The state of ``site`` was brought in line by other means."""
        self.out_of_sync.clear(site)

    # --- from above

    def down(self, batch: Batch) -> None:
        if batch.dest is not None:
            self._unicast_down(batch)
            return
        if batch.flags & UNNUMBERED:
            self.pass_down(batch)
            return
        first = self._next
        last = first + len(batch) - 1
        if last > SEQNO_MAX:
            raise LocalProtocolError("no numbers are left for multicasts")
        self._next = last + 1
        numbered = batch.with_header(ID, FragHeader(first, Kind.DATA, 0))
        numbered.transient = batch.transient & ~DONT_LOOPBACK
        if batch.transient & DONT_LOOPBACK:
            self._quiet.append((first, last))
        if self.is_relaying:
            self.keeping.keep(self._me, first, batch)
        self.pass_down(numbered)

    def _unicast_down(self, batch: Batch) -> None:
        dest = batch.dest
        if not isinstance(dest, SiteUUID):
            self.pass_down(batch)
        elif dest.site == self.config.site:
            self.pass_down(
                Batch(
                    UUID(bytes(dest)),
                    batch.payloads,
                    batch.headers,
                    batch.src,
                    batch.flags,
                    batch.transient,
                    batch.type,
                    number=batch.number,
                )
            )
        else:
            self.counters.unicasts_dropped += len(batch)
            self.trace("unicast_dropped", to=str(dest), count=len(batch))

    def event_down(self, event: Event) -> None:
        match event:
            case Connect(with_state=True) | GetState():
                self.joining.expect_state()
                self.pass_event_down(event)
            case Disconnect():
                self.leaving.begin()
            case _:
                self.pass_event_down(event)

    # --- from below

    def up(self, batch: Batch) -> None:
        header = batch.headers.get(ID)
        if header is None:
            self.pass_up(batch)
            return
        if type(header) is not FragHeader or batch.src is None:
            self.out.refuse(batch.src, "a header that is not RELAY's")
            self.consume(batch)
            return
        kind = header.index
        if kind == Kind.DATA and batch.dest is None:
            self._up_data(batch, header)
        elif kind == Kind.RELAYED and batch.dest is None:
            self.incoming.up(batch, header)
        elif kind == Kind.CONTROL:
            self._up_control(batch)
        elif kind == Kind.COPY and batch.dest is not None:
            self._up_copy(batch, header)
        else:
            self.out.refuse(batch.src, f"a message of kind {kind}")
            self.consume(batch)

    def _up_data(self, batch: Batch, header: FragHeader) -> None:
        first = header.id
        last = first + len(batch) - 1
        if not self._take(batch, first, last):
            self.out.refuse(batch.src, "a multicast without a number")
            self.consume(batch)
        elif self._quiet and batch.src == self.local_address:
            self._up_wanted(batch, first, last)
        else:
            self.pass_up(batch)

    def _take(self, batch: Batch, first: int, last: int) -> bool:
        """A home run was delivered here. False: it has no numbers."""
        assert batch.src is not None
        origin = bytes(batch.src)
        if not 0 < first <= last <= SEQNO_MAX or len(origin) != 16:
            return False
        self.state.note_delivered(origin, first, last, not batch.flags & OOB)
        if self.is_relaying:
            if self.is_holder:
                self.keeping.keep(origin, first, batch)
            if self.config.relay_when == "stable":
                self.stability.mark(batch.src, origin, last)
            elif self.is_relay:
                self.bridge.pump_origin(origin)
        return True

    def _covered(self, batch: Batch) -> None:
        """The state stands for this run; the other sites may need it from here."""
        header = batch.headers.get(ID)
        if type(header) is not FragHeader or batch.src is None:
            return
        if header.index == Kind.DATA:
            self._take(batch, header.id, header.id + len(batch) - 1)
        elif header.index == Kind.CONTROL and isinstance(batch.src, UUID) and batch.src.is_ours:
            self._covered_records(batch)

    def _up_wanted(self, batch: Batch, first: int, last: int) -> None:
        """An own run, without what the application does not want back."""
        quiet = self._quiet
        while quiet and quiet[0][1] < first:
            quiet.popleft()
        at = first
        for low, high in list(quiet):
            if low > last:
                break
            if low > at:
                self.pass_up(batch.slice(at - first, low - first))
            at = min(high, last) + 1
        if at <= last:
            self.pass_up(batch.slice(at - first, len(batch)))
        else:
            self.consume(batch)

    def _up_copy(self, batch: Batch, header: FragHeader) -> None:
        source = batch.header(SOURCE_ID, RelayHeader)
        sender = None if source is None else source.original_sender
        first = header.id
        if (
            not isinstance(sender, UUID)
            or first < 1
            or first + len(batch) - 1 > SEQNO_MAX
            or self.holding.round is None
            or self.holding.round.fetching != batch.src
        ):
            self.counters.strangers += 1
        # Who has not heard that the site relays no more offers copies still.
        elif self.is_relaying and not self.state.is_forgotten(bytes(sender)):
            self.keeping.keep(bytes(sender), first, batch)
        self.consume(batch)

    # --- events from below

    def event_up(self, event: Event) -> None:
        match event:
            case ViewChange():
                self._on_view(event)
            case Stable(digest=digest):
                for member in digest:
                    self.stability.on_stable(bytes(member), digest.delivered(member))
                self.pass_event_up(event)
            case FlowBlocked(source=source, dest=None):
                self.bridge.local_blocked[source] = None
                self.pass_event_up(event)
            case FlowOpened(source=source, dest=None):
                self.bridge.local_blocked.pop(source, None)
                self.pass_event_up(event)
                self.machine.soon(self.bridge.drain)
            case StateRequested(requester=requester):
                if isinstance(requester, UUID) and requester.is_ours:
                    self.out.tell(requester, StateMark(self.known_here()))
                self.pass_event_up(event)
            case StateReceived(provider=provider):
                self.joining.on_state(provider)
                self.pass_event_up(event)
                self.joining.release()
            case Covered(batch=batch):
                self._covered(batch)
            case StateFailed():
                self.joining.on_state(None)
                self.pass_event_up(event)
                self.joining.release()
            case _:
                self.pass_event_up(event)

    # --- views

    def _on_view(self, event: ViewChange) -> None:
        view, roles, joining = event.view, self.roles, self.joining
        old, old_line = roles.view, roles.line
        was_relay, was_holder = roles.is_relay, roles.is_holder
        merged = isinstance(view, MergeView)
        roles.install(view)
        if old is None and roles.line[0] != roles.me and not merged:
            joining.joined_with = roles.key
        elif old is None:
            joining.begin_anywhere()
        self.home.note_lost(old_line, event.ended)
        self._leave_behind(view)
        joined = [m for m in roles.others if m not in old_line]
        if not joining.joined_with:
            joining.remember_view(joined)
            if joined and roles.is_relay and not merged and old is not None:
                self.home.trim_all = True
                joining.tell_joiners(joined)
        elif roles.is_relay:
            joining.begin_anywhere()
        joining.see_again()
        self._change_roles(was_relay, was_holder, merged)
        was_blocked = self.keeping.view_changed()
        self.trace("view", relay=self.name_of(roles.line[0]), size=len(roles.line))
        self.pass_event_up(event)
        if was_blocked:
            self.pass_event_up(FlowOpened(self.name, None))
        self._settle()

    def _leave_behind(self, view: View) -> None:
        """What the departed leave behind. Copies above what survivors delivered go (the Cut)."""
        present = view.members
        if not self.joining.joined_with:
            self.holding.cut()
        for member in [m for m in self.holding.floors if m not in present]:
            del self.holding.floors[member]
        self.control.keep(view)
        self.home.note_departed()
        self.reports.keep(self.roles.line)
        for key in [k for k in self.joining.early if k[0] not in present]:
            del self.joining.early[key]

    def _change_roles(self, was_relay: bool, was_holder: bool, merged: bool) -> None:
        roles, holding = self.roles, self.holding
        self.reporting.view_changed()
        self.home.view_changed()
        if was_relay and not roles.is_relay:
            self.bridge.close()
            self.bridge.forwarded = {}
            self.announced = self.state.epoch
            self.home.step_down()
            self.leaving.abandon()
        if roles.is_relay and not was_relay:
            self.counters.takeovers += 1
            self.announced = max(self.announced, self.state.epoch)
            self.trace("takeover", phase="collect")
        if not roles.is_holder:
            holding.complete = False
            holding.round = None
        elif (
            merged
            or not was_holder
            or holding.round is not None  # it asks members that may have gone
            or (roles.is_relay and not was_relay)
        ):
            holding.complete = False
            holding.merged = holding.merged or merged
            self.home.forget_all = self.home.forget_all or (merged and roles.is_relay)
            holding.new_round()

    def _settle(self) -> None:
        self.joining.early_records()
        if self.holding.round is not None:
            self.holding.ask_round()
        if self.joining.joined_with:
            self.out.ask_again()
        elif self.joining.queue:
            self.joining.release()
        # What only the departed did not have may go out now.
        self.bridge.pump_all()
        self.report()
        self.out.wake()

    # --- records of members of this site

    def _up_control(self, batch: Batch) -> None:
        if batch.dest is None and self.joining.waits:
            self.joining.enqueue(batch)
            return
        self.consume(batch)
        assert batch.src is not None
        for record in self.control.records(batch):
            self.on_record(batch.src, record)

    def _covered_records(self, batch: Batch) -> None:
        """Multicasts that a state stands for. Its digests say what these records say, except who of this site is
        forgotten, whether to wait, and who has begun."""
        for record in self.control.decoded(batch):
            match record:
                case Forget():
                    self._on_forget(record)
                case Block():
                    self.keeping.on_block(record.on)
                case Begun(members=members):
                    self.joining.on_begun(members)

    def on_record(self, src: Address, record: Any) -> None:
        """A record of a member of this site, also of this member itself."""
        if isinstance(record, MULTICASTS):
            serial: int = record.serial
            self.control.delivered(src, serial)
            self.report_soon()
        match record:
            case Trim():
                self._on_trim(src, record)
            case Gap():
                self.incoming.on_gap(record)
            case Forget():
                self._on_forget(record)
            case Cut():
                self.direction.on_cut(record)
            case Block():
                self.keeping.on_block(record.on)
            case Begun(members=members):
                self.joining.on_begun(members)
            case Report():
                if src in self.roles.line or record.view[1] > self.roles.key[1]:
                    self.reports.take(src, record)
                    self.out.wake()
            case CollectAsk():
                self.holding.on_ask(src, record)
            case CollectAnswer():
                self.holding.on_answer(src, record)
            case Fetch():
                self.holding.on_fetch(src, record)
            case Fetched():
                self.holding.on_fetched(src, record)
            case Snapshot():
                self.joining.on_snapshot(record)
            case Need():
                self.joining.on_need(src, record)
            case StateMark():
                self.joining.on_mark(src, record.known)
            case Lack():
                self.home.on_lack(src, record)
            case PromoteAsk():
                if self.is_relay and self.config.first_primary != ALL:
                    self.direction.promote()

    def _on_trim(self, src: Address, trim: Trim) -> None:
        roles, state = self.roles, self.state
        if roles.line and src == roles.line[0] and not roles.is_relay:
            state.replace_sites(trim.sites)
        for origin, number in trim.trimmed.items():
            if state.is_forgotten(origin):
                continue
            state.trim_to(origin, number)
            count = self.buffer.trim(origin, number)
            if self.watched:
                self.trace("trim", origin=self.shown(origin), seqno=number, count=count)

    # --- whom to forget

    def _on_forget(self, record: Forget) -> None:
        if record.site:
            self._forget_remote(record.site, record.origins)
        else:
            # Who was left out by the others of our view is told, too, that they forget it.
            self.forget([o for o in record.origins if not self.is_member(o)])

    def _forget_remote(self, site: str, origins: Sequence[bytes]) -> None:
        self.state.forget_remote(site, origins, self.now)
        self.reports.forget(site, origins)
        for session in self.bridge.sessions.values():
            session.forget_remote(site, origins)
        self.reporting.forget(site, origins)
        self.incoming.forget(site, origins)
        for origin in origins:
            for session in self.bridge.sessions.values():
                session.forget(origin)

    def forget(self, origins: Sequence[bytes]) -> None:
        """Departed members of this site: nothing is left of them, but that they are forgotten."""
        self.state.forget(origins, self.now)
        self.drop(origins)

    def drop(self, origins: Sequence[bytes]) -> None:
        """Also what there is of members of which nothing was delivered."""
        tables: tuple[dict[bytes, Any], ...] = (
            self.home.gone_at,
            self.home.trim_serials,
            self.sources,
            self.stability.numbers,
            self.stability.marks,
        )
        for origin in origins:
            self.buffer.cut(origin, 0)
            for numbers in tables:
                numbers.pop(origin, None)
            for floor in self.holding.floors.values():
                floor.pop(origin, None)

    # --- reports to the relay

    def report_soon(self) -> None:
        self.reporting.due = True
        self.out.wake()

    def progress(self, count: int) -> None:
        """``count`` messages of other sites were delivered."""
        if self.reporting.progress(count) and not self.is_relay:
            self.report()
        else:
            self.report_soon()

    def report(self) -> None:
        """Tells the relay what changed since the last report in this view."""
        roles = self.roles
        self.reporting.reset()
        if roles.view is None or self.joining.waits or roles.is_relay:
            return
        serial = self.control.serial_of(roles.line[0])
        complete = self.holding.complete
        report = self.reporting.report(roles.key, serial, complete, self.state.site_digest)
        if report is not None:
            self.tell_relay(report)

    # --- joiners and state

    def learn(self, known: Known, *, digest: bool, replace: bool = False) -> None:
        self.state.learn(known, self.now, digest=digest, replace=replace)
        if self.state.epoch > self.announced:
            self.announced = self.state.epoch
            if not self.is_relaying:
                self.buffer.clear()
        self.keeping.trim()

    def known_here(self) -> Known:
        relay = self.line[0] if self.line else self.local_address
        return self.state.known(self.control.serial_of(relay), self.now)

    # --- reports, trims, forgetting: what is done at intervals

    def _on_tick(self) -> None:
        if self.reporting.due:
            self.report()
        if self.config.max_age or self.config.overflow == "block":
            self.keeping.bound()
        again = bool(len(self.buffer)) | self.joining.forget_early()
        if self.is_relay and self.holding.complete:
            again |= self.home.tick()
        elif not self.is_relaying:
            self.home.forget_without_asking()
        else:
            again |= self.home.forget_silent()
        if self.leaving.flush is not None:
            self.leaving.go_on()
        if again:
            self.out.wake()

    def note_gap(self, site: str, origin: str, first: int, last: int, how: str) -> None:
        """These numbers are missing at one end of a site pair for good."""
        self.counters.gaps += 1
        self.out_of_sync.add(site, origin, first, last)
        self.log.warning("out of sync with %s: %s %d..%d are lost", site, origin, first, last)
        self.trace("gap", origin=origin, seqno=first, count=last + 1 - first, site=site, how=how)

    # --- asking again

    def bridge_failed(self) -> None:
        """The bridge stack has ended; it is opened again after a while."""
        self.out.ask_again()

    def _on_retry(self) -> None:
        again = False
        if self.joining.joined_with and not self.leaving.done:
            self.tell_relay(Need(self.joining.joined_with))
            again = True
        again |= self.holding.ask_silent_ones()
        again |= self.incoming.ask_again()
        if self.is_relay and self.holding.complete:
            if not self.bridge.is_open:
                self.bridge.open()
            again |= self.bridge.ask_silent_ones()
        if again:
            self.out.ask_again()

    # --- telling

    def tell_relay(self, record: Record) -> None:
        if self.line:
            self.out.tell(self.line[0], record)

    def learn_site(self, site: str) -> None:
        if self.state.learn_site(site):
            self.home.trim_all = True

    def statistics(self) -> dict[str, int | float]:
        return asdict(self.counters)

    def memory_limits(self, members: int) -> dict[str, int]:
        """The buffer, if this member may come to hold one: every sender does."""
        return {"max_bytes": self.config.max_bytes}

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
            assert self.is_relay, "on the bridge without being relay"
        for site, numbers in self.bridge.forwarded.items():
            assert site != self.config.site, "own messages came back"
            assert all(n >= 0 for n in numbers.values())


def numbers_of(relay: RELAY) -> RelayNumbers:
    """For those who look at RELAY from outside: tests and the simulator's oracle."""
    state, bridge = relay.state, relay.bridge
    return RelayNumbers(
        not relay.joining.waits,
        relay.holding.complete,
        relay.is_relaying,
        state.delivered,
        state.trimmed,
        state.base,
        state.site_digest,
        state.left,
        bridge.forwarded,
        [s.cursor for s in bridge.sessions.values()] if bridge.sessions else (),
        relay.buffer,
    )


def _length(type: int, payload: Any) -> int:
    from jgroups_py.wire.objects import payload_length

    return payload_length(type, payload)
