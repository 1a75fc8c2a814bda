"""The events of a drill by time: faults, views, suspicions, recoveries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jgroups_py.drill.judge.evidence import Evidence
from jgroups_py.drill.judge.figures import Figures
from jgroups_py.drill.judge.rules import Fault, Who

SHOWN_MAX = 500
SUSPICION_SECONDS = 1.0
"""Suspicions of the same member within this time are one line."""
MEMBERS_SHOWN_MAX = 12


class Happening(NamedTuple):
    t: float
    kind: str
    """``fault``, ``end`` (of a fault), ``view``, ``bridge``, ``suspect``, ``overflow`` or ``recovered``."""
    text: str


def happenings(evidence: Evidence, figures: Figures) -> list[Happening]:
    """Return the events by time. The last views before the drill's zero stand at its zero."""
    found = [_fault(fault, evidence) for fault in evidence.faults if not _part(fault)]
    found += _views(evidence)
    found += _bridges(evidence)
    found += _suspicions(evidence)
    for recovery in figures.recoveries:
        if recovery.end is not None:
            text = f"goes on {recovery.end - recovery.t:.3f} s after {recovery.name}"
            if recovery.start is not None and recovery.start > recovery.t:
                text += f"; stood still for {recovery.seconds:.3f} s"
            found.append(Happening(recovery.end, "recovered", text))
    return sorted(found, key=lambda one: one.t)


def shown(who: Who) -> str:
    return f"{who.site}.{who.origin}".removesuffix("#1")


def _part(fault: Fault) -> bool:
    """Is this the crash of one member of a site that fails as a whole?"""
    return fault.detail.get("by") == "fail_site"


def _fault(fault: Fault, evidence: Evidence) -> Happening:
    kind = "end" if fault.event in ("resume", "restart", "heal", "promote") else "fault"
    if fault.event in ("partition", "heal"):
        text = f"{fault.event} {sides_text(fault, evidence)}"
    elif fault.who is not None:
        text = f"{fault.event} {shown(fault.who)}"
    else:
        text = f"{fault.event.replace('_', ' ')} {fault.site}"
    return Happening(fault.t, kind, text)


def sides_text(fault: Fault, evidence: Evidence) -> str:
    """Return ``NYC | SFO``: a whole site by its name."""
    sides = []
    for side in fault.detail["groups"]:
        names: dict[str, None] = {}
        for site in dict.fromkeys(name.partition(".")[0] for name in side):
            everybody = {f"{site}.{who.name}" for who in evidence.members(site)}
            own = [name for name in side if name.partition(".")[0] == site]
            names.update(dict.fromkeys([site] if everybody <= set(own) else own))
        sides.append(", ".join(names))
    return " | ".join(sides)


def _views(evidence: Evidence) -> list[Happening]:
    first: dict[tuple[str, str, tuple[str, ...]], list[float]] = {}
    for who, views in evidence.views.items():
        for view in views:
            first.setdefault((who.site, *view.key), []).append(view.t)
    last: dict[str, float] = {}
    for (site, _, _), times in first.items():
        if min(times) < 0:
            last[site] = max(last.get(site, -1e9), min(times))
    found = []
    for (site, number, members), times in first.items():
        t = min(times)
        if t < 0 and t < last[site]:
            continue
        text = f"{site} has view {_view_text(number, members)}"
        spread = max(times) - t
        if spread >= 0.001 and t >= 0:
            text += f", the last of {len(times)} members {spread:.3f} s later"
        found.append(Happening(max(t, 0.0), "view", text))
    return found


def _view_text(number: str, members: Sequence[str]) -> str:
    names = [name.removesuffix("#1") for name in members[:MEMBERS_SHOWN_MAX]]
    more = "" if len(members) <= MEMBERS_SHOWN_MAX else ", ..."
    number = number.replace("#1|", "|")
    return f"[{number}] ({len(members)}) [{', '.join(names)}{more}]"


def _bridges(evidence: Evidence) -> list[Happening]:
    found = []
    for who, seen in evidence.bridge_views.items():
        for t, sites in seen:
            if t >= 0:
                text = f"{shown(who)} sees on the bridge: {', '.join(dict.fromkeys(sites))}"
                found.append(Happening(t, "bridge", text))
    return found


def _suspicions(evidence: Evidence) -> list[Happening]:
    found: list[Happening] = []
    latest: dict[tuple[str, str], float] = {}
    for record in evidence.marks:
        if record.event == "overflow" and record.t >= 0:
            text = f"the relay buffer of {record.site}.{record.member} overflows"
            found.append(Happening(record.t, "overflow", text))
        if record.event != "suspect" or record.t < 0:
            continue
        for name in (record.detail or {}).get("members", ()):
            key = (str(record.site), str(name))
            if record.t - latest.get(key, -1e9) >= SUSPICION_SECONDS:
                latest[key] = record.t
                whom = str(name).removesuffix("#1") if "#" in str(name) else "a relay on the bridge"
                text = f"{record.site}.{record.member} suspects {whom}"
                found.append(Happening(record.t, "suspect", text))
    return found
