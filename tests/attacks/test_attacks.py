"""Strangers attack real members on loopback, through plain sockets. design/attacks.md has the table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from attack_doors import DOORS, Door
from attack_kit import Family
from attack_outcomes import compared
from attack_registry import FAMILIES
from attack_scene import open_scene

from jgroups_py.driver import probe_multicast


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)
@pytest.mark.parametrize("transport", ["UDP", "TCP"])
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
async def test_attacks_of_strangers_fail_and_are_counted(
    family: Family, transport: str, door: Door, tmp_path: Path
) -> None:
    if transport not in door.on:
        pytest.skip(f"{door.name} is not for {transport}")
    if transport == "UDP" and not (probe := probe_multicast("127.0.0.1")):
        pytest.skip(probe.why)
    wrong = []
    async with open_scene(tmp_path, transport, door) as scene:
        for attack in family.attacks:
            if transport in attack.on:
                cause = attack.cause.replace("{transport}", transport)
                wrong += await scene.suffer(replace(attack, cause=cause))
        wrong += compared(door.name, transport, scene.stopped)
    assert not wrong, "\n".join(wrong)
