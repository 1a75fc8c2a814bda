"""Frequent warnings: a few of each kind are logged each minute, the rest is counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

LINES_MAX: Final = 20
"""The most lines of one kind within ``SECONDS``."""
SECONDS: Final = 60.0


class Sparing:
    """``tell``: logs a line. Times come from the caller, in seconds."""

    def __init__(self, tell: Callable[..., None]) -> None:
        self._tell = tell
        self._since: dict[str, float] = {}
        self._said: dict[str, int] = {}

    def warn(self, kind: str, now: float, text: str, *values: object) -> None:
        """Log a line of that kind, or count it. ``kind`` names the lines left out."""
        self.look(now)
        self._since.setdefault(kind, now)
        said = self._said[kind] = self._said.get(kind, 0) + 1
        if said <= LINES_MAX:
            self._tell(text, *values)

    def look(self, now: float) -> None:
        """Log the number of omitted lines when their time is over."""
        for kind in [k for k, since in self._since.items() if now - since >= SECONDS]:
            del self._since[kind]
            more = self._said.pop(kind) - LINES_MAX
            if more > 0:
                self._tell("%d more %s within %.0f s", more, kind, SECONDS)
