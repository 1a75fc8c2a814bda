"""Confirmations: this host has all changes that another host wrote before its report
(jgroups_py/maps/confirmations.py)."""

from __future__ import annotations

from jgroups_py.maps.confirmations import Confirmations

OURS, ITS, OTHER = 1, 2, 3
"""Origins."""


def test_a_host_confirms_its_former_changes_when_all_of_them_are_here() -> None:
    confirmations = Confirmations()
    confirmations.told(2, ITS, [(OURS, 5), (ITS, 7)])
    confirmations.settle({ITS: 6})
    assert not confirmations.cover([2], {OURS: 5})
    confirmations.settle({ITS: 7})
    assert confirmations.cover([2], {OURS: 5}) and not confirmations.cover([2], {OURS: 6})
    assert not confirmations.cover([2, 3], {OURS: 5})
    assert not confirmations.cover([2], {OURS: 5, OTHER: 1})


def test_a_later_statement_does_not_count_before_it_is_confirmed() -> None:
    confirmations = Confirmations()
    confirmations.told(2, ITS, [(OURS, 5), (ITS, 7)])
    confirmations.told(2, ITS, [(OURS, 9), (ITS, 8)])
    confirmations.settle({ITS: 7})
    assert confirmations.cover([2], {OURS: 5}) and not confirmations.cover([2], {OURS: 9})
    confirmations.told(2, ITS, [(OURS, 9), (ITS, 8)])
    confirmations.settle({ITS: 8})
    assert confirmations.cover([2], {OURS: 9})


def test_confirmed_numbers_outlive_their_link_and_unconfirmed_ones_do_not() -> None:
    confirmations = Confirmations()
    confirmations.told(2, ITS, [(OURS, 5), (ITS, 0)])
    confirmations.settle({})
    confirmations.told(2, ITS, [(OURS, 9), (ITS, 1)])
    confirmations.parted(2)
    confirmations.settle({ITS: 1})
    assert confirmations.cover([2], {OURS: 5}) and not confirmations.cover([2], {OURS: 9})
