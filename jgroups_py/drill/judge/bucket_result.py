"""The JSON (``--json``) of a drill of a bucket store."""

from __future__ import annotations

from typing import Any

from jgroups_py.drill.judge.bucket_judge import BucketVerdict
from jgroups_py.drill.judge.live_result import findings
from jgroups_py.drill.judge.results import durations, said, times_of


def result(verdict: BucketVerdict, **about: Any) -> dict[str, Any]:
    """Return the object that ``--json`` prints. ``about``: see ``results.said``."""
    return {
        **said("buckets", verdict, **about),
        "sites": {site: vars(numbers).copy() for site, numbers in verdict.sites.items()},
        **findings(verdict.of),
        "stale": verdict.stale,
        "unavailable": verdict.unavailable,
        "alone": verdict.alone,
        "interruptions": [
            {
                "at_s": round(one.fault.t, 6),
                "event": one.fault.event,
                "who": None if one.fault.who is None else str(one.fault.who),
                "role": one.fault.detail.get("role"),
                "seconds_by_key": {
                    str(key): round(wait.seconds, 6) for key, wait in one.waits.items()
                },
                "unanswered": one.unanswered,
            }
            for one in verdict.interruptions
        ],
        "judged": [str(who) for who in verdict.judged],
        "detection_s": times_of(verdict.detections),
        "takeover_s": [],
        "rpo_s": None,
        **durations(about),
    }
