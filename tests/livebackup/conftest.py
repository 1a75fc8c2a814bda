from __future__ import annotations

import sys
from pathlib import Path

import pytest
from thread_clock import wait_for_threads
from trio.testing import MockClock

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def thread_clock(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> MockClock:
    """Virtual time that stands still while threads and processes of the nodes work."""
    wait_for_threads(autojump_clock, monkeypatch)
    return autojump_clock
