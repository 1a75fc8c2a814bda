"""RELAY's invariants over whole simulated clusters, checked after every step of every member.

    I1  no application is delivered a number twice, out of order, or over a gap that was not announced
    I2  `cursor`, `forwarded`, `site_digest`, `trimmed` never exceed the numbers that the origin sent. A site
        digest equals the numbers delivered to the application. `trimmed` is at most the lowest number
        delivered at any member that counts for the trim
    I3  a message that a survivor delivered and some site has not acknowledged is in the buffer of its living
        origin or of a complete holder, or a view round is under way
    I4  members that installed the same view delivered the same messages of the members that departed with it
    I5  buffers are within their limits and hold nothing that is trimmed

Numbers are counted here: the n-th multicast that an application sends is number n of that incarnation, and deliveries
are recognised by their content. Of RELAY only ``numbers`` and public attributes are read. The check is incremental: after a
step of a host it compares the host's tables with the earlier ones. It looks at the rest of the site only where a member
fell, a view came, or a buffer shrank.

The design (RELAY.md) promises I3 for departed origins while fewer than ``buffering_members`` holders fall between two
moments at which all are complete. Messages that are missing after more falls, or after a partition and one fall, are
excused. So are messages that an origin sent before it heard of its site's promotion, and all messages of an origin that
was gone by then: only the relay keeps those. The last part of I2 does not apply to a member cut off from its site until
it has caught up. A
property that does not hold is raised as ``Violated``, with the member, the time and the world's seed.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from jgroups_py.protocols.relay.protocol import RELAY
from jgroups_py.protocols.relay.status import RelayNumbers
from jgroups_py.protocols.relay.wire import DONT_LOOPBACK, ID, OOB, UNNUMBERED
from jgroups_py.testing.check import relay_at_rest
from jgroups_py.testing.check.relay_tables import (
    Origin,
    RelayedRun,
    SiteTables,
    Track,
    Watched,
    missing_in,
    sums_of,
    without,
)
from jgroups_py.testing.check.violation import Violated
from jgroups_py.testing.sim.host import Host
from jgroups_py.testing.sim.member import Member, Told
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import StateReceived
from jgroups_py.values.view import MergeView, View
from jgroups_py.wire.headers import FragHeader


def violated(world: Told, invariant: str, member: str, problem: str) -> Violated:
    """Return the violation of an invariant of RELAY. Its check is ``relay_`` and the invariant's name."""
    return Violated(
        f"relay_{invariant.replace(' ', '_')}",
        f"{member}: {problem}",
        world.now,
        f"{invariant} at {world.now:.3f} s (seed {world.seed}), {member}: {problem}",
    )


