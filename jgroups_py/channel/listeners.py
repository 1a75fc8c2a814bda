"""Functions of the user that get events of the stack. Their errors are counted and logged, and the stack continues."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from jgroups_py.stack.log_limit import LogLimit
from jgroups_py.stack.machine import Trace
from jgroups_py.stack.raised import said
from jgroups_py.values.turned_away import TurnedAway


class Warn(Protocol):
    """See ``Channel.warn``."""

    def __call__(self, text: str, *values: object, error: Exception | None = None) -> None: ...


class UserFunctions:
    """Guards ``trace=`` and ``turned_away=``, and counts their errors."""

    def __init__(self, warn: Warn, limit: LogLimit) -> None:
        self.trace_failures = 0
        self.turned_away_failures = 0
        self._warn = warn
        self._limit = limit

    def guarded_trace(self, trace: Trace) -> Trace:
        """Return a function that calls ``trace`` and counts and logs its errors."""

        def told(at: float, member: str, protocol: str, what: str, details: dict[str, Any]) -> None:
            try:
                trace(at, member, protocol, what, details)
            except Exception as error:
                self.trace_failures += 1
                if (left_out := self._limit.admit(("trace", type(error)))) is not None:
                    self._warn("trace= raised %s%s", said(error), left_out, error=error)

        return told

    def guarded_listener(
        self, listener: Callable[[TurnedAway], None]
    ) -> Callable[[TurnedAway], None]:
        """Return a function that calls ``listener`` and counts and logs its errors."""

        def told(event: TurnedAway) -> None:
            try:
                listener(event)
            except Exception as error:
                self.turned_away_failures += 1
                if (left_out := self._limit.admit(("turned_away", type(error)))) is not None:
                    self._warn("turned_away= raised %s%s", said(error), left_out, error=error)

        return told
