"""LogLimit: one line per interval and key."""

from __future__ import annotations

from jgroups_py.stack.log_limit import LogLimit


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_second_line_within_the_interval_is_left_out() -> None:
    clock = Clock()
    limit = LogLimit(clock, interval=10.0)
    assert limit.admit("a") == ""
    clock.now += 9.9
    assert limit.admit("a") is None
    assert limit.left_out == 1


def test_the_next_line_says_how_many_were_left_out() -> None:
    clock = Clock()
    limit = LogLimit(clock, interval=10.0)
    limit.admit("a")
    assert [limit.admit("a") for _ in range(7)] == [None] * 7
    clock.now += 10.0
    assert limit.admit("a") == " (7 more like this left out)"
    clock.now += 10.0
    assert limit.admit("a") == ""


def test_a_count_outlasts_a_long_pause() -> None:
    clock = Clock()
    limit = LogLimit(clock)
    limit.admit("a")
    limit.admit("a")
    clock.now += 1000
    limit.admit("b")
    assert limit.admit("a") == " (1 more like this left out)"


def test_keys_are_limited_each_for_itself() -> None:
    limit = LogLimit(Clock())
    assert limit.admit("a") == ""
    assert limit.admit("b") == ""
    assert limit.admit("a") is None


def test_lines_are_bounded_however_many_keys_there_are() -> None:
    clock = Clock()
    limit = LogLimit(clock, interval=10.0, keys_max=4)
    written = [n for n in range(1000) if limit.admit(n) is not None]
    assert written == [0, 1, 2, 3, 4]  # line 4 is shared by all further keys
    assert limit.left_out == 995
    clock.now += 10.0
    assert limit.admit("new") == ""
    assert len(limit._keys) <= 5


def test_keys_whose_interval_is_over_make_room() -> None:
    clock = Clock()
    limit = LogLimit(clock, interval=10.0, keys_max=2)
    for key in ("a", "a", "b", "b"):
        limit.admit(key)
    clock.now += 10.0
    assert limit.admit("c") == ""
    assert limit.admit("d") == ""
    assert limit.admit("c") is None
