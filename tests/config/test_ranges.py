"""Numbers in protocols' settings: impossible ones are refused with their place in the file."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from jgroups_py.config.file import parse_stack
from jgroups_py.config.settings import build
from jgroups_py.errors import ConfigError
from jgroups_py.protocols.registry import BUILT, find

NEEDED = {"RELAY": {"site": "NYC", "bridge": "b.xml"}}


def numbers() -> list[Any]:
    return [
        pytest.param(name, field.name, id=f"{name}.{field.name}")
        for name in BUILT
        for field in dataclasses.fields(find(name).Config)
        if type(field.default) in (int, float)
    ]


@pytest.mark.parametrize(("protocol", "field"), numbers())
def test_no_number_of_a_protocol_is_negative(protocol: str, field: str) -> None:
    given = {**NEEDED.get(protocol, {}), field: "-1"}
    written = " ".join(f'{key}="{value}"' for key, value in given.items())
    stack = parse_stack(f"<config><{protocol} {written}/></config>", language="xml", source="s.xml")
    with pytest.raises(ConfigError) as caught:
        build(stack)
    said = str(caught.value)
    assert "s.xml:1:" in said and f"{protocol}.{field}: " in said and ", got -" in said, said
