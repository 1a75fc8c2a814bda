from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # listing.py


@pytest.fixture
def patient_puts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts wait for a merger that a busy machine has held up."""
    monkeypatch.setattr("jgroups_py.maps.room.STALLED_TIMEOUT", 60.0)
