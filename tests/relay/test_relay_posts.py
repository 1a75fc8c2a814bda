"""Posts: payloads that a block on a channel sends from relay to relay. On the shipped stack, a network in memory."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import trio

from jgroups_py import Channel, MemoryNetwork, open_channel

BRIDGE = ",".join(f"127.0.0.1[{port}]" for port in range(7950, 7955))


class Heard:
    """Records RELAY's reports about other sites."""

    def __init__(self) -> None:
        self.items: list[tuple[Any, ...]] = []

    def site_link(self, site: str, up: bool) -> None:
        self.items.append(("link", site, up))

    def site_post(self, site: str, payload: bytes) -> None:
        self.items.append(("post", site, payload))

    def site_epoch(self, number: int, site: str) -> None:
        self.items.append(("epoch", number, site))


@pytest.fixture
def open_site() -> Any:
    network = MemoryNetwork()

    def open_one(site: str, name: str, **attributes: str) -> Any:
        properties = {
            "relay.site": site,
            "relay.sites": "NYC,SFO",
            "relay.bridge.hosts": BRIDGE,
            "jgroups.udp.mcast_port": {"NYC": "45001", "SFO": "45002"}[site],
        }
        return partial(open_channel, "relay-udp.xml", cluster=site, transport=network)(
            name=name, properties=properties, attributes=attributes
        )

    return open_one


def hear(channel: Channel) -> Heard:
    heard = Heard()
    assert channel.relay is not None
    channel.relay.listen(heard)
    return heard


def post(channel: Channel, payload: bytes) -> bool:
    assert channel.relay is not None
    return channel.relay.post("SFO", payload)


async def test_posts_come_in_order_and_only_from_a_relay_that_has_a_link(
    open_site: Any, autojump_clock: Any
) -> None:
    async with open_site("NYC", "A") as a, open_site("NYC", "B") as b:
        told = hear(a)
        assert not post(a, b"nobody is there")
        assert a.statistics().protocols["RELAY"]["posts_dropped"] == 1
        async with open_site("SFO", "S") as s:
            heard = hear(s)
            await trio.sleep(10)
            assert told.items == [("link", "SFO", True)]
            assert heard.items == [("link", "NYC", True)]
            for number in range(100):
                assert post(a, b"%d" % number)
            assert not post(b, b"no relay")
            assert a.relay is not None
            a.relay.promote()  # no action is needed: it is the first one
            s.relay.promote()
            await trio.sleep(10)
            posts = [item for item in heard.items if item[0] == "post"]
            assert posts == [("post", "NYC", b"%d" % number) for number in range(100)]
            assert ("epoch", 1, "SFO") in heard.items and ("epoch", 1, "SFO") in told.items
        await trio.sleep(10)
        assert told.items[-1] == ("link", "SFO", False)
        assert not post(a, b"gone")


async def test_a_new_relay_is_a_new_link(open_site: Any, autojump_clock: Any) -> None:
    async with open_site("SFO", "S") as s:
        heard = hear(s)
        async with open_site("NYC", "A") as a, open_site("NYC", "B") as b:
            told = hear(b)
            await trio.sleep(10)
            assert told.items == []
            assert heard.items == [("link", "NYC", True)]
            a.abandon("of its own will")
            await trio.sleep(20)
            assert told.items == [("link", "SFO", True)]
            assert [item[2] for item in heard.items] == [True, False, True]
            assert post(b, b"from B")
            await trio.sleep(1)
            assert heard.items[-1] == ("post", "NYC", b"from B")


async def test_messages_that_wait_for_the_bridge_are_bounded(
    open_site: Any, autojump_clock: Any
) -> None:
    async with open_site("NYC", "A", **{"RELAY.post_bytes": "3M"}) as a, open_site("SFO", "S") as s:
        heard = hear(s)
        await trio.sleep(10)
        payload = bytes(1_000_000)
        sent = [post(a, payload) for _ in range(20)]
        assert sent.count(False) > 5 and sent[:4] == [True] * 4
        assert a.statistics().protocols["RELAY"]["posts_dropped"] == sent.count(False)
        await trio.sleep(10)
        assert len(heard.items) == 1 + sent.count(True)
        assert post(a, b"again")
