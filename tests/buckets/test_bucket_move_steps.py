"""Each party of a move is lost at each of its steps, one millisecond after the other; a message takes a millisecond
here."""

from __future__ import annotations

import pytest
from moving import STEPS, Moving

from jgroups_py.buckets import Cep


@pytest.mark.parametrize("role", ["master", "slave"])
@pytest.mark.parametrize("lost", ["source", "there", "slave", "x", "y", "x source", "x there"])
def test_any_loss_at_any_step_of_a_move_loses_no_answered_change(role: str, lost: str) -> None:
    """x conducts the update of the index."""
    for step in STEPS:
        moving = Moving(role)
        moving.play(lost.split(), step)
        moving.judge()


def test_the_steps_cover_a_whole_move() -> None:
    for role in ("master", "slave"):
        moving = Moving(role)
        moving.play([], 0)
        moving.judge()
        (row,) = moving.moves
        assert row.role_of(Cep("there.1", "m/there")) == role
