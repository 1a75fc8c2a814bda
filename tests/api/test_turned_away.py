"""open_channel(turned_away=...): the application learns of refusals."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, ClassVar

import pytest
import trio.testing

from jgroups_py import Channel, MemoryNetwork, TurnedAway, open_channel

sys.path.insert(0, str(Path(__file__).parent))
from toy import TOY

from jgroups_py.stack.ports import Datagram, In


class PICKY(TOY):
    """Refuses each bye."""

    turns_away: ClassVar[Mapping[str, str]] = {"bye": "nobody leaves"}

    def on_input(self, item: In) -> None:
        if isinstance(item, Datagram) and item.data[:1] == b"b" and item.source != self.local:
            self.turn_away("bye", item.source)
        else:
            super().on_input(item)


Open = Callable[..., AbstractAsyncContextManager[Channel]]


@pytest.fixture
def open_picky(tmp_path: Path, network: MemoryNetwork) -> Open:
    file = tmp_path / "picky.xml"
    file.write_text("<config><test_turned_away.PICKY/></config>")

    def opened(name: str, **options: Any) -> AbstractAsyncContextManager[Channel]:
        return open_channel(file, cluster="test", name=name, transport=network, **options)

    return opened


async def _refuse(open_picky: Open, **options: Any) -> Channel:
    """A toy GMS refuses B's goodbye."""
    async with open_picky("A", **options) as a:
        async with open_picky("B"):
            await a.wait_view(2)
        await trio.testing.wait_all_tasks_blocked(0.01)
    return a


async def test_the_application_is_told_and_reads_the_counter(open_picky: Open) -> None:
    told: list[TurnedAway] = []
    a = await _refuse(open_picky, turned_away=told.append)
    assert [(event.cause, event.by, event.cluster, event.count) for event in told] == [
        ("bye", "PICKY", "test", 1)
    ]
    assert told[0].source.startswith("127.0.0.1:")
    assert a.statistics().turned_away == {"PICKY.bye": 1}
    assert a.statistics().protocols["PICKY"]["turned_away_bye"] == 1


async def test_refusals_are_counted_without_a_listener(open_picky: Open) -> None:
    a = await _refuse(open_picky)
    assert a.statistics().turned_away == {"PICKY.bye": 1}
    assert a.statistics().turned_away_failures == 0


async def test_a_listener_that_raises_harms_nobody(
    open_picky: Open, caplog: pytest.LogCaptureFixture
) -> None:
    def listener(event: TurnedAway) -> None:
        raise RuntimeError("boom")

    with caplog.at_level(logging.WARNING):
        a = await _refuse(open_picky, turned_away=listener)
    assert a.statistics().turned_away_failures == 1
    assert any("turned_away= raised RuntimeError: boom" in line for line in caplog.messages)


async def test_a_block_on_top_counts_its_own(
    open_picky: Open, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[TurnedAway] = []
    causes = {"no_member": "a caller that is not in the view"}
    with caplog.at_level(logging.WARNING):
        async with open_picky("A", turned_away=told.append) as a:
            for _ in range(3):
                a.turn_away("RPC", "no_member", "B", causes=causes)
            assert a.statistics().turned_away == {"RPC.no_member": 3}
    assert [(event.by, event.cluster, event.source) for event in told] == [("RPC", "test", "B")]
    (line,) = [line for line in caplog.messages if "no_member" in line]
    assert line.startswith("A/test: RPC turned away: no_member (a caller that")


async def test_a_value_that_is_no_function_is_refused(open_picky: Open) -> None:
    with pytest.raises(TypeError, match="turned_away is a function, got"):
        async with open_picky("A", turned_away="log"):
            pass
