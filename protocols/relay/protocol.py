"""RELAY: multicasts of one site reach every other site, and none is lost when relays crash.

Place: top of the local stack. Owns the stack of the global cluster ("bridge"; bridge/link.py), which is
connected only while this member is relay: the first member of ours in the view.

    multicast from above        number it, keep a copy, pass it down
    DATA from below             holders keep it, the relay sends it to the other sites; pass it up
    RELAYED from below          if it is the next one of its origin: pass it up; its sender prints as C:NYC
    view                        the view decides who is relay and who holds; new holders COLLECT (holders/collect.py)
    Snapshot, StateMark         where a joiner begins
    reports                     numbers that all members have are acknowledged to the home site and trimmed there
    Gap, Forget, Cut, Block     records of the relay, in the stream of relayed messages
    Disconnect of the relay     flush, tell the other sites, leave

A unicast to a member of another site is dropped and counted; unicasts are never relayed.

This module orders the parts. It takes an input, asks one part, and hands the answer to the next. Each part owns its data and does
not know RELAY (design/relay.md, "Parts").

Source:  seed 001 (JGRP-747); RELAY.md, which has the reasons for every rule here.
Differs: members are numbered by their origin, not by relay and standby; acknowledgements come from
         reports to the relay, not from STABLE. See design/relay.md.
Limits:  members without RELAY see its control multicasts as messages of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jgroups_py.protocols.relay.config import RelayConfig
from jgroups_py.protocols.relay.holders.collect import Collect
from jgroups_py.protocols.relay.parts import RelayParts
from jgroups_py.protocols.relay.remote.incoming import sender_of
from jgroups_py.protocols.relay.state import ALL, minimum
from jgroups_py.protocols.relay.wire import (
    ID,
    MULTICASTS,
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
    Known,
    Lack,
    MessageKind,
    Need,
    PromoteAsk,
    Record,
    Report,
    Snapshot,
    StateMark,
    Trim,
)
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
    GetDigest,
    GetState,
    Stable,
    StateFailed,
    StateReceived,
    StateRequested,
    ViewChange,
)
from jgroups_py.values.view import MergeView, View
from jgroups_py.wire.headers import FragHeader, RelayHeader


class RELAY(RelayParts):
    """See the module's docstring."""

    protocol_id = ID
    needs_below = (MULTICAST, UNICAST, VIEWS)
    turns_away = {
        "forged_site": "a message in the name of another site's member that no relay has brought here",
        "unlisted_site": "a relay on the bridge is of a site that is not listed in sites",
    }

    @dataclass(frozen=True, kw_only=True)
    class Config(RelayConfig):
        """See config.py."""

    config: Config

    # --- for owners of the stack

    def promote(self) -> None:
        """Make this site primary. Any member may be asked; its relay does it.

        Raises:
            LocalProtocolError: all sites relay anyway, or there is no view yet.
        """
        self.direction.may_promote()
        if not self.roles.is_relay:
            self._tell_relay(PromoteAsk())
        elif not self.is_relaying:
            self.direction.promote()
            self.bridge.tell_epoch()

    def give_up(self, site: str) -> None:
        """Stop keeping messages for ``site``; its missing messages are listed as out of sync."""
        if self.state.give_up(site):
            self.log.warning("site %s is given up; it will be out of sync", site)
            self.trimming.repeat()
            self.out.wake()

    def reconciled(self, site: str) -> None:
        """Note that the state of ``site`` was brought in line by other means."""
        self.out_of_sync.clear(site)

    # --- from above

    def down(self, batch: Batch) -> None:
        if batch.dest is not None:
            self._unicast_down(batch)
            return
        if batch.flags & UNNUMBERED:
            self.pass_down(batch)
            return
        self.pass_down(self.stream.number(batch, self.is_relaying))

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
            if isinstance(batch.src, SiteUUID):
                self.turn_away("forged_site", batch.src, len(batch))
                self.consume(batch)
            else:
                self.pass_up(batch)
            return
        if type(header) is not FragHeader or batch.src is None:
            self._refuse(batch, "a header that is not RELAY's")
            return
        kind = header.index
        if kind == MessageKind.DATA and batch.dest is None:
            self._up_data(batch, header)
        elif kind == MessageKind.RELAYED and batch.dest is None:
            self._up_relayed(batch, header)
        elif kind == MessageKind.CONTROL:
            self._up_control(batch)
        elif kind == MessageKind.COPY and batch.dest is not None:
            self._up_copy(batch, header)
        else:
            self._refuse(batch, f"a message of kind {kind}")

    def _refuse(self, batch: Batch, problem: str) -> None:
        self.out.refuse(batch.src, problem)
        self.consume(batch)

    # --- home runs

    def _up_data(self, batch: Batch, header: FragHeader) -> None:
        first = header.id
        if not self._take(batch, first):
            self._refuse(batch, "a multicast without a number")
        elif self.stream.may_be_unwanted(batch):
            parts, with_end = self.stream.wanted(batch, first)
            for part in parts:
                self.pass_up(part)
            if not with_end:
                self.consume(batch)
        else:
            self.pass_up(batch)

    def _take(self, batch: Batch, first: int) -> bool:
        """Take a home run that was delivered here. False: it has no numbers."""
        relaying = self.is_relaying
        if not self.stream.take(batch, first, relaying):
            return False
        if relaying:
            assert batch.src is not None
            origin = bytes(batch.src)
            if self.config.relay_when == "stable":
                self._mark(batch.src, origin, first + len(batch) - 1)
            elif self.roles.is_relay:
                self.bridge.pump_origin(origin)
        return True

    def _mark(self, member: Address, origin: bytes, number: int) -> None:
        """Tie the stability of ``number`` to what NAKACK2 has delivered of ``member`` so far."""
        digest = self.ask_down(GetDigest((member,)))
        if digest is not None:
            self.stability.mark(origin, digest.delivered(member), number)

    def _up_copy(self, batch: Batch, header: FragHeader) -> None:
        source = batch.header(SOURCE_ID, RelayHeader)
        sender = None if source is None else source.original_sender
        first = header.id
        if (
            not isinstance(sender, UUID)
            or first < 1
            or first + len(batch) - 1 > SEQNO_MAX
            or batch.src is None
            or not self.holding.takes_copies_of(batch.src)
        ):
            self.counters.strangers += 1
        # A member may not know yet that the site does not relay any more, and may still offer copies.
        elif self.is_relaying and not self.state.is_forgotten(bytes(sender)):
            self.keeping.keep(bytes(sender), first, batch)
        self.consume(batch)

    def _covered(self, batch: Batch) -> None:
        """Keep a run that a state contains; the other sites may need it from here."""
        header = batch.headers.get(ID)
        if type(header) is not FragHeader or batch.src is None:
            return
        if header.index == MessageKind.DATA:
            self._take(batch, header.id)
        elif (
            header.index == MessageKind.CONTROL
            and isinstance(batch.src, UUID)
            and batch.src.is_ours
        ):
            self._covered_records(batch)

    # --- runs of other sites

    def _up_relayed(self, batch: Batch, header: FragHeader) -> None:
        if not self.incoming.is_of_others(batch, header):
            self.consume(batch)
        elif self.joining.waits:
            self._enqueue(batch)
        else:
            self._deliver(batch, header)

    def _deliver(self, batch: Batch, header: FragHeader) -> None:
        incoming = self.incoming
        run = incoming.arrive(batch, header)
        if incoming.came_back:
            self.report_soon()
        if run is None:
            self.consume(batch)
            if incoming.asks is not None:
                self._tell_relay(incoming.asks)
                self.out.ask_again()
            return
        sender, count = sender_of(run), len(run)
        if self.reporting.progress(count) and not self.roles.is_relay:
            self.report()
        else:
            self.out.wake()
        if self.out.watched:
            seqno = header.id + len(batch) - count
            self.trace("deliver_relayed", origin=str(sender), seqno=seqno, count=count)
        self.pass_up(
            Batch(
                None,
                run.payloads,
                {},
                sender,
                run.flags,
                run.transient,
                run.type,
                run.credits,
            )
        )

    def _on_gap(self, gap: Gap) -> None:
        """Handle lost numbers."""
        for origin, first, last in self.incoming.skip(gap):
            self.counters.skipped += last + 1 - first
            self.out.lost(gap.site, f"{origin.hex()[:8]}:{gap.site}", first, last, "skipped")
        self.report_soon()

    # --- events from below

    def event_up(self, event: Event) -> None:
        match event:
            case ViewChange():
                self._on_view(event)
            case Stable(digest=digest):
                for member in digest:
                    origin = bytes(member)
                    moved = self.stability.on_stable(origin, digest.delivered(member))
                    if moved and self.roles.is_relay:
                        self.bridge.pump_origin(origin)
                self.pass_event_up(event)
            case FlowBlocked(source=source, dest=None):
                self.bridge.block(source)
                self.pass_event_up(event)
            case FlowOpened(source=source, dest=None):
                self.bridge.unblock(source)
                self.pass_event_up(event)
                self.machine.soon(self.bridge.drain)
            case StateRequested(requester=requester):
                if isinstance(requester, UUID) and requester.is_ours:
                    self.out.tell(requester, StateMark(self.known_here()))
                self.pass_event_up(event)
            case StateReceived(provider=provider):
                self._on_state(provider)
                self.pass_event_up(event)
                self._release()
            case Covered(batch=batch):
                self._covered(batch)
            case StateFailed():
                self._on_state(None)
                self.pass_event_up(event)
                self._release()
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
            joining.join(roles.key)
        elif old is None:
            joining.begin_anywhere()
        self.departures.note_lost(old_line, event.ended)
        self._leave_behind(view)
        joined = [m for m in roles.others if m not in old_line]
        if not joining.joined_with:
            joining.remember_view(joined, self.known_here)
            if joined and roles.is_relay and not merged and old is not None:
                self.trimming.repeat()
                self._tell_joiners(joined)
        elif roles.is_relay:
            joining.begin_anywhere()
        joining.see_again(self.config.gap_wait)
        self._change_roles(was_relay, was_holder, merged)
        was_blocked = self.keeping.view_changed()
        self.trace("view", relay=self.name_of(roles.line[0]), size=len(roles.line))
        self.pass_event_up(event)
        if was_blocked:
            self.pass_event_up(FlowOpened(self.name, None))
        self._settle()

    def _leave_behind(self, view: View) -> None:
        """Handle the departures of a view. Drop copies above the survivors' numbers (the Cut)."""
        if not self.joining.joined_with:
            self._cut()
        self.holding.keep(view)
        self.control.keep(view)
        self._note_departed()
        self.duty.reports.keep(self.roles.line)
        self.joining.keep(view)

    def _change_roles(self, was_relay: bool, was_holder: bool, merged: bool) -> None:
        roles, holding = self.roles, self.holding
        self.reporting.view_changed()
        self.bridge.forwarded.view_changed()
        if was_relay and not roles.is_relay:
            self.bridge.close()
            self.bridge.forwarded.step_down()
            self.direction.step_down()
            self.trimming.step_down()
            self.leaving.abandon()
        if roles.is_relay and not was_relay:
            self.counters.takeovers += 1
            self.direction.follow()
            self.trace("takeover", phase="collect")
        if not roles.is_holder:
            holding.stand_down()
        elif (
            merged
            or not was_holder
            or holding.round is not None  # the round may ask departed members
            or (roles.is_relay and not was_relay)
        ):
            if merged and roles.is_relay:
                self.trimming.merged()
            holding.begin_anew(merged)

    def _settle(self) -> None:
        self._early_records()
        self.ask_round()
        if self.joining.joined_with:
            self.out.ask_again()
        elif self.joining.queue:
            self._release()
        # Records that only departed members lacked may go out now.
        self.bridge.pump_all()
        self.report()
        self.out.wake()

    def _cut(self) -> None:
        """Drop copies of departed members above the survivors' numbers."""
        for origin in self.buffer.origins():
            if not self.roles.is_member(origin):
                self.keeping.cut(origin, self.origins.known(origin))

    def _note_departed(self) -> None:
        self.departures.note_departed(self.origins.origins())
        for member in self.roles.line:
            self.state.is_back(bytes(member))

    # --- records of members of this site

    def _up_control(self, batch: Batch) -> None:
        if batch.dest is None and self.joining.waits:
            self._enqueue(batch)
            return
        self.consume(batch)
        assert batch.src is not None
        for record in self.control.records(batch):
            self.on_record(batch.src, record)

    def _covered_records(self, batch: Batch) -> None:
        """Handle multicasts that a state contains. Its digests replace these records, except Forget of this site, Block
        and Begun."""
        for record in self.control.decoded(batch):
            match record:
                case Forget():
                    self._on_forget(record)
                case Block():
                    self._on_block(record)
                case Begun(members=members):
                    self.joining.on_begun(members)

    def on_record(self, src: Address, record: Any) -> None:
        """Handle a record of a member of this site, perhaps of this member itself."""
        if isinstance(record, MULTICASTS):
            serial: int = record.serial
            self.control.delivered(src, serial)
            self.report_soon()
        match record:
            case Trim():
                self._on_trim(src, record)
            case Gap():
                self._on_gap(record)
            case Forget():
                self._on_forget(record)
            case Cut():
                self._on_cut(record)
            case Block():
                self._on_block(record)
            case Begun(members=members):
                self.joining.on_begun(members)
            case Report():
                self.duty.on_report(src, record)
            case CollectAsk():
                self._on_collect_ask(src, record)
            case CollectAnswer():
                if self.holding.answered(src, record):
                    self._learn(record.known, digest=False)
                    self._collect()
            case Fetch():
                self.holding.send_copies(src, record, self.config.fetch_bytes)
            case Fetched():
                if self.holding.fetched(src, record):
                    self._collect()
            case Snapshot():
                self._on_snapshot(record)
            case Need():
                self._on_need(src, record)
            case StateMark():
                if self.joining.mark(src, record.known):
                    self._begin_with_state(record.known)
                    self._release()
            case Lack():
                self.duty.on_lack(src, record)
            case PromoteAsk():
                if self.roles.is_relay and self.config.first_primary != ALL:
                    self.promote()

    def _on_trim(self, src: Address, trim: Trim) -> None:
        roles, state = self.roles, self.state
        if roles.line and src == roles.line[0] and not roles.is_relay:
            state.replace_sites(trim.sites)
        for origin, number in trim.trimmed.items():
            if state.is_forgotten(origin):
                continue
            state.trim_to(origin, number)
            count = self.keeping.trim_to(origin, number)
            if self.out.watched:
                self.trace("trim", origin=self.out.shown(origin), seqno=number, count=count)

    def _on_block(self, block: Block) -> None:
        event = self.keeping.on_block(block.on)
        if event is not None:
            self.pass_event_up(event)

    def _on_cut(self, cut: Cut) -> None:
        """Begin an epoch."""
        state, holding = self.state, self.holding
        if cut.epoch <= state.epoch:
            return
        relayed = state.relays()
        state.begin_epoch(cut.epoch, cut.base)
        self.posts.epoch(*cut.epoch)
        self.direction.follow()
        relays = state.relays()
        if relays:
            self.forgetting.forget_before(cut.base)
        if relayed and not relays:
            self.keeping.clear()
            state.stop_relaying()
            self.forgetting.end(list(self.trimming.forgetting))
        elif relays:
            self.keeping.trim()
            if not relayed and self.roles.is_holder:
                holding.new_round(complete=self.roles.is_relay and holding.complete)
                self.ask_round()
        self.report_soon()

    # --- COLLECT

    def ask_round(self) -> None:
        if self.holding.round is None or self.joining.joined_with:
            return
        self.holding.ask_silent_ones()
        self.out.ask_again()
        self._collect()

    def _collect_again(self) -> None:
        """Collect once more: messages in a state did not pass here, so none of them was kept."""
        roles, holding = self.roles, self.holding
        if not roles.is_holder:
            return
        # The sessions of a relay go on.
        holding.new_round(second_look=roles.is_relay and holding.complete)
        self.report()
        self.ask_round()

    def _on_collect_ask(self, src: Address, ask: CollectAsk) -> None:
        key, buffer = self.roles.key, self.buffer
        if ask.view[1] < key[1]:
            return
        if ask.view != key or self.joining.waits:
            self._keep_early(src, ask)
            return
        ranges = {origin: buffer.ranges(origin) for origin in buffer.origins()}
        self.out.tell(src, CollectAnswer(key, self.known_here(), ranges))

    def _collect(self) -> None:
        if self.holding.round is None or self.joining.joined_with:
            return
        self.keeping.trim()
        collect = self.holding.fetch_next()
        if collect is not None:
            self._collected(collect)

    def _collected(self, collect: Collect) -> None:
        """End a round: this member is a complete holder. A relay takes over or continues."""
        roles, bridge = self.roles, self.bridge
        self.holding.collected(collect)
        self._note_departed()
        self._cut()
        self.keeping.trim()
        self.trace("collected", messages=self.buffer.messages, relay=roles.is_relay)
        if self.holding.looked():
            bridge.pump_all()
        elif roles.is_relay:
            bridge.forwarded.restart(minimum([self.state.site_digest, *collect.site_digests]))
            self.direction.follow()
            self.direction.repeat(collect.answers.values())
            self.trimming.repeat()
            self.forgetting.tell_again()
            if bridge.is_open:
                bridge.restart()
            elif not self.leaving.done:
                self.trace("takeover", phase="join")
                bridge.open()
        else:
            self.report()
        self.out.wake()

    # --- first numbers of members

    def known_here(self) -> Known:
        """Return the knowledge of this member, as it travels."""
        roles = self.roles
        relay = roles.line[0] if roles.line else roles.me
        return self.state.known(self.control.serial_of(relay), self.now)

    def _learn(self, known: Known, *, digest: bool, replace: bool = False) -> None:
        self.state.learn(known, self.now, digest=digest, replace=replace)
        if self.direction.follow() and not self.is_relaying:
            self.keeping.clear()
        self.keeping.trim()

    def _on_snapshot(self, snapshot: Snapshot) -> None:
        """Take a snapshot, if this member joined with the snapshot's view and still needs it."""
        if self.roles.view is None:
            self._keep_early(self.roles.me, snapshot)
        elif self.joining.joined_with == snapshot.view:
            self._begin_with(snapshot.known)

    def _tell_joiners(self, joined: Sequence[Address]) -> None:
        known = self.joining.snapshot(self.roles.key)
        assert known is not None
        for member in joined:
            self.out.tell(member, Snapshot(self.roles.key, known))

    def _on_need(self, src: Address, need: Need) -> None:
        if need.view[1] > self.roles.key[1] or self.joining.joined_with:
            self._keep_early(src, need)
            return
        found = self.joining.snapshot(need.view)
        self.out.tell(src, Snapshot(need.view, self.known_here() if found is None else found))

    def _begin_with(self, known: Known) -> None:
        self.joining.begin()
        self._learn(known, digest=True)
        self._learn_rest(known)
        self._release()
        self.ask_round()

    def _on_state(self, provider: Address | None) -> None:
        """Begin with the state of ``provider``. None: there is no state."""
        joining = self.joining
        if provider is not None:
            # After the held messages: answers to a running round are older than the state.
            self.machine.soon(self._collect_again)
        mark = joining.mark_of(provider)
        if mark is not None:
            self._begin_with_state(mark)
        elif isinstance(provider, UUID) and provider.is_ours:
            joining.await_mark(provider)
            self.machine.soon(self._begin_without_mark)
        else:
            joining.end_state()

    def _begin_without_mark(self) -> None:
        """Begin without digests, after the messages that STATE_TRANSFER held back."""
        joining = self.joining
        if joining.marked_by is not None:
            self.trace("state without digests", provider=self.name_of(joining.marked_by))
            joining.end_state()
            self._release()

    def _begin_with_state(self, mark: Known) -> None:
        """Begin with a state: messages in it do not come again, but missing ones do."""
        state = self.state
        self.joining.end_state()
        before = {s: dict(n) for s, n in state.site_digest.items()}
        self.joining.begin()
        self._learn(mark, digest=True, replace=True)
        self._learn_rest(mark)
        for site, numbers in before.items():
            less = {o: state.has(site, o) for o, n in numbers.items()}
            less = {o: n for o, n in less.items() if n < numbers[o]}
            if less:
                self._tell_relay(Lack(site, less))
        self.ask_round()

    def _learn_rest(self, known: Known) -> None:
        """Learn the rest of ``known``, which contains the relay's records up to its serial."""
        if self.roles.line:
            self.control.contained(self.roles.line[0], known.serial)
        self._note_departed()
        self.out.wake()

    def _enqueue(self, batch: Batch) -> None:
        if not self.joining.enqueue(batch):
            self.counters.queue_full += len(batch)
            self.consume(batch)

    def _release(self) -> None:
        """Handle the queued events."""
        if self.joining.waits:
            return
        for batch in self.joining.take_queue():
            self.up(batch)
        self._early_records()
        self.report()
        self.out.wake()

    def _keep_early(self, src: Address, record: Record) -> None:
        """Keep a record of a view that this member has not installed yet."""
        if self.joining.keep_early(src, record, self.config.gap_wait):
            self.out.wake()
        else:
            self.counters.strangers += 1

    def _early_records(self) -> None:
        for src, record in self.joining.take_early():
            self.on_record(src, record)

    # --- reports to the relay

    def report_soon(self) -> None:
        self.reporting.soon()
        self.out.wake()

    def report(self) -> None:
        """Report to the relay the changes since the last report in this view."""
        roles = self.roles
        self.reporting.reset()
        if roles.view is None or self.joining.waits or roles.is_relay:
            return
        serial = self.control.serial_of(roles.line[0])
        complete = self.holding.complete
        report = self.reporting.report(roles.key, serial, complete, self.state.site_digest)
        if report is not None:
            self._tell_relay(report)

    def _tell_relay(self, record: Record) -> None:
        if self.roles.line:
            self.out.tell(self.roles.line[0], record)

    # --- at intervals: acknowledge, trim, forget, give up

    def on_tick(self) -> None:
        if self.reporting.due:
            self.report()
        if self.config.max_age or self.config.overflow == "block":
            self.keeping.bound()
        again = bool(len(self.buffer)) | self.joining.forget_early()
        if self.roles.is_relay and self.holding.complete:
            again |= self.duty.tend()
        elif not self.is_relaying:
            self.forgetting.forget_gone()
        else:
            again |= self.forgetting.drop_silent()
        if self.leaving.flush is not None:
            self.leaving.go_on()
        if again:
            self.out.wake()

    # --- forgetting

    def _on_forget(self, record: Forget) -> None:
        if record.site:
            self._forget_remote(record.site, record.origins)
        else:
            # A member that the others have left out of their view gets this record, too.
            self.forgetting.forget_departed(record.origins)

    def _forget_remote(self, site: str, origins: Sequence[bytes]) -> None:
        """Forget departed members of another site, which has forgotten them."""
        self.state.forget_remote(site, origins, self.now)
        self.duty.reports.forget(site, origins)
        self.bridge.sessions.forget(origins)
        self.reporting.forget(site, origins)
        self.incoming.forget(site, origins)

    # --- asking again

    def on_retry(self) -> None:
        joining, bridge = self.joining, self.bridge
        again = False
        if joining.joined_with and not self.leaving.done:
            self._tell_relay(Need(joining.joined_with))
            again = True
        again |= self.holding.ask_silent_ones()
        for lack in self.incoming.lacks():
            self._tell_relay(lack)
            again = True
        if self.roles.is_relay and self.holding.complete:
            if not bridge.is_open:
                bridge.open()
            again |= bridge.ask_silent_ones()
        if again:
            self.out.ask_again()
