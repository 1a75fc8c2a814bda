"""The report: one HTML page that needs nothing else, neither network nor library."""

from __future__ import annotations

import json
from typing import Any

import jinja2
from markupsafe import Markup

from jgroups_py.drill.cache_judge import CacheVerdict, Key
from jgroups_py.drill.evidence import Evidence
from jgroups_py.drill.judge import Verdict
from jgroups_py.drill.picture import draw
from jgroups_py.drill.plan import Plan
from jgroups_py.drill.table import (
    cache_columns,
    event_text,
    judged_text,
    seconds,
    unrelayed_text,
)

FINDINGS_SHOWN_MAX = 200


def page(
    plan: Plan,
    evidence: Evidence,
    verdict: Verdict | CacheVerdict,
    result: dict[str, Any],
    *,
    command: str,
    notes: tuple[str, ...] = (),
) -> str:
    """The HTML text. ``result`` is what ``--json`` prints; it is embedded as it is."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("jgroups_py.drill", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    keys: list[Key] = []
    findings: list[tuple[str, str, int, str]] = []
    unrelayed: list[tuple[str, ...]] = []
    columns = list(next(iter(result["sites"].values()))) if result["sites"] else []
    if isinstance(verdict, CacheVerdict):
        then, ends = "unprotected for", verdict.unprotected
        keys = sorted(verdict.keys, key=lambda key: (not key.bad, key.site, key.key))
        drawn = Verdict(detections=verdict.detections)
        columns = cache_columns(verdict)
        unrelayed = [unrelayed_text(entry) for entry in verdict.unrelayed]
    else:
        then, ends, drawn = "take-over", verdict.takeovers, verdict
        findings = [
            (kind.replace("_", " "), str(f.origin), f.seqno, ", ".join(map(str, f.at)))
            for kind in ("lost", "lost_inside", "duplicated", "out_of_order")
            for f in getattr(verdict, kind)
        ]
    taken = {(m.t, m.who): m.seconds for m in ends}
    return environment.get_template("report.html.j2").render(
        plan=plan,
        verdict=verdict,
        result=result,
        picture=Markup(draw(evidence, drawn, plan.end)),
        columns=columns,
        events=[(f"{event.at:.3f} s", str(event), event.place.line) for event in plan.events],
        measured=[
            (
                event_text(m),
                seconds(m.seconds),
                seconds(taken[m.t, m.who]) if m.who and (m.t, m.who) in taken else "",
            )
            for m in verdict.detections
        ],
        judged=[(*judged_text(j), j.holds) for j in verdict.expectations],
        findings=findings[:FINDINGS_SHOWN_MAX],
        more_findings=max(0, len(findings) - FINDINGS_SHOWN_MAX),
        rpo=seconds(verdict.rpo),
        unrelayed=unrelayed[:FINDINGS_SHOWN_MAX],
        more_unrelayed=max(0, len(unrelayed) - FINDINGS_SHOWN_MAX),
        bootstraps=[
            (event_text(m), seconds(m.seconds)) for m in getattr(verdict, "bootstraps", ())
        ],
        then=then,
        keys=keys[:FINDINGS_SHOWN_MAX],
        more_keys=max(0, len(keys) - FINDINGS_SHOWN_MAX),
        command=command,
        notes=notes,
        # `<` cannot end the script element early when it is written as an escape.
        raw=Markup(json.dumps(result, indent=1).replace("<", "\\u003c")),
    )
