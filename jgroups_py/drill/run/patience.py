"""How long a real drill waits for its processes, on a machine that has other things to do as well."""

from __future__ import annotations

import os
from typing import Final

PATIENCE_MAX: Final = 10.0
"""A wait becomes at most this many times as long. Something that hangs is reported at some time."""


def waiting_per_core() -> float:
    """Processes that want to run, for each core, over the last minute; 1 where fewer than that do, or nobody can tell."""
    if not hasattr(os, "getloadavg"):  # Windows
        return 1.0
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def patient(seconds: float) -> float:
    """``seconds`` of an idle machine, made longer by what else runs now."""
    return seconds * min(PATIENCE_MAX, waiting_per_core())


def busy_text() -> str:
    """`` (12.0 processes wait for each core)``; empty where the machine is not busy."""
    waiting = waiting_per_core()
    return f" ({waiting:.1f} processes wait for each core)" if waiting > 1 else ""
