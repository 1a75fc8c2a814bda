"""The timeline of a drill as SVG, drawn by hand: no library, no network, any browser.

From top to bottom, over one axis of time: a lane a member (who lived, who was relay, what hit whom),
messages a second, messages in flight, what the relays hold in their buffers. Bands across all of it
are partitions, take-overs and pauses in what the other site got.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise

from jgroups_py.drill.evidence import NEVER, Evidence, Fault, Who
from jgroups_py.drill.judge import Finding, Verdict

WIDTH = 1180
LEFT, RIGHT = 118, 20
LANE = 20
PANEL = 110
BINS = 240
GAP_SECONDS_MIN = 0.25
"""A site that gets nothing for this long, while something is under way to it, shows a gap."""
LOST_MARKS_MAX = 500
SITE_COLOURS = ("#1f6fb2", "#c2571a", "#2e8b57", "#8a4fbe", "#b0306a", "#6b6b00")
MARKS = {"crash": "✕", "vanish": "◌", "pause": "‖", "resume": "▸", "leave": "⟶", "restart": "+"}


@dataclass
class _Canvas:
    """Shapes, back to front, and the mapping from seconds to pixels."""

    start: float
    end: float
    shapes: list[str] = field(default_factory=list)

    def x(self, t: float) -> float:
        t = min(max(t, self.start), self.end)
        return LEFT + (t - self.start) / (self.end - self.start) * (WIDTH - LEFT - RIGHT)

    def rect(
        self,
        t0: float,
        t1: float,
        y: float,
        height: float,
        css: str,
        tip: str = "",
        style: str = "",
    ) -> None:
        x0, x1 = self.x(t0), self.x(t1)
        self.shapes.append(
            f'<rect x="{x0:.1f}" y="{y:.1f}" width="{max(x1 - x0, 0.8):.1f}" '
            f'height="{height:.1f}" class="{css}"{_tip(tip)}{_style(style)}/>'
        )

    def text(
        self, x: float, y: float, text: str, css: str = "", tip: str = "", style: str = ""
    ) -> None:
        self.shapes.append(
            f'<text x="{x:.1f}" y="{y:.1f}" class="{css}"{_tip(tip)}{_style(style)}>'
            f"{escape(text)}</text>"
        )

    def line(self, x0: float, y0: float, x1: float, y1: float, css: str, tip: str = "") -> None:
        self.shapes.append(
            f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" '
            f'class="{css}"{_tip(tip)}/>'
        )

    def path(self, points: Sequence[tuple[float, float]], css: str, tip: str, style: str) -> None:
        d = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        self.shapes.append(f'<path d="{d}" class="{css}"{_tip(tip)}{_style(style)}/>')


def _tip(text: str) -> str:
    return f' data-tip="{escape(text)}"' if text else ""


def _style(text: str) -> str:
    return f' style="{escape(text)}"' if text else ""


def draw(evidence: Evidence, verdict: Verdict, end: float) -> str:
    """The picture as one ``<svg>`` element."""
    canvas = _Canvas(0.0, max(end, evidence.end, 1.0))
    top = 24.0
    lanes_end = _lanes(canvas, evidence, top)
    flows = _flows(evidence)
    front, canvas.shapes = canvas.shapes, []
    titles = ("messages a second", "in flight to other sites", "relay buffers, messages")
    bottom = lanes_end + len(titles) * (PANEL + 34)
    height = bottom + 26
    _axis(canvas, top, bottom)
    _bands(canvas, evidence, verdict, flows, top, bottom, lanes_end - 2)
    canvas.shapes += front
    panels = [lanes_end + i * (PANEL + 34) for i in range(len(titles))]
    for y, title in zip(panels, titles, strict=True):
        canvas.text(LEFT, y + 22, title, "title")
    _rates(canvas, evidence, flows, verdict, panels[0] + 30)
    _in_flight(canvas, evidence, flows, panels[1] + 30)
    _buffers(canvas, evidence, panels[2] + 30)
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="timeline of the drill" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(canvas.shapes)}</svg>'
    )


def _axis(canvas: _Canvas, top: float, bottom: float) -> None:
    step = next(s for s in (1, 2, 5, 10, 30, 60, 300, 600, 3600, 86400) if canvas.end / s <= 24)
    for i in range(int(canvas.end // step) + 1):
        x = canvas.x(i * step)
        canvas.line(x, top, x, bottom, "grid")
        canvas.text(x, bottom + 16, f"{i * step} s", "tick")
        canvas.text(x, top - 8, f"{i * step}", "tick")


# members


def _lanes(canvas: _Canvas, evidence: Evidence, y: float) -> float:
    for number, site in enumerate(evidence.sites):
        colour = SITE_COLOURS[number % len(SITE_COLOURS)]
        canvas.text(8, y + 14, site, "site", style=f"fill:{colour}")
        names = list(dict.fromkeys(who.name for who in evidence.members(site)))
        for name in names:
            canvas.text(LEFT - 8, y + 14, name, "member")
            for who in evidence.members(site):
                if who.name == name:
                    _lane(canvas, evidence, who, y, colour)
            y += LANE
        for fault in evidence.faults:
            if fault.site == site and fault.who is not None and fault.event in MARKS:
                if fault.who.name not in names or fault.detail.get("by") == "fail_site":
                    continue
                row = names.index(fault.who.name) - len(names)
                canvas.text(
                    canvas.x(fault.t),
                    y + row * LANE + 15,
                    MARKS[fault.event],
                    f"mark {fault.event}",
                    f"{fault.t:.3f} s: {fault.event} {fault.who}",
                )
        y += 10
    return y


def _lane(canvas: _Canvas, evidence: Evidence, who: Who, y: float, colour: str) -> None:
    end = min(evidence.ended(who), canvas.end)
    style = f"fill:{colour}"
    canvas.rect(
        evidence.born[who], end, y + 6, 8, "alive", f"{who}: {_from_to(evidence, who)}", style
    )
    for t0, t1 in relay_times(evidence, who, canvas.end):
        tip = f"{who} was relay {max(t0, 0):.3f} s to {t1:.3f} s"
        canvas.rect(t0, t1, y + 2, 16, "relay", tip, style)
    for t0, t1 in _pauses(evidence.faults, who, end):
        canvas.rect(t0, t1, y + 2, 16, "paused", f"{who} paused {t0:.3f} s to {t1:.3f} s")


def _from_to(evidence: Evidence, who: Who) -> str:
    if who not in evidence.gone:
        return "lived to the end"
    t, how = evidence.gone[who]
    return f"until {t:.3f} s ({how})"


def relay_times(evidence: Evidence, who: Who, end: float) -> list[tuple[float, float]]:
    """When the incarnation's own view began with itself."""
    end = min(evidence.ended(who), end)
    found: list[tuple[float, float]] = []
    since: float | None = None
    for view in evidence.views.get(who, ()):
        leads = view.members[:1] == (who.origin,)
        if leads and since is None:
            since = view.t
        elif not leads and since is not None:
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


