"""The rules of the verdict on a drill of messages. The judge and Spark's recount read the logs independently, and both
use these rules.

    rule          where             what it says
    obliged       Rules.must_have   a member must have a message if it was in the site's view from before the send until
                                    the end. Members that died, left, were expelled, are paused or are cut off from the
                                    origin are excepted
    failure       failures          a site fails when ``fail_site`` says so, or its last living member falls; it may
                                    fail again
    reign         reigns            without a primary every site relays to every other; ``promote`` ends the duties of
                                    the former primary, and the new one's messages count from ``grace`` after it
    not relayed   Rules.fate        a message sent at a site that relays nothing: it is counted, and may be lost or
                                    unrelayed like any other, unless the drill says ``relay: primary only``. Within
                                    ``grace`` after a promotion no message counts against a site
    lost          Rules.fate        a message that an obliged member lacks, and that was delivered at home at least
                                    ``grace`` before the site failed or its reign ended
    unrelayed     Rules.fate        the same, but delivered at home only within the last ``grace``; its age is counted
                                    from the send to the failure
    agreement     Rules.owed_since  a member that shared the view of a delivery and a later one must have the message,
                                    too
    detection     Rules.falls       the time until the last survivor's view lacks the fallen member, or the relays' view
                                    lacks a failed site
    take-over     Rules.falls       measured when the first member of a view falls: the time until a message sent after
                                    the fall is delivered in another site
    expectation   held              the largest time; no value if a required time is missing

During a split a site has several views: the site's view is the one that most of its living members hold.

May import: drill.file.model. Imported by: drill.judge, spark.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from jgroups_py.drill.file.model import Expectation

NEVER: Final = float("inf")
DOWN: Final = ("crash", "vanish")
Reigns = list[tuple[str, float, float]]
"""The sites that relay to the others, by time of sending: (site, from, until)."""


class Who(NamedTuple):
    """One incarnation of a member."""

    site: str
    name: str
    incarnation: int

    @property
    def origin(self) -> str:
        """``NAME#incarnation``, as the log has it."""
        return f"{self.name}#{self.incarnation}"

    @property
    def place(self) -> str:
        """``SITE.NAME``, as partitions have it."""
        return f"{self.site}.{self.name}"

    def __str__(self) -> str:
        return f"{self.site}.{self.origin}"


class Fault(NamedTuple):
    """A fault or another action of the runner."""

    t: float
    event: str
    site: str | None
    who: Who | None
    detail: Mapping[str, Any]


class ViewSeen(NamedTuple):
    """A view that an application got."""

    t: float
    id: str
    members: tuple[str, ...]
    """``NAME#incarnation``, coordinator first."""

    @property
    def key(self) -> tuple[str, tuple[str, ...]]:
        return (self.id, self.members)


class Lives:
    """The facts of a log that the rules need besides its messages: the lives of members, their views, and the faults,
    in order."""

    def __init__(self, sites: Sequence[str] = ()) -> None:
        self.sites: list[str] = list(sites)
        self.views: dict[Who, list[ViewSeen]] = {}
        self.bridge_views: dict[Who, list[tuple[float, tuple[str, ...]]]] = {}
        """Time, and sites on the bridge, by relay."""
        self.faults: list[Fault] = []
        self.born: dict[Who, float] = {}
        self.gone: dict[Who, tuple[float, str]] = {}
        """The time and the manner of the end of each incarnation."""

    def members(self, site: str) -> list[Who]:
        """Return all incarnations of a site."""
        return [who for who in self.born if who.site == site]

    def ended(self, who: Who) -> float:
        """Return when the incarnation crashed, vanished or left; ``NEVER``: it lives."""
        return self.gone[who][0] if who in self.gone else NEVER

    def view_at(self, who: Who, t: float) -> ViewSeen | None:
        """Return the newest view of the incarnation at ``t``."""
        found = None
        for view in self.views.get(who, ()):
            if view.t > t:
                break
            found = view
        return found


@dataclass(frozen=True, slots=True)
class Measured:
    """A duration from a fault on. ``seconds`` None: the duration did not end, or was not measured."""

    t: float
    event: str
    who: Who | None
    site: str
    seconds: float | None
    required: bool = True
    """False: no member was left that could have ended it."""


