"""The keys of a drill of live and backup: lines of traffic, settings of the nodes, expectations."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jgroups_py.drill.file import values
from jgroups_py.livebackup.confirming import RULES
from jgroups_py.livebackup.settings import MODES

COUNTS: Final = ("lost", "undone", "half", "duplicated", "diverged")
TIMES: Final = ("detection", "takeover", "rto")
"""The figures that may be expected of live and backup; see judge/live_judge.py."""
OBJECTS_MAX: Final = 10_000
WIDTH_MAX: Final = 20
"""The most objects that one operation changes."""
STEP_MAX: Final = 10.0


@dataclass(frozen=True, slots=True)
class LiveLoad:
    """Operations on ``objects`` objects. Each changes ``width`` of them, one after the other; a change takes ``step`` seconds."""

    objects: int = 20
    width: int = 2
    step: float = 0.001


def whole(low: int, high: int) -> Callable[[str], int]:
    """Return a reader of a whole number."""

    def read(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,9}", text) or not low <= int(text) <= high:
            raise ValueError(f"{text!r} is not a whole number from {low} to {high}")
        return int(text)

    return read


def one_of(words: Sequence[str]) -> Callable[[str], str]:
    """Return a reader of one of some words."""

    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"{text!r} is none of {', '.join(words)}")
        return text

    return read


def step(text: str) -> float:
    """Read the duration of a change."""
    found = values.duration(text)
    if found > STEP_MAX:
        raise ValueError(f"{text!r} is too long; at most {STEP_MAX:g}s")
    return found


def seconds(text: str) -> float:
    """Read a duration that is not 0."""
    found = values.duration(text)
    if not found > 0:
        raise ValueError(f"{text!r} must be more than 0s")
    return found


READERS: Final[dict[str, Callable[[str], Any]]] = {
    "objects": whole(1, OBJECTS_MAX),
    "width": whole(1, WIDTH_MAX),
    "step": step,
}
SETTINGS: Final[dict[str, Callable[[str], Any]]] = {
    "confirm": one_of(RULES),
    "mode": one_of(MODES),
    "backups_min": whole(0, 1000),
    "quorum": whole(0, 1000),
    "checksum_every": whole(0, 1_000_000),
    "lag_operations": whole(1, 1_000_000),
    "lag_seconds": seconds,
    "lag_aim": values.duration,
    "abandon_timeout": seconds,
    "snapshot_wait": seconds,
}
"""The settings of ``livebackup.LiveBackupSettings``."""
