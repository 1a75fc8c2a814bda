"""On a busy machine a drill with real processes waits longer for them."""

from __future__ import annotations

import os

import pytest

from jgroups_py.drill.run import patience


def load(monkeypatch: pytest.MonkeyPatch, average: float) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (average, 0.0, 0.0), raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)


@pytest.mark.parametrize(
    ("average", "seconds"), [(0.1, 30.0), (2.0, 30.0), (3.0, 45.0), (24.0, 300.0), (500.0, 300.0)]
)
def test_a_wait_grows_with_the_processes_that_wait_for_each_core(
    monkeypatch: pytest.MonkeyPatch, average: float, seconds: float
) -> None:
    load(monkeypatch, average)
    assert patience.patient(30.0) == seconds


def test_a_vain_wait_is_reported_with_the_load(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    load(monkeypatch, 24.0)
    assert patience.busy_text() == " (12.0 processes wait for each core)"
    load(monkeypatch, 1.0)
    assert patience.busy_text() == ""


def test_without_a_known_load_a_wait_stays_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(os, "getloadavg", raising=False)
    assert patience.patient(30.0) == 30.0
