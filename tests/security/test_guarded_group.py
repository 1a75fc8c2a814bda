"""Groups with AUTH in virtual time: members that are admitted, strangers on the same network, a merge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jgroups_py.protocols.security.auth import AUTH
from jgroups_py.testing.sim.world import World
from jgroups_py.values.events import Failed

AUTHS = '<AUTH auth_class="RegexMembership" match_string="{}" match_ip_address="false" match_logical_name="true"/>'
QUICK = {"MERGE3.min_interval": "1s", "MERGE3.max_interval": "3s"}


def stack_file(folder: Path, match: str | None) -> str:
    text = (Path(__file__).parents[2] / "stacks/sim.xml").read_text()
    auth = AUTHS.format(match) if match else ""
    file = folder / f"{'guarded' if match else 'open'}.xml"
    file.write_text(text.replace("<pbcast.GMS", f"{auth}\n    <pbcast.GMS"))
    return str(file)


def start(world: World, name: str, file: str, attributes: dict[str, str] | None = None) -> Any:
    member = world.start(name, file, "guarded", attributes={**QUICK, **(attributes or {})})
    world.run_for(8)
    return member


def test_a_stranger_ends_with_the_reason_and_the_group_goes_on(tmp_path: Path) -> None:
    file = stack_file(tmp_path, "[AB]")
    world = World(3)
    a, b = start(world, "A", file), start(world, "B", file)
    stranger = start(world, "S", file)
    (failed,) = [e for e in stranger.events if isinstance(e, Failed)]
    assert failed.problem == "A refused: its token or address is not admitted (AUTH)"
    assert a.view_names == b.view_names == ("A", "B") and not stranger.views
    b.send(b"still here")
    world.run_for(1)
    assert b"still here" in a.payloads
    assert a.stack.find(AUTH).statistics()["turned_away_wrong_token"] >= 1


def test_a_member_joins_no_coordinator_that_has_no_token(tmp_path: Path) -> None:
    """Otherwise the first process could take over a group's members."""
    guarded, unguarded = stack_file(tmp_path, "[AB]"), stack_file(tmp_path, None)
    world = World(4)
    trap = start(world, "S", unguarded)
    a = start(world, "A", guarded, {"GMS.max_join_attempts": "2"})
    assert a.view_names == ("A",) and a.stack.find(AUTH).statistics()["turned_away_no_token"] > 0
    world.run_for(30)
    assert a.view_names == ("A",) and "A" in trap.view_names
    trap.send(b"poison")
    world.run_for(5)
    assert b"poison" not in a.payloads


def test_groups_with_good_tokens_merge_and_a_stranger_stays_out(tmp_path: Path) -> None:
    guarded, unguarded = stack_file(tmp_path, "[ABC]"), stack_file(tmp_path, None)
    world = World(5)
    members = [start(world, name, guarded) for name in "AB"]
    stranger = start(world, "S", unguarded, {"GMS.max_join_attempts": "1"})
    world.network.cut([[m.host.address] for m in members])
    world.run_for(120)
    assert [m.view_names for m in members] == [("A",), ("B",)]
    world.network.heal()
    world.run_for(60)
    assert [sorted(m.view_names) for m in members] == [["A", "B"], ["A", "B"]]
    assert not set(stranger.view_names) & {"A", "B"}
