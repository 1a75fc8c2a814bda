"""The task and the result of a chunk of inputs; the targets that there are.

The inputs of a chunk follow from the seed, the target's name, the chunk's number and the corpus of the chunk before, so
they are the same on all machines.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from jgroups_py.testing.check.violation import Violation
from jgroups_py.testing.explorer.bytes.cover import Edges
from jgroups_py.testing.explorer.bytes.guard import Guard

CORPUS_MAX: Final = 300
"""The most inputs kept for a target, including seeds. A further input replaces one of the first found ones."""
FINDINGS_MAX: Final = 5
"""The most findings of a chunk; a broken decoder would fill the disk."""
TRACED_EVERY: Final = 20
"""One input in this number is traced (cover.py)."""


@dataclass(slots=True)
class Corpus:
    """The data that a target's chunks hand on: inputs worth mutating further, and known paths."""

    entries: list[bytes] = field(default_factory=list)
    edges: Edges = field(default_factory=set)
    seeds: int = 0

    def add(self, data: bytes, rng: random.Random) -> None:
        self.entries.append(data)
        if len(self.entries) > CORPUS_MAX:
            half = max(1, (len(self.entries) + self.seeds) // 2)
            del self.entries[rng.randrange(min(self.seeds, len(self.entries) - 1), half + 1)]


@dataclass(slots=True)
class FuzzFinding:
    """An input (for a stack: an episode) after which ``problem`` showed."""

    target: str
    data: bytes
    problem: Violation


@dataclass(slots=True)
class ChunkDone:
    """The result of a chunk."""

    target: str
    inputs: int
    corpus: Corpus
    findings: list[FuzzFinding]


class Attacked(Protocol):
    """A target, attacked in chunks: a decoder (here) or a whole stack (stacks.py)."""

    @property
    def name(self) -> str: ...
    @property
    def weight(self) -> float:
        """Return its share of the inputs."""

    @property
    def chunk_size(self) -> int: ...
    def begin(self) -> Corpus:
        """Return the beginning of the first chunk."""

    def chunk(self, work: FuzzWork, guard: Guard, tell: Tell = ...) -> ChunkDone:
        """Run ``work.count`` inputs. ``tell`` is called with each input before it is read, for a watcher outside."""

    def replay(self, data: bytes, guard: Guard) -> Violation | None:
        """Replay a finding's data and return its present violation."""

    def smaller(self, data: bytes, guard: Guard, key: str) -> bytes:
        """Return the smallest part of ``data`` with the same violation."""


Tell = Callable[[bytes], None]


@dataclass(frozen=True, slots=True)
class FuzzWork:
    """The chunk ``number`` of a target."""

    seed: str
    number: int
    count: int
    corpus: Corpus

    def random(self, name: str) -> random.Random:
        return random.Random(f"{self.seed}/{name}/{self.number}")
