"""The JSON (``--json``) of a drill of live and backup."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jgroups_py.drill.judge.live_judge import KINDS, LiveFinding, LiveVerdict
from jgroups_py.drill.judge.results import durations, said, times_of


def result(verdict: LiveVerdict, **about: Any) -> dict[str, Any]:
    """Return the object that ``--json`` prints. ``about``: see ``results.said``."""
    return {
        **said("livebackup", verdict, **about),
        "sites": {site: vars(numbers).copy() for site, numbers in verdict.sites.items()},
        **findings(verdict.of),
        "diverged": verdict.diverged,
        "judged": [str(who) for who in verdict.judged],
        "roles": [
            {"t": round(r.t, 6), "member": str(r.who), "role": r.role, "term": r.term}
            for r in verdict.roles
        ],
        "detection_s": times_of(verdict.detections),
        "takeover_s": times_of(verdict.takeovers),
        "rpo_s": None,
        **durations(about),
    }


def findings(of: Callable[[str], Sequence[LiveFinding]]) -> dict[str, Any]:
    """Return the findings by kind."""
    return {
        kind: [
            {"origin": one.entry[0], "seqno": one.entry[1], "at": list(one.at), "why": one.why}
            for one in of(kind)
        ]
        for kind in KINDS
    }
