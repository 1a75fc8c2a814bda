"""The JSON (``--json``) of a drill of maps."""

from __future__ import annotations

from typing import Any

from jgroups_py.drill.judge.map_history import text_of
from jgroups_py.drill.judge.map_judge import MapKey, MapVerdict
from jgroups_py.drill.judge.results import durations, rounded, said, times_of


def result(verdict: MapVerdict, **about: Any) -> dict[str, Any]:
    """Return the object that ``--json`` prints. ``about``: see ``results.said``."""
    return {
        **said("map", verdict, **about),
        "sites": {site: vars(numbers).copy() for site, numbers in verdict.sites.items()},
        "keys": [_shown(key) for key in verdict.keys],
        "lost": [_lost(key) for key in verdict.keys if key.lost_at],
        "diverged": [{"key": key.key, "found": key.found} for key in verdict.keys if key.diverged],
        "stale": [
            {"key": key.key, "at": place, "times": key.stale.count(place)}
            for key in verdict.keys
            for place in dict.fromkeys(key.stale)
        ],
        "unsent": [
            {"site": put.who.site, "origin": put.who.origin, "seqno": put.seqno}
            for put in verdict.unsent
        ],
        "detection_s": times_of(verdict.detections),
        "healed_s": times_of(verdict.healings),
        "lag_p50_s": rounded(verdict.lag(0.5)),
        "lag_p99_s": rounded(verdict.lag(0.99)),
        "divergence_s": rounded(verdict.divergence),
        "differed": len({one.key for one in verdict.differences}),
        "takeover_s": [],
        "rpo_s": None,
        **durations(about),
    }


def _lost(key: MapKey) -> dict[str, Any]:
    missing = key.missing
    return {
        "key": key.key,
        "site": None if missing is None else missing[0],
        "origin": None if missing is None else missing[1],
        "seqno": None if missing is None else missing[2],
        "writes": key.lost,
        "at": key.lost_at,
        "found": {place: key.found[place] for place in key.lost_at},
    }


def _shown(key: MapKey) -> dict[str, Any]:
    values = list(key.found.values())
    return {
        "key": key.key,
        "puts": key.puts,
        "found": values[0] if values and not key.diverged else None,
        "present": any(value is not None for value in values),
        "lost": key.lost,
        "missing": text_of(key.missing),
        "diverged": key.diverged,
        "stale": len(key.stale),
    }
