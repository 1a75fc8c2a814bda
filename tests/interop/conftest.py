from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # java_parts.py and mixed_group.py
sys.path.insert(0, str(Path(__file__).parent.parent / "discovery"))  # postgresql.py

from java_parts import OLDER, JavaParts, Unavailable, java_parts


@pytest.fixture(scope="session")
def parts() -> JavaParts:
    """JGroups of the version whose bytes we speak."""
    return _parts_or_skip()


@pytest.fixture(scope="session")
def older_parts(parts: JavaParts) -> JavaParts:
    """JGroups of the previous minor version."""
    return _parts_or_skip(OLDER)


def _parts_or_skip(*version: str) -> JavaParts:
    try:
        return java_parts(*version)
    except Unavailable as problem:
        pytest.skip(f"no Java members: {problem}")
