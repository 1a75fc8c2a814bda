"""A plug-in of pytest for pymemcache's own tests: a server of ours in this process, emptied before each test.

The tests call flush_all for that, which a bucket store refuses. The server's port is the option ``--port`` of the tests.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from served import served

from jgroups_py.buckets.items import MemoryStore
from jgroups_py.buckets.memcached import MemcachedServer

STORE = MemoryStore()
NOT_OFFERED = {
    "test_misc": "cachedump and cache_memlimit are no commands of a store",
}
"""Tests that are left out, with the reason."""


@pytest.fixture(scope="session", autouse=True)
def our_server(request: pytest.FixtureRequest) -> Iterator[None]:
    with served(lambda: MemcachedServer(STORE).serve, f"127.0.0.1:{request.config.option.port}"):
        yield


@pytest.fixture(autouse=True)
def nothing_is_stored(our_server: None) -> None:
    STORE.items.clear()


def pytest_collection_modifyitems(items: list[Any]) -> None:
    for item in items:
        reason = NOT_OFFERED.get(item.originalname)
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))
