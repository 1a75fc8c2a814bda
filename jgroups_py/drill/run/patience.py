"""Time limits of a real drill on a busy machine."""

from __future__ import annotations

import os
from typing import Final

PATIENCE_MAX: Final = 10.0
"""The largest factor on a wait, so that a hanging process is reported at last."""


def waiting_per_core() -> float:
    """Return the runnable processes for each core, over the last minute; at least 1, also if unknown."""
    if not hasattr(os, "getloadavg"):  # Windows
        return 1.0
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def patient(seconds: float) -> float:
    """Return ``seconds`` of an idle machine, longer on a busy one."""
    return seconds * min(PATIENCE_MAX, waiting_per_core())


def busy_text() -> str:
    """Return `` (12.0 processes wait for each core)``; empty where the machine is not busy."""
    waiting = waiting_per_core()
    return f" ({waiting:.1f} processes wait for each core)" if waiting > 1 else ""
