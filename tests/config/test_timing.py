"""Worst-case detection from settings."""

from types import SimpleNamespace
from typing import Any

import pytest

from jgroups_py.config.detection_time import detection, takeover


def stack(**settings: dict[str, float]) -> list[tuple[type[Any], Any]]:
    return [(type(name, (), {}), SimpleNamespace(**given)) for name, given in settings.items()]


FD_ALL3 = {"timeout": 40.0, "interval": 8.0}
VERIFY = {"timeout": 1.5, "window": 0.1}


@pytest.mark.parametrize(
    ("settings", "crash", "silent"),
    [
        ({"FD_SOCK2": {}, "FD_ALL3": FD_ALL3, "VERIFY_SUSPECT2": VERIFY}, 1.6, 49.6),
        ({"FD_ALL3": FD_ALL3, "VERIFY_SUSPECT2": VERIFY}, 49.6, 49.6),
        (
            {
                "FD_SOCK2": {"prove_death": True},
                "FD_ALL3": FD_ALL3,
                "VERIFY_SUSPECT2": {**VERIFY, "gone_timeout": 0.2},
            },
            0.3,
            49.6,
        ),
        ({"FD_ALL3": FD_ALL3}, 48.0, 48.0),
        ({"FD_SOCK2": {}}, 0.0, None),
        ({}, None, None),
    ],
)
def test_detection_is_time_out_and_interval_and_verification(
    settings: dict[str, dict[str, float]], crash: float | None, silent: float | None
) -> None:
    found = detection(stack(**settings))
    assert found.crash == pytest.approx(crash)
    assert found.silent == pytest.approx(silent)
    assert (found.worst is None) == (silent is None)


def test_take_over_waits_for_the_slower_side_and_two_attempts_to_join() -> None:
    site = stack(FD_SOCK2={}, FD_ALL3=FD_ALL3, VERIFY_SUSPECT2=VERIFY)
    bridge = stack(FD_SOCK2={}, VERIFY_SUSPECT2={"timeout": 2.0}, GMS={"join_timeout": 0.5})
    found = takeover(site, bridge)
    assert found.crash == pytest.approx(3.0)
    assert found.silent is None  # the bridge never notices a silent relay