class Fall(NamedTuple):
    """A fault whose detection is measured. ``taken``: its take-over is measured, too."""

    detected: Measured
    taken: bool


class Fate(NamedTuple):
    """The fate of a message that an obliged member lacks. ``what``: lost, unrelayed, or "". ``age``: of an unrelayed
    one, when its site failed."""

    what: str
    not_relayed: bool = False
    age: float | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """One expectation and its measured value."""

    expectation: Expectation
    measured: float | None
    holds: bool


@dataclass(kw_only=True)
class ExpectationsVerdict:
    """The common part of the verdicts of all workloads."""

    expectations: list[Judged] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return all(judged.holds for judged in self.expectations)


class Rules:
    """The rules for one drill, as plain values that can go to other processes."""

    def __init__(
        self, lives: Lives, primary: str | None, grace: float, primary_only: bool = False
    ) -> None:
        self.lives = lives
        self.grace = grace
        self.primary_only = primary_only
        self.walls = unhealed(lives.faults)
        self.obliged: dict[Who, float] = {}
        """By member, the time from which it must have all messages that are sent: its first view, or its return to the
        site's view."""
        for site in lives.sites:
            self.obliged.update(_obliged(lives, site))
        for who in _paused(lives.faults):
            self.obliged.pop(who, None)
        self.failures = {site: failures(lives, site) for site in lives.sites}
        self.reigns = reigns(lives.faults, lives.sites, primary, grace)
        self._promotions = [fault.t for fault in lives.faults if fault.event == "promote"]

    # --- between sites

    def must_have(self, site: str, origin_site: str) -> dict[Who, float]:
        """Return the members of ``site`` that must have messages of ``origin_site``, with the time of sending from
        which they must."""
        return {
            who: since
            for who, since in self.obliged.items()
            if who.site == site and not cut_off(self.walls, who, (site, origin_site))
        }

    def fate(self, site: str, sent: float, at_home: Sequence[float]) -> Fate:
        """Return the fate of a message of ``site``. ``sent``: ``-NEVER`` if unknown. ``at_home``: when members there
        delivered it."""
        if not at_home:
            return Fate("")  # unsent, or delivered only at other sites
        if sent == -NEVER:
            sent = at_home[0]
        reign = self._reign(site, sent)
        not_relayed = reign is None
        if not_relayed:
            if self._promoted_just_before(sent):
                return Fate("")
            if self.primary_only:
                return Fate("", not_relayed)
        end = NEVER if reign is None else reign
        for t in at_home:
            if min(end, self._next_failure(site, t)) - t >= self.grace:
                return Fate("lost", not_relayed)
        failure = self._next_failure(site, min(at_home))
        return Fate("unrelayed", not_relayed, failure - sent if failure < NEVER else None)

    def _reign(self, site: str, sent: float) -> float | None:
        """Return the time until which the site relayed, if it relayed at the time of sending."""
        return next((b for name, a, b in self.reigns if name == site and a <= sent < b), None)

    def _promoted_just_before(self, sent: float) -> bool:
        return any(t <= sent < t + self.grace for t in self._promotions)

    def _next_failure(self, site: str, t: float) -> float:
        return next((failure for failure in self.failures[site] if failure >= t), NEVER)

    def rpo(self, ages: Iterable[float]) -> float | None:
        """Return the age of the oldest message that was unrelayed when its site failed. None: no site failed."""
        oldest = max(ages, default=None)
        return 0.0 if oldest is None and any(self.failures.values()) else oldest

    # --- inside a site

    def owed_since(self, who: Who, other: Who, epoch: int) -> float | None:
        """Return the time of sending from which ``who`` must have deliveries of ``other`` in its view number ``epoch``.
        None: never."""
        mine, theirs = self.lives.views[who], self.lives.views.get(other, [])
        if not 0 <= epoch < len(theirs):
            return None
        index = {view.key: i for i, view in enumerate(mine)}
        both = (who.origin, other.origin)
        before = epoch
        # The channel may have skipped views without messages: go back to a common one.
        while theirs[before].key not in index:
            if before == 0 or not all(name in theirs[before].members for name in both):
                return None
            before -= 1
        if not all(name in theirs[before].members for name in both):
            return None
        after = self._common_after(who, other, epoch, index)
        if after is None:
            return None
        # One side may have gone on alone without the other's notice.
        start = index[theirs[before].key]
        if not all(other.origin in view.members for view in mine[start : after + 1]):
            return None
        # A joiner need not have messages from before its first view.
        return mine[0].t if start == 0 else -NEVER

    def _common_after(
        self, who: Who, other: Who, epoch: int, index: Mapping[tuple[str, tuple[str, ...]], int]
    ) -> int | None:
        """Return the next common view after ``epoch``, as an index of the views of ``who``, or the last of both.
        ``None``: the two need not agree."""
        mine, theirs = self.lives.views[who], self.lives.views[other]
        for view in theirs[epoch + 1 :]:
            if not all(name in view.members for name in (who.origin, other.origin)):
                return None
            if view.key in index:
                return index[view.key]
        if not all(one in self.obliged for one in (who, other)):
            return None  # one of them fell, left or is away at the end
        if cut_off(self.walls, who, (who.site,)):
            return None
        last = len(mine) - 1
        return last if mine[last].key == theirs[-1].key else None

    # --- times

    def falls(self) -> list[Fall]:
        """Return the falls by time."""
        found = []
        for fault in self.lives.faults:
            who = fault.who
            if fault.event not in DOWN or fault.detail.get("by") == "fail_site" or who is None:
                continue
            survivors = self._survivors(who, fault.t)
            seconds, required = self._detection(who, fault.t, survivors)
            view = self.lives.view_at(who, fault.t)
            led = view is not None and view.members[:1] == (who.origin,)
            found.append(
                Fall(
                    Measured(fault.t, fault.event, who, who.site, seconds, required),
                    led and len(self.lives.sites) > 1 and bool(survivors),
                )
            )
        for site, times in self.failures.items():
            for t in times:
                seconds, required = self._site_detection(site, t)
                found.append(Fall(Measured(t, "fail_site", None, site, seconds, required), False))
        return sorted(found, key=lambda fall: fall.detected.t)

    def is_outward(self, site: str, t: float) -> bool:
        """Does a take-over there show in the messages that the site sends, not in those it gets?"""
        return any(name == site and a <= t < b for name, a, b in self.reigns)

    def _survivors(self, victim: Who, t: float) -> list[Who]:
        """Return the living members that have the victim in their view."""
        found: list[Who] = []
        for who in self.lives.members(victim.site):
            view = self.lives.view_at(who, t)
            if who != victim and self.lives.ended(who) > t and view is not None:
                if victim.origin in view.members:
                    found.append(who)
        return found

    def _detection(
        self, victim: Who, t: float, survivors: Sequence[Who]
    ) -> tuple[float | None, bool]:
        """Return the seconds until the last survivor's view lacked the victim, and whether that was required."""
        took: list[float] = []
        fell: list[float] = []
        for who in survivors:
            seen = next(
                (
                    view.t - t
                    for view in self.lives.views[who]
                    if view.t > t and victim.origin not in view.members
                ),
                None,
            )
            if seen is not None:
                took.append(seen)
            elif who in self.lives.gone:
                fell.append(self.lives.ended(who) - t)
            else:
                return None, True
        if not took:
            return None, False
        return max(took + fell), True  # a late crash of another member counts, too

    def _site_detection(self, site: str, t: float) -> tuple[float | None, bool]:
        lives = self.lives
        took = []
        for other in lives.sites:
            living = [w for w in lives.members(other) if lives.ended(w) > t]
            if other == site or not living:
                continue
            seen = [
                when - t
                for who in living
                for when, sites in lives.bridge_views.get(who, ())
                if when > t and site not in sites
            ]
            if not seen:
                return None, True
            took.append(min(seen))
        return (max(took), True) if took else (None, False)


