"""Distribution: the nodes and managers where each bucket begins (A24, A32, A35). The same file gives the same distribution everywhere.

It counts pairs of nodes (master, slave) rather than buckets:

1. Pinned buckets are taken as they are.
2. Masters and slaves go where the share of the capacity in use is least. Buckets left over at the end are exchanged
   with an existing pair.
3. Pairs are turned round along paths until no node has more masters than it may.
4. Slaves are exchanged while this lowers the overload that the loss of a cause would put on nodes.
5. Buckets get the pairs in turns, and managers of a node get buckets in turns.

Step 2 finds every pair a place, if there is one and no node has more than one cause of failure. With overlapping
causes, or where nearly every node must have as many masters as it may, a possible distribution can be missed. Then an
error says so.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from jgroups_py.buckets.deployment.model import Deployment

STEPS: Final = 4_096
"""Pairs are placed in about this many steps."""
SPREAD_WORK_MAX: Final = 10_000_000
"""The most pairs that are looked at to spread the load of a loss. Large instances get the result found until then."""

Pairs = Counter[tuple[str, str]]
"""Numbers of buckets by (node of the master, node of the slave)."""


@dataclass(frozen=True)
class Distribution:
    """``nodes``: nodes of master and slave by bucket. ``components``: their managers by bucket, as an index copy takes
    it."""

    nodes: Mapping[int, tuple[str, str]]
    components: Mapping[int, tuple[str, str]]

    def pairs(self) -> Pairs:
        return Counter(self.nodes.values())


def distribute(deployment: Deployment) -> Distribution:
    """Return each bucket's first places. ConfigError: no distribution within all rules was found."""
    fixed: Pairs = Counter(deployment.pinned.values())
    plan = _Plan(deployment, fixed)
    plan.fill()
    plan.turn_round()
    plan.spread()
    nodes = dict(deployment.pinned)
    free = iter(b for b in range(deployment.buckets) if b not in deployment.pinned)
    for pair in _in_turns(plan.pairs - fixed):
        nodes[next(free)] = pair
    nodes = dict(sorted(nodes.items()))
    return Distribution(nodes, _components(deployment, nodes))


def check_pinned(deployment: Deployment) -> None:
    """Raise ConfigError for a bucket that is pinned to a forbidden place."""
    copies: Counter[str] = Counter()
    masters: Counter[str] = Counter()
    for bucket, (master, slave) in deployment.pinned.items():
        where = f"placement.{bucket}"
        for name in (master, slave):
            if not deployment.by_name[name].managers:
                raise deployment.wrong(where, f"node {name} has no bucket manager")
        if not deployment.may_pair(master, slave):
            raise deployment.wrong(
                where,
                f"[{master}, {slave}] fail together: {deployment.shared(master, slave)}; master and slave must not",
            )
        copies.update((master, slave))
        masters[master] += 1
        for name, held, most, what in (
            (master, copies[master], deployment.by_name[master].buckets, "copies"),
            (slave, copies[slave], deployment.by_name[slave].buckets, "copies"),
            (master, masters[master], deployment.by_name[master].masters, "masters"),
        ):
            if held > most:
                raise deployment.wrong(
                    where, f"[{master}, {slave}]: node {name} can hold {most} {what}"
                )


