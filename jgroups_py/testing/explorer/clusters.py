"""Times and settings of explored clusters of buddies and of maps."""

from __future__ import annotations

from typing import Final

SECONDS: Final = 10.0
"""Virtual time with faults."""
QUICK: Final = {
    "FD_ALL3.timeout": "1.5s",
    "FD_ALL3.interval": "0.5s",
    "VERIFY_SUSPECT2.timeout": "0.3s",
    "MERGE3.min_interval": "0.5s",
    "MERGE3.max_interval": "1s",
}
"""Settings with which partitions are noticed, and merges come, within ``SECONDS``."""
