"""Figures of calls."""

from __future__ import annotations

from typing import Any


def call_figures(
    callers: int, took: list[float], cpu: float, seconds: float, wrong: int
) -> dict[str, Any]:
    """Return the figures of calls: ``took`` has the seconds of each, within ``seconds`` in all; ``cpu`` is the caller's
    CPU time."""
    took.sort()
    least = took or [0.0]
    parts = {
        f"{key}_us": round(least[int(part * len(least))] * 1e6)
        for key, part in (("p50", 0.5), ("p99", 0.99), ("p999", 0.999))
    }
    return {
        "callers": callers,
        "calls_per_s": round(len(took) / seconds),
        "caller_cpu_us": round(cpu / len(least) * 1e6, 1),
        **parts,
        "wrong": wrong,
    }
