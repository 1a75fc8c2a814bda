"""The JSON (``--json``) of a drill of caches."""

from __future__ import annotations

from typing import Any

from jgroups_py.drill.judge.cache_judge import CacheVerdict, KeyFate
from jgroups_py.drill.judge.results import durations, rounded, said, times_of


def result(verdict: CacheVerdict, **about: Any) -> dict[str, Any]:
    """Return the object that ``--json`` prints. ``about``: see ``results.said``."""
    keys = [_shown(key) for key in verdict.keys]
    return {
        **said("cache", verdict, **about),
        "sites": {site: vars(numbers).copy() for site, numbers in verdict.sites.items()},
        "keys": keys,
        **_findings(verdict),
        "detection_s": times_of(verdict.detections),
        "unprotected_s": times_of(verdict.unprotected),
        "bootstrap_s": times_of(verdict.bootstraps),
        "takeover_s": [],
        "rpo_s": rounded(verdict.rpo),
        **durations(about),
    }


def _findings(verdict: CacheVerdict) -> dict[str, Any]:
    """Return the faults by key, and the values missing when a site failed."""
    return {
        "lost": [
            {
                "site": key.site,
                "key": key.key,
                "origin": _part(key.missing, 0),
                "seqno": _part(key.missing, 1),
                "found": key.found,
                "writes": key.lost,
            }
            for key in verdict.keys
            if key.lost
        ],
        "stale": [
            {"site": key.site, "key": key.key, "reads": key.stale}
            for key in verdict.keys
            if key.stale
        ],
        "doubly_owned": [
            {"site": key.site, "key": key.key, "owners": list(key.owners)}
            for key in verdict.keys
            if key.doubly_owned
        ],
        "diverged": [
            {"site": key.site, "key": key.key, "found": key.found, "from": list(key.diverged)}
            for key in verdict.keys
            if key.diverged
        ],
        "discarded": [
            {"site": key.site, "key": key.key, "writes": key.discarded, "found": key.found}
            for key in verdict.keys
            if key.discarded
        ],
        "unrelayed": len({(entry.site, entry.key) for entry in verdict.unrelayed}),
        "unrelayed_keys": [
            {
                "site": entry.site,
                "at": entry.at,
                "key": entry.key,
                "writes": entry.writes,
                "origin": entry.last[1],
                "seqno": entry.last[2],
                "age_s": rounded(entry.age),
            }
            for entry in verdict.unrelayed
        ],
    }


def _shown(key: KeyFate) -> dict[str, Any]:
    return {
        "site": key.site,
        "key": key.key,
        "acknowledged": key.acknowledged,
        "present": key.present,
        "lost": key.lost,
        "stale": key.stale,
        "doubly_owned": key.doubly_owned,
        "diverged": bool(key.diverged),
        "discarded": key.discarded,
        "owners": list(key.owners),
    }


def _part(version: str | None, at: int) -> str | int | None:
    if version is None:
        return None
    origin, _, seqno = version.rpartition("/")
    return origin if at == 0 else int(seqno)
