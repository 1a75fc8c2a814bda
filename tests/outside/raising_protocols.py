"""A user's protocol with a bug: once armed, it raises at the place ``at``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jgroups_py.stack.protocol import Event, Protocol, Query
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import Disconnect, GetDigest, ViewChange

POISON = b"poison"


class BOOM(Protocol):
    """It raises ValueError."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Protocol.Config):
        at: str = ""

    def start(self) -> None:
        self._armed = False
        if self.config.at == "start":
            raise ValueError("boom at start")
        self.timer(self._on_tick).start(1.0)

    def stop(self) -> None:
        self._boom("stop")

    def _boom(self, where: str) -> None:
        if self.config.at == where:
            raise ValueError(f"boom at {where}")

    def _on_tick(self) -> None:
        if self._armed:
            self._boom("timer")
        self.timer(self._on_tick).start(1.0)

    def up(self, batch: Batch) -> None:
        if POISON in batch.payloads:
            self._armed = True
            self._boom("up")
            if self.config.at == "junk":
                self.pass_up(None)  # type: ignore[arg-type]
        self.pass_up(batch)

    def down(self, batch: Batch) -> None:
        if self._armed:
            self._boom("down")
        self.pass_down(batch)

    def event_up(self, event: Event) -> None:
        if isinstance(event, ViewChange) and len(event.view) == 3:
            self._boom("view")
        self.pass_event_up(event)

    def event_down(self, event: Event) -> None:
        if isinstance(event, Disconnect):
            self._boom("leave")
        elif self._armed:
            self._boom("event_down")
        self.pass_event_down(event)

    def answer(self, query: Query) -> Any:
        if self._armed and isinstance(query, GetDigest):
            self._boom("answer")
        return None


class UNCOUNTED(Protocol):
    """Its statistics raise, because it never counted anything."""

    def statistics(self) -> dict[str, int | float]:
        raise ValueError("nobody counted")


class MISCOUNTED(Protocol):
    """Its statistics have more than numbers, and a number that no float holds."""

    def statistics(self) -> dict[Any, Any]:
        return {"sightings": 5, "who": object(), 7: 7, "huge": 10**400}
