"""The seeds that found something, played again: design/simulate.md says what each found.

A seed's schedule shifts when protocols change, so this is a sweep of seeds that were hard once;
what they found is kept in few steps by the tests that the note names.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from jgroups_py.testing.explorer.stacks.draw import draw
from jgroups_py.testing.explorer.stacks.play import play

NOTE = Path(__file__).parents[2] / "design" / "simulate.md"
FOUND: Final = {
    "membership": "2 3018 4062 20066 22908 23600",
    "merge": "163 9062 20091 20735 21318 21517 21556 21640 22020 22460 22904 23705 24273 25628 "
    "27153 29917",
    "flow": "20018",
    "state": "76 515 1102 1203 1462",
    "relay": "1 2 3 5 10 11 14 105 126 140 302 385 561 1269 1823",
    "sealed": "271 386 493 579 929",
    "all": "6 9 14 15 52 63 78 79 140 145 156 251 291 313 353 354 410 420 430 506 510 585 621 660 "
    "734 776 798 809 849 856 866 921 938 973 1004 1018 1033 1065 1266 1277 1303 1391 1393 1494 "
    "1830 1897 1916 1977 2066 2077 2118 2196 2495 2600 2784 2913 3180 3196 3256 3309 3349 3786 4214 4695 "
    "4865 4911 4992 5018 5028 5043 5047 5055 5358 5367 5482 5939 6477 6669 6850 6891 6989 7107 7806 7879 8096 8534 8766 8801 9542 10187 11241 15359 17103 20045 20134 "
    "20220 20228",
}
SEEDS = [(profile, int(seed)) for profile, seeds in FOUND.items() for seed in seeds.split()]


@pytest.mark.slow
@pytest.mark.parametrize(("profile", "seed"), SEEDS)
def test_faults_that_were_found_once_stay_mended(profile: str, seed: int) -> None:
    assert play(draw(seed, profile)).problems == []


def test_every_seed_of_the_note_is_played_again() -> None:
    table = (
        NOTE.read_text()
        .partition("## What seeds found")[2]
        .partition("Some of what failed was right")[0]
    )
    named = []
    for line in table.splitlines():
        profile = ""
        for word, number in re.findall(r"`(?:([a-z]+) )?(\d+)`", line.partition(" | ")[0]):
            profile = word or profile
            named.append((profile, int(number)))
    assert len(named) > 80
    assert [seed for seed in named if seed[0] != "churn" and seed not in SEEDS] == []
