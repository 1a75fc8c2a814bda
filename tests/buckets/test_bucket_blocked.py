"""An entry that blocks holds up its whole node: it is counted, and a warning names its method."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio
from bucket_group import bucket_group
from seats import Seat, seats
from seed_instance import Instance, key_in

from jgroups_py.buckets import Request
from jgroups_py.buckets.objects import Objects
from jgroups_py.buckets.work import BLOCKED_AFTER, BLOCKED_TOLD


class Clock:
    """Each look is ``took`` seconds later than the previous one."""

    def __init__(self, took: float) -> None:
        self.took, self.now = took, 0.0

    def __call__(self) -> float:
        self.now += self.took
        return self.now


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "worked for" in record.getMessage()]


def test_a_request_that_blocks_is_counted_and_told_now_and_then(
    caplog: pytest.LogCaptureFixture,
) -> None:
    instance = Instance()
    manager, key = instance.manager("n2"), key_in(4)
    with caplog.at_level(logging.WARNING, "jgroups_py.buckets"):
        manager.entry_work.clock = Clock(BLOCKED_AFTER)
        assert instance.ask("n1", key, "+x") == "0"
        assert (manager.counts["blocked"], warnings(caplog)) == (0, [])
        manager.entry_work.clock = Clock(2.5)
        for number in range(1, 4):
            assert instance.ask("n1", key, "+x") == str(number)
        assert manager.counts["blocked"] == 3
        (said,) = warnings(caplog)
        name = f"a request of {manager.provider.application}"
        assert said == (
            f"m/n2: {name} of entry {key!r} worked for 2.5 s; the whole node waited meanwhile"
        )
        instance.world.run(BLOCKED_TOLD + 1, lambda: False)

        def unnamed(request: Request) -> str:
            raise ValueError

        manager.provider.name_of = unnamed
        assert instance.ask("n1", key, "+x") == "4"
        assert "m/n2: a request of entry" in warnings(caplog)[1]


async def test_the_method_of_an_object_is_named(
    autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with bucket_group(plugin=seats()) as group:
        managers = [m for node in group.nodes.values() for m in node.machine.managers.values()]
        assert all(manager.entry_work.clock is trio.current_time for manager in managers)
        for manager in managers:
            manager.entry_work.clock = Clock(1.0)
        with caplog.at_level(logging.WARNING, "jgroups_py.buckets"):
            await Objects(group.nodes["n1"], Seat)["LH400/12A"].book("Ann")
        (said,) = warnings(caplog)
        assert ": Seat.book of entry 'Seat/LH400/12A' worked for 1.0 s" in said