# messages


@dataclass
class Flow:
    """One site's messages on their way to another."""

    origin: str
    target: str
    sent: list[float]
    arrived: list[float]
    """When each first reached a member there, by time."""


def _flows(evidence: Evidence) -> list[Flow]:
    flows = []
    for origin_site in evidence.sites:
        origins = [who for who in evidence.sent if who.site == origin_site]
        for target in evidence.sites:
            if target == origin_site:
                continue
            arrived: list[float] = []
            for origin in origins:
                first = array("d")
                for who in evidence.receivers(target):
                    delivered = evidence.delivered[who].get(origin)
                    if delivered is None:
                        continue
                    times = delivered.times
                    common = min(len(first), len(times))
                    first = array("d", [*map(min, first, times), *first[common:], *times[common:]])
                arrived += [t for t in first if t < NEVER]
            if arrived:
                sent = sorted(t for origin in origins for t in evidence.sent[origin] if t < NEVER)
                flows.append(Flow(origin_site, target, sent, sorted(arrived)))
    return flows


def gaps(flow: Flow) -> list[tuple[float, float]]:
    """When nothing arrived for ``GAP_SECONDS_MIN`` although something was under way."""
    found = []
    for number, (t0, t1) in enumerate(pairwise(flow.arrived), 1):
        if t1 - t0 < GAP_SECONDS_MIN or number >= len(flow.sent):
            continue
        waiting = max(t0, flow.sent[number])
        if t1 - waiting >= GAP_SECONDS_MIN:
            found.append((waiting, t1))
    return found