class _Plan:
    """The count of pairs while it is made. Pairs that are ``fixed`` stay."""

    def __init__(self, deployment: Deployment, fixed: Pairs) -> None:
        self.deployment = deployment
        self.names = [node.name for node in deployment.nodes if node.managers]
        self.room = {n: min(deployment.by_name[n].buckets, deployment.buckets) for n in self.names}
        self.masters_max = {n: deployment.by_name[n].masters for n in self.names}
        self.partners = {
            n: [other for other in self.names if deployment.may_pair(n, other)] for n in self.names
        }
        self.fixed, self.pairs = fixed, fixed.copy()
        self.copies: Counter[str] = Counter()
        self.masters: Counter[str] = Counter()
        self._work = 0
        self._reached: frozenset[str] = frozenset()
        for (master, slave), count in fixed.items():
            self._count(master, slave, count)

    def _count(self, master: str, slave: str, count: int) -> None:
        self.copies[master] += count
        self.copies[slave] += count
        self.masters[master] += count

    def _add(self, master: str, slave: str, count: int = 1) -> None:
        self.pairs[master, slave] += count
        self._count(master, slave, count)
        if not self.pairs[master, slave]:
            del self.pairs[master, slave]

    def _movable(self) -> list[tuple[str, str]]:
        return [pair for pair, count in self.pairs.items() if count > self.fixed[pair]]

    # --- 2: where there is room

    def fill(self) -> None:
        left = self.deployment.buckets - self.pairs.total()
        chunk = max(1, left // STEPS)
        while left:
            step = min(chunk, left)
            found = self._best_pair()
            if found is None:
                if not self._exchange():
                    raise self.deployment.wrong(
                        "buckets",
                        f"no place was found for {left} of {self.deployment.buckets} pairs by these capacities and causes of failure;"
                        " raise nodes.*.buckets, or pin some buckets (placement)",
                    )
                left -= 1
                continue
            step = min(step, *(self.room[name] - self.copies[name] for name in found))
            self._add(*found, step)
            left -= step

    def _best_pair(self) -> tuple[str, str] | None:
        free = {n for n in self.names if self.copies[n] < self.room[n]}
        masters = sorted(
            (n for n in self.names if n in free),
            key=lambda n: (self.masters[n] >= self.masters_max[n], self._share_of_masters(n)),
        )
        for master in masters:
            slaves = [n for n in self.partners[master] if n in free]
            if slaves:
                return master, min(
                    slaves, key=lambda n: (self.copies[n] / self.room[n], self.pairs[master, n])
                )
        return None

    def _share_of_masters(self, name: str) -> float:
        most = self.masters_max[name]
        return self.masters[name] / most if most else float("inf")

    def _exchange(self) -> bool:
        """Use two free places that must not form a pair. An existing pair is split, and each of its copies
        forms a pair with one free place."""
        free = [n for n in self.names for _ in range(min(2, self.room[n] - self.copies[n]))]
        for number, one in enumerate(free):
            for other in free[number + 1 :]:
                for master, slave in self._movable():
                    for first, second in ((one, other), (other, one)):
                        if first in self.partners[master] and second in self.partners[slave]:
                            self._add(master, slave, -1)
                            self._add(master, first)
                            self._add(second, slave)
                            return True
        return False

    # --- 3: masters

    def turn_round(self) -> None:
        """Turn pairs round until shares of masters follow capacities and no node exceeds its own."""
        capacity = sum(self.masters_max.values())
        share = {
            n: min(
                self.masters_max[n], -(-self.deployment.buckets * self.masters_max[n] // capacity)
            )
            for n in self.names
        }
        for name in self.names:
            while self.masters[name] > share[name] and self._give_away(name, share):
                pass
        for _ in range(2 * self.deployment.buckets + 1):
            over = [n for n in self.names if self.masters[n] > self.masters_max[n]]
            if not over:
                return
            if not self._give_away(over[0], self.masters_max) and not self._open_up():
                break
        raise self.deployment.wrong(
            f"nodes.{over[0]}.masters",
            f"no distribution was found in which it has {self.masters_max[over[0]]} masters at most; raise masters",
        )

    def _open_up(self) -> bool:
        """Exchange a pair of the nodes just reached with a pair of nodes that may have more masters. The nodes just
        reached have too many pairs among themselves."""
        inside = [pair for pair in self._movable() if pair[0] in self._reached]
        outside = [pair for pair in self._movable() if not self._reached.intersection(pair)]
        for one in inside:
            for other in outside:
                for first, second in (other, other[::-1]):
                    if first in self.partners[one[0]] and second in self.partners[one[1]]:
                        self._add(*one, -1)
                        self._add(*other, -1)
                        self._add(one[0], first)
                        self._add(second, one[1])
                        return True
        return False

    def _give_away(self, name: str, most: Mapping[str, int]) -> bool:
        """Turn pairs round along the shortest path to a node that may have one more master."""
        came: dict[str, str] = {name: ""}
        waiting = deque([name])
        out: dict[str, list[str]] = {}
        for master, slave in sorted(self._movable(), key=lambda pair: -self.pairs[pair]):
            out.setdefault(master, []).append(slave)
        while waiting:
            at = waiting.popleft()
            if at != name and self.masters[at] < most[at]:
                while came[at]:
                    self._add(came[at], at, -1)
                    self._add(at, came[at])
                    at = came[at]
                return True
            for slave in out.get(at, ()):
                if slave not in came:
                    came[slave] = at
                    waiting.append(slave)
        self._reached = frozenset(came)
        return False

    # --- 4: the load that a loss puts on the others

    def spread(self) -> None:
        self._work = SPREAD_WORK_MAX
        while self._spread_once():
            pass

    def _spread_once(self) -> bool:
        beyond = self._overloads(self.pairs)
        for cause, name, _ in beyond:
            lost = self.deployment.causes[cause]
            here = [p for p in self._movable() if p[1] == name and p[0] in lost]
            for one in here:
                for other in self._movable():
                    if self._work > 0 and self._exchange_slaves(one, other, beyond):
                        return True
        return False

    def _overloads(self, pairs: Pairs) -> list[tuple[str, str, int]]:
        self._work -= len(self.deployment.causes) * len(pairs)
        return overloads(self.deployment, pairs)

    def _exchange_slaves(
        self, one: tuple[str, str], other: tuple[str, str], beyond: list[tuple[str, str, int]]
    ) -> bool:
        """Exchange the slaves of two pairs if this makes losses lighter."""
        if one[1] == other[1] or one == other:
            return False
        if other[1] not in self.partners[one[0]] or one[1] not in self.partners[other[0]]:
            return False
        trial = self.pairs.copy()
        for pair, count in (
            (one, -1),
            (other, -1),
            ((one[0], other[1]), 1),
            ((other[0], one[1]), 1),
        ):
            trial[pair] += count
        if _weight(self._overloads(trial)) >= _weight(beyond):
            return False
        self.pairs = +trial
        return True


def overloads(deployment: Deployment, pairs: Pairs) -> list[tuple[str, str, int]]:
    """Return (cause, node, masters) for nodes that would have more masters than their capacity after the loss of this
    cause."""
    found = []
    for cause, lost in deployment.causes.items():
        after = masters_after(pairs, lost)
        found += [
            (cause, node.name, after[node.name])
            for node in deployment.nodes
            if after[node.name] > node.masters
        ]
    return found


def masters_after(pairs: Pairs, lost: Collection[str]) -> Counter[str]:
    """Return the numbers of masters by node, when these nodes are lost and the slaves of their masters are promoted."""
    after: Counter[str] = Counter()
    for (master, slave), count in pairs.items():
        if master not in lost:
            after[master] += count
        elif slave not in lost:
            after[slave] += count
    return after


def _weight(beyond: list[tuple[str, str, int]]) -> int:
    return sum(masters for _, _, masters in beyond)


def _in_turns(pairs: Pairs) -> list[tuple[str, str]]:
    """Return all pairs, one of each kind in turn, so that neighbouring buckets are on different nodes."""
    left = dict(sorted(pairs.items()))
    found: list[tuple[str, str]] = []
    while left:
        for pair in list(left):
            found.append(pair)
            left[pair] -= 1
            if not left[pair]:
                del left[pair]
    return found


def _components(
    deployment: Deployment, nodes: Mapping[int, tuple[str, str]]
) -> dict[int, tuple[str, str]]:
    """Give masters, and slaves, to the managers of each node in turns."""
    turns: Counter[tuple[str, str]] = Counter()

    def next_manager(name: str, role: str) -> str:
        managers = deployment.by_name[name].components("m")
        turns[name, role] += 1
        return managers[(turns[name, role] - 1) % len(managers)]

    return {
        bucket: (next_manager(master, "master"), next_manager(slave, "slave"))
        for bucket, (master, slave) in nodes.items()
    }
