"""Channels and caches for threads. A test leaves none of them behind."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from jgroups_py import (
    MemoryNetwork,
    blocking,
)

sys.path.insert(0, str(Path(__file__).parent))  # threads.py

from threads import JOIN_SECONDS, Open, Pair, loops, until


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    """The loop's thread ends with its last user, also after a test that failed."""
    until(lambda: not loops())  # that of the previous test may be ending
    yield
    gc.collect()
    until(lambda: not loops())


@pytest.fixture
def open_sim() -> Open:
    fast = {"SHARED_LOOPBACK_PING.wait": "100ms"}
    return partial(
        blocking.open_channel,
        "sim.xml",
        cluster="test",
        transport=MemoryNetwork(),
        attributes=fast,
        timeout=20,
    )


@pytest.fixture
def cache() -> Iterator[blocking.TreeCache]:
    with blocking.open_tree_cache("local.xml", timeout=20) as cache:
        yield cache


@pytest.fixture
def pair(open_sim: Open) -> Iterator[Pair]:
    """A and B, each seeing the other."""
    with open_sim(name="A") as a, open_sim(name="B") as b:
        until(lambda: len(a.view) == len(b.view) == 2, JOIN_SECONDS)
        yield a, b
