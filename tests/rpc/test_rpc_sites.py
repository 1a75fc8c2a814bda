"""Casts to members of another site: two sites with RELAY on a network in memory."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import trio

from jgroups_py import (
    Address,
    Batch,
    MemoryNetwork,
    Message,
    Rpc,
    SiteUUID,
    Unreachable,
    open_channel,
    open_rpc,
)
from jgroups_py.protocols.relay.bridge.link import RelayBridge
from jgroups_py.rpc import Methods, other_sites, with_caller
from jgroups_py.rpc.serving import ID
from jgroups_py.values.message import MessageType

BRIDGE = ",".join(f"127.0.0.1[{port}]" for port in range(7950, 7957))


class Sites:
    """NYC and SFO; each member records its calls and their callers."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.nursery = nursery
        self.network = MemoryNetwork()
        self.told: dict[str, list[tuple[str, Any]]] = {}
        self.heard: dict[str, list[bytes]] = {}
        self.rpcs: dict[str, Rpc] = {}
        self.scopes: dict[str, trio.CancelScope] = {}

    async def start(self, site: str, names: str) -> None:
        for name in names:
            await self.nursery.start(self._run, site, name)

    async def _run(self, site: str, name: str, *, task_status: trio.TaskStatus[None]) -> None:
        told = self.told[name] = []
        heard = self.heard[name] = []

        @with_caller
        def note(caller: Address, value: Any) -> None:
            told.append((str(caller), value))

        properties = {
            "relay.site": site,
            "relay.sites": "NYC,SFO",
            "relay.bridge.hosts": BRIDGE,
            "jgroups.udp.mcast_port": {"NYC": "45001", "SFO": "45002"}[site],
        }
        opened = partial(open_channel, "relay-udp.xml", cluster=site, transport=self.network)
        with trio.CancelScope() as self.scopes[name]:
            async with (
                opened(name=name, properties=properties) as channel,
                open_rpc(channel, Methods({"note": note})) as rpc,
            ):
                self.rpcs[name] = rpc
                task_status.started()
                async for item in rpc:
                    if isinstance(item, Message):
                        heard.append(bytes(item.payload))

    def there(self, names: str) -> list[SiteUUID]:
        """Return the addresses of members there, as other sites know them."""
        return [SiteUUID(bytes(self.rpcs[n].channel.address), "SFO", n) for n in names]


@pytest.mark.seed("R18")
async def test_a_list_of_members_of_another_site_becomes_all_of_that_site(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    crossed: list[Batch] = []
    on_run = RelayBridge._on_run

    def seen(self: RelayBridge, session: Any, batch: Batch) -> None:
        crossed.append(batch)
        on_run(self, session, batch)

    monkeypatch.setattr(RelayBridge, "_on_run", seen)
    async with trio.open_nursery() as nursery:
        sites = Sites(nursery)
        await sites.start("NYC", "ABC")
        await sites.start("SFO", "STU")
        await trio.sleep(10)
        b = sites.rpcs["B"]
        await b.channel.send(b"before")
        await b.cast("note", 1, dests=[*sites.there("ST"), sites.rpcs["C"].channel.address])
        await b.channel.send(b"between")
        await b.cast("note", 2, dests=sites.there("U"))
        await b.cast("note", 3)  # the sender's own group
        await trio.sleep(5)
        for name in "STU":
            assert sites.told[name] == [("B:NYC", 1), ("B:NYC", 2)]
            assert sites.heard[name] == [b"before", b"between"]
        assert [value for _, value in sites.told["A"]] == [3]
        assert sorted(value for _, value in sites.told["C"]) == [1, 3]
        members = [bytes(sites.rpcs[name].channel.address) for name in "ABCSTU"]
        payloads = [bytes(payload) for batch in crossed for payload in batch.payloads]
        assert len(payloads) == 4
        assert not any(member in payload for payload in payloads for member in members)
        assert not any(ID in batch.headers for batch in crossed)
        home = SiteUUID(bytes(b.channel.address), "NYC", "B")
        with pytest.raises(Unreachable, match="SFO does not relay to NYC"):
            await sites.rpcs["S"].cast("note", 4, dests=[home])
        nursery.cancel_scope.cancel()


@pytest.mark.seed("R18")
async def test_casts_to_another_site_survive_a_change_of_relay_in_order_and_once(
    autojump_clock: Any,
) -> None:
    async with trio.open_nursery() as nursery:
        sites = Sites(nursery)
        await sites.start("NYC", "ABC")
        await sites.start("SFO", "ST")
        await trio.sleep(10)
        b, far = sites.rpcs["B"], sites.there("S")
        for number in range(100):
            await b.cast("note", number, dests=far)
            if number == 50:
                sites.scopes["A"].cancel()  # the relay
            await trio.sleep(0.01)
        await trio.sleep(20)
        for name in "ST":
            assert [value for _, value in sites.told[name]] == list(range(100))
        nursery.cancel_scope.cancel()


def test_casts_for_other_sites_and_other_messages_are_told_apart() -> None:
    src = SiteUUID(bytes(16), "NYC", "A")
    cast = other_sites.MAGIC + b"\x03SFO" + b"\x04note"
    other = other_sites.MAGIC + b"\x03LON" + b"\x04note"
    batch = Batch(None, (b"a", cast, cast, other, memoryview(b"b"), other[:6]), {}, src)
    assert other_sites.is_relayed(batch)
    got = [
        (is_cast, [bytes(p) for p in part.payloads])
        for is_cast, part in other_sites.parts(batch, "SFO")
    ]
    assert got == [(False, [b"a"]), (True, [b"\x04note"] * 2), (False, [b"b"])]
    assert not other_sites.is_relayed(Batch(None, (cast,), {}, Address(b"x" * 16)))
    assert not other_sites.is_relayed(Batch(None, (b"a",), {}, src))
    assert not other_sites.is_relayed(Batch(None, (cast,), {}, src, type=MessageType.OBJECT))
