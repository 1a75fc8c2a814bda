"""check_rule finds the fault of a conflict rule, and shows values that prove it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest
from hypothesis import strategies as st

from jgroups_py.testing import RuleBroken, check_rule

NUMBERS = [0, 1, 2]


class Rule:
    """A rule of a user's own, on JSON."""

    name = "mine"

    def __init__(self, of: Callable[[Any, Any], Any]) -> None:
        self._of = of

    def merge(self, one: bytes, other: bytes) -> bytes:
        result = self._of(msgspec.json.decode(one), msgspec.json.decode(other))
        return cast(bytes, result) if isinstance(result, bytearray) else msgspec.json.encode(result)


@pytest.mark.parametrize("values", [NUMBERS, st.integers(0, 5)])
def test_a_rule_that_keeps_its_promises_passes(values: Any) -> None:
    check_rule(Rule(max), values, examples=50)


@pytest.mark.parametrize(
    ("of", "law", "says"),
    [
        (lambda a, b: a, "commutative", ["a = 0", "b = 1", "merge(a, b) = 0", "merge(b, a) = 1"]),
        (lambda a, b: a + b, "idempotent", ["a = 1", "merge(a, a) = 2", "a           = 1"]),
        (
            lambda a, b: (a + b) / 2 if a != b else a,
            "idempotent",
            ["a = 0", "b = 1", "merge(a, b)           = 0.5", "merge(merge(a, b), b) = 0.75"],
        ),
        (lambda a, b: a // (b - 1), "total", ["b = 1", "raised ZeroDivisionError"]),
        (lambda a, b: bytearray(b"1"), "total", ["gave bytearray, not bytes"]),
        (
            lambda a, b: a if a == b else random.Random().random(),
            "deterministic",
            ["once more"],
        ),
    ],
)
def test_a_broken_promise_is_named_with_values(of: Any, law: str, says: list[str]) -> None:
    with pytest.raises(RuleBroken, match=f'the rule "mine" is not {law}') as told:
        check_rule(Rule(of), NUMBERS)
    assert told.value.law == law
    text = str(told.value)
    assert all(part in text for part in says), text


def test_three_values_that_depend_on_their_order_are_found() -> None:
    """Rock, paper, scissors: each pair has a winner, but three together have none."""
    beats = {("stone", "scissors"), ("scissors", "paper"), ("paper", "stone")}
    rule = Rule(lambda a, b: a if a == b or (a, b) in beats else b)
    with pytest.raises(RuleBroken) as told:
        check_rule(rule, ["stone", "paper", "scissors"])
    assert told.value.law == "associative" and len(told.value.values) == 3
    assert "merge(merge(a, b), c) = " in str(told.value)


def test_a_strategy_gives_the_simplest_values() -> None:
    with pytest.raises(RuleBroken, match="not idempotent") as told:
        check_rule(Rule(lambda a, b: a + b), st.integers(0, 1000))
    assert told.value.values == (b"1",)


def test_values_of_other_codecs_and_unknown_results_are_shown() -> None:
    class First:
        name = "first"

        def merge(self, one: bytes, other: bytes) -> bytes:
            return one + b"\xff"

    with pytest.raises(RuleBroken) as told:
        check_rule(First(), ["x" * 1000], encode=str.encode, decode=bytes.decode)
    assert r"xx\xff'" in str(told.value) or "..." in str(told.value)
    assert len(str(told.value)) < 2000


@pytest.mark.parametrize("values", [[], range(41)])
def test_no_values_and_too_many_are_refused(values: Any) -> None:
    with pytest.raises(ValueError, match="1 to 40 values can be checked"):
        check_rule(Rule(max), values)