def _obliged(lives: Lives, site: str) -> dict[Who, float]:
    """Replay the views of the members."""
    steps: list[tuple[float, Who, ViewSeen | None]] = []
    for who in lives.members(site):
        steps += [(view.t, who, view) for view in lives.views.get(who, ())]
        if who in lives.gone:
            steps.append((lives.ended(who), who, None))
    steps.sort(key=lambda step: step[0])
    held: dict[Who, ViewSeen] = {}
    main: ViewSeen | None = None
    since: dict[str, float] = {}
    ended: dict[str, None] = {}
    for t, who, view in steps:
        if view is None:
            held.pop(who, None)
            ended[who.origin] = None
            since.pop(who.origin, None)
        elif who.origin not in ended:
            if who not in held:
                since.setdefault(who.origin, t)
            held[who] = view
        new = _most_held(held, main)
        for name in main.members if main is not None else ():
            if new is None or name not in new.members:
                since.pop(name, None)
        main = new
        for member, one in held.items():  # they are back after a partition
            if main is not None and one.key == main.key:
                since.setdefault(member.origin, t)
    if main is None:
        return {}
    return {
        who: since[who.origin] for who in held if who.origin in main.members and who.origin in since
    }


def _most_held(held: Mapping[Who, ViewSeen], current: ViewSeen | None) -> ViewSeen | None:
    counts = Counter(view.key for view in held.values())
    if not counts:
        return None
    most = max(counts.values())
    if current is not None and counts[current.key] == most:
        return current
    return next(view for view in held.values() if counts[view.key] == most)


