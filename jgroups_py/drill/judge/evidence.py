"""The records of a drill, sorted by sends, deliveries, views and times.

Read once, in the order of time; kept compactly (8 bytes for a send, 12 for a delivery), because a
drill of half a minute delivers 600,000 messages. Only the applications' events and the list of faults are evidence.
RELAY's own statements (relay, replay, buffer records) are kept apart, as information.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from jgroups_py.drill.judge.rules import NEVER, Fault, Lives, ViewSeen, Who
from jgroups_py.drill.log import DrillRecord

SEQNO_MAX = 100_000_000
"""The largest number of one origin; a larger one means a broken log and must not fill memory."""


class Delivered:
    """The deliveries of one incarnation of one origin. Index 0 is seqno 1."""

    __slots__ = ("times", "epochs", "count", "repeated", "late")

    def __init__(self) -> None:
        self.times = array("d")
        """The time of the first delivery; ``NEVER``: none."""
        self.epochs = array("l")
        """The number of views that the receiver had by then."""
        self.count = 0
        self.repeated: list[int] = []
        """Repeated deliveries, one entry each time."""
        self.late: list[int] = []
        """Seqnos delivered after a higher one."""

    def add(self, t: float, first: int, length: int, epoch: int) -> None:
        times = self.times
        if first - 1 == len(times):
            times.extend([t] * length)
            self.epochs.extend([epoch] * length)
            self.count += length
            return
        for seqno in range(first, first + length):
            if seqno > len(times):
                missing = seqno - 1 - len(times)
                times.extend([NEVER] * missing)
                self.epochs.extend([0] * missing)
                times.append(t)
                self.epochs.append(epoch)
                self.count += 1
            elif times[seqno - 1] < NEVER:
                self.repeated.append(seqno)
            else:
                self.late.append(seqno)
                times[seqno - 1] = t
                self.epochs[seqno - 1] = epoch
                self.count += 1

    def at(self, seqno: int) -> float | None:
        """Return the time of the first delivery, or ``None``."""
        if seqno > len(self.times):
            return None
        t = self.times[seqno - 1]
        return t if t < NEVER else None

    def missing(self, top: int) -> Iterable[int]:
        """Yield seqnos up to ``top`` that were not delivered."""
        if self.count == top == len(self.times):
            return ()
        holes = [i for i, t in enumerate(self.times[:top], 1) if t == NEVER]
        return [*holes, *range(len(self.times) + 1, top + 1)]


@dataclass
class Told:
    """RELAY's statements about itself: information only; no verdict uses it."""

    relayed: int = 0
    replayed: int = 0
    totals: dict[Who, dict[str, int]] = field(default_factory=dict)
    """Newest running totals of each incarnation."""


_LIFE = ("crash", "vanish", "leave", "fail_site")
_FAULTS = (*_LIFE, "pause", "resume", "restart", "partition", "heal", "promote")
_ASKED = (*_FAULTS, "unsent")
"""The runner's actions, and its questions to a member before a fault."""


def who_of(record: DrillRecord) -> Who:
    """Return the member of a record."""
    return Who(str(record.site), str(record.member), record.incarnation)


