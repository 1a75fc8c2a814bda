"""Virtual time that stands still while a thread works for a task. Every folder of tests may import it.

An autojump clock jumps as soon as all tasks wait, also for a thread, which takes real time. How far it jumps meanwhile depends on the
machine."""

from __future__ import annotations

import math
from typing import Any

import pytest
import trio
from trio.testing import MockClock


def wait_for_threads(clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``clock`` jump only while no thread works."""
    usual, threshold, working = trio.to_thread.run_sync, clock.autojump_threshold, 0

    async def run_sync(*arguments: Any, **options: Any) -> Any:
        nonlocal working
        working += 1
        clock.autojump_threshold = math.inf
        try:
            return await usual(*arguments, **options)
        finally:
            working -= 1
            if not working:
                clock.autojump_threshold = threshold

    monkeypatch.setattr(trio.to_thread, "run_sync", run_sync)
