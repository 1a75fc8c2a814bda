"""A primary or a site that is not among `sites` is refused: by `validate`, and at the start."""

from __future__ import annotations

import pytest
from commands import run_here

from jgroups_py import open_channel
from jgroups_py.errors import ConfigError

WRONG = [
    ({"relay.site": "NYC", "relay.primary": "PAR"}, 'primary "PAR" is not among sites (NYC, LON)'),
    ({"relay.site": "TYO"}, 'site "TYO" is not among sites (NYC, LON)'),
]
RIGHT = [
    {"relay.site": "LON", "relay.primary": "all"},
    {"relay.site": "LON", "relay.primary": "NYC"},
    {"relay.site": "LON"},
    {"relay.site": "TYO", "relay.sites": ""},
    {"relay.site": "TYO", "relay.sites": "", "relay.primary": "PAR"},  # PAR may be added later
]


def validate(properties: dict[str, str]) -> tuple[int, str]:
    given = {"relay.sites": "NYC,LON", **properties}
    words = [word for name, value in given.items() for word in ("-D", f"{name}={value}")]
    code, _, said = run_here("validate", "relay-tcp.xml", *words)
    return code, said


@pytest.mark.parametrize(("properties", "words"), WRONG)
def test_validate_refuses_a_name_that_is_not_among_the_sites(
    properties: dict[str, str], words: str
) -> None:
    code, said = validate(properties)
    assert code == 2
    assert words in said


@pytest.mark.parametrize("properties", RIGHT)
def test_validate_accepts_names_that_exist(properties: dict[str, str]) -> None:
    code, said = validate(properties)
    assert code == 0, said


@pytest.mark.parametrize(("properties", "words"), WRONG)
async def test_a_channel_does_not_start_with_it(properties: dict[str, str], words: str) -> None:
    given = {"relay.sites": "NYC,LON", **properties}
    with pytest.raises(ConfigError) as caught:
        async with open_channel("relay-tcp.xml", cluster="demo", name="A", properties=given):
            pass
    assert words in str(caught.value)
