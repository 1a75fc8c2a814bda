"""The walk finds every container that an object refers to, directly or through others, once."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from jgroups_py.drill.soak.tables import DEPTH_MAX, of_process, roots_of, walk
from jgroups_py.testing.sim import World


@dataclass(slots=True)
class Slotted:
    rows: list[str] = field(default_factory=lambda: ["a", "b"])


class Owner:
    def __init__(self) -> None:
        self.plain = {1: "x", 2: "y"}
        self.nested = {1: [1, 2, 3], 2: [4]}
        self.inside = (Slotted(), Slotted())
        self.partly = functools.partial(print, [1, 2])
        self.closure = self.closed([1, 2, 3, 4])
        self.iterator: Iterator[int] = iter([1, 2, 3, 4, 5])
        self.bytes = bytearray(1000)
        self.again = self.plain

    def closed(self, hidden: list[int]) -> Callable[[], int]:
        return lambda: len(hidden)


def test_a_table_is_found_wherever_it_hides() -> None:
    lengths = walk({"X": Owner()}).lengths
    assert lengths["X.plain"] == 2 and "X.again" not in lengths
    assert (lengths["X.nested"], lengths["X.nested[]"]) == (2, 4)
    assert lengths["X.inside.rows"] == 4
    assert lengths["X.partly()"] == 2
    assert lengths["X.closure()"] == 4
    assert lengths["X.iterator~"] == 5
    assert lengths["X.bytes"] == 1000


def test_the_size_of_entries_counts_for_their_table() -> None:
    owner = Owner()
    before = walk({"X": owner}).found["X.plain"].size
    owner.plain[3] = "z" * 10_000
    assert walk({"X": owner}).found["X.plain"].size > before + 10_000


def test_a_root_is_not_entered_from_another_one_and_the_world_not_at_all() -> None:
    one, two, world = Owner(), Owner(), Owner()
    one.nested[3], one.other, one.world = [9], two, world  # type: ignore[attr-defined]
    lengths = walk({"one": one, "two": two}, outside=(world,)).lengths
    assert lengths["two.plain"] == 2
    assert not any(name.startswith(("one.other", "one.world")) for name in lengths)


def test_a_node_that_lies_too_deep_is_reported() -> None:
    top: deque[object] = deque()
    for _ in range(DEPTH_MAX + 2):
        top = deque([top])
    assert walk({"X": {1: top}}).cut


def test_every_table_of_a_member_is_seen_and_nothing_beyond_it() -> None:
    world = World(1)
    a, b = world.start("A", "sim.xml", "demo"), world.start("B", "sim.xml", "demo")
    assert world.run_until(lambda: world.views_agree([a, b]), limit=10)
    outside = (world, a, b, a.host, b.host, b.host.machine, world._decode)
    tables = walk(roots_of(a.host.machine), outside)
    assert not tables.cut
    assert tables.lengths["FD_ALL3._heard"] == 1
    assert tables.lengths["NAKACK2.senders.present"] == 2
    assert tables.lengths["stack.names"] == 2
    assert not any("world" in name or "host" in name for name in tables.lengths)
    a.stack.protocols[3]._planted = {n: n for n in range(77)}  # type: ignore[attr-defined]
    again = walk(roots_of(a.host.machine), outside).lengths
    assert [name for name, length in again.items() if length == 77] == ["FD_SOCK2._planted"]


def test_tables_of_modules_and_classes_are_seen() -> None:
    from jgroups_py.protocols import registry

    name = "protocols.registry.BUILT"
    before = of_process().lengths[name]
    registry.BUILT["PLANTED"] = registry.BUILT["UDP"]
    try:
        assert of_process().lengths[name] == before + 1
    finally:
        del registry.BUILT["PLANTED"]
