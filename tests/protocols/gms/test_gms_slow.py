"""Rounds that overlap: see gms_slow.py."""

from __future__ import annotations

from typing import Any

import pytest
from gms_slow import Slow


@pytest.mark.parametrize("seed", range(24))
def test_on_a_slow_network_all_end_in_one_view(net: Any, seed: int) -> None:
    slow = Slow(net, seed)
    slow.play()
    slow.at_rest()
