"""The time line of a drill as SVG: living members, relays, faults and interruptions of the service; below it, over the
same seconds, panels of curves.

Each colour and pattern has one meaning, and the legend has the ones that occur:

    colours of sites   s0 to s5: that site, everywhere
    fault              somebody crashed, vanished or paused, a site failed, something is lost
    interruption       another site gets nothing new, or the service has not gone on yet
    grey               cut off: a partition; in a member's lane: it is paused
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from jgroups_py.drill.judge.evidence import Evidence
from jgroups_py.drill.judge.figures import Figures, Recovery
from jgroups_py.drill.judge.flows import gaps
from jgroups_py.drill.judge.rules import NEVER, Fault, Who
from jgroups_py.drill.judge.verdict import Finding, Verdict
from jgroups_py.drill.report import panels
from jgroups_py.drill.report.charts import LEFT, RIGHT, WIDTH, Canvas, site_class
from jgroups_py.drill.report.happenings import shown, sides_text
from jgroups_py.drill.report.panels import Panel

LANE = 20
BINS_MIN, BINS_MAX = 60, 240
PER_BIN = 8
"""Messages or requests that a bin should hold; with fewer a steady rate looks like noise."""
LOST_MARKS_MAX = 500
BAR_SECONDS_MIN = 0.1
"""The shortest drawn interruption."""
BAR_ROWS_MAX = 4
BAR_HEIGHT = 18
LETTER = 6.4
"""Pixels of a letter in a label, roughly."""
MARKS = {"crash": "✕", "vanish": "◌", "pause": "‖", "resume": "▸", "leave": "⟶", "restart": "+"}
MEANINGS = {
    "relay": "relay: sends its site's messages to the others",
    "receiver": "first member of a site that relays nothing: it receives",
    "coordinator": "first member of its site",
    "member": "member",
    "paused": "paused",
    "crash": "crash",
    "vanish": "vanish (no packet any more)",
    "pause": "pause",
    "resume": "goes on",
    "leave": "leaves",
    "restart": "comes back",
    "fail_site": "a site fails",
    "promote": "a site is promoted",
    "interruption": "interruption: messages or requests waited after a fault",
    "gap": "another site gets nothing new",
    "partition": "partition",
    "lost": "lost messages, by time of sending",
}
"""The meanings of shapes, in the order of the legend."""


@dataclass(frozen=True)
class Picture:
    svg: str
    legend: list[tuple[str, str]]
    """(key of ``MEANINGS``, its meaning) of the drawn shapes."""
    curves: dict[str, Any]
    """The curves' values at each place, for the page's script."""


@dataclass
class _Drawing:
    canvas: Canvas
    evidence: Evidence
    verdict: Verdict
    figures: Figures
    used: dict[str, None] = field(default_factory=dict)

    @property
    def end(self) -> float:
        return self.canvas.end


def span(evidence: Evidence, end: float) -> float:
    """Return the last second of the axis."""
    return max(end, evidence.end, 1.0)


def bins(end: float, count: int) -> list[float]:
    """Return the edges of the curves' bins. ``count``: the number of messages or requests."""
    number = min(BINS_MAX, max(BINS_MIN, count // PER_BIN))
    return [end * place / number for place in range(number + 1)]


def draw(
    evidence: Evidence,
    verdict: Verdict,
    figures: Figures,
    shown: Sequence[Panel],
    edges: Sequence[float],
) -> Picture:
    """Draw the picture. ``shown``: panels over ``edges``, which are ``bins`` of the ``span``."""
    end = edges[-1]
    canvas = Canvas(0.0, end)
    drawing = _Drawing(canvas, evidence, verdict, figures)
    top = 24.0
    lanes_end = _lanes(drawing, top)
    strip_end = _interruptions(drawing, lanes_end)
    front, canvas.shapes = canvas.shapes, []
    height_of = panels.ABOVE + panels.HEIGHT + panels.BELOW
    bottom = strip_end + len(shown) * height_of
    canvas.axis(top, bottom)
    _bands(drawing, top, bottom)
    canvas.shapes += front
    curves = []
    for number, panel in enumerate(shown):
        y = strip_end + number * height_of
        curves.append(panels.draw(canvas, panel, y, edges))
        if number == 0:
            _lost(drawing, y + panels.ABOVE + panels.HEIGHT)
    svg = (
        f'<svg viewBox="0 0 {WIDTH} {bottom + 26:.0f}" role="img" '
        f'aria-label="time line of the drill" xmlns="http://www.w3.org/2000/svg">'
        f"{''.join(canvas.shapes)}"
        f'<line id="cursor" x1="0" x2="0" y1="{top:.0f}" y2="{bottom:.0f}" class="cursor"/></svg>'
    )
    legend = [(key, text) for key, text in MEANINGS.items() if key in drawing.used]
    return Picture(
        svg,
        legend,
        {"left": LEFT, "right": WIDTH - RIGHT, "width": WIDTH, "end": end, "panels": curves},
    )


# members


def _lanes(drawing: _Drawing, y: float) -> float:
    canvas, evidence = drawing.canvas, drawing.evidence
    for site in evidence.sites:
        colour = site_class(evidence.sites, site)
        canvas.text(8, y + 14, site, f"site {colour}")
        names = list(dict.fromkeys(who.name for who in evidence.members(site)))
        first = y
        for name in names:
            canvas.text(LEFT - 8, y + 14, name, "member-name")
            for who in evidence.members(site):
                if who.name == name:
                    _lane(drawing, who, y, colour)
            y += LANE
        for fault in evidence.faults:
            if fault.site != site or fault.who is None or fault.event not in MARKS:
                continue
            if fault.who.name not in names or fault.detail.get("by") == "fail_site":
                continue
            drawing.used[fault.event] = None
            canvas.text(
                canvas.x(fault.t),
                first + names.index(fault.who.name) * LANE + 15,
                MARKS[fault.event],
                f"mark {fault.event}",
                f"{fault.t:.3f} s: {fault.event} {shown(fault.who)}",
            )
        y += 10
    return y


def _lane(drawing: _Drawing, who: Who, y: float, colour: str) -> None:
    canvas, evidence = drawing.canvas, drawing.evidence
    end = min(evidence.ended(who), canvas.end)
    drawing.used["member"] = None
    lived = f"{shown(who)}: {_from_to(evidence, who)}"
    canvas.rect(evidence.born[who], end, y + 7, 6, f"alive {colour}", lived)
    for role, t0, t1 in roles(evidence, drawing.verdict, who, canvas.end):
        drawing.used[role] = None
        was = {"relay": "was relay", "receiver": "was first and relayed nothing"}
        tip = f"{shown(who)} {was.get(role, 'was first')} {max(t0, 0):.3f} s to {t1:.3f} s"
        height = 14 if role == "relay" else 10
        canvas.rect(t0, t1, y + 10 - height / 2, height, f"{role} {colour}", tip)
    for t0, t1 in _pauses(evidence.faults, who, end):
        drawing.used["paused"] = None
        tip = f"{shown(who)} paused {t0:.3f} s to {t1:.3f} s"
        canvas.rect(t0, t1, y + 2, 16, "paused", tip)


def _from_to(evidence: Evidence, who: Who) -> str:
    if who not in evidence.gone:
        return "lived to the end"
    t, how = evidence.gone[who]
    return f"until {t:.3f} s ({how})"


def roles(
    evidence: Evidence, verdict: Verdict, who: Who, end: float
) -> list[tuple[str, float, float]]:
    """Return (relay, receiver or coordinator; from, to) while its own view began with itself."""
    led = leads(evidence, who, end)
    if len(evidence.sites) == 1 or not verdict.reigns:
        return [("coordinator", t0, t1) for t0, t1 in led]
    found: list[tuple[str, float, float]] = []
    reigns = _reigns(verdict, who.site)
    for t0, t1 in led:
        at = t0
        for start, stop in reigns:
            a, b = max(at, start), min(t1, stop)
            if a >= b:
                continue
            if at < a:
                found.append(("receiver", at, a))
            found.append(("relay", a, b))
            at = b
        if at < t1:
            found.append(("receiver", at, t1))
    return found


def _reigns(verdict: Verdict, site: str) -> list[tuple[float, float]]:
    """Return the spans in which the site relayed. After a promotion the judge begins to count a little later."""
    found = []
    before = -NEVER
    for name, start, stop in verdict.reigns:
        begins = start if verdict.primary is None else before
        if name == site:
            found.append((begins, stop))
        before = stop
    return found


def leads(evidence: Evidence, who: Who, end: float) -> list[tuple[float, float]]:
    """Return the spans in which the incarnation's own view began with itself."""
    end = min(evidence.ended(who), end)
    found: list[tuple[float, float]] = []
    since: float | None = None
    for view in evidence.views.get(who, ()):
        first = view.members[:1] == (who.origin,)
        if first and since is None:
            since = view.t
        elif not first and since is not None:
            found.append((since, view.t))
            since = None
    if since is not None and since < end:
        found.append((since, end))
    return found


def _pauses(faults: Iterable[Fault], who: Who, end: float) -> list[tuple[float, float]]:
    found = []
    since: float | None = None
    for fault in faults:
        if fault.who == who and fault.event == "pause":
            since = fault.t
        elif fault.who == who and fault.event == "resume" and since is not None:
            found.append((since, fault.t))
            since = None
    return [*found, (since, end)] if since is not None else found


# interruptions


def _interruptions(drawing: _Drawing, y: float) -> float:
    """Draw a bar with its seconds for each fault that interrupted the service; the longest is RTO."""
    canvas, figures = drawing.canvas, drawing.figures
    bars = [
        r
        for r in figures.recoveries
        if r.missing or (r.seconds is not None and r.seconds >= BAR_SECONDS_MIN)
    ]
    if not bars:
        return y
    canvas.text(LEFT - 8, y + 13, "interrupted", "member-name")
    ends = [0.0] * BAR_ROWS_MAX
    for recovery in bars:
        drawing.used["interruption"] = None
        start = recovery.t if recovery.start is None else recovery.start
        stop = canvas.end if recovery.end is None else recovery.end
        text = _bar_text(recovery, figures.rto)
        x0, x1 = canvas.x(start), canvas.x(stop)
        wide = LETTER * len(text)
        row = next((n for n in range(BAR_ROWS_MAX) if ends[n] <= x0), BAR_ROWS_MAX - 1)
        at = y + row * BAR_HEIGHT
        tip = f"{recovery.event} {_whom(recovery)} at {recovery.t:.3f} s: {_ended(recovery)}"
        canvas.rect(start, stop, at + 2, BAR_HEIGHT - 5, "interruption", tip)
        before = x1 + 6 + wide > WIDTH - RIGHT
        canvas.text(x0 - 6 if before else x1 + 6, at + 13, text, f"flag{' left' if before else ''}")
        ends[row] = x1 + 12 + (0 if before else wide)
    rows = max(n for n, end in enumerate(ends) if end) + 1
    return y + rows * BAR_HEIGHT + 4


def _whom(recovery: Recovery) -> str:
    return recovery.site if recovery.who is None else shown(recovery.who)


def _bar_text(recovery: Recovery, rto: float | None) -> str:
    name = "RTO " if rto is not None and recovery.seconds == rto else ""
    return f"{name}{_ended(recovery)}"


def _ended(recovery: Recovery) -> str:
    return "does not go on" if recovery.seconds is None else f"{recovery.seconds:.2f} s"


# across everything


def _bands(drawing: _Drawing, top: float, bottom: float) -> None:
    canvas, evidence = drawing.canvas, drawing.evidence
    height = bottom - top
    for t0, t1, text in _partitions(evidence, canvas.end):
        drawing.used["partition"] = None
        canvas.rect(t0, t1, top, height, "partition", f"partition {text}, {t0:.3f} to {t1:.3f} s")
    for flow in drawing.figures.flows:
        for t0, t1 in gaps(flow):
            drawing.used["gap"] = None
            tip = f"{flow.target} got nothing new from {flow.origin} {t0:.3f} to {t1:.3f} s"
            canvas.rect(t0, t1, top, height, "gap", f"{tip} ({t1 - t0:.3f} s)")
    for fault in evidence.faults:
        if fault.event in ("fail_site", "promote"):
            drawing.used[fault.event] = None
            x = canvas.x(fault.t)
            label = f"{fault.site} {'fails' if fault.event == 'fail_site' else 'is promoted'}"
            canvas.line(x, top, x, bottom, fault.event, f"{fault.t:.3f} s: {label}")
            before = fault.event == "fail_site"
            canvas.text(
                x - 4 if before else x + 4,
                bottom - 3,
                label,
                f"flag {fault.event}{' left' if before else ''}",
            )


def _partitions(evidence: Evidence, end: float) -> list[tuple[float, float, str]]:
    walls: list[tuple[float, float, str]] = []
    standing: dict[str, float] = {}
    for fault in evidence.faults:
        if fault.event not in ("partition", "heal"):
            continue
        text = sides_text(fault, evidence)
        if fault.event == "partition":
            standing[text] = fault.t
        elif text in standing:
            walls.append((standing.pop(text), fault.t, text))
    return walls + [(t, end, text) for text, t in standing.items()]


def _lost(drawing: _Drawing, y: float) -> None:
    canvas = drawing.canvas
    for finding in drawing.verdict.lost[:LOST_MARKS_MAX]:
        sent = _sent(drawing.evidence, finding)
        if sent is not None:
            drawing.used["lost"] = None
            x = canvas.x(sent)
            tip = f"lost: {finding.origin} {finding.seqno}, sent {sent:.3f} s"
            canvas.line(x, y - 2, x, y + 9, "lost", tip)


def _sent(evidence: Evidence, finding: Finding) -> float | None:
    times = evidence.sent.get(finding.origin, ())
    return times[finding.seqno - 1] if finding.seqno <= len(times) else None


def swatch(key: str) -> str:
    """Return a small picture for the legend."""
    if key in MARKS:
        return (
            '<svg class="swatch" viewBox="0 0 16 16">'
            f'<text x="8" y="13" class="mark {key}">{MARKS[key]}</text></svg>'
        )
    if key in ("fail_site", "promote", "lost"):
        return (
            '<svg class="swatch" viewBox="0 0 16 16">'
            f'<line x1="8" x2="8" y1="1" y2="15" class="{key}"/></svg>'
        )
    css = {"member": "alive s0", "relay": "relay s0", "receiver": "receiver s0"}
    css["coordinator"] = "coordinator s0"
    y, height = {"member": (5, 6), "relay": (1, 14), "receiver": (3, 10)}.get(key, (2, 12))
    return (
        '<svg class="swatch" viewBox="0 0 26 16">'
        f'<rect x="1" y="{y}" width="24" height="{height}" class="{css.get(key, key)}"'
        "/></svg>"
    )