def unhealed(faults: Sequence[Fault]) -> list[list[list[str]]]:
    """Return the partitions that are not healed."""
    walls: dict[str, list[list[str]]] = {}
    for fault in faults:
        if fault.event == "partition":
            walls[json.dumps(fault.detail["groups"])] = fault.detail["groups"]
        elif fault.event == "heal":
            walls.pop(json.dumps(fault.detail["groups"]), None)
    return list(walls.values())


def cut_off(walls: Sequence[Sequence[Sequence[str]]], who: Who, sites: Sequence[str]) -> bool:
    """Does an unhealed partition separate ``who`` from a member of ``sites``?"""
    return any(
        who.place in side
        and any(
            other is not side and any(far.partition(".")[0] in sites for far in other)
            for other in sides
        )
        for sides in walls
        for side in sides
    )


def _paused(faults: Sequence[Fault]) -> list[Who]:
    paused: dict[Who, None] = {}
    for fault in faults:
        if fault.who is not None and fault.event == "pause":
            paused[fault.who] = None
        elif fault.who is not None and fault.event == "resume":
            paused.pop(fault.who, None)
    return list(paused)


def failures(lives: Lives, site: str) -> list[float]:
    """Return when the whole site failed: by ``fail_site``, or with its last living member."""
    times = [f.t for f in lives.faults if f.event == "fail_site" and f.site == site]
    members = lives.members(site)
    for who in members:
        if who not in lives.gone:
            continue
        t, how = lives.gone[who]
        if how not in DOWN or t in times:
            continue
        alone = not any(lives.born[w] <= t < lives.ended(w) for w in members if w != who)
        if alone:
            times.append(t)
    return sorted(times)


def reigns(
    faults: Sequence[Fault], sites: Sequence[str], primary: str | None, grace: float
) -> Reigns:
    if primary is None:
        return [(site, -NEVER, NEVER) for site in sites]
    found = [(primary, -NEVER, NEVER)]
    for fault in faults:
        if fault.event == "promote" and fault.site is not None and fault.site != found[-1][0]:
            site, start, _ = found[-1]
            found[-1] = (site, start, fault.t)
            found.append((fault.site, fault.t + grace, NEVER))
    return found


def largest(measured: Sequence[Measured]) -> float | None:
    """Return the largest. ``None``: there is none, or a required one is missing."""
    required = [m for m in measured if m.required]
    if not required or any(m.seconds is None for m in required):
        return None
    return max(m.seconds for m in required if m.seconds is not None)


def held(
    expect: Sequence[Expectation], measured: Mapping[str, float | None], otherwise: float | None
) -> list[Judged]:
    """Judge expectations. ``measured``: values by name. ``otherwise``: the value of other names."""
    found = []
    for one in expect:
        value = measured.get(one.name, otherwise)
        found.append(Judged(one, value, one.holds(value)))
    return found


def detections(lives: Lives) -> list[Measured]:
    """Return the detections of a drill in which no site is primary."""
    return [fall.detected for fall in Rules(lives, None, 0.0).falls()]
