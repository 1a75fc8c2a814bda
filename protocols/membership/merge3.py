"""MERGE3: notices that members have different views, so that GMS can merge them.

Place: above discovery, below the failure detectors; its messages are not reliable.

    at random intervals       INFO (view id, name, physical address): a multicast where the transport
                              reaches members it does not know; otherwise discovery, and one to each
                              physical address found
    Withhold                  we are excluded: announce our view within speak_up_time, because we wait for a merge
    INFO                      remember the sender's view id, name and address
    another view id than ours coordinators announce their views within speak_up_time; when all have had
      is announced            time for that (check_interval): VIEW_REQ to the creator of each view,
                              and, if the creator does not announce it, to members that do. Again
                              until no difference is left
    VIEW_REQ                  VIEW_RSP with our view; a check of our own soon, so that the leader of
                              the merge need not wait for its turn
    no answer                 VIEW_REQ once more after check_interval / 4
    a multicast of somebody   if it is still no member after speak_up_time / 4, the first members of our view send INFO
      who is no member        to it alone: it may not know that we went on without it
    INFO of a member of ours  if that view does not come here within speak_up_time / 4: VIEW_REQ to it.
      with a newer view id    If it is without us: WentOn up
    all have answered, or     MergeViews up, if the views really differ, or a member that announces
      check_interval / 2      another view has not answered for long: it may hear nothing

Only those that can take part in a merge ask: coordinators, and members whose coordinator has another view, or
has been silent for long and was not replaced; the member that should replace it may have another view.

Source:  JGroups MERGE3; WIRE.md 11.3.
Differs: Java checks every 1.6 x max_interval; here coordinators announce their views after a difference, so that a
         merge follows soon and joins all parts at once. Java asks only the creator of each view id, and so never learns
         the view of a member that the others excluded. Here an expelled member learns of its exclusion soon after its
         next multicast; in Java it learns of it from the next INFO.
Limits:  max_participants_in_merge view ids a check; max_announcements senders remembered;
         max_strangers members of other views told within min_interval.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from jgroups_py.config.settings import Seconds
from jgroups_py.errors import ConfigError, RemoteProtocolError
from jgroups_py.stack.protocol import Protocol
from jgroups_py.stack.services import DISCOVERY, MERGING, VIEWS
from jgroups_py.values.address import Address, IpAddress
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import (
    Event,
    FindMembers,
    GetPhysical,
    HasMulticast,
    MembersFound,
    MergeViews,
    PhysicalAddress,
    ViewChange,
    WentOn,
    Withhold,
)
from jgroups_py.values.message import MessageType, Transient
from jgroups_py.values.view import View, ViewId, order_key
from jgroups_py.wire.headers import PROTOCOL_IDS, MergeHeader, MergeType
from jgroups_py.wire.primitives import decode_whole, encode_whole
from jgroups_py.wire.values import read_opt_view, write_opt_view

TELLERS: Final = 3
"""The number of first members of a view that tell a stranger of it. More than one, because one may be unreachable."""


class MERGE3(Protocol):
    """See the module's docstring."""

    protocol_id = PROTOCOL_IDS["MERGE3"]
    provides = (MERGING,)
    needs_below = (DISCOVERY,)
    needs_above = (VIEWS,)
    writable = frozenset({"min_interval", "max_interval"})

    @dataclass(frozen=True, kw_only=True)
    class Config(Protocol.Config):
        min_interval: Seconds = 1.0
        """The shortest time between two announcements."""
        max_interval: Seconds = 10.0
        """About the longest time between two announcements. A healed partition is noticed within 1.5 x this, and merged
        check_interval later. Usually it is noticed much earlier, because any member's announcement is enough."""
        check_interval: Seconds = 0.0
        """Time from the first difference to the check of it. 0: 2.5 x speak_up_time, 3.5 x without multicast."""
        speak_up_time: Seconds = 1.0
        """A coordinator that learns of another view announces its own view within this time; at most min_interval."""
        max_participants_in_merge: int = 100
        """The most different view ids that one check examines."""
        max_announcements: int = 10_000
        """The most members whose announcements are remembered."""
        max_strangers: int = 100
        """The most senders outside the view that learn of it within one min_interval."""

        ignored: ClassVar[frozenset[str]] = frozenset({"only_coords_run_consistency_checker"})

        def __post_init__(self) -> None:
            self._above(0, "min_interval", "speak_up_time")
            self._at_least(0, "check_interval")
            self._at_least(1, "max_announcements", "max_strangers")
            self._at_least(2, "max_participants_in_merge")
            if not self.max_interval > self.min_interval:
                raise ConfigError(
                    "max_interval must be > min_interval, "
                    f"got {self.max_interval} and {self.min_interval}"
                )

    config: Config

    def start(self) -> None:
        self.view: View | None = None
        self._members: dict[Address, None] = {}
        """The members of our view."""
        self._since = 0.0
        """The time when our view was installed."""
        self._announced: dict[Address, tuple[ViewId, float]] = {}
        """The last announced view of each sender, and the time of the announcement."""
        self._located: dict[Address, IpAddress] = {}
        """Physical addresses that the transport already knows from us."""
        self._asked: dict[Address, None] | None = None
        """Members whose views we wait for; None: no check is under way."""
        self._views: dict[Address, View] = {}
        self._unanswered: dict[Address, float] = {}
        """Members that have not answered, and the time of the first question."""
        self._heard: dict[Address, None] = {}
        """Senders of multicasts outside our view. They will be told of it."""
        self._told: dict[Address, float] = {}
        """Members that were told of our view, and the time."""
        self._newer: dict[Address, None] = {}
        """Members of our view that have a newer view."""
        self._tell_them = self.timer(self._on_tell)
        self._look = self.timer(self._on_look)
        self._announce = self.timer(self._on_announce)
        self._check = self.timer(self._on_check)
        self._answers = self.timer(self._on_answers)
        self._repeat = self.timer(self._on_repeat)
        self.announcements_sent = 0
        self.announcements_received = 0
        self.announcements_dropped = 0
        self.checks_with_difference = 0
        self.merges_reported = 0
        self.bad_messages = 0
        self.strangers_told = 0
        """Messages about the view to strangers that believed they were members."""
        self.strangers_dropped = 0
        """Multicasts of strangers that were not told of the view, because max_strangers others had been told."""

    def stop(self) -> None:
        for timer in (
            self._announce,
            self._check,
            self._answers,
            self._repeat,
            self._tell_them,
            self._look,
        ):
            timer.cancel()

    @property
    def speak_up_time(self) -> float:
        return min(self.config.speak_up_time, self.config.min_interval)

    @property
    def _silence(self) -> float:
        """Return twice the longest time between two announcements. A member that is silent for this time is gone."""
        return 3 * self.config.max_interval

    @property
    def check_interval(self) -> float:
        if self.config.check_interval:
            return self.config.check_interval
        # A member of X is heard, the other coordinators announce their views, X's coordinator announces X.
        return (2.5 if self.ask_down(HasMulticast()) else 3.5) * self.speak_up_time

    # --- events

    def event_down(self, event: Event) -> None:
        if isinstance(event, ViewChange):
            self._view_installed(event.view)
        elif isinstance(event, Withhold) and self.view is not None:
            self._announce_soon()  # the application waits for a merge
        self.pass_event_down(event)

    def _view_installed(self, view: View) -> None:
        self.view = view
        self._members = dict.fromkeys(view.members)
        self._since = self.now
        self._announced.clear()  # announcements of former views are out of date
        self._located = {m: p for m, p in self._located.items() if m in view}
        self._end_check()
        self._unanswered.clear()
        self._check.cancel()
        self._newer.clear()
        self._look.cancel()
        self._heard = {m: None for m in self._heard if m not in view}
        self._told = {m: at for m, at in self._told.items() if m not in view}
        if not self._announce.armed:
            self._announce.start(self._next_announcement())

    def event_up(self, event: Event) -> None:
        if isinstance(event, MembersFound) and event.requester == self.name:
            places = [m.physical for m in event.members if m.address != self.local_address]
            for physical in dict.fromkeys(p for p in places if p is not None):
                self._tell(physical)
        else:
            self.pass_event_up(event)

    # --- announcing

    def _next_announcement(self) -> float:
        """Return the seconds until the next announcement, spread so that n members do not speak at once (as JGroups
        computes it)."""
        config = self.config
        spread = self.random.uniform(0.0, config.max_interval) + config.max_interval / 2
        return max(config.min_interval, spread)

    def _on_announce(self) -> None:
        self._announce.start(self._next_announcement())
        if self.ask_down(HasMulticast()):
            self._tell(None)
        else:
            timeout = self.speak_up_time
            self.pass_event_down(
                FindMembers(self.name, timeout, initial=False, stop_at_coordinator=False)
            )

    def _tell(self, dest: Address | None) -> None:
        view = self.view
        if view is None:
            return
        self.announcements_sent += 1
        physical: IpAddress | None = self.ask_down(GetPhysical())
        header = MergeHeader(MergeType.INFO, view.view_id, self.stack.name, physical)
        transient = int(Transient.DONT_LOOPBACK) if dest is None else 0
        self.pass_down(Batch.of(dest, self.protocol_id, header, transient=transient))

    # --- messages

    def up(self, batch: Batch) -> None:
        header = batch.headers.get(self.protocol_id)
        if type(header) is not MergeHeader:
            if batch.dest is None and batch.src not in self._members and self._members:
                self._on_stranger(batch.src)
            self.pass_up(batch)
            return
        src = batch.src
        if src is not None and src != self.local_address and self.view is not None:
            match header.type:
                case MergeType.INFO:
                    self._informed(src, header)
                case MergeType.VIEW_REQ:
                    self._answer(src)
                    self._check_soon(src)
                case MergeType.VIEW_RSP:
                    for payload in batch.payloads:
                        self._answered(src, payload or b"")
        self.consume(batch)

    def _on_stranger(self, src: Address | None) -> None:
        """Note a stranger that multicasts like a member: it is joining, or it does not know our view."""
        view = self.view
        if src is None or view is None or src in self._heard or src in self._told:
            return
        if self.local_address not in view.members[:TELLERS]:
            return
        if len(self._heard) + len(self._told) >= self.config.max_strangers:
            self.strangers_dropped += 1
            return
        if not self._heard:
            self._tell_them.start(self.speak_up_time / 4)
        self._heard[src] = None

    def _on_tell(self) -> None:
        """Tell new strangers of the view, each once within min_interval."""
        for member in self._heard:
            self.strangers_told += 1
            self._tell(member)
        self._told.update(dict.fromkeys(self._heard, self.now))
        self._heard.clear()
        again = self.now - self.config.min_interval
        self._told = {m: at for m, at in self._told.items() if at > again}
        if self._told:
            self._tell_them.start(self.config.min_interval)

    def _on_look(self) -> None:
        """Ask again, because announced views have not come."""
        for member in self._newer:
            self.pass_down(Batch.of(member, self.protocol_id, MergeHeader(MergeType.VIEW_REQ)))
        self._newer.clear()

    def _informed(self, src: Address, header: MergeHeader) -> None:
        self.announcements_received += 1
        if src not in self._announced and len(self._announced) >= self.config.max_announcements:
            self.announcements_dropped += 1
            return
        if header.view_id is None:
            self.bad_messages += 1
            return
        self._announced[src] = (header.view_id, self.now)
        if self.view is not None and header.view_id != self.view.view_id and not self._check.armed:
            self._check.start(self.check_interval)
            self._speak_up(self.view)
        if self.view is not None and src in self.view and header.view_id.id > self.view.id:
            self._newer[src] = None
            if not self._look.armed:
                self._look.start(self.speak_up_time / 4)
        physical = header.physical
        if isinstance(physical, IpAddress) and self._located.get(src) != physical:
            if len(self._located) < self.config.max_announcements:
                self._located[src] = physical
            self.pass_event_down(PhysicalAddress(src, physical, header.name))

    def _speak_up(self, view: View) -> None:
        """Announce our part of the group after views have differed."""
        if view.coordinator == self.local_address:
            self._announce_soon()

    def _announce_soon(self) -> None:
        soon = self.now + self.random.uniform(0.0, self.speak_up_time)
        if self._announce.deadline is None or soon < self._announce.deadline:
            self._announce.start_at(soon)

    def _answer(self, src: Address) -> None:
        payload = encode_whole(write_opt_view, self.view)
        header = MergeHeader(MergeType.VIEW_RSP)
        self.pass_down(
            Batch.of(src, self.protocol_id, header, payload=payload, type=MessageType.BYTES)
        )

    def _check_soon(self, src: Address) -> None:
        """Note that ``src`` checks a difference. If we know a difference from it, check as well."""
        known, view = self._announced.get(src), self.view
        if known is None or view is None or known[0] == view.view_id or self._asked is not None:
            return
        soon = self.now + self.speak_up_time / 2
        if self._check.deadline is None or self._check.deadline > soon:
            self._check.start_at(soon)

    def _answered(self, src: Address, payload: bytes | memoryview) -> None:
        asked = self._asked is not None and src in self._asked
        if not asked and src not in self._members:
            return
        try:
            view = decode_whole(read_opt_view, payload)
            if view is not None and src not in view:
                raise RemoteProtocolError("the sender is not in its own view")
        except RemoteProtocolError as error:
            self.bad_messages += 1
            self.trace("bad message", src=src, problem=str(error))
            return
        ours = self.view
        if view is not None and ours is not None and src in self._members:
            if view.id > ours.id and self.local_address not in view:
                self.pass_event_up(WentOn(src, view))
        if self._asked is None or src not in self._asked:
            return
        del self._asked[src]
        if view is not None:
            self._views[src] = view
        if not self._asked:
            self._on_answers()

    # --- checking

    def _on_check(self) -> None:
        view = self.view
        assert view is not None
        limit = self.now - self._silence
        self._announced = {m: a for m, a in self._announced.items() if a[1] >= limit}
        announced = {m: view_id for m, (view_id, _) in self._announced.items()}
        self._located = {m: p for m, p in self._located.items() if m in view or m in announced}
        strangers = self._who_differs(announced, view)
        if strangers:
            self._check.start(self.check_interval)
        else:
            self._unanswered.clear()
        if not strangers or not self._takes_part(announced, view):
            return
        if view.coordinator not in (*announced, *strangers, self.local_address):
            strangers.append(view.coordinator)
        self.checks_with_difference += 1
        self.trace("views differ", ask=tuple(strangers))
        self._views = {}
        self._asked = dict.fromkeys(strangers)
        self._answers.start(self.check_interval / 2)
        self._repeat.start(self.check_interval / 4)
        self._ask_views()

    def _ask_views(self) -> None:
        for member in list(self._asked or ()):
            self.pass_down(Batch.of(member, self.protocol_id, MergeHeader(MergeType.VIEW_REQ)))

    def _on_repeat(self) -> None:
        self._ask_views()

    def _who_differs(self, announced: dict[Address, ViewId], view: View) -> list[Address]:
        """Return the members to ask about each view that is not ours: its creator, or the members that announced it if
        the creator did not. The creator may be silent, or they may be left over from that view."""
        holders: dict[ViewId, list[Address]] = {}
        for member, view_id in announced.items():
            if view_id != view.view_id:
                holders.setdefault(view_id, []).append(member)
        asked: dict[Address, None] = {}
        for view_id, members in holders.items():
            asked[view_id.creator] = None
            if view_id.creator not in members:
                asked.update(dict.fromkeys(sorted(members, key=order_key)))
        asked.pop(self.local_address, None)
        return list(asked)[: self.config.max_participants_in_merge]

    def _takes_part(self, announced: dict[Address, ViewId], view: View) -> bool:
        """Return whether we are coordinator, or our coordinator has another view, or it has been silent for long and no
        member has replaced it."""
        coordinator = view.coordinator
        if coordinator == self.local_address:
            return True
        if coordinator not in announced:
            return self.now >= self._since + self._silence
        return announced[coordinator] != view.view_id

    def _on_answers(self) -> None:
        """Report the views: all have come, or the time is over."""
        views, view, waiting = self._views, self.view, self._asked or {}
        self._end_check()
        assert view is not None
        self._unanswered = {m: self._unanswered.get(m, self.now) for m in waiting}
        views[self.local_address] = view
        silent = tuple(
            m
            for m, since in self._unanswered.items()
            if m in self._announced and self.now >= since + self._silence
        )
        if silent or len({v.view_id for v in views.values()}) > 1:
            self.merges_reported += 1
            self.trace("merge", views=tuple(views.values()), silent=silent)
            self.pass_event_up(MergeViews(views, silent))

    def _end_check(self) -> None:
        self._asked = None
        self._views = {}
        self._answers.cancel()
        self._repeat.cancel()

    def check(self) -> None:
        assert self._answers.armed == (self._asked is not None)
        assert self._announce.armed == (self.view is not None)
        assert self._look.armed == bool(self._newer)
        assert self._tell_them.armed or not (self._heard or self._told)
        assert self.view is not None or not self._check.armed
