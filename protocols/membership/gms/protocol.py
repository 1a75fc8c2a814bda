"""GMS: who is in the group. Joins, leaves, crashes, coordinator changes, merges.

Place: above STABLE, UNICAST3 and NAKACK2, below flow control. Its messages are reliable and are not
held back by credits.

    Connect, TransportReady   join: gms_join.py. The first ViewChange tells that it has worked
    JOIN_REQ, LEAVE_REQ,      the acting coordinator makes one new view of all that is known:
      Suspect                 gms_change.py
    before a view without     survivors agree on the departed members' messages: gms_agree.py
      somebody
    MergeViews                coordinators of different views make one: gms_merge.py
    Disconnect                leave: gms_leave.py. Disconnected up at the end
    VIEW                      install it, acknowledge it

The acting coordinator is the first member of the view that is neither suspected nor leaving.

A view is installed by ``ViewChange`` down, then up. To a joiner the members' digest goes down before
it (``SetDigest``), to the members of a merge view ``MergeDigest``.

A VIEW without ourselves is not installed, as JGroups does it: the others took us for dead. The
application is told (gms_excluded.py). They hear us again, and MERGE3 brings us together. Until then we do not act as coordinator, unless who leads that view
is suspected and all others of it tell us that they have not got it.

Source:  JGroups GMS, ClientGmsImpl, CoordGmsImpl, ParticipantGmsImpl, Merger; WIRE.md 11.1-11.3.
Differs: one queue for joins, leaves and suspicions, so that one view does for all of them;
         survivors agree (best effort where Java members take part); retries always discover anew;
         who asks to be let in asks for itself (Java takes anybody's word).
Limits:  max_early batches before the first view; max_waiting joiners, the rest asks again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, TypeVar

from jgroups_py.config.settings import Seconds
from jgroups_py.errors import RemoteProtocolError
from jgroups_py.protocols.membership.gms.agreement import Agreement
from jgroups_py.protocols.membership.gms.change import Changes
from jgroups_py.protocols.membership.gms.excluded import Exclusion
from jgroups_py.protocols.membership.gms.join import Joiner
from jgroups_py.protocols.membership.gms.leave import Leaver
from jgroups_py.protocols.membership.gms.merge import Merger
from jgroups_py.protocols.membership.gms.wire import AGREE_ID, MAX_VIEW_ID
from jgroups_py.stack.protocol import Protocol
from jgroups_py.stack.services import DETECTION, DISCOVERY, MERGING, MULTICAST, UNICAST, VIEWS
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import (
    Connect,
    Disconnect,
    Event,
    Expel,
    Fetched,
    GetDeparted,
    GetDigest,
    GetView,
    IsCoordinator,
    MembersFound,
    MergeDigest,
    MergeViews,
    Query,
    SetDigest,
    Suspect,
    TransportReady,
    Unsuspect,
    ViewChange,
    WentOn,
)
from jgroups_py.values.message import Flag, Transient
from jgroups_py.values.payloads import ViewDigest
from jgroups_py.values.view import DeltaView, Digest, MergeView, View, ViewId
from jgroups_py.wire.headers import PROTOCOL_IDS, GmsHeader, GmsType
from jgroups_py.wire.primitives import Reader, decode_whole, encode_whole
from jgroups_py.wire.values import (
    read_opt_view_id,
    read_view_digest,
    write_view_digest,
)

T = TypeVar("T")

_VIEW_FLAGS = int(Flag.NO_FC | Flag.NO_RELAY)
_MERGE_VIEW_FLAGS = int(Flag.NO_FC | Flag.NO_RELAY | Flag.NO_TOTAL_ORDER)
_URGENT = int(Flag.OOB | Flag.NO_FC)

VIEW_REACH: Final = 2**24
"""By so much the number of a view may exceed all that a member knows: one view a second for half a year."""
FIRST_REACH: Final = 2**40
"""The same for who joins, and knows none."""
MERGE_REACH: Final = 2**44
"""The same when groups merge. A forger who has driven one member's numbers far ahead must not keep it from merging with
the others: that takes 2**20 forged views, and 2**18 forged merges use up all numbers (MAX_VIEW_ID)."""


class GMS(Protocol):
    """See the module's docstring."""

    protocol_id = PROTOCOL_IDS["GMS"]
    provides = (VIEWS,)
    needs_below = (DISCOVERY, MULTICAST, UNICAST)
    wants_below = (MERGING, DETECTION)

    @dataclass(frozen=True, kw_only=True)
    class Config(Protocol.Config):
        join_timeout: Seconds = 2.0
        """How long one discovery, and then the coordinator's answer, is waited for."""
        max_join_attempts: int = 10
        """Tries, each with a new discovery; 0: for ever. Then ``give_up`` decides."""
        give_up: Literal["singleton", "fail"] = "singleton"
        """What after the last try: a group of our own (a merge can join it later), or an error."""
        all_clients_retry_timeout: Seconds = 0.1
        """Pause before the next discovery when only members without a view were found."""
        leave_timeout: Seconds = 1.0
        """How long a leaver waits for the group to know."""
        merge_timeout: Seconds = 5.0
        """How long a merge may take."""
        view_ack_collection_timeout: Seconds = 2.0
        """How long joins wait until all members have acknowledged the view before."""
        view_bundling: bool = True
        """Joins that come close together are one view."""
        max_bundling_time: Seconds = 0.05
        """How close together."""
        use_delta_views: bool = True
        """Send what changed instead of all members."""
        agree_timeout: Seconds = 2.0
        """How long survivors may take to agree; the view then goes out as things are. 0: they do
        not agree at all."""
        excluded: Literal["merge", "expel"] = "merge"
        """A view without us came: wait to be merged, or give up (Expelled)."""
        max_early: int = 1000
        """Batches kept that come before the first view."""
        max_waiting: int = 1000
        """Joiners remembered at the same time."""

        ignored: ClassVar[frozenset[str]] = frozenset(
            {
                "print_local_addr",
                "print_physical_addrs",
                "handle_concurrent_startup",
                "num_prev_mbrs",
                "num_prev_views",
                "log_collect_msgs",
                "log_view_warnings",
                "install_view_locally_first",
                "membership_change_policy",
                "max_leave_attempts",
                "merge_kill_timeout",
                "flush_invoker_timeout",
                "use_flush_if_present",
                "shun",
                "view_handler_*",
            }
        )

        def __post_init__(self) -> None:
            self._above(0, "join_timeout", "leave_timeout", "merge_timeout")
            self._at_least(0, "max_join_attempts", "all_clients_retry_timeout", "agree_timeout")
            self._at_least(0, "view_ack_collection_timeout", "max_bundling_time", "max_early")
            self._at_least(1, "max_waiting")

    config: Config

    def start(self) -> None:
        self.view: View | None = None
        self.left = False
        """We have left; nothing is done any more."""
        self.excluding: View | None = None
        """The newest view without us, made by members of our view."""
        self.highest_id = -1
        """Highest view id seen anywhere: a new view gets a higher one."""
        self._early: list[Batch] = []
        self._unacknowledged: dict[Address, None] = {}
        self._ack_timer = self.timer(self._on_ack_timeout)
        self._delta_base: ViewId | None = None
        """The view we have, if we multicast it."""
        self.views_installed = 0
        self.views_ignored = 0
        """Views that came late, twice, or from strangers."""
        self.view_acks_missing = 0
        self.bad_messages = 0
        """Messages that cannot be."""
        self.early_dropped = 0
        self.joins_dropped = 0
        """Join requests refused because max_waiting others wait."""
        self.agreements = 0
        """Rounds in which survivors agreed."""
        self.agreements_timed_out = 0
        self.holds_expired = 0
        """Rounds in which the view did not come while this member held messages for it."""
        self.agreements_restarted = 0
        self.merges = 0
        """Merge views installed."""
        self.merges_cancelled = 0
        self.merges_refused = 0
        self.times_excluded = 0
        """How often the group went on without this member."""
        self.changes = Changes(self)
        self.agreement = Agreement(self)
        self.exclusion = Exclusion(self)
        self.joiner = Joiner(self)
        self.leaver = Leaver(self)
        self.merger = Merger(self)

    def stop(self) -> None:
        self.left = True
        self._unacknowledged.clear()
        self._ack_timer.cancel()
        for part in self._parts:
            part.stop()

    @property
    def _parts(self) -> tuple[Agreement | Changes | Exclusion | Joiner | Leaver | Merger, ...]:
        return (
            self.agreement,
            self.changes,
            self.exclusion,
            self.joiner,
            self.leaver,
            self.merger,
        )

    # --- events and queries

    def event_down(self, event: Event) -> None:
        match event:
            case Connect(_, with_state):
                self.joiner.connect(with_state)
                self.pass_event_down(event)
            case Disconnect():
                self.leaver.leave()
            case _:
                self.pass_event_down(event)

    def event_up(self, event: Event) -> None:
        match event:
            case TransportReady():
                self.pass_event_up(event)
                self.joiner.transport_ready()
            case MembersFound(requester, members, alone) if requester == self.name:
                self.joiner.found(members, alone)
            case Suspect(members, gone):
                self._suspect(members, gone)
            case Unsuspect(members):
                self.changes.unsuspect(members)
                self.pass_event_up(event)
            case Fetched():
                self.agreement.fetched()
            case MergeViews(views, silent):
                if self._is_working:
                    self.merger.views_differ(views, silent)
            case WentOn(member, view):
                if self._is_working:
                    self._went_on(member, view)
            case _:
                self.pass_event_up(event)

    def _suspect(self, members: tuple[Address, ...], gone: bool) -> None:
        view = self.view
        if view is None or self.left:
            return
        others = tuple(m for m in members if m in view and m != self.local_address)
        fresh = tuple(m for m in others if not self.changes.is_suspected(m))
        self.changes.suspect(others, gone)
        if fresh:
            self.trace("suspect", members=fresh)
            self.changes.wake()
            self.leaver.check_target()
            self.pass_event_up(Suspect(fresh, gone))

    def answer(self, query: Query) -> Any:
        match query:
            case GetView():
                return self.view
            case IsCoordinator():
                return self.is_coordinator
        return None

    @property
    def _is_working(self) -> bool:
        return self.view is not None and not self.left

    @property
    def is_coordinator(self) -> bool:
        """First of our view, and nobody went on without us."""
        view = self.view
        return (
            view is not None
            and not self.left
            and self.excluding is None
            and view.coordinator == self.local_address
        )

    # --- messages

    def up(self, batch: Batch) -> None:
        headers = batch.headers
        if self.protocol_id in headers:
            self._take(batch)
        elif AGREE_ID in headers:
            if self._is_working:
                self.agreement.take(batch)
            self.consume(batch)
        elif self.view is None:
            self._keep_early(batch)
        else:
            self.pass_up(batch)

    def _take(self, batch: Batch) -> None:
        header = batch.header(self.protocol_id, GmsHeader)
        if header is None or batch.src is None:
            self.bad_messages += 1
            self.trace("bad message", src=batch.src)
        elif self.view is None and header.type == GmsType.VIEW:
            self._keep_early(batch)
            return
        elif not self.left:
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
                if header.member != src:  # who has died would be back, and its old messages new
                    raise RemoteProtocolError("a request to join that is not the joiner's own")
                self.changes.join_requested(src)
            case GmsType.JOIN_RSP:
                self.joiner.response(src, payload)
            case GmsType.LEAVE_REQ:
                if header.member is None:  # leavers pass on each other's: who sent it says nothing
                    raise RemoteProtocolError("a request to leave that names nobody")
                self.changes.leave_requested(header.member)
            case GmsType.LEAVE_RSP:
                self.leaver.response(src)
            case GmsType.VIEW:
                self.view_received(src, decode_whole(read_view_digest, payload))
            case GmsType.VIEW_ACK:
                self._acknowledged(src)
            case GmsType.GET_CURRENT_VIEW:
                self._view_wanted(src, payload)
            case _ if self.view is not None:
                self.merger.handle(src, header, payload)

    def _keep_early(self, batch: Batch) -> None:
        """Members that have our first view already may speak to us before we have it."""
        if self.left or len(self._early) >= self.config.max_early:
            self.early_dropped += len(batch)
            self.consume(batch)
        else:
            self._early.append(batch)

    def send(
        self,
        dest: Address | None,
        type: GmsType,
        *,
        payload: bytes | None = None,
        flags: int = 0,
        message: int | None = None,
        transient: int = 0,
        **fields: Any,
    ) -> None:
        """One membership message. ``message``: its type; EMPTY, or BYTES with a payload."""
        header = GmsHeader(type, **fields)
        self.pass_down(
            Batch.of(
                dest,
                self.protocol_id,
                header,
                payload=payload,
                type=message,
                flags=flags,
                transient=transient,
            )
        )

    def decode(self, read: Callable[[Reader], T], payload: bytes | memoryview) -> T:
        """The value of a payload; RemoteProtocolError if it is none."""
        return decode_whole(read, payload)

    def believe(self, number: int, *, merging: bool = False) -> None:
        """RemoteProtocolError for the number of a view that no group can have come to. Without this a
        single forged view would use up all numbers, and nobody could make or merge a view again."""
        known, reach = 0, FIRST_REACH
        if self.view is not None:
            known = max(self.view.id, self.highest_id)
            reach = MERGE_REACH if merging else VIEW_REACH
        if not 0 <= number <= min(known + reach, MAX_VIEW_ID):
            raise RemoteProtocolError(f"view id {number} after {known}")

    # --- views: sending

    def next_id(self) -> int:
        """The number of a new view."""
        assert self.view is not None
        return max(self.view.id, self.highest_id) + 1

    def digest_of(self, members: tuple[Address, ...]) -> Digest:
        """How far each of ``members`` has been delivered here; (0, 0) for unknown ones."""
        known = self.ask_down(GetDigest(members)) or Digest()
        return Digest({m: known.seqnos.get(m, (0, 0)) for m in members})

    def multicast_view(
        self, view: View, expect: tuple[Address, ...], digest: Digest | None = None
    ) -> None:
        """Sends ``view`` to the members of the view installed now; the caller installs it.
        ``expect``: who will acknowledge it."""
        old = self.view
        assert old is not None
        content: View | DeltaView = view
        merging = isinstance(view, MergeView)
        if self.config.use_delta_views and not merging and self._delta_base == old.view_id:
            content = DeltaView(
                view.view_id, old.view_id, view.left_since(old), view.joined_since(old)
            )
        payload = encode_whole(write_view_digest, ViewDigest(content, digest))
        self._delta_base = view.view_id
        self._unacknowledged = {m: None for m in expect if m != self.local_address}
        if self._unacknowledged:
            self._ack_timer.start(self.config.view_ack_collection_timeout)
        else:
            self._ack_timer.cancel()
        self.send(
            None,
            GmsType.VIEW,
            payload=payload,
            flags=_MERGE_VIEW_FLAGS if merging else _VIEW_FLAGS,
            transient=int(Transient.DONT_LOOPBACK),
        )
        if merging or any(m not in view for m in old):
            self.agreement.hand_over(view, payload)

    @property
    def awaits_acks(self) -> bool:
        """Not all members have acknowledged our last view."""
        return bool(self._unacknowledged)

    def _acknowledged(self, src: Address) -> None:
        if src not in self._unacknowledged:
            return
        del self._unacknowledged[src]
        if not self._unacknowledged:
            self._ack_timer.cancel()
            self.trace("all have it", view=self.view)
            self.changes.wake()

    def _on_ack_timeout(self) -> None:
        self.view_acks_missing += len(self._unacknowledged)
        self.trace("no acknowledgement", members=tuple(self._unacknowledged))
        self._unacknowledged.clear()
        self.changes.wake()

    # --- views: receiving

    def view_received(self, src: Address, content: ViewDigest) -> None:
        current, view = self.view, content.view
        if view is None:
            raise RemoteProtocolError("a VIEW message without a view")
        self.believe(view.view_id.id, merging=isinstance(view, MergeView))
        if current is None or src not in current or view.view_id.id <= current.id:
            self.views_ignored += 1
            return
        if isinstance(view, DeltaView):
            if view.reference != current.view_id:
                self.send(src, GmsType.GET_CURRENT_VIEW, flags=_URGENT)
                return
            view = view.applied_to(current)
        self.highest_id = max(self.highest_id, view.id)
        if self.local_address not in view:
            self._excluded(src, view)
            return
        if isinstance(view, MergeView) and not self.merges_our_view(view):
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
            self.send(src, GmsType.VIEW_ACK, flags=_URGENT)
        if content.digest is not None:
            self.merge_digest(view, content.digest)
        self.install(view)
        if src in view:
            self.send(src, GmsType.VIEW_ACK, flags=_URGENT)

    def _skips_a_merge(self, current: View, view: View) -> bool:
        """Not the next view, and somebody is in it that had gone from ours: a merge went by us, and what
        it said of where to begin with that one. Ours is merged in its turn."""
        if isinstance(view, MergeView) or view.id == current.id + 1:
            return False
        return bool(self.ask_down(GetDeparted(view.joined_since(current))))

    def _view_wanted(self, src: Address, payload: bytes | memoryview) -> None:
        view = self.view
        have = self.decode(read_opt_view_id, payload) if payload else None
        if view is None or src not in view or (have is not None and have.id >= view.id):
            return
        answer = encode_whole(write_view_digest, ViewDigest(view))
        self.send(src, GmsType.VIEW, payload=answer, flags=_URGENT)

    def _went_on(self, member: Address, view: View) -> None:
        """MERGE3 asked ``member``; the VIEW itself has not come, or not yet."""
        current = self.view
        assert current is not None
        if member not in current or view.id <= current.id or self.local_address in view:
            return
        try:
            self.believe(view.id)
        except RemoteProtocolError as error:
            self.bad_messages += 1
            self.trace("bad message", src=member, problem=str(error))
            return
        self.highest_id = max(self.highest_id, view.id)
        self._excluded(member, view)

    def _excluded(self, src: Address, view: View) -> None:
        """Members of our view went on without us."""
        if self.leaver.leaving:
            self.leaver.gone()
            return
        self.trace("excluded", view=view, by=src)
        if self.excluding is None:
            members = ", ".join([self.name_of(m) for m in view.members[:20]])
            self.log.warning("others went on without this member: view %s of %s", view.id, members)
        self.excluding = view
        self.agreement.abandon()
        self.changes.wake()  # who made it may be gone by now
        if self.config.excluded == "expel":
            problem = f"{self.name_of(src)} sent a view without this member"
            lost = self.exclusion.lost_at_worst()
            self.left = True
            self.pass_event_up(Expel(view, problem, lost))
        else:
            assert self.view is not None
            self.exclusion.begin(src, view, self.view)

    # --- views: installing

    def install_first(self, view: View, digest: Digest) -> None:
        """The first view; the digest tells where each sender's messages begin for us."""
        self.pass_event_down(SetDigest(digest))
        self.install(view)
        early, self._early = self._early, []
        for batch in early:
            self.up(batch)

    def merge_digest(self, view: View, digest: Digest) -> None:
        """Where to go on with the senders of other subgroups. Those of our own stay as they are:
        what we still miss of them they repair, and a jump would lose it (Java jumps). Others may
        have forgotten by now what we miss."""
        if not isinstance(view, MergeView) or self.view is None:
            return
        mine = self.view.view_id
        own = next((s.members for s in view.subgroups if s.view_id == mine), ())
        others = {m: seqnos for m, seqnos in digest.seqnos.items() if m not in own}
        self.pass_event_down(MergeDigest(Digest(others)))

    def merges_our_view(self, view: MergeView) -> bool:
        """Does it continue the view we have? A coordinator whose view we left behind may count us
        among its members, and says of us what it knew then. Java lists such a view beside ours."""
        return self.view is not None and any(
            s.view_id == self.view.view_id and self.local_address in s for s in view.subgroups
        )

    def install(self, view: View) -> None:
        """From now on the group is ``view``."""
        old = self.view
        assert old is None or view.id > old.id, "view ids must grow"
        assert self.local_address in view
        self.view = view
        if self._delta_base != view.view_id:
            self._delta_base = None
        self.excluding = None
        self.highest_id = max(self.highest_id, view.id)
        self.views_installed += 1
        self._unacknowledged = {m: None for m in self._unacknowledged if m in view}
        if not self._unacknowledged:
            self._ack_timer.cancel()
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
            self.exclusion.before_view(old, view)
        ended = self.changes.ended(view)
        self.agreement.view_installed()
        self.changes.view_installed(view)
        self.merger.view_installed(view)
        self.pass_event_down(ViewChange(view, old, ended))
        self.pass_event_up(ViewChange(view, old, ended))
        self.exclusion.view_installed(view)
        self.agreement.go_on()
        self.leaver.check_target()
        self.changes.wake()

    def check(self) -> None:
        view = self.view
        if view is not None:
            assert self.local_address in view
            assert len(set(view.members)) == len(view.members)
            assert not self._early
        assert self._ack_timer.armed == bool(self._unacknowledged)
        for part in self._parts:
            part.check()
