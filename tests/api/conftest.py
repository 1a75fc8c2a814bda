"""A stack of one toy protocol, on a network in memory."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # toy.py

from jgroups_py import Channel, MemoryNetwork, open_channel

Open = Callable[..., AbstractAsyncContextManager[Channel]]


@pytest.fixture
def toy_stack(tmp_path: Path) -> str:
    file = tmp_path / "toy.xml"
    file.write_text("<config><toy.TOY/></config>")
    return str(file)


@pytest.fixture
def network() -> MemoryNetwork:
    return MemoryNetwork()


@pytest.fixture
def open_toy(toy_stack: str, network: MemoryNetwork) -> Open:
    return partial(open_channel, toy_stack, cluster="test", transport=network)
