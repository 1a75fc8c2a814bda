"""Fqn: the fully qualified name of a node, a path of non-empty texts.

    Fqn.parse("/sessions/4711")      ("sessions", "4711")
    str(Fqn(("a/b", "c")))           /a\\/b/c

An Fqn *is* a tuple of texts: comparing, hashing and sorting run in C. "/" inside a part is written ``\\/``, a backslash
``\\\\``. The root is the empty path.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, Self

from jgroups_py.errors import CacheRefused

MAX_DEPTH: Final = 64
"""The most parts of a path: every prefix is looked at when a path is locked."""
MAX_PART_BYTES: Final = 1024
"""The most UTF-8 bytes of one part."""
MAX_PATH_BYTES: Final = 4096
"""The most UTF-8 bytes of all parts together."""


class Fqn(tuple[str, ...]):
    """A path. ``Fqn(parts)`` checks its parts; ``Fqn.parse(text)`` reads the written form.

    Raises:
        CacheRefused: a part is empty or no text, or the path is too deep or too long.
    """

    __slots__ = ()

    def __new__(cls, parts: Iterable[str] = ()) -> Self:
        self = super().__new__(cls, parts)
        if len(self) > MAX_DEPTH:
            raise CacheRefused(f"a path has at most {MAX_DEPTH} parts, got {len(self)}")
        total = 0
        for part in self:
            if type(part) is str and part.isascii() and 0 < len(part) <= MAX_PART_BYTES:
                total += len(part)
            else:
                total += _length(part)
        if total > MAX_PATH_BYTES:
            raise CacheRefused(f"a path has at most {MAX_PATH_BYTES} bytes, got {total}")
        return self

    @classmethod
    def of_checked(cls, parts: tuple[str, ...]) -> Self:
        """Make an Fqn of parts that were checked already."""
        return super().__new__(cls, parts)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a path written as ``/a/b``; ``/`` is the root. A trailing "/" is refused."""
        if not text.startswith("/"):
            raise CacheRefused(f"a path begins with /, got {_short(text)}")
        if text == "/":
            return cls()
        if "\\" in text:
            return cls(_split_escaped(text[1:]))
        parts = text[1:].split("/")
        short = len(text) <= MAX_PART_BYTES and text.isascii() and len(parts) <= MAX_DEPTH
        if short and "" not in parts:
            return cls.of_checked(tuple(parts))  # no part can be too long
        return cls(parts)

    def __str__(self) -> str:
        text = "/" + "/".join(self)
        if not self or (text.count("/") == len(self) and "\\" not in text):
            return text
        return "".join("/" + part.replace("\\", "\\\\").replace("/", "\\/") for part in self)

    def __repr__(self) -> str:
        return f"Fqn({str(self)!r})"

    @property
    def parent(self) -> Fqn:
        """Return the path without its last part; the root's parent is the root."""
        return Fqn.of_checked(self[:-1])

    @property
    def name(self) -> str:
        """Return the last part; empty for the root."""
        return self[-1] if self else ""

    @property
    def ancestors(self) -> tuple[Fqn, ...]:
        """Return every shorter prefix, longest first, the root last."""
        return tuple(Fqn.of_checked(self[:n]) for n in range(len(self) - 1, -1, -1))

    def child(self, name: str) -> Fqn:
        """Return the path one part longer."""
        return Fqn((*self, name))

    def is_within(self, other: tuple[str, ...]) -> bool:
        """True for ``other`` itself and all paths below it."""
        return self[: len(other)] == other

    def moved(self, source: Fqn, target: Fqn) -> Fqn:
        """Return this path, which lies within ``source``, at the same place within ``target``."""
        return Fqn(target + self[len(source) :])


def parse_all(texts: Sequence[str]) -> list[Fqn]:
    """Parse many paths, faster than ``Fqn.parse`` of each when they share few parents."""
    found: list[Fqn] = []
    parents: dict[str, Fqn | None] = {}
    make = tuple.__new__
    for text in texts:
        above, slash, name = text.rpartition("/")
        parent = parents.get(above)
        # These parts need no check below a parent of moderate size and depth:
        short = slash and name.isascii() and 0 < len(name) <= MAX_PART_BYTES
        if parent is None or not short or "\\" in name:
            path = Fqn.parse(text)
            if "\\" not in text and len(path) < MAX_DEPTH and len(above) < _MODERATE:
                parents[above] = path.parent
            found.append(path)
        else:
            found.append(make(Fqn, (*parent, name)))
    return found


def all_of(paths: Sequence[tuple[str, ...]]) -> list[Fqn]:
    """Check many paths, faster than ``Fqn`` of each when they share few parents."""
    found: list[Fqn] = []
    parents: set[tuple[str, ...]] = set()
    make = tuple.__new__
    for parts in paths:
        above = parts[:-1]
        name = parts[-1] if parts else ""
        if above in parents and name.isascii() and 0 < len(name) <= MAX_PART_BYTES:
            found.append(make(Fqn, parts))
        else:
            found.append(Fqn(parts))
            if len(parts) <= MAX_DEPTH and sum(map(len, above)) < _MODERATE:
                parents.add(above)
    return found


_MODERATE: Final = (MAX_PATH_BYTES - MAX_PART_BYTES) // 4
"""The most letters of a parent whose path leaves room for every name. A letter has at most four bytes."""

KEPT_PATHS: Final = 4096
"""The paths that are remembered as checked. Applications use theirs again and again."""

_parsed: Final = lru_cache(KEPT_PATHS)(Fqn.parse)

AnyPath = str | Iterable[str]
"""The forms of a path that calls take: an Fqn, the written form, or the parts."""


def as_fqn(path: AnyPath) -> Fqn:
    """Return an Fqn for a caller's path. CacheRefused: the value is no path."""
    if isinstance(path, Fqn):
        return path
    if type(path) is str:
        return _parsed(path)
    if isinstance(path, str):
        return Fqn.parse(path)
    try:
        return Fqn(path)
    except TypeError:
        raise CacheRefused(f"not a path: {_short(path)} (write /a/b, or give the parts)") from None


def _length(part: object) -> int:
    if not isinstance(part, str):
        raise CacheRefused(f"a part of a path is a text, got {_short(part)}")
    if not part:
        raise CacheRefused("a part of a path is not empty (// or a / at the end?)")
    if part.isascii():
        length = len(part)
    else:
        try:
            length = len(part.encode())
        except UnicodeEncodeError:
            raise CacheRefused(f"a part of a path is not Unicode: {_short(part)}") from None
    if length > MAX_PART_BYTES:
        raise CacheRefused(f"a part of a path has at most {MAX_PART_BYTES} bytes, got {length}")
    return length


def _split_escaped(text: str) -> list[str]:
    parts = [""]
    letters = iter(text)
    for letter in letters:
        if letter == "/":
            parts.append("")
        elif letter == "\\":
            escaped = next(letters, "")
            if escaped not in ("/", "\\"):
                raise CacheRefused(f'in a path "\\" comes before "/" or "\\": {_short(text)}')
            parts[-1] += escaped
        else:
            parts[-1] += letter
    return parts


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


ROOT: Final = Fqn()
BACKUP_ROOT: Final = Fqn(("_buddy_backup_",))
"""The root of the backups that a member keeps for others. Applications may read it, not write (B25)."""
