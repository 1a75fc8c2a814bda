"""Wait, in threads, until a condition holds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from jgroups_py import (
    Message,
    blocking,
)
from jgroups_py.blocking.loop import THREAD_NAME

Open = Callable[..., blocking.Channel]
JOIN_SECONDS = 90.0
"""On a busy machine a member may be alone at first, and merge later."""
Pair = tuple[blocking.Channel, blocking.Channel]


def loops() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == THREAD_NAME]


def until(condition: Callable[[], Any], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.005)


def next_message(channel: blocking.Channel | blocking.Rpc) -> Message:
    while not isinstance(item := channel.receive(timeout=30), Message):
        pass
    return item
