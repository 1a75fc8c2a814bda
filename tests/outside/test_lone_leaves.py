"""A member that is alone in its group and on the bridge leaves at once."""

from __future__ import annotations

import logging

import pytest
import trio
from trio.testing import MockClock

from jgroups_py import MemoryNetwork, open_channel

NYC = {"relay.site": "NYC", "relay.sites": "NYC,LON"}


@pytest.mark.parametrize("sent", [0, 5])
async def test_a_lone_relay_that_is_cancelled_is_gone_at_once(
    sent: int, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """LON has never existed: no site can acknowledge, and no group could keep us."""
    begun = trio.current_time()
    with trio.move_on_after(30) as scope:
        async with open_channel(
            "relay-udp.xml", cluster="demo", name="A", properties=NYC, transport=MemoryNetwork()
        ) as channel:
            for _ in range(sent):
                await channel.send(b"x")
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert trio.current_time() - begun < 31
    said = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert not any("did not let us go" in text for text in said)
    lost = [text for text in said if "not acknowledged" in text]
    assert len(lost) == bool(sent)
    assert all("no other site is on the bridge" in text and "5 messages" in text for text in lost)
