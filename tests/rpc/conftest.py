"""Groups on the stack of sim.xml, on a network in memory."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial

import pytest

from jgroups_py import Channel, MemoryNetwork, open_channel

Open = Callable[..., AbstractAsyncContextManager[Channel]]


@pytest.fixture
def open_sim() -> Open:
    return partial(open_channel, "sim.xml", cluster="test", transport=MemoryNetwork())
