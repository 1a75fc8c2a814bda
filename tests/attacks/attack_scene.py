"""Scene: a group of real members on loopback, a stranger, and what has happened so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import trio
from attack_doors import Door, DoorFiles
from attack_kit import Attack
from attack_outcomes import BEHIND
from stranger import Bait, Stranger

from jgroups_py import Channel, Message, open_channel, open_rpc
from jgroups_py.protocols.transport.base import TP
from jgroups_py.rpc import Methods, Rpc, RpcLimits, with_caller
from jgroups_py.tools.commands.mperf_ports import free_block
from jgroups_py.values.address import Address, IpAddress
from jgroups_py.wire.headers import PROTOCOL_IDS
from jgroups_py.wire.packet import Packet

CLUSTER = "bank"
PATIENCE = 30.0
"""Seconds after which an uncounted attempt makes the test fail: a busy machine takes long."""
AGAIN = 5.0
"""Seconds after which an uncounted attempt is repeated."""
BOTTOM = {
    "UDP": '<UDP mcast_port="{port}"/>{lowest}<PING/>',
    "TCP": '<TCP bind_port="{port}" port_range="3"/>{lowest}'
    '<TCPPING initial_hosts="127.0.0.1[{port}]" port_range="3"/>',
}
STACK = """<config>
  {bottom}
  <MERGE3/><FD_SOCK2 offset="4"/><FD_ALL3/><VERIFY_SUSPECT2/>
  {door}
  <pbcast.NAKACK2/><UNICAST3/><pbcast.STABLE/>{below_gms}<pbcast.GMS/>
  <UFC/><MFC/><FRAG2/><pbcast.STATE_TRANSFER/>
