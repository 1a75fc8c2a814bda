"""Errors of archives."""

from __future__ import annotations

from dataclasses import dataclass

from jgroups_py.buckets.errors import BucketError


@dataclass(frozen=True, slots=True)
class Damage:
    """A damaged stretch. ``offset``: where it begins; ``until``: the place at which reading continues. None: it cannot go
    on. ``number``: records read before it;
    ``after``: the last key before it. Keys between that one and the next one that is read may be lost."""

    problem: str
    offset: int
    number: int
    after: str
    until: int | None = None

    def __str__(self) -> str:
        place = (
            f"after entry {self.number} (key {self.after!r})" if self.number else "at the beginning"
        )
        return f"offset {self.offset}, {place}: {self.problem}"


class BadArchive(BucketError):
    """An archive cannot be read or written, or is damaged. The text has the file, the offset and the entries that were
    read before. ``damage``: its place; None if the file is not damaged."""

    def __init__(self, file: str, problem: str | Damage) -> None:
        self.file = file
        self.damage = problem if isinstance(problem, Damage) else None
        super().__init__(f"{file}: {problem}")