class Evidence(Lives):
    """Filled by ``add`` in the order of time; read by the judge and the report."""

    def __init__(self, sites: Sequence[str] = ()) -> None:
        super().__init__(sites)
        self.sent: dict[Who, array[float]] = {}
        """Send times by origin; index 0 is seqno 1."""
        self.delivered: dict[Who, dict[Who, Delivered]] = {}
        """Deliveries by receiver and origin."""
        self._silent: dict[Who, None] = {}
        self.told: dict[str, Told] = {}
        self.samples: dict[Who, list[tuple[float, dict[str, Any]]]] = {}
        self.marks: list[DrillRecord] = []
        """suspect, trim and overflow records, for the report."""
        self.end = 0.0

    @classmethod
    def of(cls, records: Iterable[DrillRecord], sites: Sequence[str] = ()) -> Evidence:
        evidence = cls(sites)
        add = evidence.add
        for record in records:
            add(record)
        return evidence

    def count_views(self, site: str) -> int:
        """Count the different views that applications of a site got."""
        return len({v.key for who, views in self.views.items() if who.site == site for v in views})

    def add(self, record: DrillRecord) -> None:
        """Add a record. Raises ``ValueError`` for an impossible one."""
        t, site, member, event, origin, seqno, detail, incarnation = record
        self.end = max(self.end, t)
        if site is not None and site not in self.sites:
            self.sites.append(site)
        who = None if site is None or member is None else Who(site, member, incarnation)
        if self._silent and who in self._silent and event not in _ASKED:
            return  # a vanished host's own actions reach no other host
        if event == "deliver":
            assert who is not None and origin is not None and seqno is not None
            self._deliver(who, t, origin, seqno, detail)
        elif event == "send":
            assert who is not None and seqno is not None
            self._send(who, t, seqno, record.messages)
        elif event == "view":
            assert who is not None and detail is not None
            self._view(who, t, detail)
        elif event in _FAULTS:
            self._fault(t, event, site, who, detail or {})
        elif event == "join":
            assert who is not None
            self.born.setdefault(who, t)
        elif event in ("relay", "replay", "buffer"):
            assert who is not None
            self._tell(who, t, event, record.messages, detail or {})
        else:
            self.marks.append(record)

    def _origin(self, text: str, site: str) -> Who:
        name, _, incarnation = text.rpartition("#")
        return Who(site, name, int(incarnation))

    def _send(self, who: Who, t: float, first: int, length: int) -> None:
        times = self.sent.setdefault(who, array("d"))
        if not 0 < first <= SEQNO_MAX or first <= len(times):
            raise ValueError(f"{who} sends seqno {first} after {len(times)}")
        times.extend([NEVER] * (first - 1 - len(times)))
        times.extend([t] * length)

    def _deliver(
        self, who: Who, t: float, origin: str, first: int, detail: dict[str, Any] | None
    ) -> None:
        length, site = 1, who.site
        if detail is not None:
            length = detail.get("count", 1)
            site = detail.get("from", site)
        if not 0 < first <= SEQNO_MAX:
            raise ValueError(f"{who} delivers seqno {first} of {origin}")
        of = self.delivered.setdefault(who, {})
        source = self._origin(origin, site)
        delivered = of.get(source)
        if delivered is None:
            delivered = of[source] = Delivered()
        delivered.add(t, first, length, len(self.views.get(who, ())))

    def _view(self, who: Who, t: float, detail: dict[str, Any]) -> None:
        if detail.get("bridge"):
            self.bridge_views.setdefault(who, []).append((t, tuple(detail["sites"])))
            return
        self.born.setdefault(who, t)
        seen = ViewSeen(t, str(detail["id"]), tuple(detail["members"]))
        self.views.setdefault(who, []).append(seen)

    def _fault(
        self, t: float, event: str, site: str | None, who: Who | None, detail: dict[str, Any]
    ) -> None:
        self.faults.append(Fault(t, event, site, who, detail))
        if event == "fail_site":
            for member in self.born:
                if member.site == site:
                    self.gone.setdefault(member, (t, event))
                    self._silent[member] = None
        elif event in _LIFE and who is not None:
            self.gone.setdefault(who, (t, event))
            if event == "vanish":
                self._silent[who] = None

    def _tell(self, who: Who, t: float, event: str, count: int, detail: dict[str, Any]) -> None:
        told = self.told.setdefault(who.site, Told())
        if event == "relay":
            told.relayed += count
        elif event == "replay":
            told.replayed += count
        else:
            told.totals.setdefault(who, {}).update(
                {key: value for key, value in detail.items() if isinstance(value, int)}
            )
            self.samples.setdefault(who, []).append((t, detail))

    # questions

    def receivers(self, site: str) -> list[Who]:
        return [who for who in self.delivered if who.site == site]

    def apart(self, who: Who, t: float) -> bool:
        """Is the site split: does the view of ``who`` lack a member of its site that lives and is not paused?"""
        view = self.view_at(who, t)
        if view is None:
            return False
        return any(
            self.born[other] <= t < self.ended(other)
            and other.origin not in view.members
            and not self._paused(other, t)
            for other in self.members(who.site)
        )

    def _paused(self, who: Who, t: float) -> bool:
        last = ""
        for fault in self.faults:
            if fault.t <= t and fault.who == who and fault.event in ("pause", "resume"):
                last = fault.event
        return last == "pause"

    def top(self, origin: Who) -> int:
        """Return the highest known seqno."""
        sent = len(self.sent.get(origin, ()))
        heard = [len(of[origin].times) for of in self.delivered.values() if origin in of]
        return max([sent, *heard])
