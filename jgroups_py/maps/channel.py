"""Maps over a channel: one channel carries any number of maps. A change is one multicast, whatever the number of hosts.

    async with open_channel("udp.xml", cluster="maps") as channel:
        async with open_map_channel(channel) as carrier:
            async with open_map("data/fx", identifier=1, network=carrier.network("fx")) as fx:
                fx[b"USD/GBP"] = b"0.767957"

During the block the channel serves the maps only: other messages are counted and dropped. With RELAY in the stack the
maps of all sites become equal; ``RELAY.primary`` must be "all", so that each site relays.

group.py has the links without I/O.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import trio

from jgroups_py.channel.channel import Channel
from jgroups_py.driver.needs_trio import check_trio
from jgroups_py.driver.unwrap import reraise
from jgroups_py.errors import ConfigError
from jgroups_py.maps.group import (
    BadEnvelope,
    Down,
    GroupLinks,
    GroupOut,
    GroupSettings,
    Incoming,
    Send,
    Up,
    opened,
)
from jgroups_py.maps.links import LinkHost
from jgroups_py.stack.sizes import check_any_size
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.view import View

TICK: Final = 0.25
"""Seconds between two checks of links."""


class MapChannel:
    """Made by ``open_map_channel``. It is the tap of the channel."""

    def __init__(self, channel: Channel, *, unsent_max: int, settings: GroupSettings) -> None:
        self.channel = channel
        self.settings = settings
        self.counters: Counter[str] = Counter()
        """messages, garbage (unreadable), other (not of maps), other_map (of maps not served here), not_sent
        (``unsent_max`` bytes waited)."""
        self._unsent_max = unsent_max
        self._maps: dict[str, _Served] = {}
        self._queue: deque[tuple[Address | None, bytes]] = deque()
        self._unsent = 0
        self._wake = trio.Event()
        self._error: Exception | None = None
        self.chance: Callable[[], int] = _chance
        """Draws the numbers of links, from 1 to 2**32 - 1."""
        self.on_view: Callable[[View], None] | None = None
        """Called with each view, after the maps have taken it."""

    def network(self, name: str) -> ChannelNetwork:
        """Return the network that connects the map ``name`` to the other members that serve it."""
        if not 0 < len(name) <= 255:
            raise ConfigError(f"a map's name must have 1 to 255 characters, got {len(name)}")
        return ChannelNetwork(self, name)

    def add(self, name: str, host: LinkHost) -> _Served:
        if name in self._maps:
            raise ConfigError(f'the map "{name}" is served on this channel already')
        links = GroupLinks(name, self.channel.address, self.chance, self.settings)
        served = self._maps[name] = _Served(self, links, host)
        links.view(self.channel.view.members, trio.current_time())
        served.carry_out()
        return served

    def remove(self, name: str) -> None:
        served = self._maps.pop(name)
        served.links.leave()
        served.carry_out()

    # --- sending

    def put(self, to: Address | None, data: bytes) -> None:
        """Send a message as soon as the channel takes it. Without room the message is dropped: replicas detect missing
        changes."""
        if self._unsent + len(data) > self._unsent_max:
            self.counters["not_sent"] += 1
            return
        self._unsent += len(data)
        self._queue.append((to, data))
        self._wake.set()

    async def run_sender(self) -> None:
        while True:
            while self._queue:
                to, data = self._queue[0]
                await self.channel.send(data, to, loopback=to is not None)
                self._queue.popleft()
                self._unsent -= len(data)
            self._wake = trio.Event()
            await self._wake.wait()

    async def flush(self) -> None:
        """Send waiting messages."""
        while self._queue and self._error is None:  # noqa: ASYNC110 - the sender works
            await trio.sleep(0.001)

    # --- receiving

    async def run_reader(self) -> None:
        """Read the rest of the channel's stream: views and foreign messages."""
        while True:
            item = await self.channel.next_held(self)
            if isinstance(item, Batch):
                self.counters["other"] += len(item.payloads)
                self.channel.give_back(item)

    def deliver(self, batch: Batch) -> bool:
        now = trio.current_time()
        for payload in batch.payloads:
            try:
                envelope = opened(batch.bytes_of(payload))
            except BadEnvelope:
                self.counters["garbage"] += 1
                continue
            if envelope is None or batch.src is None:
                self.counters["other"] += 1
                continue
            served = self._maps.get(envelope.map)
            if served is None:
                self.counters["other_map"] += 1
                continue
            self.counters["messages"] += 1
            served.links.received(batch.src, envelope, now)
            served.carry_out()
        return True

    def view_changed(self, view: View) -> None:
        now = trio.current_time()
        for served in self._maps.values():
            served.links.view(view.members, now)
            served.carry_out()
        if self.on_view is not None:
            self.on_view(view)

    def excluded(self, gone: tuple[Address, ...]) -> None:
        """Ignore it: the next view shows it."""

    def state_replaced(self, unread: list[Batch]) -> None:
        """Ignore it: maps have no state in the channel."""

    def reading(self) -> tuple[object, int]:
        return self.counters["messages"], 0

    def ended(self, error: Exception) -> None:
        self._error = error


