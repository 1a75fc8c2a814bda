"""Caches without files, and stores that fail on demand."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # faulty_store.py, opened.py
