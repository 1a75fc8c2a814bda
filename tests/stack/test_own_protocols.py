"""A user's protocols in plain Python among those that may be compiled, in a whole stack with real bytes.

``make test-compiled`` runs this where they are compiled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import pytest

from jgroups_py.protocols.reliable.nakack2.protocol import NAKACK2
from jgroups_py.protocols.reliable.unicast3.protocol import UNICAST3
from jgroups_py.protocols.transport.udp import UDP
from jgroups_py.stack.protocol import Batch, Event, Protocol
from jgroups_py.stack.stack import make_protocols
from jgroups_py.testing.sim import Member, World
from jgroups_py.values.events import ViewChange


class LATE(Protocol):
    """Holds outgoing messages for a while, and counts messages in both directions."""

    protocol_id = 2002

    @dataclass(frozen=True, kw_only=True)
    class Config(Protocol.Config):
        delay: float = 0.01

    config: Config

    def start(self) -> None:
        self.downs = self.ups = self.views = 0
        self._held: list[Batch] = []
        self._due = self.timer(self._go_on)

    def down(self, batch: Batch) -> None:
        self.downs += len(batch)
        self._held.append(batch)
        if not self._due.armed:
            self._due.start(self.config.delay)

    def _go_on(self) -> None:
        held, self._held = self._held, []
        for batch in held:
            self.pass_down(batch)

    def up(self, batch: Batch) -> None:
        self.ups += len(batch)
        self.pass_up(batch)

    def event_down(self, event: Event) -> None:
        if isinstance(event, ViewChange):
            self.views += 1
        self.pass_event_down(event)


class COUNTED(NAKACK2):
    """Derives from a protocol that may be compiled: its handlers and its settings count."""

    protocol_id = NAKACK2.protocol_id

    def __init__(self, config: NAKACK2.Config | None = None) -> None:
        super().__init__(config)
        self.ups = 0

    def up(self, batch: Batch) -> None:
        self.ups += len(batch)
        super().up(batch)


def with_own(
    below: type[Protocol],
    attributes: Mapping[str, str] | None,
    properties: Mapping[str, str] | None,
) -> list[Protocol]:
    """udp.xml with COUNTED for NAKACK2, and LATE right above ``below``."""
    found: list[Protocol] = []
    for protocol in make_protocols("udp.xml", attributes, properties):
        own = COUNTED(protocol.config) if type(protocol) is NAKACK2 else protocol
        found += [own, LATE(delay=0.02)] if isinstance(own, below) else [own]
    return found


def sent(world: World, member: Member, to: Member | None, count: int) -> list[bytes]:
    payloads = [b"%d of " % n + bytes(member.name, "ascii") for n in range(count)]
    for payload in payloads:
        member.send(payload, to=None if to is None else to.address)
    world.run_for(3)
    return payloads


@pytest.mark.parametrize("below", [UDP, NAKACK2, UNICAST3])
def test_plain_protocols_work_between_those_that_may_be_compiled(below: type[Protocol]) -> None:
    world = World(1)
    a, b = (world.start(name, partial(with_own, below), "demo") for name in "AB")
    assert world.run_until(lambda: world.views_agree([a, b]), limit=20)
    got: dict[str, list[bytes]] = {"A": [], "B": []}

    def take(member: Member, batch: Batch) -> None:
        got[member.name] += map(bytes, batch.payloads)

    a.on_batch = b.on_batch = take
    many = sent(world, a, None, 50)
    one = sent(world, b, a, 5)
    assert got == {"A": many + one, "B": many}
    for member in (a, b):
        late, counted = member.stack.find(LATE), member.stack.find(COUNTED)
        assert late is not None and counted is not None and member.stack.find(NAKACK2) is counted
        assert counted.ups >= 50 and late.downs and late.ups and late.views
        assert late.config.delay == 0.02
        assert member.statistics()["COUNTED"]["ups"] == counted.ups
