"""Waits of the bench: each ends at its own time, and a cancelled one harms no other."""

from __future__ import annotations

import sys
import time

import pytest
import trio

from jgroups_py.tools.bench.waits import Waits

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems sleep")


class Rounds(trio.abc.Instrument):
    """Counts the rounds of trio's loop."""

    def __init__(self) -> None:
        self.count = 0

    def after_io_wait(self, timeout: float) -> None:
        self.count += 1


def test_waits_end_in_the_order_of_their_ends_and_not_before() -> None:
    rounds = Rounds()
    ended: list[tuple[int, float]] = []

    async def wait(waits: Waits, seconds: float) -> None:
        began = time.monotonic()
        await waits.wait(seconds)
        assert time.monotonic() - began >= seconds
        ended.append((rounds.count, seconds))

    async def main(waits: Waits) -> None:
        async with trio.open_nursery() as nursery:
            for seconds in (0.25, 0.05, 0.15):
                nursery.start_soon(wait, waits, seconds)
        await wait(waits, 0.001)

    waits = Waits()
    for _ in range(2):  # the second time in a loop of its own
        trio.run(main, waits, instruments=[rounds])
    # If the machine stops this process for long, two ends share a round, and trio runs their tasks in any order.
    assert [seconds for _, seconds in sorted(ended)] == [0.05, 0.15, 0.25, 0.001] * 2


def test_a_cancelled_wait_is_nobody_elses_end() -> None:
    async def main() -> None:
        waits, began = Waits(), time.monotonic()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(waits.wait, 0.08)
            with trio.move_on_after(0.01):
                await waits.wait(0.03)
            await waits.wait(0.05)
        assert time.monotonic() - began >= 0.08

    trio.run(main)