</config>"""


@dataclass
class Watched:
    """A member, with everything that its application has seen."""

    channel: Channel
    rpc: Rpc
    calls: list[tuple[str, Address]] = field(default_factory=list)
    """Notes of calls that ran, with their callers."""
    messages: list[tuple[Address, bytes]] = field(default_factory=list)

    @property
    def address(self) -> Address:
        return self.channel.address

    @property
    def transport(self) -> TP:
        found: TP | None = self.channel.stack.find(TP)
        assert found is not None
        return found

    @property
    def at(self) -> IpAddress:
        """The place at which the member can be reached."""
        physical = self.transport.physical
        assert physical is not None
        return physical

    def places(self) -> dict[Address, IpAddress | None]:
        """Return the places at which this member expects the members of its view."""
        others = [m for m in self.channel.view if m != self.address]
        return {member: self.transport.physical_of(member) for member in others}

    def count(self, name: str) -> int:
        """Return a counter of refused packets, or another counter of a protocol (``GMS.bad_messages``)."""
        statistics = self.channel.statistics()
        if name in statistics.turned_away:
            return statistics.turned_away[name]
        protocol, _, counter = name.partition(".")
        return int(statistics.protocols.get(protocol, {}).get(counter, 0))

    def refused_by(self, protocols: Collection[str]) -> int:
        counts = self.channel.statistics().turned_away
        return sum(n for key, n in counts.items() if key.partition(".")[0] in protocols)


class Scene:
    """Members ``a`` (the coordinator) and ``b``, and ``stranger``."""

    def __init__(
        self, door: Door, files: DoorFiles, transport: str, a: Watched, b: Watched
    ) -> None:
        self.door = door
        self.transport = transport
        self.a, self.b = a, b
        self.members = (a, b)
        self.stranger = Stranger(transport, CLUSTER, files.context)
        self.bait = Bait()
        self.told = 0
        self.stopped: dict[str, str] = {}
        """The protocol that has turned each attempt away (attack_outcomes.py)."""
        self._views = [member.channel.view for member in self.members]
        self._places = [member.places() for member in self.members]

    async def suffer(self, attack: Attack) -> list[str]:
        """Let an attack happen. Return the harm that was done, in words; an empty list if the attempt failed."""
        self.stranger.begin()
        before, behind, by_door = self._counted(attack), self._behind(), self._by_door()
        await attack.strike(self)
        wrong = []
        if not await self._until(lambda: self._counted(attack) > before, AGAIN):
            await attack.strike(
                self
            )  # a datagram may be lost, and a connection may be closed meanwhile
            if not await self._until(lambda: self._counted(attack) > before, PATIENCE):
                wrong.append(f"nobody counted {attack.cause}")
        self.stopped[attack.name] = next(
            (name for name, n in self._by_door().items() if n > by_door[name]), BEHIND
        )
        if self.door.whole and (
            beyond := {k: n for k, n in self._behind().items() if n > behind[k]}
        ):
            wrong.append(f"it came beyond {self.door.name}: {beyond}")
        wrong += await self._work()
        heard = self.stranger.heard()
        answers = [packet for packet in heard if attack.silent or _is_reply(packet)]
        if answers and not self.door.protocols:
            wrong.append(f"the stranger got {len(answers)} answers")
        wrong += self.harm()
        if more := attack.judge(self):
            wrong.append(more)
        return [f"{attack.name}: {problem}" for problem in wrong]

    def harm(self) -> list[str]:
        """Harm that no attempt may do, in words."""
        wrong = []
        for member, view, places in zip(self.members, self._views, self._places, strict=True):
            name = member.channel.name
            if member.channel.view != view:
                wrong.append(f"{name} has another view: {member.channel.view}")
            elif member.places() != places:
                wrong.append(f"{name} sends to other places: {member.places()}")
            wrong += [f"a forged call ran at {name}" for note, _ in member.calls if note == FORGED]
            wrong += [
                f"{name} got a forged message" for _, text in member.messages if text == FORGED_TEXT
            ]
        return wrong

    async def _work(self) -> list[str]:
        """Let members call each other and send multicasts. All must arrive."""
        self.told += 1
        note = f"genuine {self.told}"
        with trio.move_on_after(PATIENCE) as scope:
            for one, other in ((self.a, self.b), (self.b, self.a)):
                assert await one.rpc.call(other.address, "note", note) == note
                await one.channel.send(note.encode())
            for member in self.members:
                expected = [(m.address, note.encode()) for m in self.members]
                while not all(said in member.messages for said in expected):  # noqa: ASYNC110
                    await trio.sleep(0.005)
        if scope.cancelled_caught:
            return ["members do not reach each other any more"]
        return []

    def _counted(self, attack: Attack) -> int:
        total = sum(member.count(attack.cause) for member in self.members)
        return total + sum(self._by_door().values())

    def _by_door(self) -> dict[str, int]:
        """Return the number of packets that each protocol of the door has turned away."""
        return {
            name: sum(member.refused_by((name,)) for member in self.members)
            for name in self.door.protocols
        }

    def _behind(self) -> Counter[str]:
        """Return the number of packets that were turned away behind the door, by cause."""
        counts = Counter[str]()
        for member in self.members:
            counts.update(member.channel.statistics().turned_away)
        return Counter(
            {k: n for k, n in counts.items() if k.partition(".")[0] not in self.door.protocols}
        )

    async def _until(self, is_so: Callable[[], bool], seconds: float) -> bool:
        with trio.move_on_after(seconds):
            while not is_so():  # noqa: ASYNC110
                await trio.sleep(0.005)
            return True
        return False


FORGED = "forged"
FORGED_TEXT = b"forged"


@asynccontextmanager
async def open_scene(folder: Path, transport: str, door: Door) -> AsyncIterator[Scene]:
    """Open a group of two, and a stranger."""
    file = folder / f"{transport}-{door.name}.xml"
    bottom = BOTTOM[transport].format(port=free_block(12), lowest=door.lowest)
    file.write_text(STACK.format(bottom=bottom, door=door.line, below_gms=door.below_gms))
    files = door.files(folder)
    first = {"GMS.join_timeout": "100ms", "GMS.max_join_attempts": "1"}
    async with (
        _open_member(file, "A", {**first, **files.attributes.get("A", {})}) as a,
        _open_member(file, "B", files.attributes.get("B", {})) as b,
    ):
        for member in (a, b):
            await member.channel.wait_members(["A", "B"], timeout=PATIENCE)
        scene = Scene(door, files, transport, a, b)
        try:
            assert not await scene._work()
            yield scene
        finally:
            scene.stranger.close()
            scene.bait.close()


@asynccontextmanager
async def _open_member(file: Path, name: str, attributes: dict[str, str]) -> AsyncIterator[Watched]:
    calls: list[tuple[str, Address]] = []

    @with_caller
    def note(caller: Address, text: str) -> str:
        calls.append((text, caller))
        return text

    limits = RpcLimits(early_wait=0.1)
    async with (
        open_channel(file, cluster=CLUSTER, name=name, attributes=attributes) as channel,
        open_rpc(channel, Methods({"note": note}), limits=limits) as rpc,
        trio.open_nursery() as nursery,
    ):
        watched = Watched(channel, rpc, calls)

        async def read() -> None:
            async for item in rpc:
                if isinstance(item, Message):
                    watched.messages.append((item.sender, bytes(item.payload)))

        nursery.start_soon(read)
        yield watched
        nursery.cancel_scope.cancel()


def _is_reply(packet: Packet | bytes) -> bool:
    """Return whether a packet has the reply to a call."""
    if isinstance(packet, bytes):
        return False
    return any(PROTOCOL_IDS["REQUEST_CORRELATOR"] in batch.headers for batch in packet.batches)
