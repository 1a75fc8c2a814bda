"""Doorkeeper: counts refusals by cause, and logs them at a bounded rate.

A protocol says ``self.turn_away("replayed", source=...)``. Parts that are no protocol (calls, the export port) hold a
Doorkeeper of their own. For each cause:

    the first time                 one log line and one TurnedAway, at once
    again within INTERVAL counted only at the end of the interval one line and one event with the number of those that
    were only counted

So a flood of a million packets costs a million additions, and one line in ten seconds.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from jgroups_py.stack.log_limit import INTERVAL
from jgroups_py.stack.machine import Machine
from jgroups_py.stack.sides import ProtocolSide
from jgroups_py.values.address import IpAddress
from jgroups_py.values.shown import shown
from jgroups_py.values.turned_away import TurnedAway

CAUSES_MAX: Final = 32
"""The most causes that one doorkeeper distinguishes. Further ones count as ``OTHER``."""
SOURCES_MAX: Final = 5
"""The most sources that a line or an event names."""
SOURCE_LENGTH: Final = 100
"""The most characters of a source that are shown."""
OTHER: Final = "other"
"""The cause of refusals beyond ``CAUSES_MAX``."""

Source = bytes | str | tuple[str, int] | None
"""The origin of something refused: an address, a network end ``(host, port)``, a name."""


class _Cause:
    __slots__ = ("next_at", "sources", "total", "untold")

    def __init__(self) -> None:
        self.total = 0
        self.untold = 0
        self.next_at = 0.0  # the earliest time of the next line
        self.sources: dict[str, str] = {}  # host or name -> as shown


class Doorkeeper:
    """See the module's docstring.

    Args:
        by: the name of the protocol or part that refuses.
        machine: its clock, its timers, its totals (``turned_away``) and its listener (``on_turned_away``).
        log: gets the lines.
        causes: the causes that are known, each with a sentence for the log. Others are counted, too.
        owner: a protocol; the doorkeeper's timer ends with its stack.
    """

    def __init__(
        self,
        by: str,
        machine: Machine,
        log: logging.Logger | logging.LoggerAdapter[logging.Logger],
        causes: Mapping[str, str],
        owner: ProtocolSide | None = None,
    ) -> None:
        self.by = by
        self._machine = machine
        self._log = log
        self._known = causes
        self._owner = owner
        self._causes: dict[str, _Cause] = {}
        self._timer = machine.timer(self._on_interval, "_on_turned_away", owner)

    @property
    def counts(self) -> dict[str, int]:
        """Return the refusals so far by cause. A known cause without refusals has 0."""
        return {
            **dict.fromkeys(self._known, 0),
            **{cause: entry.total for cause, entry in self._causes.items()},
        }

    def turn_away(self, cause: str, source: Source = None, count: int = 1) -> None:
        """Count ``count`` refusals for ``cause``."""
        entry = self._causes.get(cause)
        if entry is None:
            if len(self._causes) >= CAUSES_MAX:
                cause = OTHER
            entry = self._causes.setdefault(cause, _Cause())
        machine = self._machine
        entry.total += count
        key = f"{self.by}.{cause}"
        machine.turned_away[key] = machine.turned_away.get(key, 0) + count
        if len(entry.sources) < SOURCES_MAX:
            host = _host_of(source)
            if host is not None and host not in entry.sources:
                entry.sources[host] = text_of(source)
        was_untold = entry.untold
        entry.untold += count
        if machine.now >= entry.next_at:
            self._tell(cause, entry)
        elif not was_untold and (
            self._timer.deadline is None or entry.next_at < self._timer.deadline
        ):
            self._timer.start_at(entry.next_at)

    def _tell(self, cause: str, entry: _Cause) -> None:
        sources = tuple(entry.sources.values())
        count = entry.untold
        entry.untold = 0
        entry.sources.clear()
        entry.next_at = self._machine.now + INTERVAL
        meaning = self._known.get(cause)
        self._log.warning(
            "%s turned away: %s%s, %s%s; %d so far",
            self.by,
            cause,
            f" ({meaning})" if meaning else "",
            "once" if count == 1 else f"{count} times",
            f", from {', '.join(sources)}" if sources else "",
            entry.total,
        )
        listener = self._machine.on_turned_away
        if listener is not None:
            cluster = self._owner.stack.cluster if self._owner is not None else self._cluster
            source = sources[0] if sources else ""
            listener(TurnedAway(cause, source, count, self.by, cluster, entry.total, sources))

    @property
    def _cluster(self) -> str:
        stacks = self._machine.stacks
        return stacks[0].cluster if stacks else ""

    def _on_interval(self) -> None:
        now = self._machine.now
        for cause, entry in list(self._causes.items()):
            if entry.untold and entry.next_at <= now:
                self._tell(cause, entry)
        waiting = [entry.next_at for entry in self._causes.values() if entry.untold]
        if waiting:
            self._timer.start_at(min(waiting))


def _host_of(source: Source) -> str | None:
    """Return the host of a source, by which sources are distinguished."""
    match source:
        case None | "":
            return None
        case IpAddress():
            return source.host or "<any>"
        case tuple():
            return source[0]
        case _:
            return text_of(source)


def text_of(source: Source) -> str:
    """Return ``source`` as it is shown: one line, of limited length."""
    if isinstance(source, tuple):
        host, port = source[:2]
        if not host:
            return "somebody who is gone"
        return shown(f"[{host}]:{port}" if ":" in host else f"{host}:{port}", SOURCE_LENGTH)
    return shown(str(source), SOURCE_LENGTH)
