"""Replica: the machine that keeps the maps of several hosts equal. It does no I/O: a driver hands in messages and time,
and executes the results of ``take``.

    a link opens          Hello both ways, then Have
    a flush is due        own changes above what the peer has go to each peer
    changes come          they are applied and acknowledged with Got; changes that would leave a gap are dropped and
                          asked for
    several links share   own changes leave once for all of them (SendAll), and so does Have. A peer that lags, or whose window is full, gets
      a medium            its changes for itself until it has caught up
    a peer has more of    (the other host is gone, or was away) one peer at a time is asked for it, with Want
      another host
    a tombstone           is forgotten when every known peer has it and nothing older can come, or at ``tombstone_age``
    a peer differs        it lacks removals that are forgotten here, or has the same changes and other values: surveys.py

Only the table knows entries; a link holds one number for each origin, and nothing waits in memory.

Source:  seed 004, K1-K18. Version vectors: Parker and others (1983); the exchange: Petersen and others, Bayou (1997).
Differs: Chronicle Map compares time stamps of bootstraps; here changes are numbered, so a host's missing changes are
    known exactly.
Limits:  ``peers_max`` links, MESSAGE_MAX bytes of a message; those of the parts.

This module orders the parts and talks to the table. A part owns its data, knows no replica, and returns what is to be sent:

    admission.py      which changes of peers are taken
    hellos.py         which hosts are linked
    peer_link.py      what a peer has, and what is on its way to it
    departures.py     what is sent next: windows, bandwidth, a medium that several links share
    repairs.py        whom to ask for the changes of a host that is gone
    forgetting.py     which tombstones are forgotten; confirmations.py has what all hosts are known to have
    surveys.py        removals that are forgotten here and not known elsewhere
    taking_turns.py   hosts that displace each other
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from jgroups_py.maps.admission import MapAdmission
from jgroups_py.maps.confirmations import Confirmations
from jgroups_py.maps.departures import MapDepartures
from jgroups_py.maps.entry import TIME_MAX, DamagedEntry, MapEntry, node_of
from jgroups_py.maps.errors import InboxFull
from jgroups_py.maps.forgetting import MapForgetting, TableOfTombstones
from jgroups_py.maps.hellos import (
    hello_of,
    kind_of_refusal,
    objection_to,
    shown_host,
    takes_turns,
)
from jgroups_py.maps.messages import (
    BadMessage,
    Got,
    Have,
    Hello,
    MapSurvey,
    Message,
    OriginChanges,
    Refused,
    Want,
    decode,
    encode,
)
from jgroups_py.maps.orders import Arrived, CloseLink, Out, SendAll, SendToPeer, Told
from jgroups_py.maps.peer_link import PeerLink
from jgroups_py.maps.repairs import MapRepairs
from jgroups_py.maps.replica_settings import ReplicaSettings
from jgroups_py.maps.stamp import TICKS_PER_S, HybridClock
from jgroups_py.maps.sums import Contents, compared
from jgroups_py.maps.surveys import MapDifference, MapSurveys, SurveyedTable
from jgroups_py.maps.table import ChangedKey, Vector
from jgroups_py.maps.taking_turns import TakingTurns

RESTS_MAX: Final = 9
"""Without changes a Have is sent only each tenth ``have_interval``."""


class ReplicaTable(SurveyedTable, TableOfTombstones, Protocol):
    """The part of a table that a replica needs. ``apply`` and ``drop`` may take effect later, in the order of calls."""

    def apply(
        self, entries: Iterable[tuple[bytes, MapEntry]], advance: Mapping[int, int]
    ) -> Sequence[ChangedKey] | None: ...


class Replica:
    """See the module's docstring. ``now`` is in seconds and never goes back."""

    def __init__(
        self, settings: ReplicaSettings, table: ReplicaTable, clock: HybridClock, now: float = 0.0
    ) -> None:
        self.settings = settings
        self._table = table
        self._clock = clock
        self._now = now
        self._links: dict[int, PeerLink] = {}
        self._out: list[Out] = []
        self._received: Vector = table.vector()
        """The changes given to the table, which may not have applied them yet."""
        self._admission = MapAdmission(
            settings, [*self._received, *table.forgotten], clock.wall_time
        )
        self._repairs = MapRepairs(settings, self._admission)
        self._confirmations = Confirmations()
        self._flush_at = now
        self._shared_due = now
        self._shared_told: Contents | None = None
        self._shared_rests = 0
        """Intervals without a shared Have, for lack of changes."""
        self._skewed: set[int] = set()
        self._turns = TakingTurns()
        self._surveys = MapSurveys(settings, table)
        self._forgetting = MapForgetting(
            settings, table, clock, self._surveys, self._confirmations, now
        )
        self.counters: Counter[str] = Counter()
        self._departures = MapDepartures(settings, table, self.counters, now)

    # --- the driver's side

    def take(self) -> list[Out]:
        """Return the outputs, in order."""
        out, self._out = self._out, []
        return out

    def link_opened(self, link: int, *, shared: bool = False) -> None:
        """Begin a link. ``link``: a number chosen by the driver. ``shared``: SendAll reaches it, with one message for
        all such links."""
        if len(self._links) >= self.settings.peers_max:
            self.counters["links_refused"] += 1
            self._send(link, Refused(f"{len(self._links)} hosts are connected already"))
            self._out.append(CloseLink(link))
            return
        self._links[link] = PeerLink(link, shared)
        self._surveys.opened(link, self._now)
        self._shared_rests = RESTS_MAX
        self._send(link, hello_of(self.settings))

    def link_closed(self, link: int) -> None:
        peer = self._links.pop(link, None)
        self._surveys.closed(link)
        if peer is not None and peer.hello is not None:
            self._confirmations.parted(peer.hello.node)
            self._tell(
                "gone", peer.hello.node, f"{shown_host(peer.hello)} is not connected any more"
            )

    def received(self, link: int, data: bytes, now: float, *, shared: bool = False) -> None:
        """Take the bytes of one message. Any bytes may come. ``shared``: it was sent to all on a medium.

        InboxFull: the table has no room for all of it. Hand in the same message again, before any other of this link.
        """
        self._now = max(now, self._now)
        peer = self._links.get(link)
        if peer is None:
            return
        if shared and peer.hello is None:
            self.counters["early"] += 1  # a shared message may overtake our own ones
            return
        try:
            message = decode(data)
            self._on_message(link, peer, message, shared)
        except (BadMessage, DamagedEntry) as error:
            self.counters["garbage"] += 1
            self._tell("garbage", peer.node, f"a message that cannot be read: {error}")
            self._drop(link, "your message cannot be read")

    def overheard(self, data: bytes, now: float) -> None:
        """Take a shared message of a host without a link, if no change is missing before it. Any bytes may come."""
        self._now = max(now, self._now)
        try:
            message = decode(data)
            if isinstance(message, OriginChanges) and message.origin != self.settings.origin:
                have = self._received.get(message.origin, 0)
                if message.after <= have < message.to and self._apply(message):
                    self.counters["overheard"] += 1
        except (BadMessage, DamagedEntry) as error:
            self.counters["garbage"] += 1
            self._tell("garbage", 0, f"a message to all that cannot be read: {error}")

    def tick(self, now: float) -> float:
        """Act on time. Return when to call again."""
        self._now = max(now, self._now)
        if self._now >= self._flush_at:
            self._flush_at = self._now + self.settings.flush_interval
            self._flush()
        self._forgetting.tick(self._now, self.counters)
        for peer, want in self._repairs.due(self._links.values(), self._received, self._now):
            self.counters["asked"] += 1
            self._send_to(peer, want)
        self._say_what_we_have()
        return self._flush_at

    def tell(self, kind: str, link: int, text: str) -> None:
        """Report news of the driver about the peer of a link."""
        peer = self._links.get(link)
        self._tell(kind, peer.node if peer is not None else 0, text)

    def changed(self) -> None:
        """Note a local write: it is sent at the next flush."""
        self._flush_at = min(self._flush_at, self._now + self.settings.flush_interval)

    @property
    def peers(self) -> dict[int, Hello]:
        """Return the connected peers, by identifier."""
        return {p.hello.node: p.hello for p in self._links.values() if p.hello is not None}

    def lag(self) -> dict[int, int]:
        """Return, by peer, the number of our changes that it has not acknowledged. Replaced ones count, too."""
        own = self._table.vector().get(self.settings.origin, 0)
        return {
            p.hello.node: own - p.has.get(self.settings.origin, 0)
            for p in list(self._links.values())  # a copy: other threads may ask
            if p.hello is not None
        }

    def acknowledged(self, number: int) -> int:
        """Count the connected peers that have our changes up to ``number``."""
        mine = self.settings.origin
        return sum(
            p.has.get(mine, 0) >= number for p in list(self._links.values()) if p.hello is not None
        )

    # --- messages

    def _on_message(self, link: int, peer: PeerLink, message: Message, shared: bool) -> None:
        if isinstance(message, Hello):
            self._on_hello(link, peer, message)
        elif isinstance(message, Refused):
            self._refused(peer.node, message.reason[:400])
            self._close(link)
        elif peer.hello is None:
            raise BadMessage("the first message must be a Hello")
        elif isinstance(message, Have):
            self._on_have(peer, message, shared)
        elif isinstance(message, Got):
            self._on_got(peer, message)
        elif isinstance(message, OriginChanges):
            self._on_changes(peer, message)
        elif isinstance(message, Want):
            self._on_want(peer, message)
        else:
            self._on_survey(peer, message)

    def _on_hello(self, link: int, peer: PeerLink, hello: Hello) -> None:
        if peer.hello is not None:
            problem = "a second Hello"
        else:
            problem = objection_to(
                hello, self.settings, self._admission, self.peers.values(), self.counters
            )
        before = [
            other
            for other, old in self._links.items()
            if other != link and old.hello is not None and old.hello.node == hello.node
        ]
        if not problem and before and self._turns.displaced(hello.node, self._now):
            problem = takes_turns(hello)
        if problem:
            self._refused(hello.node, problem)
            self._drop(link, problem)
            return
        for other in before:  # the same host has connected again
            self._close(other)
        peer.hello = hello
        self._tell("connected", hello.node, f"{shown_host(hello)} is connected")
        self._send_have(link, peer)

    def _refused(self, node: int, reason: str) -> None:
        """Note that a link ends for this reason, found by this host or given by the peer."""
        kind = kind_of_refusal(reason)
        self.counters[kind.replace(" ", "_")] += 1
        self._tell(kind, node, reason)

    def _on_have(self, peer: PeerLink, have: Have, shared: bool) -> None:
        assert peer.hello is not None
        if have.clock > TIME_MAX:
            raise BadMessage(f"the time {have.clock}, at most {TIME_MAX} is possible")
        node = peer.hello.node
        self._watch_clock(node, have.clock)
        self._compare_with_clock(peer, have.clock)
        vector = told = self._taken_of(peer, have.vector)
        if shared:  # this Have may be older than the last one to us alone
            vector = vector | {o: n for o, n in peer.has.items() if n > vector.get(o, 0)}
        lacks = not peer.heard and self._surveys.lacks(vector)
        if lacks or have.lacking:
            self._surveys.note_lacking()  # before the peer can get changes that hide it
        mine = self._table.vector()
        own = self.settings.origin
        if vector.get(own, 0) > mine.get(own, 0):
            self.counters["restored"] += 1
            self._tell(
                "restored",
                node,
                f"{shown_host(peer.hello)} has {vector[own]} changes of this host, which has made {mine.get(own, 0)}: "
                "an older copy of its file was put back, and what it writes now is ignored elsewhere. Remove its folder while nothing has it open: it gets all from others",
            )
        if vector.get(own, 0) < peer.has.get(own, 0):  # the peer has lost its file
            peer.begins_anew(own, vector.get(own, 0))
        peer.reports(vector, self._admission.known)
        if lacks:
            self._begin_survey(peer)
        elif difference := self._surveys.compare(peer.number, have, self._now):
            self._differs(peer, difference)
        self._land(peer, vector)
        if node in self.settings.peers:
            self._confirmations.told(node, peer.hello.origin, told.items())
        for origin, number in vector.items():
            if number > self._received.get(origin, 0) and origin != own:
                self._lacks(origin)

    def _taken_of(self, peer: PeerLink, pairs: list[tuple[int, int]]) -> Vector:
        """Return the part of a peer's numbers that is kept. Log once if there are others."""
        vector = self._admission.vector(pairs)
        if len(vector) < len(pairs):
            refused = next((r for origin, _ in pairs if (r := self._admission.refusal(origin))), "")
            if refused:
                self._refuse(refused, peer)
        return vector

    def _refuse(self, refusal: str, peer: PeerLink | None) -> None:
        """Note that changes of an origin are not taken. ``refusal``: the name of a counter."""
        self.counters[refusal] += 1
        if peer is not None and not peer.warns(refusal):
            return
        mine = self.settings
        self._tell(
            "refused",
            peer.node if peer is not None else 0,
            f"changes of hosts with identifiers above {mine.identifier_max} are not taken: give wide_identifiers at all hosts or at none"
            if refusal == "identifiers_refused"
            else f"changes of further files of hosts are not taken: {mine.origins_max} are known (origins_max)",
        )

    def _lacks(self, origin: int) -> None:
        """Note that a peer has more changes of an origin."""
        self._repairs.lacks(origin, self._received.get(origin, 0), self._now)

    def _on_want(self, peer: PeerLink, want: Want) -> None:
        if want.origin not in self._table.vector():
            return
        peer.wanted(want.origin, want.after)
        self.changed()

    def _on_got(self, peer: PeerLink, got: Got) -> None:
        known = self._admission.known
        vector = {origin: number for origin, number in got.vector if origin in known}
        peer.acknowledges(vector)
        self._land(peer, vector)

    def _land(self, peer: PeerLink, vector: Vector) -> None:
        """Note that the peer has these changes, which makes room for more."""
        if peer.land(vector):
            self.changed()

    def _on_changes(self, peer: PeerLink, changes: OriginChanges) -> None:
        origin = changes.origin
        if origin == self.settings.origin:
            self.counters["own_ignored"] += 1  # K18
            peer.applied = 0
            return
        if refusal := self._admission.refusal(origin):
            self._refuse(refusal, peer)
            return
        have = self._received.get(origin, 0)
        peer.owes[origin] = -1
        if changes.after > have:
            self.counters["gaps"] += 1
            self._lacks(origin)
            peer.applied = 0
            return
        if changes.to <= have:
            self.counters["duplicates"] += 1
            peer.applied = 0
            return
        self._apply(changes, peer)

    def _apply(self, changes: OriginChanges, peer: PeerLink | None = None) -> bool:
        """Apply changes. ``peer``: the host that has sent them. Return whether any change was taken."""
        origin, to = changes.origin, changes.to
        entries = self._admission.read(changes)
        if refusal := self._admission.take(origin, entries):
            self._refuse(refusal, peer)
            return False
        count, time = self._admission.ready(entries)
        if time:
            self._wait_for(peer, origin, time)
            to = entries[count][1].dots[origin] - 1
            entries = entries[:count]
            if to <= self._received.get(origin, 0):
                if peer is not None:
                    peer.applied = 0
                return False
        elif peer is not None:
            peer.ahead.pop(origin, None)
        hello = peer.hello if peer is not None else None
        node = hello.node if hello is not None else node_of(origin)
        for _, entry in entries:
            self._watch_clock(node, entry.stamp.time)
        changed = self._into_table(peer, entries, {origin: to})
        self._received[origin] = to  # this is after the call, because the table may have no room
        for change in changed or ():
            if change.diverged:
                self.counters["diverged"] += 1
                self._tell(
                    "diverged",
                    node,
                    f"two values of key {change.key[:40]!r} have one stamp",
                )
        self._out.append(Arrived(node, origin, entries, changed))
        self._repairs.came(origin, to, self._now)
        return True

    def _wait_for(self, peer: PeerLink | None, origin: int, time: int) -> None:
        """Note that a change is too far ahead of this host's clock. It is asked for when the clock has come near."""
        self.counters["future_waits"] += 1
        self._lacks(origin)
        if peer is None or peer.hello is None:
            return
        peer.ahead[origin] = time
        if peer.warns("future"):
            ahead = (time - self._clock.wall_time()) / TICKS_PER_S
            self._tell(
                "future",
                peer.hello.node,
                f"a change of host {node_of(origin)} is {ahead:,.0f} s ahead of this host's clock, {self.settings.max_ahead:g} s "
                "are taken (max_ahead): it waits until then, and so do all later ones of that host. Is a clock wrong?",
            )

    def _compare_with_clock(self, peer: PeerLink, clock: int) -> None:
        """Log that a peer, whose clock has ``clock``, makes changes from here wait."""
        assert peer.hello is not None
        if not self._admission.is_ahead_of(clock, self._departures.newest):
            peer.warned.discard("ahead")
        elif peer.warns("ahead"):
            ahead = (self._departures.newest - clock) / TICKS_PER_S
            self._tell(
                "ahead",
                peer.hello.node,
                f"changes sent from here are {ahead:,.0f} s ahead of the clock of {shown_host(peer.hello)}, which makes them wait "
                f"({self.settings.max_ahead:g} s are taken: max_ahead). Is a clock wrong?",
            )

    def _into_table(
        self, peer: PeerLink | None, entries: Sequence[tuple[bytes, MapEntry]], advance: Vector
    ) -> Sequence[ChangedKey] | None:
        """Apply the entries of a message. If the table had no room for all of them, a repeated call goes on behind the
        applied ones."""
        if peer is None:
            return self._table.apply(entries, advance)
        try:
            changed = self._table.apply(entries[peer.applied :], advance)
        except InboxFull as full:
            peer.applied += full.done
            raise
        peer.applied = 0
        return changed

    # --- changes of which tombstones were forgotten

    def _begin_survey(self, peer: PeerLink) -> None:
        """Begin a survey for a peer that may have values whose removal was forgotten here."""
        self._surveys.begin(peer.number)
        self._tell_stale(
            peer,
            "lacks removals that are forgotten here: it drops values that this host has seen and dropped",
        )

    def _differs(self, peer: PeerLink, difference: MapDifference) -> None:
        """Note that the peer has the same changes and another map. Both hosts soon send their Have again, so that both
        compare again."""
        self.counters["differed"] += 1
        peer.told = self._shared_told = None
        peer.have_due = self._shared_due = self._now + self.settings.repair_wait
        if difference is MapDifference.SURVEYED:
            self.changed()
            self._tell_stale(
                peer,
                "has the same changes and another map: a value that one of both has replaced or removed is dropped at the other one, too",
            )
        elif difference is MapDifference.UNEXPLAINED:
            assert peer.hello is not None
            self._tell(
                "differs",
                peer.hello.node,
                f"{shown_host(peer.hello)} has the same changes and another map. One of both has lost something, or a host that is away has replaced it: "
                "`jgroups-py maps diff` says which keys differ",
            )

    def _on_survey(self, peer: PeerLink, survey: MapSurvey) -> None:
        gone = self._surveys.take(survey)
        if not gone:
            return
        self.counters["dropped"] += gone
        assert peer.hello is not None
        self._tell(
            "stale",
            peer.hello.node,
            f"{gone} changes that {shown_host(peer.hello)} has replaced or removed while it was away, and forgotten, are dropped here",
        )
        for other in self._links.values():  # these peers may have got changes from here meanwhile
            if other is not peer and other.heard:
                self._begin_survey(other)

    def _tell_stale(self, peer: PeerLink, what: str) -> None:
        assert peer.hello is not None
        if peer.warns("stale"):
            self._tell("stale", peer.hello.node, f"{shown_host(peer.hello)} {what}")

    # --- sending

    def _flush(self) -> None:
        self._departures.refill(self._now)
        self._out += self._departures.for_all(self._links.values())
        for peer in list(self._links.values()):
            if not peer.heard:
                continue
            if survey := self._surveys.following(peer.number, peer.has, self._now):
                self._send_to(peer, survey)
                self.changed()
            self._out += self._departures.for_one(peer)

    def _say_what_we_have(self) -> None:
        if self._now >= self._shared_due:
            self._shared_due = self._now + self.settings.have_interval
            self._send_shared_have()
        for link, peer in list(self._links.items()):
            if peer.hello is None:
                continue
            if not peer.shared and self._is_have_due(peer):
                self._send_have(link, peer)
            elif peer.owes and self._now >= peer.ack_due:
                self._acknowledge(peer)

    def _is_have_due(self, peer: PeerLink) -> bool:
        if self._now < peer.have_due:
            return False
        if peer.rests >= RESTS_MAX or peer.told != self._table.contents():
            return True
        peer.rests += 1
        peer.have_due = self._now + self.settings.have_interval
        return False

    def _send_shared_have(self) -> None:
        """Send a shared Have. Without changes it is sent seldom."""
        links = tuple(p.number for p in self._links.values() if p.shared and p.hello is not None)
        contents = self._table.contents()
        if not links or (contents == self._shared_told and self._shared_rests < RESTS_MAX):
            self._shared_rests += 1
            return
        self._shared_rests, self._shared_told = 0, contents
        self._out.append(SendAll(links, encode(self._have(contents))))

    def _acknowledge(self, peer: PeerLink) -> None:
        """Acknowledge changes that the table has applied."""
        vector = self._table.vector()
        got = [(o, vector.get(o, 0)) for o, acked in peer.owes.items() if vector.get(o, 0) > acked]
        if not got:
            return
        peer.ack_due = self._now + self.settings.ack_delay
        self._send(peer.number, Got(got))
        for origin, number in got:
            if number >= self._received.get(origin, 0):
                del peer.owes[origin]
            else:
                peer.owes[origin] = number

    def _send_have(self, link: int, peer: PeerLink) -> None:
        peer.have_due = self._now + self.settings.have_interval
        peer.rests, peer.told = 0, self._table.contents()
        self._send(link, self._have(peer.told))

    def _have(self, contents: Contents) -> Have:
        clock = self._clock.wall_time()
        sum_ = compared(contents.sums, clock)
        return Have(list(contents.vector.items()), clock, sum_, contents.lacking)

    # --- helpers

    def _watch_clock(self, node: int, time: int) -> None:
        # A clock that is too far ahead is not followed: all later changes of this host would wait elsewhere.
        if not self._admission.is_ahead(time):
            self._clock.observe(time)
        ahead = (time - self._clock.wall_time()) / TICKS_PER_S
        if ahead > self.settings.max_skew and node not in self._skewed:
            self._skewed.add(node)
            self.counters["skewed"] += 1
            self._tell("skew", node, f"its clock is {ahead:.1f} s ahead of this host's")
        elif ahead < self.settings.max_skew / 2:
            self._skewed.discard(node)

    def _tell(self, kind: str, node: int, text: str) -> None:
        self._out.append(Told(kind, node, text))

    def _send(self, link: int, message: Message) -> None:
        self._out.append(SendToPeer(link, encode(message)))

    def _send_to(self, peer: PeerLink, message: Message) -> None:
        self._send(peer.number, message)

    def _drop(self, link: int, reason: str) -> None:
        self._send(link, Refused(reason))
        self._close(link)

    def _close(self, link: int) -> None:
        self._out.append(CloseLink(link))
        self.link_closed(link)
