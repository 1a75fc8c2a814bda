"""A few warnings of each kind are logged, then the number of further ones."""

from typing import Any

from jgroups_py.cache.sparing import LINES_MAX, SECONDS, Sparing


def test_a_few_of_each_kind_are_logged_and_the_rest_is_counted() -> None:
    said: list[str] = []

    def tell(text: str, *values: Any) -> None:
        said.append(text % values)

    sparing = Sparing(tell)
    for number in range(LINES_MAX + 5):
        sparing.warn("cats", 1.0, "a cat: %d", number)
    sparing.warn("dogs", 1.0, "a dog")
    assert said == [f"a cat: {number}" for number in range(LINES_MAX)] + ["a dog"]
    said.clear()
    sparing.look(SECONDS)
    assert said == []
    sparing.look(1.0 + SECONDS)
    assert said == ["5 more cats within 60 s"]
    sparing.warn("cats", 100.0, "a cat again")
    assert said[1:] == ["a cat again"]