class RelayOracle:
    """See the module's docstring. A ``World`` makes one when a stack with RELAY is started."""

    def __init__(self, world: Told) -> None:
        self.world = world
        self.sites: dict[str, SiteTables] = {}
        self.deliveries = 0
        self._origins: dict[bytes, Origin] = {}
        self._forgot: dict[tuple[str, bytes], None] = {}
        """(site, origin of another site): origins that a member of the site has forgotten."""
        self._hosts: dict[Host, Watched] = {}
        world.after_each_step.append(self._after_step)
        world.on_record.append(self._on_record)

    # --- called by the world

    def watch(self, member: Member, relay: RELAY) -> None:
        """Watch a member, before it is connected."""
        site = self.sites.setdefault(relay.config.site, SiteTables(relay.config.site))
        raw = bytes(member.address)
        watched = Watched(member, relay, site, raw)
        site.members.append(watched)
        self._hosts[member.host] = watched
        self._origins[raw] = Origin(watched)

    def give_up(self, members: Iterable[Member]) -> None:
        """Note members that are cut off for good: the rest must come to rest without them."""
        for member in members:
            watched = self._hosts.get(member.host)
            if watched is not None:
                self._on_record(self.world.now, member, "vanish", {})
                watched.given_up = True

    def sent(self, member: Member, batch: Batch) -> None:
        """Note that the application sends."""
        watched = self._hosts.get(member.host)
        if watched is None or batch.dest is not None or batch.flags & UNNUMBERED:
            return
        origin = self._origins[watched.raw]
        if not origin.sent:
            origin.first_at = self.world.now
        if batch.transient & DONT_LOOPBACK:
            first = origin.sent + 1
            origin.quiet.update(dict.fromkeys(range(first, first + len(batch))))
        origin.sums.extend(sums_of(batch))

    def offered(self, member: Member, item: Any) -> None:
        """Note that RELAY has put ``item`` into the application's stream."""
        watched = self._hosts.get(member.host)
        if watched is None:
            return
        if isinstance(item, View):
            watched.stream.append(item)
        elif isinstance(item, Batch) and item.dest is None and not item.flags & UNNUMBERED:
            assert item.src is not None
            header = item.headers.get(ID)
            number = header.id if type(header) is FragHeader else None
            run = RelayedRun(bytes(item.src), number, sums_of(item), bool(item.flags & OOB))
            watched.stream.append(run)

    def _on_record(self, _at: float, member: Member, what: str, _more: dict[str, Any]) -> None:
        watched = self._hosts.get(member.host)
        if watched is None or what not in ("crash", "vanish", "leave"):
            return
        watched.site.due = True
        if not [w for w in watched.site.living() if w is not watched and w.view is not None]:
            watched.site.disturbed = watched.site.emptied = True  # joining members begin anew
        if self._is_holder(watched):
            self._fall(watched)

    @staticmethod
    def _fall(watched: Watched) -> None:
        """Note that a holder has gone for good."""
        if not watched.fell:
            watched.fell = True
            watched.site.fallen += 1

    def _is_holder(self, watched: Watched) -> bool:
        """Does any living member count on its buffer?"""
        address = watched.member.address
        for other in watched.site.living():
            if address in other.relay.line[: other.relay.config.buffering_members]:
                return True
        return False

    # --- a step of one member

    def _after_step(self, host: Host) -> None:
        watched = self._hosts.get(host)
        if watched is None or not watched.member.alive:
            return
        numbers = watched.relay.numbers()
        site = watched.site
        if watched.relay.counters.gaps != watched.gaps:
            self._note_gaps(watched)
        if watched.relay.state.base is not watched.base:
            watched.base = watched.relay.state.base
            for raw, number in watched.base.items():
                origin = self._origins[raw]
                origin.base = max(number, origin.base)
        begins = numbers.begun and not watched.begun
        if begins or len(watched.member.events) != watched.states:
            if any(isinstance(e, StateReceived) for e in watched.member.events[watched.states :]):
                # Messages in the state are not delivered; the others come, some of them again.
                watched.since = self.world.now
                for raw, track in watched.tracks.items():
                    if self._origins[raw].watched.site is site:
                        track.exact = False
                        track.older = None if raw == watched.raw else tuple(track.early)
            watched.states = len(watched.member.events)
            self._begin(watched, numbers)
        if watched.stream:
            self._take(watched)
        if numbers.site_digest != watched.digest:
            self._check_digest(watched, numbers)
        if numbers.trimmed != watched.trimmed:
            self._check_trimmed(watched, numbers)
        if numbers.forwarded != watched.forwarded:
            for table in numbers.forwarded.values():
                self._check_sent(watched, "forwarded", table)
            watched.forwarded = {s: dict(n) for s, n in numbers.forwarded.items()}
        if numbers.cursors != watched.cursors:
            for table in numbers.cursors:
                self._check_sent(watched, "cursor", table)
            watched.cursors = [dict(table) for table in numbers.cursors]
        if numbers.delivered != watched.delivered:
            self._check_sent(watched, "delivered", numbers.delivered)
            watched.delivered = dict(numbers.delivered)
        buffer = numbers.buffer
        held = (buffer.messages, buffer.bytes, buffer.spilled)
        if held != watched.held:
            if held[0] < watched.held[0]:
                site.due = True
            watched.held = held
            self._check_buffer(watched, numbers)
        epoch = watched.relay.state.epoch if numbers.relaying else None
        if epoch != watched.relaying_in:
            watched.relaying_in = epoch
            if numbers.relaying:
                # A member has no copy of messages sent before it knew that its site is primary; nor has any member that
                # was gone by then.
                for other in site.members:
                    if other is watched or not other.member.alive:
                        sent = self._origins[other.raw].sent
                        site.excused[other.raw] = max(sent, site.excused.get(other.raw, 0))
        if numbers.complete != watched.complete:
            watched.complete = numbers.complete
            site.due = True
        if site.due:
            site.due = False
            self._check_site(site)

    def _fail(self, invariant: str, watched: Watched, problem: str) -> None:
        raise violated(self.world, invariant, watched.name, problem)

    def _name(self, raw: bytes) -> str:
        origin = self._origins.get(raw)
        return raw.hex()[:8] if origin is None else origin.watched.name

    # --- I1

    def _begin(self, watched: Watched, numbers: RelayNumbers) -> None:
        """Note the beginnings of a member's streams, after a join or a state."""
        first = not watched.begun
        watched.begun = numbers.begun
        if not numbers.begun:
            return
        watched.blind = watched.blind or watched.relay.joining.blind
        if first and (watched.relay.is_relay or watched.site.disturbed):
            # Nobody told the member, and its site begins anew; or its informant may be behind.
            watched.apart = True
        taken: dict[bytes, int] = {}
        for item in watched.stream:
            if isinstance(item, RelayedRun):
                taken[item.origin] = taken.get(item.origin, 0) + len(item.sums)
        known = [(raw, n) for table in numbers.left.values() for raw, (n, _) in table.items()]
        known += [entry for table in numbers.site_digest.values() for entry in table.items()]
        for raw in watched.tracks:
            if self._origins[raw].watched.site is not watched.site:
                watched.tracks[raw] = Track()  # unless it is among the known numbers
        for raw, number in known:
            watched.tracks[raw] = Track(max(0, number - taken.get(raw, 0)))
        for site in self.sites.values():
            self._check_member_has(site, watched)

    def _take(self, watched: Watched) -> None:
        stream, watched.stream = watched.stream, []
        for item in stream:
            if isinstance(item, View):
                self._take_view(watched, item)
            else:
                self._take_run(watched, item)

    def _take_run(self, watched: Watched, run: RelayedRun) -> None:
        origin = self._origins.get(run.origin)
        if origin is None:
            self._fail("I1", watched, f"delivered of {run.origin.hex()[:8]}, whom nobody started")
            return
        track = watched.tracks.get(run.origin)
        if track is None:
            track = watched.tracks[run.origin] = self._begin_track(watched, origin)
        self.deliveries += len(run.sums)
        home = origin.watched.site is watched.site
        number = run.number if home else None
        for offset, checksum in enumerate(run.sums):
            at = None if number is None else number + offset
            self._take_one(watched, origin, track, checksum, at, home, run.oob)

    def _begin_track(self, watched: Watched, origin: Origin) -> Track:
        if origin.watched.site is not watched.site:
            # A joiner's beginnings come from its digest, which lacks forgotten origins.
            back = (watched.site.name, origin.watched.raw) in self._forgot
            return Track(0, not back or origin.first_at > watched.since)
        if origin.watched is watched:
            # A state may contain messages of an older origin.
            return Track(0, origin.first_at >= watched.since)
        return Track(0, watched.view is not None and origin.first_at > watched.since)

    def _take_one(
        self,
        watched: Watched,
        origin: Origin,
        track: Track,
        checksum: int,
        at: int | None,
        home: bool,
        oob: bool,
    ) -> None:
        """Judge one message. ``at``: the message's number by RELAY, inside its site."""
        expected = track.last + 1
        while origin.watched is watched and expected in origin.quiet:
            track.reach(expected)
            expected = track.last + 1
        if track.exact and origin.sum_of(expected) == checksum:
            track.reach(expected)
            return
        if at is not None:
            if origin.sum_of(at) != checksum:
                self._fail(
                    "I1",
                    watched,
                    f"delivered as {self._name(origin.watched.raw)} {at} "
                    "what that origin did not send as this",
                )
            number = at
        else:
            number = origin.find(checksum, expected) or origin.find(checksum, 1)
        name = self._name(origin.watched.raw)
        if not number:
            self._fail("I1", watched, f"delivered of {name} what it never sent")
        if number <= track.last or number in track.early:
            if track.older is not None:
                track.comes_again(number)
                return
            self._fail("I1", watched, f"delivered {name} {number} after {track.last}")
        if oob and home:
            track.early[number] = None
            return
        if track.exact and not self._may_skip(watched, origin, expected, number - 1):
            self._fail("I1", watched, f"delivered {name} {number} right after {track.last}")
        track.exact = True
        track.older = None
        track.reach(number)

    def _note_gaps(self, watched: Watched) -> None:
        """Read the gaps that the member reports."""
        watched.gaps = watched.relay.counters.gaps
        shown = {f"{raw.hex()[:8]}:{o.watched.site.name}": raw for raw, o in self._origins.items()}
        for ranges in watched.relay.out_of_sync.ranges().values():
            for lost in ranges:
                raw = shown.get(lost.origin)
                if raw is not None:
                    spans = watched.skipped.setdefault(raw, [])
                    if (lost.first, lost.last) not in spans:
                        spans.append((lost.first, lost.last))

    def _may_skip(self, watched: Watched, origin: Origin, first: int, last: int) -> bool:
        """Does it know that ``first .. last`` do not come?"""
        raw = origin.watched.raw
        if origin.watched.site is watched.site:
            return False
        # A blind joiner begins after all messages that all members have acknowledged.
        start = origin.watched.site.trimmed.get(raw, 0) if watched.blind else 0
        left = [(max(first, origin.base + 1, start + 1), last)]
        for span in watched.skipped.get(raw, ()):
            left = [rest for part in left for rest in without(part, span)]
        return not any(a <= b for a, b in left)

    # --- views: I4

    def _take_view(self, watched: Watched, view: View) -> None:
        old, watched.view = watched.view, view
        site = watched.site
        site.due = True
        merged = isinstance(view, MergeView)
        site.disturbed |= merged
        here = [w for w in site.living() if w.view is not None and not w.member.leaving]
        beyond = [w for w in here if w.member.address not in view.members]
        # The founder of a group has no former members to wait for.
        anew = old is None and view.members[0] == watched.member.address
        if anew or 2 * sum(w.member.address in view.members for w in here) > len(here):
            for other in beyond:
                other.outvoted = True
        if old is None:
            watched.since = self.world.now
            first = view.members[0]  # the newcomer learns of the gaps of this member, too
            watched.outvoted = (
                bool(beyond)
                or any(w.outvoted for w in site.members if w.member.address == first)
                or (anew and any(w.view is not None for w in site.members if w is not watched))
            )
        else:  # their messages may still come, unless it has a later view now
            beyond = [w for w in beyond if w.view is not None and w.view.id <= view.id]
        if beyond:
            site.disturbed = site.split = True  # the member's group runs beside the other group
            for other in here:
                other.apart = True
        if old is None:
            return
        for gone in old.members:
            if gone not in view.members:
                self._departed(watched, old, view, bytes(gone), merged)
        mine: Iterable[Any] = old.members
        if merged:
            assert isinstance(view, MergeView)
            own = [s for s in view.subgroups if watched.member.address in s.members]
            mine = own[0].members if own else ()
        for member in view.members:
            if member not in mine:
                watched.tracks.setdefault(bytes(member), Track()).exact = False

    def _departed(self, watched: Watched, old: View, view: View, raw: bytes, merged: bool) -> None:
        origin = self._origins.get(raw)
        if origin is None:
            return
        gone = origin.watched
        site = watched.site
        if gone.member.alive and not gone.member.leaving:
            site.disturbed = site.split = True
            for other in site.living():
                other.apart = True
            if gone.member.address in old.members[: watched.relay.config.buffering_members]:
                site.fallen += 1
            return
        if gone.member.address in old.members[: watched.relay.config.buffering_members]:
            self._fall(gone)  # leavers count, too, because their buffers are lost
        track = watched.tracks.get(raw)
        if merged or (track is not None and not track.exact):
            return
        if track is None and not origin.first_at > watched.since:
            return
        has = 0 if track is None else track.last
        first, other = site.agreed.setdefault((view.view_id, raw), (has, watched))
        if first != has:
            self._fail(
                "I4",
                watched,
                f"installs {view.id} with {has} of {gone.name}, {other.name} had {first}",
            )

    # --- I2

    def _check_sent(self, watched: Watched, what: str, table: Mapping[bytes, int]) -> None:
        for raw, number in table.items():
            origin = self._origins.get(raw)
            if number and (origin is None or number > origin.sent):
                sent = 0 if origin is None else origin.sent
                self._fail(
                    "I2", watched, f"{what} of {self._name(raw)} is {number}, sent were {sent}"
                )

    def _check_digest(self, watched: Watched, numbers: RelayNumbers) -> None:
        for name, table in numbers.site_digest.items():
            before = watched.digest.get(name, {})
            if table == before:
                continue
            self._check_sent(watched, "site_digest", table)
            self._forgot.update(
                ((watched.site.name, raw), None) for raw in before if raw not in table
            )
            for raw, number in table.items():
                if number != before.get(raw, 0) and watched.begun:
                    self._check_told(watched, raw, number)
        watched.digest = {s: dict(n) for s, n in numbers.site_digest.items()}

    def _check_told(self, watched: Watched, raw: bytes, number: int) -> None:
        """Check the site digest: the application was delivered these numbers or knows their gaps."""
        origin = self._origins[raw]
        track = watched.tracks.setdefault(raw, Track())
        if track.last == number:
            return
        if track.last < number and self._may_skip(watched, origin, track.last + 1, number):
            track.last = number
            return
        self._fail(
            "I2",
            watched,
            f"site_digest of {self._name(raw)} is {number}, delivered were {track.last}",
        )

    def _check_trimmed(self, watched: Watched, numbers: RelayNumbers) -> None:
        site = watched.site
        watched.trimmed = dict(numbers.trimmed)
        for raw, number in numbers.trimmed.items():
            if number <= site.trimmed.get(raw, 0):
                continue
            origin = self._origins.get(raw)
            if origin is None or number > origin.sent:
                self._check_sent(watched, "trimmed", {raw: number})
            site.trimmed[raw] = number
            if number <= numbers.base.get(raw, 0):
                continue
            for name in watched.relay.state.sites:
                for other in self.sites[name].living() if name in self.sites else ():
                    if other.begun:
                        self._check_has(watched, raw, number, other)

    def _check_has(self, watched: Watched, raw: bytes, number: int, other: Watched) -> None:
        have = other.has(raw)
        if have >= number:
            return
        if other.apart and not self._caught_up(other):
            return
        if other.member.leaving and not self._is_in_view(other):
            return  # the member does not know yet that it is out
        self._fail(
            "I2",
            watched,
            f"trimmed of {self._name(raw)} is {number}, {other.name} has {have}",
        )

    @staticmethod
    def _is_in_view(watched: Watched) -> bool:
        """Is it in the view of another member of its site?"""
        views = [w.view for w in watched.site.living() if w is not watched]
        return any(view is not None and watched.member.address in view for view in views)

    def _check_member_has(self, site: SiteTables, watched: Watched) -> None:
        """Check that a joiner begins with all trimmed numbers."""
        if site is watched.site or watched.apart:
            return
        table = watched.relay.state.site_digest.get(site.name, {})
        for relay in site.living():
            if not relay.relay.is_relay or watched.site.name not in relay.relay.state.sites:
                continue
            base = relay.relay.state.base
            for raw, number in relay.relay.state.trimmed.items():
                if number > max(table.get(raw, 0), base.get(raw, 0)) and raw in table:
                    self._fail(
                        "I2",
                        watched,
                        f"begins with {table.get(raw, 0)} of {self._name(raw)}, trimmed are {number}",
                    )

    def _caught_up(self, watched: Watched) -> bool:
        """Is its site united again, and does it have all trimmed numbers?"""
        if not watched.site.is_settled:
            return False
        for site in self.sites.values():
            for raw, number in site.trimmed.items() if site is not watched.site else ():
                if watched.has(raw) < number:
                    return False
        watched.apart = False
        return True

    # --- I5

    def _check_buffer(self, watched: Watched, numbers: RelayNumbers) -> None:
        buffer, config = numbers.buffer, watched.relay.config
        if buffer.messages - buffer.spilled > config.max_messages:
            self._fail("I5", watched, f"{buffer.messages} messages in the buffer")
        if buffer.bytes > config.max_bytes:
            self._fail("I5", watched, f"{buffer.bytes} bytes in the buffer")
        for raw in buffer.origins():
            trimmed = numbers.trimmed.get(raw, 0)
            lowest = buffer.next_above(raw, 0)
            if lowest is not None and lowest <= trimmed:
                self._fail(
                    "I5", watched, f"{self._name(raw)} {lowest} is kept, trimmed are {trimmed}"
                )

    # --- I3

    def _check_site(self, site: SiteTables) -> None:
        living = [w for w in site.living() if w.begun]
        if any(w.relay.counters.overflowed for w in living):
            site.overflowed = True
        if not living or site.overflowed or not all(w.relay.is_relaying for w in living):
            return
        settled = site.is_settled
        line = living[0].relay.line[: living[0].relay.config.buffering_members]
        holders = [w for w in living if w.complete and w.member.address in line]
        sources = [w.relay.buffer for w in (holders or living)]
        here = {w.raw: w for w in living}
        too_many = site.fallen > site.spare or bool(site.split and site.fallen)
        reach = site.highest(living)
        if too_many:  # perhaps no member that had it is left
            gone = (w.raw for w in site.members if w.raw not in here)
            reach |= {raw: self._origins[raw].sent for raw in gone}
        for raw, highest in reach.items():
            low = max(site.trimmed.get(raw, 0), site.excused.get(raw, 0)) + 1
            if low > highest:
                continue
            origin = here.get(raw)
            if origin is None and not settled:
                continue
            if origin is None and self._origins[raw].watched.member.alive:
                continue
            own = [] if origin is None else [origin.relay.buffer]
            missing = missing_in([*own, *sources], raw, low, highest)
            if not missing:
                continue
            if origin is None and too_many:
                site.excused[raw] = highest
                continue
            self._fail(
                "I3",
                origin or living[0],
                f"{self._name(raw)} {missing[0][0]}..{missing[0][1]} is in no buffer that counts "
                f"(holders: {', '.join(w.name for w in holders) or 'none complete'})",
            )
        if settled and len(holders) == min(len(line), len(living)):
            site.fallen = 0
            site.split = False
            site.spare = len(holders) - 1

    # --- at rest

    def forget_ended(self) -> None:
        """Drop, at rest in runs of many hours, the data of ended members that no living member names, and checksums of messages
        that all members have."""
        living = [w for site in self.sites.values() for w in site.living()]
        named = dict.fromkeys(w.raw for w in living)
        for watched in living:
            numbers = watched.relay.numbers()
            digests = (*numbers.site_digest.values(), *numbers.forwarded.values())
            tables = (numbers.delivered, numbers.trimmed, numbers.base, *digests, *numbers.cursors)
            for table in (*tables, dict.fromkeys(numbers.buffer.origins())):
                named.update(dict.fromkeys(map(bytes, table)))
        self._origins = {raw: origin for raw, origin in self._origins.items() if raw in named}
        self._hosts = {h: w for h, w in self._hosts.items() if w.raw in named}
        self._forgot = {key: None for key in self._forgot if key[1] in named}
        for origin in self._origins.values():
            origin.dropped = origin.sent
            origin.sums = array("L")
        for site in self.sites.values():
            site.members = [w for w in site.members if w.raw in named]
            site.agreed.clear()
            site.trimmed = {raw: n for raw, n in site.trimmed.items() if raw in named}
            site.excused = {raw: n for raw, n in site.excused.items() if raw in named}
        for watched in living:
            watched.states = len(watched.member.events)
            watched.tracks = {raw: track for raw, track in watched.tracks.items() if raw in named}
            watched.skipped = {raw: spans for raw, spans in watched.skipped.items() if raw in named}

    @property
    def can_rest(self) -> bool:
        """Are all members present that are needed for coming to rest?"""
        return not self.world.network.is_cut and all(
            any(w.begun for w in site.living())
            and not any(w.member.host.paused or w.member.leaving for w in site.living())
            for site in self.sites.values()
        )

    def given_up(self) -> Iterator[tuple[str, str, int, int]]:
        """Return the messages that were announced as lost although RELAY promises them."""
        return relay_at_rest.given_up(self.sites, self._origins)

    def unrest(self) -> str | None:
        """Return the things that are not at rest: buffers, relays, sessions, digests. None: all of them are."""
        return relay_at_rest.unrest(self.sites, self._origins)
