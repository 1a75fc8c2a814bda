"""Logging of a replica's news: wrong identifiers and files as errors, clocks, refusals and users' exceptions as
warnings."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from jgroups_py.maps.orders import Told
from jgroups_py.stack.log_limit import LogLimit
from jgroups_py.stack.raised import loggable

LOG: Final = logging.getLogger("jgroups_py.maps")
LEVELS: Final = {
    "connected": logging.INFO,
    "gone": logging.INFO,
    "same identifier": logging.ERROR,
    "other codecs": logging.ERROR,
    "restored": logging.ERROR,
    "diverged": logging.ERROR,
}
"""Levels by kind; other kinds are warnings."""


class Telling:
    """Logs one line in ten seconds for each kind and peer. ``now`` is in seconds."""

    def __init__(self, name: str, now: Callable[[], float]) -> None:
        self._name = name
        self._limit = LogLimit(now)

    def tell(self, told: Told) -> None:
        if (left_out := self._limit.admit((told.kind, told.node))) is not None:
            text = "".join(char if char.isprintable() else "?" for char in told.text)
            level = LEVELS.get(told.kind, logging.WARNING)
            LOG.log(level, 'the map "%s": %s: %s%s', self._name, told.kind, text, left_out)

    def raised(self, error: Exception) -> None:
        """Log an exception of the user's ``watch``."""
        if (left_out := self._limit.admit(("watch", type(error)))) is not None:
            LOG.error(
                'the map "%s": watch raised%s', self._name, left_out, exc_info=loggable(error)
            )
