"""Makes the attacks importable from the tests beside them. Every test here has real sockets."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == HERE and item.path.name != "test_attack_table.py":
            item.add_marker(pytest.mark.sockets)
