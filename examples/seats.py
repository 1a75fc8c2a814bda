"""A seat inventory: every seat is on two nodes, and any program books seats; then the software is replaced while it
runs.

Version 73 of the application stores a name; version 81 stores first and last name. A process with the new version
starts beside each old one. Its manager gets a few seats for a trial, they go back, and then all seats move to it. Here
all nodes are in one process and on a network in memory.

    python examples/seats.py
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass

import trio

from jgroups_py import MemoryNetwork
from jgroups_py.buckets import BucketNode, NodeParts, Plugin, open_buckets
from jgroups_py.buckets.deployed import open_deployed
from jgroups_py.buckets.deployment import parse_deployment
from jgroups_py.buckets.objects import Earlier, Kind, Objects, modifies, object_plugin
from jgroups_py.buckets.opening import FAST_DETECTION
from jgroups_py.buckets.upgrade import move_all


class SeatTaken(Exception):
    """Another guest has the seat."""


@dataclass
class Seat:
    """A seat, in version 73 of the application."""

    passenger: str = ""

    @modifies
    async def book(self, passenger: str) -> None:
        if self.passenger not in ("", passenger):
            raise SeatTaken(self.passenger)
        self.passenger = passenger

    async def holder(self) -> str:
        return self.passenger


@dataclass
class NewSeat:
    """A seat, in version 81."""

    first: str = ""
    last: str = ""

    @modifies
    async def book(self, passenger: str) -> None:
        if self.last and passenger != await self.holder():
            raise SeatTaken(await self.holder())
        self.first, _, self.last = passenger.partition(" ")

    async def holder(self) -> str:
        return f"{self.first} {self.last}".strip()


def to_new(seat: Seat) -> NewSeat:
    first, _, last = seat.passenger.partition(" ")
    return NewSeat(first, last)


def to_old(seat: NewSeat) -> Seat:
    return Seat(f"{seat.first} {seat.last}".strip())


OLD: Plugin = object_plugin(Kind(Seat, errors=(SeatTaken,)), application="seats", version=73)
NEW: Plugin = object_plugin(
    Kind(NewSeat, name="Seat", errors=(SeatTaken,), earlier={73: Earlier(Seat, to_new, to_old)}),
    application="seats",
    version=81,
    reads=(73,),
    writes=(73,),
)
INSTANCE = parse_deployment(
    """
name: seats
buckets: 9
nodes: {n1: {}, n2: {}, n3: {}}
stack: sim.xml
""",
    "examples/seats.py",
)


def beside(node: str, network: MemoryNetwork) -> AbstractAsyncContextManager[BucketNode]:
    """A member with the new version on this node. Its manager is empty at first."""
    return open_buckets(
        INSTANCE.stack,
        cluster=INSTANCE.name,
        plugin=NEW,
        settings=INSTANCE.settings,
        parts=NodeParts(node=node, managers=(f"m/{node}-81",)),
        attributes=FAST_DETECTION,
        transport=network,
    )


async def upgrade(client: BucketNode, node: str) -> int:
    """Replace the software of a node. Return the number of moves."""
    old, new = client.manager_at(f"m/{node}"), client.manager_at(f"m/{node}-81")
    few = await move_all(client, old, new, at_most=2)
    back = await move_all(client, new, old)
    rest = await move_all(client, old, new)
    assert not (few.refused or back.refused or rest.refused)
    return len(few.moved) + len(back.moved) + len(rest.moved)


async def book(client: BucketNode, booked: dict[str, str], row: int) -> None:
    """A program that books six seats of one row, one after the other."""
    seats = Objects(client, Seat)
    for letter in "ABCDEF":
        name = f"Passenger {row}{letter}"
        await seats[f"LH400/{row}{letter}"].book(name)
        booked[f"LH400/{row}{letter}"] = name
        await trio.sleep(0.02)


async def main() -> None:
    network = MemoryNetwork()
    async with AsyncExitStack() as opened:
        for node in ("n1", "n2", "n3", None):
            member = open_deployed(INSTANCE, node, plugin=OLD, transport=network)
            client = await opened.enter_async_context(member)
        await client.wait_ready()
        seats = Objects(client, Seat)
        await seats["LH400/1A"].book("Ann Lee")
        try:
            await seats["LH400/1A"].book("Bob Ray")
        except SeatTaken as error:
            print("LH400/1A is taken by", error)
        await opened.enter_async_context(beside("n1", network))
        await client.wait_until(lambda state: len(state.managers) == 4)
        booked: dict[str, str] = {}
        async with trio.open_nursery() as nursery:
            for row in range(10, 30):
                nursery.start_soon(book, client, booked, row)
            moved = await upgrade(client, "n1")
        held = {key: await seats[key].holder() for key in booked}
        print(
            moved, "moves while", len(booked), "seats were booked; nothing is lost:", held == booked
        )


if __name__ == "__main__":
    trio.run(main)
