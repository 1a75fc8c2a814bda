"""Real processes that are stopped, or whose loop is blocked, suspect no member when they go on."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from jgroups_py.config.settings import load_stack
from jgroups_py.tools.commands.detect_run import DetectedGroup, DetectPlan
from jgroups_py.tools.commands.mperf_ports import private_attributes

needs_signals = pytest.mark.skipif(
    not hasattr(signal, "SIGSTOP"), reason=f"no SIGSTOP on {sys.platform}"
)


@asynccontextmanager
async def group_of_three(stack: str, **settings: str) -> AsyncIterator[DetectedGroup]:
    attributes = private_attributes(load_stack(stack), 4)
    # A joiner waits long for an answer. Otherwise it would found a group of its own when others are not run for a second, and groups
    # merge after half a minute.
    attributes["GMS.join_timeout"] = "30s"
    attributes.update({key.replace("__", "."): value for key, value in settings.items()})
    plan = DetectPlan(stack, 3, 0, f"stopped-{os.getpid()}", attributes)
    async with trio.open_nursery() as nursery:
        group = DetectedGroup(plan, nursery)
        try:
            for _ in range(plan.members):
                await group.start_one()
                await group.agree()
            await trio.sleep(0.5)
            yield group
        finally:
            for child in group.children.values():
                child.process.send_signal(signal.SIGCONT)
            with trio.CancelScope(shield=True):
                await group.end()
        nursery.cancel_scope.cancel()


async def stop(group: DetectedGroup, name: str, seconds: float) -> None:
    process = group.children[name].process
    process.send_signal(signal.SIGSTOP)
    await trio.sleep(seconds)
    process.send_signal(signal.SIGCONT)


def blamed(told: dict[str, Any]) -> dict[str, int]:
    """Return the numbers of this member's own suspicions, and of suspicions that it believed."""
    return {
        "FD_ALL3": told["FD_ALL3"]["suspected"],
        "FD_SOCK2": told["FD_SOCK2"]["suspicions"],
        "VERIFY_SUSPECT2": told["VERIFY_SUSPECT2"]["confirmed"],
    }


NOBODY = {"FD_ALL3": 0, "FD_SOCK2": 0, "VERIFY_SUSPECT2": 0}


@needs_signals
@pytest.mark.parametrize("stack", ["udp.xml", pytest.param("tcp.xml", marks=pytest.mark.slow)])
async def test_a_process_that_stood_still_suspects_nobody(stack: str, multicast: object) -> None:
    """M1 is stopped, then the loop of M2 is blocked, for longer than FD_ALL3's time-out. The others
    ask, and are answered in time."""
    # No shorter ones: on a busy machine a member may not be run for a second, and then others suspect it rightly.
    short = {"FD_ALL3__timeout": "4s", "FD_ALL3__interval": "500ms"}
    async with group_of_three(stack, VERIFY_SUSPECT2__timeout="30s", **short) as group:
        before = len(group.history)
        await stop(group, "M1", 5.0)
        await trio.sleep(1.0)
        stopped = await group.statistics("M1")
        assert blamed(stopped) == NOBODY
        earlier = blamed(await group.statistics("M2"))  # it may have suspected M1 for a moment
        await group.block("M2", 5.0)
        await trio.sleep(1.0)
        blocked = await group.statistics("M2")
        assert blamed(blocked) == earlier
        for told in (stopped, blocked):
            assert told["driver"]["lags"] >= 1 and told["driver"]["late_longest_ms"] > 4500
        assert len(group.history) == before, "nobody has a new view"


@pytest.mark.slow
@needs_signals
@pytest.mark.parametrize("who", ["M1", "M3"])
@pytest.mark.parametrize("stack", ["udp.xml", "tcp.xml"])
async def test_stopped_for_20_seconds(stack: str, who: str, multicast: object) -> None:
    """The stacks have 40 s: no member is suspected on either side."""
    async with group_of_three(stack) as group:
        before = len(group.history)
        await stop(group, who, 20.0)
        await trio.sleep(12.0)
        for name in group.children:
            assert blamed(await group.statistics(name)) == NOBODY, name
        assert len(group.history) == before


@pytest.mark.slow
@needs_signals
async def test_a_member_stopped_for_20_seconds_where_5_are_allowed_is_out(
    multicast: object,
) -> None:
    """The others go on without it after the stack's time-out, and take it back when it returns."""
    quick = {
        "FD_ALL3__timeout": "5s",
        "FD_ALL3__interval": "1s",
        "MERGE3__min_interval": "1s",
        "MERGE3__max_interval": "5s",
    }
    async with group_of_three("udp.xml", **quick) as group:
        await stop(group, "M2", 20.0)
        without = [members for who, members in group.history if who == "M1"][-1]
        assert sorted(without) == ["M1", "M3"]
        await group.agree()
        assert blamed(await group.statistics("M2")) == NOBODY
