"""The answers of a member when a whole site is asked in the order of claims (``Survey``).

At its place in that order every member answers for its own nodes. No node is then on its way from one member to
another.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final
from zlib import crc32

from jgroups_py.buddy.outbox import Outboxes
from jgroups_py.buddy.ownership import Ownership
from jgroups_py.buddy.site_messages import Found, Survey, There
from jgroups_py.buddy.values import OwnedNode, Path

BUCKETS: Final = 1024
_MASK: Final = 2**64 - 1


class Surveyor:
    def __init__(self, ownership: Ownership, outboxes: Outboxes) -> None:
        self._ownership = ownership
        self._outboxes = outboxes

    def answer(self, survey: Survey) -> Found:
        """Carry out a survey, and return the answer."""
        match survey.kind:
            case "mark":
                self._mark(survey.site, [path for path, _ in self._ownership.owned()])
                return Found()
            case "left":
                return Found(self._count_left(survey.site))
            case "sums":
                return Found(sums=self._sums())
            case "list":
                return Found(nodes=self._listed(survey))
            case "compare":
                return self._compare(survey)

    def _mark(self, site: str, paths: list[Path]) -> None:
        """Mark these nodes to be sent to ``site``. A walk waits for all numbers up to the bar."""
        box = self._outboxes.get(site)
        if box is not None:
            self._ownership.mark_unsent(site, paths)
            box.bar = box.n

    def _count_left(self, site: str) -> int:
        box = self._outboxes.get(site)
        if box is None:
            return 0
        return sum(
            name == site and n <= box.bar
            for _, node in self._ownership.owned()
            for name, n in node.unsent
        )

    def _sums(self) -> tuple[int, ...]:
        sums = [0] * BUCKETS
        for path, node in self._ownership.owned():
            sums[bucket_of(path)] += _weight(path, node)
        return tuple(each & _MASK for each in sums)

    def _listed(self, survey: Survey) -> tuple[There, ...]:
        buckets = set(survey.buckets)
        return tuple(
            There(path, node.stamp, node.removed, node.came == survey.site)
            for path, node in self._ownership.owned()
            if bucket_of(path) in buckets
        )

    def _compare(self, survey: Survey) -> Found:
        buckets = set(survey.buckets)
        there = {node.path: node for node in survey.nodes}
        lacking = [
            path
            for path, node in self._ownership.owned()
            if bucket_of(path) in buckets
            and (there[path].stamp < node.stamp if path in there else not node.removed)
        ]
        self._mark(survey.site, lacking)
        return Found(paths=tuple(path for path in there if path in self._ownership.nodes))


def bucket_of(path: Path) -> int:
    return crc32("\0".join(path).encode()) % BUCKETS


def total(found: list[Found]) -> tuple[int, ...]:
    """Return the sums of all members together."""
    sums = [0] * BUCKETS
    for each in found:
        if len(each.sums) == BUCKETS:
            sums = [a + b for a, b in zip(sums, each.sums, strict=True)]
    return tuple(each & _MASK for each in sums)


def _weight(path: Path, node: OwnedNode) -> int:
    """Return the number that a node adds to the sum of its bucket: it depends on path, stamp and whether the node is
    removed."""
    stamp = node.stamp
    text = f"{path} {stamp.site} {stamp.epoch} {stamp.version} {bytes(stamp.owner).hex()} {node.removed}"
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())
