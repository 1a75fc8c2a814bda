"""A slow member with small buffers, tiny and huge messages mixed: all messages arrive, and repetitions stay in
proportion.

Java's stock stacks fall to a few thousand messages a second here, with an idle CPU, and do not recover within 15 s
after the load. Virtual time shows losses, repetitions and the time of the repair, but no CPU time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from jgroups_py.testing.sim.member import Member
from jgroups_py.testing.sim.world import World
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch

TINY, HUGE = 10, 200_000
NUMBER = 8
"""Bytes of a payload that number it."""
AT_ONCE = 250
PACE = 0.001


def payloads() -> list[bytes]:
    sizes = [TINY] * 1000 + [HUGE] * 20 + [TINY] * 1000
    return [number.to_bytes(NUMBER, "big").ljust(size) for number, size in enumerate(sizes)]


class Load:
    """Four members that all send everything as soon as they are not blocked; the last one is slow."""

    def __init__(
        self,
        turn: float,
        buffer: int,
        *,
        receive_buffer: int = 0,
        attributes: Mapping[str, str] | None = None,
    ) -> None:
        self.world = world = World(1, check=False)
        world.receive_buffer = receive_buffer
        self.members: list[Member] = []
        for name in "ABCD":
            self.members.append(world.start(name, "udp.xml", "load", attributes=attributes))
            assert world.run_until(lambda: world.views_agree(self.members), limit=10)
        self.next: dict[tuple[str, Address], int] = {}
        self.total = len(payloads())
        self.members[-1].slow_down(turn)
        for member in self.members:
            member.host.held_limit = buffer
            member.keep_batches = False
            member.on_batch = self._taken
            world.at(world.now, self._pump, member, payloads())

    def _taken(self, member: Member, batch: Batch) -> None:
        assert batch.src is not None
        for payload in batch.payloads:
            expected = self.next.get((member.name, batch.src), 0)
            assert int.from_bytes(bytes(payload[:NUMBER]), "big") == expected
            self.next[member.name, batch.src] = expected + 1

    def _pump(self, member: Member, left: list[bytes]) -> None:
        if not member.blocked:
            size = len(left[0])
            count = next((i for i, p in enumerate(left[:AT_ONCE]) if len(p) != size), AT_ONCE)
            part, left = left[: 1 if size == HUGE else count], left[1 if size == HUGE else count :]
            member.send(*part)
        if left:
            self.world.at(self.world.now + PACE, self._pump, member, left)

    def is_over(self) -> bool:
        return len(self.next) == 16 and all(count == self.total for count in self.next.values())

    def sum(self, read: Callable[[Member], float]) -> float:
        return sum(read(member) for member in self.members)


@pytest.mark.parametrize(
    ("turn", "buffer", "seconds", "again"),
    [(0.02, 200, 1.5, 0.05), (0.02, 50, 3.0, 0.15), (0.05, 20, 8.0, 0.3)],
    ids=["200 datagrams", "50 datagrams", "20 datagrams"],
)
def test_a_slow_member_with_small_buffers_does_not_make_the_group_collapse(
    turn: float, buffer: int, seconds: float, again: float
) -> None:
    load = Load(turn, buffer)
    views = [len(member.views) for member in load.members]
    began = load.world.now
    assert load.world.run_until(load.is_over, limit=seconds), load.next
    resent = load.sum(lambda m: m.stack.statistics()["NAKACK2"]["retransmitted"])
    assert resent <= again * 4 * load.total
    assert [len(member.views) for member in load.members] == views, "nobody was suspected"
    print(f"{load.world.now - began:.2f} s, {resent:.0f} of {4 * load.total} sent again")
    load.world.close()


SMALL = 212_992
"""The receive buffer that Linux grants where ``net.core.rmem_max`` was not raised."""


def overloaded(attributes: Mapping[str, str] | None = None) -> tuple[float, float, float]:
    """Return the seconds, the lost datagrams and the sent bytes of a group with small buffers."""
    load = Load(0.02, 2000, receive_buffer=SMALL, attributes=attributes)
    began = load.world.now
    fits = attributes is None
    assert all(bool(m.stack.statistics()["MFC"]["fitted_credits"]) == fits for m in load.members)
    assert load.world.run_until(load.is_over, limit=30.0), load.next
    took = load.world.now - began
    lost = load.sum(lambda m: m.host.held_lost)
    sent = load.sum(lambda m: m.stack.statistics()["UDP"]["bytes_sent"])
    load.world.close()
    print(f"{took:.2f} s, {lost:.0f} datagrams lost, {sent / 1e6:.1f} MB sent")
    return took, lost, sent


def test_no_more_is_under_way_than_small_buffers_hold() -> None:
    took, lost, sent = overloaded()
    took_anyway, lost_anyway, sent_anyway = overloaded({"MFC.fit_receive_buffer": "false"})
    assert lost < lost_anyway / 10
    assert sent < sent_anyway / 3
    assert took < took_anyway
