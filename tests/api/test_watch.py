"""Waiting for a condition: the time limit, and a condition that holds when it is over."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from jgroups_py.channel.watch import Watch
from jgroups_py.errors import WaitTimeout


async def test_a_condition_that_holds_when_the_time_is_over_is_no_timeout(
    autojump_clock: MockClock,
) -> None:
    start = trio.current_time()
    await Watch().until(lambda: trio.current_time() >= start + 1, 1, lambda: "never described")
    with pytest.raises(WaitTimeout, match=r"it is missing \(waited 1 s\)"):
        await Watch().until(lambda: False, 1, lambda: "it is missing")
