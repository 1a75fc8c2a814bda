"""Groups on the stack of sim.xml, on a network in memory."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import pytest

from jgroups_py import Channel, MemoryNetwork, open_channel

sys.path.insert(0, str(Path(__file__).parent))  # rpc_nodes.py

Open = Callable[..., AbstractAsyncContextManager[Channel]]


@pytest.fixture
def open_sim() -> Open:
    return partial(open_channel, "sim.xml", cluster="test", transport=MemoryNetwork())