class _Served:
    """One map on the channel."""

    def __init__(self, carrier: MapChannel, links: GroupLinks, host: LinkHost) -> None:
        self.links = links
        self._carrier = carrier
        self._host = host
        self._numbers: dict[Address, int] = {}
        self._busy = False

    def carry_out(self) -> None:
        if self._busy:  # the host sends during these calls: the loop below goes on
            return
        self._busy = True
        try:
            while out := self.links.take():
                for one in out:
                    self._do(one)
        finally:
            self._busy = False

    def _do(self, out: GroupOut) -> None:
        if isinstance(out, Send):
            self._carrier.put(out.to, out.data)
        elif isinstance(out, Up):
            self._numbers[out.member] = self._host.link_opened(_MemberLink(self, out.member), self)
        elif isinstance(out, Down):
            number = self._numbers.pop(out.member, None)
            if number is not None:
                self._host.link_closed(number)
        elif isinstance(out, Incoming):
            number = self._numbers.get(out.member)
            if number is not None:
                self._host.received(number, out.data, shared=out.shared)
        else:
            self._host.overheard(out.data)

    def send_all(self, data: bytes) -> None:
        """See ``Medium``."""
        self.links.send_all(data)
        self.carry_out()

    def close(self, member: Address) -> None:
        self._numbers.pop(member, None)
        self.links.close(member, trio.current_time())
        self.carry_out()


class _MemberLink:
    """See ``Link``."""

    def __init__(self, served: _Served, member: Address) -> None:
        self._served = served
        self._member = member

    def send(self, data: bytes) -> None:
        self._served.links.send(self._member, data)
        self._served.carry_out()

    def close(self) -> None:
        self._served.close(self._member)


class ChannelNetwork:
    """The links of one map. Made by ``MapChannel.network``."""

    def __init__(self, carrier: MapChannel, name: str) -> None:
        self._carrier = carrier
        self._name = name

    async def run(self, host: LinkHost) -> None:
        """Give ``host`` its links, until cancelled."""
        served = self._carrier.add(self._name, host)
        try:
            while True:
                await trio.sleep(TICK)
                served.links.tick(trio.current_time())
                served.carry_out()
        finally:
            self._carrier.remove(self._name)


@asynccontextmanager
async def open_map_channel(
    channel: Channel,
    *,
    unsent_max: int = 64 * 1024 * 1024,
    settings: GroupSettings | None = None,
) -> AsyncIterator[MapChannel]:
    """Let maps use a channel for as long as the block lasts.

    Args: channel: no other task reads it meanwhile.
        unsent_max: the most bytes that wait for the channel.
        settings: times and limits of links. With RELAY in the stack ``sites`` is true by default.

    Raises:
        ConfigError: the stack sends datagrams and has no FRAG2, so a large change could not be sent.
        LocalProtocolError: something reads the channel already, or there is no trio loop here.
        ChannelClosed, Expelled: the channel has ended.
    """
    check_trio("open_map_channel", aio=False)
    check_any_size("a map", f"the stack of {channel.name}", channel.outbox.size_max)
    settings = settings or GroupSettings(sites=channel.relay is not None)
    carrier = MapChannel(channel, unsent_max=unsent_max, settings=settings)
    channel.attach(carrier)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(carrier.run_sender)
            nursery.start_soon(carrier.run_reader)
            yield carrier
            with trio.move_on_after(1):
                await carrier.flush()
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        reraise(group)
    finally:
        channel.detach([])


def _chance() -> int:
    return random.randint(1, 2**32 - 1)
