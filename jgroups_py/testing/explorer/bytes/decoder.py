"""A decoder under attack: inputs made from its corpus, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from jgroups_py.testing.check.violation import Violation
from jgroups_py.testing.explorer.bytes.cover import Cover
from jgroups_py.testing.explorer.bytes.guard import HANG, Guard
from jgroups_py.testing.explorer.bytes.mutate import Mutator, mutate_msgpack
from jgroups_py.testing.explorer.bytes.spots import Spot, spots_of
from jgroups_py.testing.explorer.bytes.targets import FuzzTarget
from jgroups_py.testing.explorer.bytes.work import (
    CORPUS_MAX,
    FINDINGS_MAX,
    TRACED_EVERY,
    ChunkDone,
    Corpus,
    FuzzFinding,
    FuzzWork,
    Tell,
)
from jgroups_py.testing.explorer.shrink import Shrinker

CHUNK: Final = 2000
"""Inputs of a decoder's chunk."""
TRACED_FIRST: Final = 300
"""The number of traced inputs of a target's first chunk; later one in TRACED_EVERY is traced."""
TRIES_MAX: Final = 2000
"""The most runs to make one finding small; one takes some 0.1 ms."""
WEIGHED_EVERY: Final = 23
"""One input in this number is read with its memory watched."""


@dataclass(frozen=True, slots=True)
class Decoder:
    """A decoder under attack."""

    target: FuzzTarget
    chunk_size: int = CHUNK

    @property
    def name(self) -> str:
        return self.target.name

    @property
    def weight(self) -> float:
        return self.target.weight

    def begin(self) -> Corpus:
        entries = list(dict.fromkeys(self.target.seeds()))[: CORPUS_MAX // 2]
        return Corpus(entries, set(), len(entries))

    def chunk(self, work: FuzzWork, guard: Guard, tell: Tell = lambda data: None) -> ChunkDone:
        return _chunk(self.target, work, guard, tell)

    def replay(self, data: bytes, guard: Guard) -> Violation | None:
        def read() -> None:
            self.target.run(data)

        errors = self.target.errors
        return guard.run(read, errors) or guard.weigh(read, errors, len(data))

    def smaller(self, data: bytes, guard: Guard, key: str) -> bytes:
        def same(candidate: bytes) -> bool:
            problem = self.replay(candidate, guard)
            return problem is not None and problem.check == key

        return data if key == HANG else smallest_bytes(data, same)


def _chunk(target: FuzzTarget, work: FuzzWork, guard: Guard, tell: Tell) -> ChunkDone:
    corpus, number = work.corpus, work.number
    rng = work.random(target.name)
    mutator = Mutator(rng, text=target.text)
    cover = Cover()
    maps: dict[bytes, list[Spot]] = {}
    findings: dict[str, FuzzFinding] = {}

    def mapped(data: bytes) -> list[Spot]:
        found = maps.get(data)
        if found is None:
            if len(maps) > 2 * CORPUS_MAX:
                maps.clear()
            found = maps[data] = _map(target, data)
        return found

    seeds = corpus.entries[: corpus.seeds] if number == 0 else []
    index = -1
    for index in range(work.count):
        if index < len(seeds):
            data = seeds[index]
        else:
            one, other = rng.choice(corpus.entries), rng.choice(corpus.entries)
            if target.msgpack and rng.random() < 0.6:
                data = mutate_msgpack(rng, one, other)
            else:
                data = mutator.mutate((one, mapped(one)), (other, mapped(other)))
        tell(data)

        def read(data: bytes = data) -> None:
            target.run(data)

        if index % TRACED_EVERY == 0 or (number == 0 and index < TRACED_FIRST):
            problem = guard.run(lambda read=read: cover.watch(read), target.errors)  # type: ignore[misc]
            fresh = cover.edges - corpus.edges
            if fresh:
                corpus.edges |= fresh
                if index >= len(seeds):
                    corpus.add(data, rng)
        elif index % WEIGHED_EVERY == 0:
            problem = guard.weigh(read, target.errors, len(data))
        else:
            problem = guard.run(read, target.errors)
        if guard.jumped() and problem is None:
            problem = guard.weigh(read, target.errors, len(data))
        if problem is not None and problem.check not in findings:
            findings[problem.check] = FuzzFinding(target.name, data, problem)
            if len(findings) >= FINDINGS_MAX or problem.check == HANG:
                break
    return ChunkDone(target.name, index + 1, corpus, list(findings.values()))


def _map(target: FuzzTarget, data: bytes) -> list[Spot]:
    if target.read is None and not target.text:
        return []
    try:
        return spots_of(data, target.read)
    except Exception:
        return []  # a decoder that fails here fails under the guard as well


def smallest_bytes(data: bytes, fails: Callable[[bytes], bool], tries: int = TRIES_MAX) -> bytes:
    """Cut bytes of ``data`` that the failure does not need. Others become zero where they may."""
    if not fails(data):
        return data
    shrinker = Shrinker(data, fails, tries * 2 // 3)
    shrinker.cut(lambda whole: whole, lambda _, kept: bytes(kept), whole=False)
    shrinker.left = tries // 3
    for index in range(len(shrinker.best)):
        kept = shrinker.best
        shrinker.take(kept[:index] + b"\0" + kept[index + 1 :])
    return shrinker.best
