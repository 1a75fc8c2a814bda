"""The reach of claims and calls equals its definition; a large batch takes little time."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from jgroups_py.buddy.reach import Reach
from jgroups_py.buddy.values import OwnedNode, Path, Stamp, covers
from jgroups_py.values.address import Address

PATHS = st.lists(st.sampled_from("ab"), max_size=3).map(tuple)
WANTED = st.lists(st.tuples(PATHS, st.booleans()), max_size=4).map(tuple)
NODE = OwnedNode(None, (1, 0), Stamp(0, (1, 0), 1, Address(b"x")))


@given(WANTED, WANTED, st.lists(PATHS, unique=True))
def test_a_reach_has_the_wanted_paths_and_those_below(
    one: tuple[tuple[Path, bool], ...],
    other: tuple[tuple[Path, bool], ...],
    paths: list[Path],
) -> None:
    reach = Reach(one)
    inside = [path for path in paths if covers(one, path)]
    assert [path for path in paths if path in reach] == inside
    assert sorted(path for path, _ in reach.among(dict.fromkeys(paths, NODE))) == sorted(inside)
    everything = [(*path, end) for path, _ in (*one, *other) for end in ("a", "b")]
    everything += [path for path, _ in (*one, *other)]
    shared = any(covers(one, path) and covers(other, path) for path in everything)
    assert reach.meets(Reach(other)) is shared


def test_many_paths_are_not_compared_pair_by_pair() -> None:
    one, other = (Reach(tuple(((side, str(n)), True) for n in range(5000))) for side in "ab")
    nodes: dict[Path, OwnedNode] = {("a", str(n), "x"): NODE for n in range(5000)}
    began = time.process_time()
    assert not one.meets(other)
    assert len(one.among(nodes)) == 5000 and other.among(nodes) == []
    assert time.process_time() - began < 1.5  # pairs would be 75 million
