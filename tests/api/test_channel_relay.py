"""The channel on the shipped relay stack: two sites on one network in memory."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import trio
from test_channel_stream import take

from jgroups_py import LocalProtocolError, MemoryNetwork, open_channel

BRIDGE = "127.0.0.1[7950],127.0.0.1[7951]"


@pytest.fixture
def open_site() -> Any:
    network = MemoryNetwork()

    def open_one(site: str, name: str, primary: str) -> Any:
        properties = {
            "relay.site": site,
            "relay.bridge.hosts": BRIDGE,
            "jgroups.udp.mcast_port": {"NYC": "45001", "SFO": "45002"}[site],
        }
        return partial(open_channel, "relay-udp.xml", cluster=site, transport=network)(
            name=name, properties=properties, attributes={"RELAY.primary": primary}
        )

    return open_one


async def test_a_relay_is_shown_and_a_site_is_promoted(open_site: Any, autojump_clock: Any) -> None:
    async with open_site("NYC", "A", "NYC") as a, open_site("SFO", "T", "NYC") as t:
        await trio.sleep(10)
        assert a.relay is not None and t.relay is not None
        assert (a.relay.status().role, a.relay.status().relaying) == ("relay", True)
        assert (t.relay.status().role, t.relay.status().relaying) == ("relay", False)
        await take(t, 1)
        await a.send(b"from NYC")
        (sender, payload) = (await take(t, 1))[0]
        assert payload == b"from NYC"
        assert sender.startswith("A")
        t.relay.promote()
        await trio.sleep(5)
        assert t.relay.status().relaying
        assert not a.relay.status().relaying


async def test_a_promotion_that_is_impossible_is_refused_and_the_channel_goes_on(
    open_site: Any, autojump_clock: Any
) -> None:
    async with open_site("NYC", "A", "all") as a:
        assert a.relay is not None
        with pytest.raises(LocalProtocolError):
            a.relay.promote()
        await a.send(b"still here")
        assert (await take(a, 2))[-1][1] == b"still here"
