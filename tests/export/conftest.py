"""Tests use export_kit.py, and the caches of tests/cache."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cache")]  # export_kit.py, cache_group.py
