"""GMS: decides who is in the group. Joins, leaves, crashes, new coordinators, merges.

Place: above STABLE, UNICAST3 and NAKACK2, below flow control. GMS's messages are reliable, and they need no credits.

    Connect, TransportReady   Join (join.py). The first ViewChange says that it has worked.
    JOIN_REQ, LEAVE_REQ,      The acting coordinator makes one new view of all known requests (change.py).
      Suspect
    before a view without     Survivors agree on the departed members' messages (agreement.py).
      a departed member
    MergeViews                Coordinators of different views make one of them (merge.py).
    Disconnect                Leave. Disconnected up at the end.
    VIEW                      Install it, acknowledge it.

The acting coordinator is the first member of the view that is neither suspected nor leaving.

    JOIN_REQ, prove_joiners   Ask whether the joiner is where it says (strangers.py). Then:
    JOIN_REQ                  Wait max_bundling_time for others, and for the acknowledgements of the view
                              before. A member of the view gets it once more.
    LEAVE_REQ, Suspect        Begin at once.
    a member departs          Survivors agree first. Requests that come meanwhile are in the same view. A
                              further departure starts the round again.
    new view                  Send VIEW to the old members and JOIN_RSP with digest to the joiners, install
                              the view here, send LEAVE_RSP to leavers.

JOIN_RSP goes out before the view is installed here, so that it reaches the joiner before the application's messages to
it.

    Disconnect                LEAVE_REQ to the member that acts as coordinator without us: the coordinator, or
                              the second member if we are the first. Alone, or without a view: Disconnected at once.
    that member goes too      LEAVE_REQ to the next one. No member is left: Disconnected.
    LEAVE_RSP, a VIEW         Disconnected.
      without us
    leave_timeout             Disconnected. The others will find out.

GMS installs a view by ``ViewChange`` down, then up. Before it, the members' digest goes down at a joiner
(``SetDigest``) and at the members of a merge view (``MergeDigest``).

A VIEW without ourselves is not installed, as in JGroups: the others believe that we are dead. The application learns of it
(excluded.py). The others hear us again, and MERGE3 brings us together. Until then we do not act as coordinator,
unless the leader of that view is suspected and all its other members tell us that they have not got it.

The parts do not know each other. Only ``GmsRequests`` (requests.py) writes joiners and leavers into ``PendingChanges``.
They read the ``Group`` (group.py), and use the way out (out.py). They return steps that concern other parts, and this
protocol
does them: it alone makes and installs views. See design/membership.md.

Source:  JGroups GMS, ClientGmsImpl, CoordGmsImpl, ParticipantGmsImpl, Merger, Leaver; WIRE.md 11.1-11.3.
Differs: one queue for joins, leaves and suspicions, so that one view serves all of them; survivors
         agree (best effort where Java members take part); retries always discover anew; a joiner asks for itself (Java
         accepts a request from any process).
Limits:  max_early batches before the first view; max_waiting joiners, further ones ask again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jgroups_py.errors import RemoteProtocolError
from jgroups_py.protocols.membership.gms.agreement import (
    Agreement,
    AgreementTimers,
    Then,
    ViewReceived,
)
from jgroups_py.protocols.membership.gms.change import PendingChanges
from jgroups_py.protocols.membership.gms.config import GmsConfig
from jgroups_py.protocols.membership.gms.excluded import Exclusion
from jgroups_py.protocols.membership.gms.group import Group
from jgroups_py.protocols.membership.gms.join import FirstView, Joiner
from jgroups_py.protocols.membership.gms.merge import (
    MergedView,
    MergeStep,
    Result,
    TakePart,
    ViewMerger,
)
from jgroups_py.protocols.membership.gms.out import GmsOut
from jgroups_py.protocols.membership.gms.requests import GmsRequests, JoinAsked
from jgroups_py.protocols.membership.gms.sent import SentView
from jgroups_py.protocols.membership.gms.strangers import Strangers
from jgroups_py.protocols.membership.gms.wire import AGREE_ID, RoundKind
from jgroups_py.stack.protocol import Protocol
from jgroups_py.stack.services import DETECTION, DISCOVERY, MERGING, MULTICAST, UNICAST, VIEWS
from jgroups_py.values.address import UUID, Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import (
    Connect,
    Disconnect,
    Disconnected,
    Event,
    Expel,
    Fetched,
    GetDeparted,
    GetView,
    IsCoordinator,
    MembersFound,
    MergeDigest,
    MergeViews,
    PrepareView,
    Query,
    Reached,
    SetDigest,
    Suspect,
    TransportReady,
    Unsuspect,
    ViewChange,
    WentOn,
)
from jgroups_py.values.message import Flag, Transient
from jgroups_py.values.payloads import JoinRsp, ViewDigest
from jgroups_py.values.view import DeltaView, Digest, MergeView, View, ViewId
from jgroups_py.wire.headers import PROTOCOL_IDS, FragHeader, GmsHeader, GmsType
from jgroups_py.wire.primitives import decode_whole, encode_whole
from jgroups_py.wire.values import (
    read_join_rsp,
    read_opt_view_id,
    read_view_digest,
    write_join_rsp,
    write_view_digest,
)

_VIEW_FLAGS = int(Flag.NO_FC | Flag.NO_RELAY)
_MERGE_VIEW_FLAGS = int(Flag.NO_FC | Flag.NO_RELAY | Flag.NO_TOTAL_ORDER)
_URGENT = int(Flag.OOB | Flag.NO_FC)
_NO_RELIABILITY = int(Flag.NO_RELIABILITY)


class GMS(Protocol):
    """See the module's docstring."""

    protocol_id = PROTOCOL_IDS["GMS"]
    provides = (VIEWS,)
    needs_below = (DISCOVERY, MULTICAST, UNICAST)
    wants_below = (MERGING, DETECTION)
    turns_away = {
        "not_member": "an unreliable message of somebody who is not in the view",
        "unproved": "somebody who wants to join and does not answer where it says that it is",
        "foreign_leave": "a request to let a member go, of somebody who is not in the view",
    }

    @dataclass(frozen=True, kw_only=True)
    class Config(GmsConfig):
        """See config.py."""

    config: Config

    def start(self) -> None:
        config = self.config
        self.out = GmsOut(self)
        self.group = group = Group(self.local_address)
        self._early: list[Batch] = []
        self.sent = SentView(
            self.local_address,
            self.timer(self._on_ack_timeout),
            config.view_ack_collection_timeout,
            config.use_delta_views,
        )
        self.views_installed = 0
        self.views_ignored = 0
        """Views that came late, twice, or from strangers."""
        self.view_acks_missing = 0
        self.bad_messages = 0
        """Messages that no member can send."""
        self.early_dropped = 0
        self.joins_dropped = 0
        """Join requests that were refused because max_waiting others wait."""
        self.agreements = 0
        """Rounds in which survivors agreed."""
        self.agreements_timed_out = 0
        self.holds_expired = 0
        """Rounds in which the view did not come while this member held messages for it."""
        self.agreements_restarted = 0
        self.merges = 0
        """Merge views that were installed."""
        self.merges_cancelled = 0
        self.merges_refused = 0
        self.times_excluded = 0
        """Exclusions of this member."""
        self.changes = PendingChanges(group, config.max_waiting)
        self.requests = GmsRequests(
            self.out,
            group,
            self.changes,
            Strangers(config.max_waiting, self.machine.secrets),
            self.timer(self._on_doubts),
            self.timer(self._on_join_bundle),
            config.max_bundling_time if config.view_bundling else 0.0,
            config.prove_joiners,
        )
        self._soon = False
        """``_work`` runs when the present handler has returned."""
        timers = AgreementTimers(
            round=self.timer(self._on_agree_timeout),
            patience=self.timer(self._on_agree_patience),
            hold=self.timer(self._on_agree_hold),
            again=self.timer(self.wake, "_on_agree_again"),
        )
        self.agreement = Agreement(self.out, group, timers, config.agree_timeout)
        self.exclusion = Exclusion(
            self.out,
            group,
            self.timer(self._on_excluded_timeout),
            config.view_ack_collection_timeout,
        )
        self._make_ways_in_and_out()

    def _make_ways_in_and_out(self) -> None:
        """Make the parts for joining, leaving and merging."""
        config, group = self.config, self.group
        self.joiner = Joiner(
            self.out,
            group,
            self.timer(self._on_join_timer),
            join_timeout=config.join_timeout,
            max_join_attempts=config.max_join_attempts,
            give_up=config.give_up,
            all_clients_retry_timeout=config.all_clients_retry_timeout,
        )
        self._leave_timer = self.timer(self._on_leave_timeout)
        self._leave_target: Address | None = None
        """The member that was asked to let us go."""
        self.merger = ViewMerger(
            self.out,
            group,
            self.timer(self._on_merge_end),
            self.timer(self._on_merge_collect),
            config.merge_timeout,
        )

    def stop(self) -> None:
        self.group.end()
        self.sent.stop()
        self.agreement.stop()
        self.requests.stop()
        self.exclusion.stop()
        self.joiner.stop()
        self.group.leave(False)
        self._leave_timer.cancel()
        self.merger.stop()

    @property
    def view(self) -> View | None:
        """Return the installed view."""
        return self.group.view

    @property
    def excluding(self) -> View | None:
        """Return the newest view without this member, made by members of its view."""
        return self.group.excluding

    @property
    def is_coordinator(self) -> bool:
        """Is this member the first of its view, and did no others go on without it?"""
        return self.group.is_coordinator

    def statistics(self) -> dict[str, int | float]:
        return {**super().statistics(), "highest_id": self.group.highest_id}

    def texts(self) -> dict[str, str]:
        """``coordinator``: the view's coordinator, as this member sees it."""
        view = self.view
        return {"coordinator": self.name_of(view.coordinator) if view is not None else ""}

    # --- events and queries

    def event_down(self, event: Event) -> None:
        match event:
            case Connect(_, with_state):
                self._first_view(self.joiner.connect(with_state))
                self.pass_event_down(event)
            case Disconnect():
                self._leave()
            case _:
                self.pass_event_down(event)

    def event_up(self, event: Event) -> None:
        match event:
            case TransportReady():
                self.pass_event_up(event)
                self._first_view(self.joiner.transport_ready())
            case MembersFound(requester, members, alone) if requester == self.name:
                self._first_view(self.joiner.found(members, alone))
            case Suspect(members, gone):
                self._suspect(members, gone)
            case Unsuspect(members):
                if self.changes.unsuspect(members):
                    self.wake()
                self.pass_event_up(event)
            case Fetched():
                self._then(self.agreement.fetched())
            case Reached(member, nonce):
                self._joining(member, self.requests.reached(member, nonce))
            case MergeViews(views, silent):
                if self.group.is_working:
                    self._views_differ(views, silent)
            case WentOn(member, view):
                if self.group.is_working:
                    self._went_on(member, view)
            case _:
                self.pass_event_up(event)

    def _suspect(self, members: tuple[Address, ...], gone: bool) -> None:
        view = self.view
        if view is None or self.group.left:
            return
        others = tuple(m for m in members if m in view and m != self.local_address)
        fresh = tuple(m for m in others if not self.changes.is_suspected(m))
        self.changes.suspect(others, gone)
        if fresh:
            self.trace("suspect", members=fresh)
            self.wake()
            self._check_leave_target()
            self.pass_event_up(Suspect(fresh, gone))

    def answer(self, query: Query) -> Any:
        match query:
            case GetView():
                return self.view
            case IsCoordinator():
                return self.is_coordinator
        return None

    # --- messages

    def up(self, batch: Batch) -> None:
        headers = batch.headers
        if self.protocol_id in headers:
            self._take(batch)
        elif AGREE_ID in headers:
            if self.group.is_working:
                self._take_round(batch)
            self.consume(batch)
        elif self.group.view is None:
            self._keep_early(batch)
        elif batch.flags & _NO_RELIABILITY and batch.src not in self.group.view:
            # Such a message must come over a connection. Otherwise one datagram could forge it.
            self.turn_away("not_member", batch.src, len(batch))
            self.consume(batch)
        else:
            self.pass_up(batch)

    def _take(self, batch: Batch) -> None:
        header = batch.header(self.protocol_id, GmsHeader)
        if header is None or batch.src is None:
            self.bad_messages += 1
            self.trace("bad message", src=batch.src)
        elif self.group.view is None and header.type == GmsType.VIEW:
            self._keep_early(batch)
            return
        elif not self.group.left:
            for payload in batch.payloads:
                try:
                    self._handle(batch.src, header, b"" if payload is None else payload)
                except RemoteProtocolError as error:
                    self.bad_messages += 1
                    self.trace("bad message", src=batch.src, problem=str(error))
        self.consume(batch)

    def _handle(self, src: Address, header: GmsHeader, payload: bytes | memoryview) -> None:
        match header.type:
            case GmsType.JOIN_REQ | GmsType.JOIN_REQ_WITH_STATE_TRANSFER:
                if header.member != src:
                    # Otherwise any process could bring back a dead member, and its old messages with it.
                    raise RemoteProtocolError("a request to join in another member's name")
                self._joining(src, self.requests.join(src))
            case GmsType.JOIN_RSP:
                self._join_answered(src, payload)
            case GmsType.LEAVE_REQ:
                if header.member is None:
                    raise RemoteProtocolError("a request to leave that names nobody")
                if self.requests.leave(src, header.member):
                    self._check_leave_target()
                    self.wake()
            case GmsType.LEAVE_RSP:
                if self.group.leaving and self.view is not None and src in self.view:
                    self._gone()
            case GmsType.VIEW:
                self.view_received(src, decode_whole(read_view_digest, payload))
            case GmsType.VIEW_ACK:
                if self.sent.acknowledged(src):
                    self.trace("all have it", view=self.view)
                    self.wake()
            case GmsType.GET_CURRENT_VIEW:
                self._view_wanted(src, payload)
            case _ if self.view is not None:
                cannot = self._cannot_merge
                self._merge(self.merger.take(src, header, payload, cannot=cannot))

    def _take_round(self, batch: Batch) -> None:
        """Take messages between members of this package: of a round, or after an exclusion."""
        src, view = batch.src, self.view
        header = batch.header(AGREE_ID, FragHeader)
        asking = header is not None and header.index in (RoundKind.ASK, RoundKind.HAS)
        if header is None or src is None or not (asking or (view is not None and src in view)):
            self.bad_messages += 1
            self.trace("bad message", src=src)
            return
        for index, payload in enumerate(batch.payloads):
            one = header.at(index)
            try:
                if asking:
                    self.exclusion.take(src, header.index, one.id, payload)
                else:
                    self._then(self.agreement.take(src, one, payload))
            except RemoteProtocolError as error:
                self.bad_messages += 1
                self.trace("bad message", src=src, problem=str(error))

    def _keep_early(self, batch: Batch) -> None:
        """Keep messages of members that get our first view before us."""
        if self.group.left or len(self._early) >= self.config.max_early:
            self.early_dropped += len(batch)
            self.consume(batch)
        else:
            self._early.append(batch)

    # --- joining

    def _first_view(self, first: FirstView | None) -> None:
        if first is None:
            return
        self.install_first(first.view, first.digest)
        if first.acknowledge:
            creator = first.view.view_id.creator
            self.out.send(creator, GmsType.VIEW_ACK, flags=_URGENT)

    def _on_join_timer(self) -> None:
        self._first_view(self.joiner.time_is_over())

    def _join_answered(self, src: Address, payload: bytes | memoryview) -> None:
        answer = decode_whole(read_join_rsp, payload)
        if self.joiner.has_asked(src):
            self._first_view(self.joiner.response(src, answer))
        else:
            self.views_ignored += 1

    # --- leaving

    def _leave(self) -> None:
        if self.group.leaving or self.group.left:
            return
        self.joiner.stop()
        self.trace("leave")
        self.group.leave(True)
        if self.view is None or len(self.view) == 1:
            self._gone()
            return
        self._leave_timer.start(self.config.leave_timeout)
        self.agreement.abandon()
        self._check_leave_target()

    def _check_leave_target(self) -> None:
        """Ask again if another member acts as coordinator by now."""
        if not self.group.leaving:
            return
        target = self.changes.acting_without_us()
        if target is None:
            self._gone()
        elif target != self._leave_target:
            self._leave_target = target
            self.requests.ask_to_let_go(target, self.local_address)

    def _on_leave_timeout(self) -> None:
        self.log.info("left without an answer of the group")
        self._gone()

    def _gone(self) -> None:
        """Tell the owner that we have left."""
        self.stop()
        self.trace("left")
        self.pass_event_up(Disconnected())

    # --- requests of others

    def _joining(self, joiner: Address, asked: JoinAsked) -> None:
        """Carry out the result of a request to join."""
        if asked is JoinAsked.DROPPED:
            self.joins_dropped += 1
        elif asked is JoinAsked.AGAIN:
            assert self.view is not None
            self._answer_join(joiner, self.view, flags=int(Flag.OOB))

    def _on_doubts(self) -> None:
        self.requests.on_doubts()

    # --- making a view

    def wake(self) -> None:
        """Act on changes when the running handler has returned."""
        if not self._soon:
            self._soon = True
            self.machine.soon(self._on_soon)

    def _on_soon(self) -> None:
        self._soon = False
        self._work()

    def _on_join_bundle(self) -> None:
        self._work()

    def _work(self) -> None:
        if not self.changes.acting:
            self._give_up_round()
            return
        if self.merger.busy:
            return
        departing = self.changes.departing
        if departing:
            self._reach(departing)
            return
        self._give_up_round()
        if self.changes.joiners and not self.requests.bundle.armed and not self.sent.awaits_acks:
            self._make_view(())

    def _make_view(self, departing: tuple[Address, ...]) -> None:
        """Make the view without ``departing``, on whose messages the others agree, and with all joiners."""
        old, me = self.view, self.local_address
        assert old is not None and self.changes.acting
        joiners = self.changes.joiners
        stay = tuple(m for m in old if m not in departing)
        assert stay[0] == me
        leavers = self._leavers_of(departing)
        view = View(ViewId(me, self.group.next_id), stay + joiners)
        self.requests.bundle.cancel()
        self.changes.clear_joiners()
        if len(old) > 1 or joiners:
            self.multicast_view(view, view.members)
        for joiner in joiners:
            self._answer_join(joiner, view)
        self.install(view)
        for leaver in leavers:
            if isinstance(leaver, UUID) and leaver.is_ours:
                self.requests.let_go(leaver)

    def _leavers_of(self, departing: tuple[Address, ...]) -> tuple[Address, ...]:
        """Return those of ``departing`` that are alive and leaving."""
        return tuple(m for m in departing if self.changes.is_leaving(m))

    def _answer_join(self, joiner: Address, view: View, flags: int = 0) -> None:
        plain = View(
            view.view_id, view.members
        )  # members before 5.6 cannot read a merge view there
        answer = JoinRsp(plain, self.out.digest_of(view.members))
        payload = encode_whole(write_join_rsp, answer)
        self.out.send(joiner, GmsType.JOIN_RSP, payload=payload, flags=flags)

    # --- survivors agree

    def _reach(self, departing: tuple[Address, ...]) -> None:
        """Let survivors agree on ``departing``, then make the new view. A round about others starts anew."""
        round = self.agreement.round
        if round is not None:
            if round.is_about(departing, self._leavers_of(departing)):
                return
            self.agreements_restarted += 1
        self._begin_round(departing)

    def _begin_round(self, departing: tuple[Address, ...]) -> None:
        if self.agreement.begin(departing, self._leavers_of(departing)):
            self.agreements += 1
            self._then(self.agreement.evaluate())
        else:
            self._finish_round()

    def _finish_round(self) -> None:
        """End the round: all have the agreed messages."""
        round = self.agreement.round
        assert round is not None
        if self.changes.departing != round.departing or not self.changes.acting:
            self.wake()  # the departing members have changed
            return
        if not self.agreement.is_at_goals():
            self._restart_round()
            return
        self.agreement.stop()
        self.trace("agree", step="done", departing=round.departing)
        self._make_view(round.departing)

    def _restart_round(self) -> None:
        round = self.agreement.round
        assert round is not None
        self.agreements_restarted += 1
        self._begin_round(round.departing)

    def _give_up_round(self) -> None:
        if self.agreement.give_up():
            self._let_go()

    def _let_go(self) -> None:
        """Give up a round: go back to the previous one to which we have reported, or go on."""
        if self.agreement.has_promised:
            self._then(self.agreement.resume())
            self._take_put_off()
        else:
            self._take_put_off()
            self.agreement.hand_out()

    def _take_put_off(self) -> None:
        put_off = self.agreement.take_put_off()
        if put_off is not None:
            self.view_received(put_off.src, ViewDigest(put_off.view, put_off.digest))

    def _then(self, then: Then | ViewReceived | None) -> None:
        """Carry out the result of a step of the agreement."""
        match then:
            case Then.FINISH:
                self._finish_round()
            case Then.RESTART:
                self._restart_round()
            case Then.LET_GO:
                self._let_go()
            case Then.TAKE_PUT_OFF:
                self._take_put_off()
            case Then.RETRY:
                self._give_up_round()
                self.agreement.retry_later()
            case ViewReceived(src, content):
                self.view_received(src, content)

    def _on_agree_timeout(self) -> None:
        self.agreements_timed_out += 1
        self._then(self.agreement.timed_out())

    def _on_agree_patience(self) -> None:
        self.agreements_timed_out += 1
        self._then(self.agreement.patience_ended())

    def _on_agree_hold(self) -> None:
        self.holds_expired += 1
        self.agreement.hold_expired()

    # --- merging

    @property
    def _cannot_merge(self) -> bool:
        """Return whether we must make another view first. After an exclusion we need not: others may have made theirs
        without us."""
        leaving, changes = self.group.leaving, self.changes
        if self.excluding is not None:
            return leaving
        return leaving or (changes.acting and bool(changes.departing))

    def _views_differ(self, views: Mapping[Address, View], silent: tuple[Address, ...]) -> None:
        """Take the different views that MERGE3 saw, ours among them. Members in ``silent`` have other views, too."""
        assert self.view is not None
        if self.merger.busy or self._cannot_merge:
            return
        known = {**views, self.local_address: self.view}
        participants = self.merger.to_lead(known, silent, self.changes.first_that_stays)
        if participants is None:
            return
        self.trace("merge", step="request", of=tuple(participants))
        self.log.info("merging with %s", ", ".join(self.name_of(m) for m in participants))
        self._give_up_round()
        self._merge(self.merger.lead(participants))

    def _merge(self, result: Result) -> None:
        """Carry out the result of a step of a merge."""
        match result:
            case MergeStep.CANCELLED:
                self.merges_cancelled += 1
                self.wake()
            case MergeStep.IGNORED:
                self.views_ignored += 1
            case MergeStep.REFUSED:
                self.merges_refused += 1
            case TakePart():
                self._give_up_round()
                self._merge(self.merger.take_part(result))
            case MergedView(view, digest, members):
                if len(members) > 1:
                    self.multicast_view(view, members, digest)
                self.merge_digest(view, digest)
                self.install(view)

    def _on_merge_end(self) -> None:
        self._merge(self.merger.time_is_over())

    def _on_merge_collect(self) -> None:
        self._merge(self.merger.respond())

    # --- exclusion

    def _on_excluded_timeout(self) -> None:
        self.exclusion.tell()

    # --- views: sending

    def multicast_view(
        self, view: View, expect: tuple[Address, ...], digest: Digest | None = None
    ) -> None:
        """Send ``view`` to the members of the view installed now. The caller installs it. Members in ``expect``
        will acknowledge it."""
        old = self.view
        assert old is not None
        self.pass_event_down(PrepareView(view))
        merging = isinstance(view, MergeView)
        content = self.sent.next(view, old, expect)
        payload = encode_whole(write_view_digest, ViewDigest(content, digest))
        self.out.send(
            None,
            GmsType.VIEW,
            payload=payload,
            flags=_MERGE_VIEW_FLAGS if merging else _VIEW_FLAGS,
            transient=int(Transient.DONT_LOOPBACK),
        )
        if merging or any(m not in view for m in old):
            self.agreement.hand_over(view, payload)

    def _on_ack_timeout(self) -> None:
        missing = self.sent.give_up()
        self.view_acks_missing += len(missing)
        self.trace("no acknowledgement", members=missing)
        self.wake()

    # --- views: receiving

    def view_received(self, src: Address, content: ViewDigest) -> None:
        current, view = self.view, content.view
        if view is None:
            raise RemoteProtocolError("a VIEW message without a view")
        self.group.believe(view.view_id.id, merging=isinstance(view, MergeView))
        if current is None or src not in current or view.view_id.id <= current.id:
            self.views_ignored += 1
            return
        if isinstance(view, DeltaView):
            if view.reference != current.view_id:
                self.out.send(src, GmsType.GET_CURRENT_VIEW, flags=_URGENT)
                return
            view = view.applied_to(current)
        self.group.saw(view.id)
        if self.local_address not in view:
            self._excluded(src, view)
            return
        if isinstance(view, MergeView) and not self.group.is_merged_by(view):
            self.views_ignored += 1
            self.trace("merge view of others", view=view)
            return
        if isinstance(content.view, View) and self._skips_a_merge(current, view):
            self.views_ignored += 1
            self.trace("not merged", view=view)
            return
        if self.agreement.puts_off(src, view, content.digest):
            return
        if src not in view:
            self.out.send(src, GmsType.VIEW_ACK, flags=_URGENT)
        if content.digest is not None:
            self.merge_digest(view, content.digest)
        self.install(view)
        if src in view:
            self.out.send(src, GmsType.VIEW_ACK, flags=_URGENT)

    def _skips_a_merge(self, current: View, view: View) -> bool:
        """Return whether ``view`` is not the next view and has a member that had gone from ours. Then we have missed a
        merge view, and the numbers at which that member's messages begin. Our view is merged in its turn."""
        if isinstance(view, MergeView) or view.id == current.id + 1:
            return False
        return bool(self.ask_down(GetDeparted(view.joined_since(current))))

    def _view_wanted(self, src: Address, payload: bytes | memoryview) -> None:
        view = self.view
        have = decode_whole(read_opt_view_id, payload) if payload else None
        if view is None or src not in view or (have is not None and have.id >= view.id):
            return
        answer = encode_whole(write_view_digest, ViewDigest(view))
        self.out.send(src, GmsType.VIEW, payload=answer, flags=_URGENT)

    def _went_on(self, member: Address, view: View) -> None:
        """Take a view that MERGE3 got from ``member`` and that its coordinator confirms: the VIEW itself has not come,
        or not yet."""
        current = self.view
        assert current is not None
        if member not in current or view.id <= current.id or self.local_address in view:
            return
        try:
            self.group.believe(view.id)
        except RemoteProtocolError as error:
            self.bad_messages += 1
            self.trace("bad message", src=member, problem=str(error))
            return
        self.group.saw(view.id)
        self._excluded(member, view)

    def _excluded(self, src: Address, view: View) -> None:
        """Handle that members of our view went on without us."""
        if self.group.leaving:
            self._gone()
            return
        self.trace("excluded", view=view, by=src)
        if self.excluding is None:
            members = ", ".join([self.name_of(m) for m in view.members[:20]])
            self.log.warning("others went on without this member: view %s of %s", view.id, members)
        self.group.went_on(view)
        self.agreement.abandon()
        self.wake()  # the maker of that view may have gone meanwhile
        if self.config.excluded == "expel":
            problem = f"{self.name_of(src)} sent a view without this member"
            lost = self.exclusion.lost_at_worst()
            self.group.end()
            self.pass_event_up(Expel(view, problem, lost))
        else:
            assert self.view is not None
            news = self.exclusion.begin(src, view, self.view)
            self.times_excluded += news

    # --- views: installing

    def install_first(self, view: View, digest: Digest) -> None:
        """Install the first view. The digest gives the beginning of each sender's messages for us."""
        self.pass_event_down(SetDigest(digest))
        if view.coordinator == self.local_address:
            self.pass_event_down(PrepareView(view))
        self.install(view)
        early, self._early = self._early, []
        for batch in early:
            self.up(batch)

    def merge_digest(self, view: View, digest: Digest) -> None:
        """Set the numbers at which to go on with senders of other subgroups, which may have forgotten messages that we
        miss. Senders of our own subgroup stay as they are: they send missing messages again, and a jump would lose
        those (Java jumps)."""
        if not isinstance(view, MergeView) or self.view is None:
            return
        mine = self.view.view_id
        own = next((s.members for s in view.subgroups if s.view_id == mine), ())
        others = {m: seqnos for m, seqnos in digest.seqnos.items() if m not in own}
        self.pass_event_down(MergeDigest(Digest(others)))

    def install(self, view: View) -> None:
        """Install ``view``: it is the group from now on."""
        old = self.view
        self.group.install(view)
        self.views_installed += 1
        self.sent.view_installed(view)
        if isinstance(view, MergeView):
            self.merges += 1
        self.trace("view", view=view)
        self.log.info(
            "view %s with %d members: %s",
            view.id,
            len(view),
            ", ".join([self.name_of(m) for m in view.members[:20]]),
        )
        if old is not None:
            news = self.exclusion.before_view(old, view)
            self.times_excluded += news
        ended = self.changes.ended(view)
        self.agreement.view_installed()
        self.changes.view_installed(view)
        self.requests.view_installed(view)
        self.merger.view_installed(view)
        self.pass_event_down(ViewChange(view, old, ended))
        self.pass_event_up(ViewChange(view, old, ended))
        self.exclusion.view_installed(view)
        self._then(self.agreement.go_on())
        self._check_leave_target()
        self.wake()

    def check(self) -> None:
        self.group.check()
        assert self.view is None or not self._early
        assert self._leave_timer.armed == self.group.leaving
        assert self.agreement.round is None or self.changes.acting
        for part in (
            self.agreement,
            self.changes,
            self.exclusion,
            self.joiner,
            self.merger,
            self.requests,
            self.sent,
        ):
            part.check()