def _counted(times: Sequence[float], edges: Sequence[float]) -> list[int]:
    return [bisect_left(times, edge) for edge in edges]


def _edges(canvas: _Canvas) -> list[float]:
    return [canvas.end * i / BINS for i in range(BINS + 1)]


def _curve(
    canvas: _Canvas,
    y: float,
    points: Sequence[tuple[float, float]],
    most: float,
    label: str,
    style: str,
) -> None:
    scaled = [(canvas.x(t), y + PANEL - 18 - v / (most or 1) * (PANEL - 22)) for t, v in points]
    if scaled:
        canvas.path(scaled, "curve", label, style)


def _frame(canvas: _Canvas, y: float, most: float, legend: Sequence[tuple[str, str]]) -> None:
    base = y + PANEL - 18
    canvas.line(LEFT, base, WIDTH - RIGHT, base, "base")
    canvas.text(LEFT - 8, base + 4, "0", "scale")
    canvas.text(LEFT - 8, y + 8, f"{most:,.0f}", "scale")
    x = WIDTH - RIGHT
    for label, style in reversed(legend):
        canvas.text(x, y - 8, label, "legend", style=style.replace("stroke:", "fill:"))
        x -= 8 * len(label) + 16


def _rates(
    canvas: _Canvas, evidence: Evidence, flows: Sequence[Flow], verdict: Verdict, y: float
) -> None:
    edges = _edges(canvas)
    width = canvas.end / BINS
    curves: list[tuple[str, str, list[float]]] = []
    for flow in flows:
        for label, times, dashes in (
            (f"sent in {flow.origin}", flow.sent, "stroke-dasharray:4 3"),
            (f"new at {flow.target} from {flow.origin}", flow.arrived, ""),
        ):
            site = flow.origin if dashes else flow.target
            style = f"stroke:{_colour(evidence, site)};{dashes}"
            if (label, style) in [(c[0], c[1]) for c in curves]:
                continue
            sums = _counted(times, edges)
            rates = [(b - a) / width for a, b in pairwise(sums)]
            curves.append((label, style, rates))
    most = max((max(rates) for _, _, rates in curves), default=0.0)
    for label, style, rates in curves:
        points = [(edge + width / 2, rate) for edge, rate in zip(edges, rates, strict=False)]
        _curve(canvas, y, points, most, label, style)
    _frame(canvas, y, most, [(label, style) for label, style, _ in curves])
    for finding in verdict.lost[:LOST_MARKS_MAX]:
        sent = _sent(evidence, finding)
        if sent is not None:
            x = canvas.x(sent)
            tip = f"lost: {finding.origin} {finding.seqno}, sent {sent:.3f} s"
            canvas.line(x, y + PANEL - 18, x, y + PANEL - 8, "lost", tip)


def _sent(evidence: Evidence, finding: Finding) -> float | None:
    times = evidence.sent.get(finding.origin, ())
    return times[finding.seqno - 1] if finding.seqno <= len(times) else None


def _colour(evidence: Evidence, site: str) -> str:
    return SITE_COLOURS[evidence.sites.index(site) % len(SITE_COLOURS)]


