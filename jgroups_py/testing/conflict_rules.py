"""Does a conflict rule of a map keep the promises that make all hosts equal?

    check_rule(MyRule(), [[], ["a"], ["a", "b"]])                        pairs and triples of these values
    check_rule(MyRule(), st.lists(st.integers(), unique=True).map(sorted))    values that Hypothesis finds, made small

Hosts get changes in different orders, and some more than once. So a rule must be commutative, associative and
idempotent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any, Final

import msgspec

from jgroups_py.maps.rules import ConflictRule

VALUES_MAX: Final = 40
"""The most values of a list; all triples of them are tried, 64,000."""
EXAMPLES: Final = 500
"""Triples that Hypothesis draws."""
SHOWN_MAX: Final = 400
"""The most characters of a value in a message."""

_LAWS: Final = {
    "total": "The rule must merge any two values of the map, and give bytes.",
    "deterministic": "The same two values must always give the same bytes. Does it read a clock, chance, or the order of a set?",
    "commutative": "Hosts hear of two changes in different orders, and would keep different values.",
    "associative": "Hosts hear of three changes in different orders, and would keep different values.",
    "idempotent": "A host hears of a change more than once, and must not change its value then. Equal values need equal bytes: "
    "sort what has no order, in the values that are put, too.",
}


class RuleBroken(AssertionError):
    """A rule breaks a law.

    ``law``: "total", "deterministic", "commutative", "associative" or "idempotent". ``values``: the two or three values, encoded, that show
    it.
    """

    def __init__(self, law: str, values: tuple[bytes, ...], detail: str) -> None:
        self.law = law
        self.values = values
        super().__init__(detail)


def check_rule(
    rule: ConflictRule,
    values: Any,
    *,
    encode: Callable[[Any], bytes] = msgspec.json.encode,
    decode: Callable[[bytes], Any] = msgspec.json.decode,
    examples: int = EXAMPLES,
) -> None:
    """Look for values for which a rule breaks a law. Nothing is opened, and no map is needed.

    Args: rule: the argument of ``open_map(rule=...)``. values: values as users put them: a list of up to 40, the
        simplest first, or a Hypothesis strategy.
        encode, decode: the stored form; JSON by default.
        examples: triples drawn from a strategy, the same ones in each run.

    Raises:
        RuleBroken: the law, values that break it, and the rule's results. With a strategy they are the simplest found.
        ValueError: no values, or more than VALUES_MAX.
    """
    laws = _Laws(rule, decode)
    # The law of the fewest values comes first, so that the example is small.
    checks: tuple[Callable[..., None], ...] = (
        laws.of_one,
        laws.of_two,
        laws.of_three,
    )
    if hasattr(values, "filter") and hasattr(values, "map"):
        from jgroups_py.testing.needs import given, settings, st

        for count, check in enumerate(checks, 1):
            drawn = st.tuples(*[values] * count)
            tried = given(drawn)(_encoding(check, encode))
            settings(max_examples=examples, deadline=None, database=None, derandomize=True)(tried)()
        return
    given_values = [encode(value) for value in _some(values)]
    for count, check in enumerate(checks, 1):
        for chosen in product(given_values, repeat=count):
            check(*chosen)


def _encoding(
    check: Callable[..., None], encode: Callable[[Any], bytes]
) -> Callable[[tuple[Any, ...]], None]:
    def tried(drawn: tuple[Any, ...]) -> None:
        check(*(encode(value) for value in drawn))

    return tried


def _some(values: Iterable[Any]) -> list[Any]:
    listed = list(values)
    if not 0 < len(listed) <= VALUES_MAX:
        raise ValueError(
            f"1 to {VALUES_MAX} values can be checked in all triples, got {len(listed)}: give fewer, or a Hypothesis strategy"
        )
    return listed


class _Laws:
    def __init__(self, rule: ConflictRule, decode: Callable[[bytes], Any]) -> None:
        self._rule = rule
        self._decode = decode

    def of_one(self, a: bytes) -> None:
        self._same("idempotent", (a,), ("merge(a, a)", self._merge(a, a)), ("a", a))

    def of_two(self, a: bytes, b: bytes) -> None:
        ab = self._merge(a, b)
        made = "merge(a, b)", ab
        self._same("deterministic", (a, b), made, ("once more", self._merge(a, b)))
        self._same("commutative", (a, b), made, ("merge(b, a)", self._merge(b, a)))
        self._same("idempotent", (a, b), made, ("merge(merge(a, b), b)", self._merge(ab, b)))

    def of_three(self, a: bytes, b: bytes, c: bytes) -> None:
        one, other = self._merge(self._merge(a, b), c), self._merge(a, self._merge(b, c))
        self._same(
            "associative",
            (a, b, c),
            ("merge(merge(a, b), c)", one),
            ("merge(a, merge(b, c))", other),
        )

    def _merge(self, one: bytes, other: bytes) -> bytes:
        try:
            result = self._rule.merge(one, other)
        except Exception as error:
            self._broken(
                "total",
                (one, other),
                [f"merge(a, b) raised {type(error).__name__}: {error}"],
                error,
            )
        if not isinstance(result, bytes):
            self._broken(
                "total", (one, other), [f"merge(a, b) gave {type(result).__name__}, not bytes"]
            )
        return result

    def _same(
        self,
        law: str,
        values: tuple[bytes, ...],
        *made: tuple[str, bytes],
    ) -> None:
        (_, one), (_, other) = made
        if one != other:
            width = max(len(name) for name, _ in made)
            self._broken(law, values, [f"{n:{width}} = {self._shown(v)}" for n, v in made])

    def _broken(
        self, law: str, values: tuple[bytes, ...], lines: list[str], cause: Exception | None = None
    ) -> Any:
        named = [
            f"{name} = {self._shown(value)}" for name, value in zip("abc", values, strict=False)
        ]
        name = getattr(self._rule, "name", type(self._rule).__name__)
        text = "\n  ".join([f'the rule "{name}" is not {law}. {_LAWS[law]}', *named, *lines])
        raise RuleBroken(law, values, text) from cause

    def _shown(self, data: bytes) -> str:
        try:
            text = repr(self._decode(data))
        except Exception:  # a rule's result need not be a value
            text = repr(data)
        return text if len(text) <= SHOWN_MAX else text[: SHOWN_MAX - 3] + "..."
