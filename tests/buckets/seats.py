"""Seats of flights as entries: the application of the tests of objects."""

from __future__ import annotations

from dataclasses import dataclass, field

from jgroups_py.buckets.objects import Kind, modifies, object_plugin, this
from jgroups_py.buckets.plugin import Plugin


class SeatTaken(Exception):
    """Another passenger has the seat."""


@dataclass
class Seat:
    passenger: str | None = None
    history: list[str] = field(default_factory=list)

    @modifies
    async def book(self, passenger: str) -> int:
        """Book the seat. Return the number of bookings so far."""
        self.history.append(passenger)
        if self.passenger not in (None, passenger):
            raise SeatTaken(self.passenger, len(self.history) - 1)
        self.passenger = passenger
        return len(self.history)

    @modifies
    def free(self) -> None:
        if self.passenger is not None:
            self.passenger = None

    @modifies
    async def forget(self) -> str:
        this().delete()
        return this().key

    @modifies
    async def fail(self) -> None:
        self.passenger = "nobody"
        raise ValueError("as asked")

    async def holder(self) -> str | None:
        return self.passenger

    async def seen(self) -> tuple[str, bool, float]:
        return this().key, this().is_new, this().now

    def all(self, *, last: int = 10) -> list[str]:
        return self.history[-last:]


@dataclass
class Flight:
    gate: str = ""

    @modifies
    async def set_gate(self, gate: str) -> None:
        self.gate = gate

    async def where(self) -> str:
        return self.gate


def seats(version: int = 1) -> Plugin:
    return object_plugin(
        Kind(Seat, errors=(SeatTaken,)), Flight, application="seats", version=version
    )