def _in_flight(canvas: _Canvas, evidence: Evidence, flows: Sequence[Flow], y: float) -> None:
    edges = _edges(canvas)
    curves = []
    for flow in flows:
        sent, arrived = _counted(flow.sent, edges), _counted(flow.arrived, edges)
        points = [(t, float(max(0, s - a))) for t, s, a in zip(edges, sent, arrived, strict=True)]
        style = f"stroke:{_colour(evidence, flow.target)}"
        curves.append((f"{flow.origin} to {flow.target}", style, points))
    most = max((v for _, _, points in curves for _, v in points), default=0.0)
    for label, style, points in curves:
        _curve(canvas, y, points, most, label, style)
    _frame(canvas, y, most, [(label, style) for label, style, _ in curves])


def _buffers(canvas: _Canvas, evidence: Evidence, y: float) -> None:
    lines: list[tuple[str, str, list[tuple[float, float]]]] = []
    for site in evidence.sites:
        for who in evidence.members(site):
            points = [
                (t, float(sample["messages"]))
                for t, sample in evidence.samples.get(who, ())
                if "messages" in sample and t >= 0
            ]
            if any(value for _, value in points):
                lines.append((str(who), f"stroke:{_colour(evidence, site)}", points))
    most = max((v for _, _, points in lines for _, v in points), default=0.0)
    for label, style, points in lines:
        thinned = _thin(points)
        highest = max(value for _, value in points)
        _curve(canvas, y, thinned, most, f"{label}: at most {highest:,.0f}", style)
    sites = dict.fromkeys((label.partition(".")[0], style) for label, style, _ in lines)
    _frame(canvas, y, most, list(sites))
    if not lines:
        canvas.text(LEFT + 10, y + PANEL / 2, "no samples", "note")


def _thin(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most two points a bin: the peaks stay."""
    group = max(1, len(points) // BINS)
    kept = []
    for i in range(0, len(points), group):
        chunk = points[i : i + group]
        kept += sorted({min(chunk, key=lambda p: p[1]), max(chunk, key=lambda p: p[1])})
    return kept


# across everything


def _bands(
    canvas: _Canvas,
    evidence: Evidence,
    verdict: Verdict,
    flows: Sequence[Flow],
    top: float,
    bottom: float,
    label_y: float,
) -> None:
    height = bottom - top
    for t0, t1, text in _partitions(evidence, canvas.end):
        canvas.rect(t0, t1, top, height, "partition", f"partition {text}, {t0:.3f} to {t1:.3f} s")
    for flow in flows:
        for t0, t1 in gaps(flow):
            tip = f"{flow.target} got nothing from {flow.origin} {t0:.3f} to {t1:.3f} s"
            canvas.rect(t0, t1, top, height, "gap", f"{tip} ({t1 - t0:.3f} s)")
    for number, takeover in enumerate(verdict.takeovers):
        seconds = takeover.seconds
        ended = canvas.end if seconds is None else takeover.t + seconds
        text = "not ended" if seconds is None else f"{seconds:.3f} s"
        tip = f"take-over after {takeover.event} of {takeover.who}: {text}"
        canvas.rect(takeover.t, ended, top, 7, "takeover", tip)
        x = canvas.x(takeover.t)
        canvas.line(x, top, x, bottom, "fault", tip)
        canvas.text(x + 4, label_y + 11 * (number % 2), f"take-over {text}", "flag", tip)
    for fault in evidence.faults:
        if fault.event in ("fail_site", "promote"):
            x = canvas.x(fault.t)
            label = f"{fault.event.replace('_', ' ')} {fault.site}"
            canvas.line(x, top, x, bottom, fault.event, f"{fault.t:.3f} s: {label}")
            anchor = x - 4 if fault.event == "fail_site" else x + 4
            canvas.text(anchor, bottom - 4, label, f"flag {fault.event}")


def _partitions(evidence: Evidence, end: float) -> list[tuple[float, float, str]]:
    walls: list[tuple[float, float, str]] = []
    standing: dict[str, float] = {}
    for fault in evidence.faults:
        if fault.event not in ("partition", "heal"):
            continue
        text = " | ".join(", ".join(side) for side in fault.detail["groups"])
        if fault.event == "partition":
            standing[text] = fault.t
        elif text in standing:
            walls.append((standing.pop(text), fault.t, text))
    return walls + [(t, end, text) for text, t in standing.items()]
