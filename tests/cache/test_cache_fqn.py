"""Paths: writing and reading them, and texts that are no paths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jgroups_py.cache import Fqn
from jgroups_py.cache.container import MemoryTree
from jgroups_py.cache.fqn import (
    MAX_DEPTH,
    MAX_PART_BYTES,
    MAX_PATH_BYTES,
    all_of,
    as_fqn,
    parse_all,
)
from jgroups_py.cache.node import Node
from jgroups_py.cache.sqlite_store import _key, _path, _range
from jgroups_py.errors import CacheRefused

parts = st.text(st.sampled_from("ab/\\\0\1é"), min_size=1, max_size=4)
paths = st.lists(parts, max_size=4).map(Fqn)


@given(paths)
def test_printed_output_can_be_read_back(path: Fqn) -> None:
    assert Fqn.parse(str(path)) == path
    assert as_fqn(str(path)) == as_fqn(list(path)) == as_fqn(path) == path


written = st.text(st.sampled_from("ab/\\\0é\ud800"), max_size=5).map(lambda text: "/" + text)


@given(
    st.lists(written | paths.map(str) | st.sampled_from(["a", "/", "", "/a/b", "/a/c"]), max_size=8)
)
def test_many_are_read_as_each_is(texts: list[str]) -> None:
    def read(how: Callable[[], list[Fqn]]) -> list[Fqn] | str:
        try:
            return how()
        except CacheRefused as error:
            return str(error)

    found = read(lambda: parse_all(texts))
    assert found == read(lambda: [Fqn.parse(text) for text in texts])
    assert isinstance(found, str) or all(isinstance(path, Fqn) for path in found)


raw_parts = st.lists(parts | st.sampled_from(["", "\ud800", "a" * 2000]), max_size=4).map(tuple)


@given(st.lists(raw_parts | st.sampled_from([("a", "b"), ("a", "c"), ("a", "")]), max_size=8))
def test_many_tuples_are_checked_as_each_is(paths: list[tuple[str, ...]]) -> None:
    def read(how: Callable[[], list[Fqn]]) -> list[Fqn] | str:
        try:
            return how()
        except CacheRefused as error:
            return str(error)

    found = read(lambda: all_of(paths))
    assert found == read(lambda: [Fqn(path) for path in paths])
    assert isinstance(found, str) or all(isinstance(path, Fqn) for path in found)


def test_many_deep_and_long_ones_are_refused_as_one() -> None:
    deep, long = "/a" * MAX_DEPTH, ("/" + "a" * MAX_PART_BYTES) * 4
    for text in (deep, long):
        assert parse_all([text, text]) == [Fqn.parse(text)] * 2
        with pytest.raises(CacheRefused):
            parse_all([text, text + "/a"])
        parts = tuple(Fqn.parse(text))
        assert all_of([parts, parts]) == [Fqn(parts)] * 2
        with pytest.raises(CacheRefused):
            all_of([parts, (*parts, "a")])
    with pytest.raises(CacheRefused):
        parse_all(["/b/a", "/b/" + "a" * (MAX_PART_BYTES + 1)])


def test_an_fqn_is_a_tuple_of_its_parts() -> None:
    path = Fqn.parse("/a\\/b/c\\\\")
    assert tuple(path) == ("a/b", "c\\") and str(path) == "/a\\/b/c\\\\"
    assert Fqn.parse("/") == () == Fqn() and str(Fqn()) == "/"
    assert path.parent == ("a/b",) and path.name == "c\\" and Fqn().parent == Fqn()
    assert [str(a) for a in Fqn.parse("/a/b/c").ancestors] == ["/a/b", "/a", "/"]
    assert repr(Fqn.parse("/a")) == "Fqn('/a')"


@pytest.mark.parametrize(
    ("given_path", "said"),
    [
        ("", "begins with /"),
        ("a/b", "begins with /, got 'a/b'"),
        ("/a/", "not empty"),
        ("//a", "not empty"),
        ("/a\\b", 'comes before "/"'),
        ("/a\\", 'comes before "/"'),
        ("/\ud800", "not Unicode"),
        (["a", ""], "not empty"),
        (["a", 7], "is a text, got 7"),
        (7, "not a path: 7"),
        (["a"] * (MAX_DEPTH + 1), f"at most {MAX_DEPTH} parts"),
        (["é" * (MAX_PART_BYTES // 2 + 1)], f"at most {MAX_PART_BYTES} bytes"),
        (["a" * MAX_PART_BYTES] * 5, f"at most {MAX_PATH_BYTES} bytes"),
    ],
)
def test_a_value_that_is_no_path_is_refused_with_a_reason(given_path: Any, said: str) -> None:
    with pytest.raises(CacheRefused) as caught:
        as_fqn(given_path)
    assert said in str(caught.value) and "\n" not in str(caught.value)


@given(paths, paths)
def test_keys_of_the_sqlite_store_keep_paths_and_subtrees(one: Fqn, other: Fqn) -> None:
    low, high = _range(one)
    assert _path(_key(one)) == one
    assert (low <= _key(other) < high) == other.is_within(one)


@given(st.lists(st.tuples(st.booleans(), paths.filter(len))))
def test_a_tree_in_memory_is_a_dict_with_an_index(steps: list[tuple[bool, Fqn]]) -> None:
    tree, model = MemoryTree(), dict[Fqn, Node]()
    for remove, path in steps:
        if remove:
            tree.discard(path)
            model.pop(path, None)
        else:
            node = Node({"k": bytes(len(model))})
            tree.load(path, node)
            model[path] = node
        tree.check()
        assert len(tree) == len(model) and tree.size == sum(n.size for n in model.values())
        for place in [path, *path.ancestors]:
            assert tree.get(place) == model.get(place)
            below = [p for p in model if p.is_within(place)]
            assert sorted(tree.within(place)) == sorted(below)
            depth = len(place)
            assert set(tree.children(place)) == {p[depth] for p in below if len(p) > depth}
