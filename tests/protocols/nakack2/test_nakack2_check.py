"""NAKACK2's own check, which simulations run after each step, finds impossible states."""

from __future__ import annotations

import pytest
from nakack2_harness import B, data, joined

from jgroups_py.protocols.reliable.nakack2.protocol import NAKACK2


def nakack2() -> NAKACK2:
    """Return the NAKACK2 of A, which has a message of B behind a gap."""
    stack = joined()
    stack.up(data(B, 2))
    found = stack.protocol
    assert isinstance(found, NAKACK2)
    found.check()
    return found


def test_a_gap_that_nobody_asks_for_is_found() -> None:
    found = nakack2()
    found.senders.present[B].ask_anew()
    with pytest.raises(AssertionError, match="nobody asks"):
        found.check()


def test_kept_messages_that_are_counted_wrongly_are_found() -> None:
    found = nakack2()
    found.senders.present[B].kept.count += 1
    with pytest.raises(AssertionError):
        found.check()


def test_a_window_whose_pending_messages_are_counted_wrongly_is_found() -> None:
    found = nakack2()
    found.senders.present[B].window.pending.size += 1
    with pytest.raises(AssertionError):
        found.check()
