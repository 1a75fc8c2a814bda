"""Members with SEAL on real sockets, and a stranger that records their multicasts."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from jgroups_py import Channel, Message, open_channel
from jgroups_py.driver import MulticastProbe
from jgroups_py.protocols.seal.protocol import SEAL
from jgroups_py.protocols.seal.ring import NO_KEYS, Ring
from jgroups_py.protocols.transport.base import TP

pytestmark = pytest.mark.sockets

GROUP = "239.255.7.7"
PATIENCE = 100.0
"""Seconds after which a test fails. They are more than enough, even on a busy machine."""
FIRST = {"GMS.join_timeout": "100ms", "GMS.max_join_attempts": "1"}
"""Settings of the first member, which finds no other one."""
STACK = """<config>
  <UDP mcast_addr="{group}" mcast_port="{port}"/>
  <SEAL key_file="{keys}" reload_interval="50ms"/>
  <PING/><MERGE3 min_interval="1s" max_interval="2s"/><FD_SOCK2/><FD_ALL3/><VERIFY_SUSPECT2/>
  <pbcast.NAKACK2/><UNICAST3/><pbcast.STABLE/><pbcast.GMS/>
  <UFC/><MFC/><FRAG2/>
</config>"""


def ring_with(ring: Ring, seed: int) -> Ring:
    return ring.with_new(1_800_000_000 + seed, random.Random(seed).randbytes)


def write_ring(file: Path, ring: Ring) -> None:
    """Write the ring to the file in one step, readable for its owner alone."""
    fresh = file.with_suffix(".new")
    with open(os.open(fresh, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as out:
        out.write(ring.text())
    fresh.rename(file)


class Pair:
    """Members A and B of one group, with what B's application got, and a stranger's socket in their multicast group."""

    def __init__(self, a: Channel, b: Channel, port: int) -> None:
        self.a, self.b = a, b
        self.got: list[bytes] = []
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind((GROUP, port))
        joined = socket.inet_aton(GROUP) + socket.inet_aton("127.0.0.1")
        self.socket.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, joined)
        self.socket.setblocking(False)

    def play(self, data: bytes) -> None:
        """The stranger sends it to B."""
        transport = self.b.stack.find(TP)
        assert transport is not None and transport.physical is not None
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            stranger.sendto(data, (transport.physical.host or "", transport.physical.port))

    async def said(self, text: bytes) -> bytes:
        """A sends it to all. Return A's sealed datagram that the stranger receives, after B has it."""
        self.heard_of_a()
        await self.a.send(text)
        await until(lambda: text in self.got)
        found = self.heard_of_a()
        while not found:
            await trio.sleep(0.005)
            found = self.heard_of_a()
        return found[0]

    def heard_of_a(self) -> list[bytes]:
        found: list[bytes] = []
        sender = seal_of(self.a).door.datagrams._sender
        while True:
            try:
                data = self.socket.recv(65536)
            except BlockingIOError:
                return [data for data in found if data[8:24] == sender]
            found.append(data)

    def refused(self, cause: str) -> int:
        return self.b.statistics().turned_away.get(f"SEAL.{cause}", 0)


def seal_of(channel: Channel) -> SEAL:
    found: SEAL | None = channel.stack.find(SEAL)
    assert found is not None
    return found


async def until(is_so: Callable[[], bool]) -> None:
    with trio.fail_after(PATIENCE):
        while not is_so():  # noqa: ASYNC110
            await trio.sleep(0.005)


@asynccontextmanager
async def pair(folder: Path, port: int) -> AsyncIterator[Pair]:
    keys = folder / "ring.keys"
    write_ring(keys, ring_with(NO_KEYS, 1))
    file = folder / "sealed.xml"
    file.write_text(STACK.format(group=GROUP, port=port, keys=keys))
    async with (
        open_channel(str(file), cluster="bank", name="A", attributes=FIRST) as a,
        open_channel(str(file), cluster="bank", name="B") as b,
        trio.open_nursery() as nursery,
    ):
        for channel in (a, b):
            await channel.wait_members(["A", "B"], timeout=PATIENCE)
        two = Pair(a, b, port)

        async def read(channel: Channel, into: list[bytes]) -> None:
            async for item in channel:
                if isinstance(item, Message) and item.sender == a.address:
                    into.append(bytes(item.payload))

        nursery.start_soon(read, a, [])
        nursery.start_soon(read, b, two.got)
        try:
            yield two
        finally:
            two.socket.close()
            nursery.cancel_scope.cancel()


async def test_recorded_altered_and_forged_packets_of_a_stranger_are_turned_away_by_cause(
    tmp_path: Path, port: int, multicast: MulticastProbe
) -> None:
    async with pair(tmp_path, port) as two:
        recorded = await two.said(b"first")
        assert b"first" not in recorded and b"bank" not in recorded
        altered = recorded[:-1] + bytes([recorded[-1] ^ 1])
        for data, cause in (
            (recorded, "replayed"),
            (altered, "altered"),
            (recorded[:4] + b"none" + recorded[8:], "unknown_key"),
            (b"bela" + recorded[4:], "unsealed"),
            (recorded[:40], "malformed"),
        ):
            before = two.refused(cause)
            two.play(data)
            await until(lambda cause=cause, before=before: two.refused(cause) > before)  # type: ignore[misc]
        await two.said(b"second")
        assert two.got == [b"first", b"second"]


async def test_keys_rotate_while_members_run_and_no_message_is_lost(
    tmp_path: Path, port: int, multicast: MulticastProbe
) -> None:
    ring = ring_with(NO_KEYS, 1)
    later = ring_with(ring, 2)
    async with pair(tmp_path, port) as two:
        old = await two.said(b"0")
        assert old[4:8] == ring.writer.id
        steps = (later, later.rotated(2), later.rotated(1))
        for number, step in enumerate(steps, 1):
            write_ring(tmp_path / "ring.keys", step)
            await until(
                lambda number=number: all(  # type: ignore[misc]
                    seal_of(channel).ring_reloads == number for channel in (two.a, two.b)
                )
            )
            sealed = await two.said(b"%d" % number)
            assert sealed[4:8] == step.writer.id
        before = two.refused("unknown_key")
        two.play(old)
        await until(lambda: two.refused("unknown_key") > before)
        assert two.got == [b"0", b"1", b"2", b"3"]
