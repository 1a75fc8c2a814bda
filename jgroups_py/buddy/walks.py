"""Across sites: bootstrap of a site, reconciliation with one that lacks removals, repair after a loss.

Both ask all members of a site in the order of claims (``Survey``): at its place in that order everybody
answers for what it owns, and no node is on its way from one to another.

    bootstrap    mark: everything is unsent. Then, until nothing of that is left: left?
    reconcile    here: sums by bucket -> there: sums; nodes of the buckets that differ -> here: what is
                 older or missing there is unsent; what only they have and came from here is removed
    repair       as reconcile, but nothing is removed. When one of several others was promoted, because
                 one is lost: what that one had told to some of the rest, they tell each other
"""

from __future__ import annotations

from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Final
from zlib import crc32

from jgroups_py.buddy.site_messages import Found, Listing, Sums, Survey, There, Walk
from jgroups_py.buddy.values import Node, Path

if TYPE_CHECKING:
    from collections.abc import Callable

    from jgroups_py.buddy.machine import BuddyMachine

BUCKETS: Final = 1024
_MASK: Final = 2**64 - 1


class _State:
    """Of a walk, at the coordinator. ``marked``: nothing more has to be marked. ``round``: of the sums
    that were sent; ``since``: when."""

    __slots__ = ("asking", "marked", "round", "since")

    def __init__(self) -> None:
        self.marked = False
        self.asking = False
        self.round = 0
        self.since = 0.0


class Walks:
    def __init__(self, machine: BuddyMachine) -> None:
        self.machine = machine
        self.states: dict[Walk, _State] = {}
        self._round = 0

    # --- the coordinator

    def begin(self, walk: Walk) -> None:
        """From its start, whatever was done of it."""
        self.states[walk] = _State()
        self._go_on(walk)

    def lost(self) -> None:
        """A member has gone that may have marked what nobody else has marked."""
        self.states.clear()

    def settled(self) -> None:
        """Claims of the last view are void."""
        for walk in self.machine.sites.walks:
            state = self.states.setdefault(walk, _State())
            state.asking = False
            self._go_on(walk)

    def advance(self) -> None:
        sites = self.machine.sites
        for site in sites.out_of_sync:
            walk = Walk(site, "reconcile")
            if site in sites.links and walk not in sites.walks:
                sites.walks[walk] = None
                sites.tell()
                self.begin(walk)
        for walk in list(sites.walks):
            self._go_on(walk)

    def _go_on(self, walk: Walk) -> None:
        machine = self.machine
        state = self.states.get(walk)
        if state is None:
            state = self.states[walk] = _State()
        if state.asking:
            if not state.round or machine.now - state.since <= machine.config.event_timeout:
                return
            state.asking = False  # no answer from there
        if walk.kind != "bootstrap" or state.marked:
            if walk.site not in machine.sites.links:
                return
        if state.marked:
            state.asking = True
            state.round = 0
            self._survey(Survey(walk.site, "left"), lambda found: self._left(walk, state, found))
        elif walk.kind == "bootstrap":
            state.asking = True
            self._survey(Survey(walk.site, "mark"), lambda found: self._marked(state))
        else:
            state.asking = True
            state.round = 0
            self._survey(
                Survey(walk.site, "sums"), lambda found: self._send_sums(walk, state, found)
            )

    def _survey(self, survey: Survey, then: Callable[[list[Found]], None]) -> None:
        self.machine.claims.survey_all(survey, then)

    def _marked(self, state: _State) -> None:
        state.marked = True
        state.asking = False

    def _left(self, walk: Walk, state: _State, found: list[Found]) -> None:
        state.asking = False
        begun_anew = self.states.get(walk) is not state
        if begun_anew or any(f.count for f in found):
            return
        sites = self.machine.sites
        sites.walks.pop(walk, None)
        self.states.pop(walk, None)
        if walk.kind == "reconcile":
            sites.out_of_sync.pop(walk.site, None)
        self.machine.count(f"{walk.kind}s")
        self.machine.event(f"{walk.kind}_complete", walk.site)
        sites.tell()

    # --- reconciliation, here

    def _send_sums(self, walk: Walk, state: _State, found: list[Found]) -> None:
        self._round += 1
        state.round = self._round
        state.since = self.machine.now
        self.machine.sites.post(walk.site, Sums(state.round, _total(found)))

    def on_listing(self, site: str, listing: Listing) -> None:
        for walk, state in self.states.items():
            if walk.site == site and state.round and state.round == listing.round:
                state.round = 0
                survey = Survey(site, "compare", listing.buckets, listing.nodes)
                self._survey(survey, partial(self._compared, walk, state, listing))
                return
        self.machine.count("stale_listings")

    def _compared(self, walk: Walk, state: _State, listing: Listing, found: list[Found]) -> None:
        if walk.kind == "reconcile":
            known = {path for f in found for path in f.paths}
            gone = [t for t in listing.nodes if t.path not in known and not t.removed]
            self.machine.arrivals.remove_there([there for there in gone if there.came])
            self.machine.count("only_there", sum(not there.came for there in gone))
        self._marked(state)

    # --- reconciliation, there

    def on_sums(self, site: str, theirs: Sums) -> None:
        if len(theirs.sums) != BUCKETS:
            self.machine.count("bad_messages")
            return
        self._survey(Survey(site, "sums"), lambda found: self._list(site, theirs, _total(found)))

    def _list(self, site: str, theirs: Sums, ours: tuple[int, ...]) -> None:
        buckets = tuple(b for b in range(BUCKETS) if ours[b] != theirs.sums[b])
        if not buckets:
            self.machine.sites.post(site, Listing(theirs.round, (), ()))
            return

        def listed(found: list[Found]) -> None:
            nodes = tuple(node for f in found for node in f.nodes)
            self.machine.sites.post(site, Listing(theirs.round, buckets, nodes))

        self._survey(Survey(site, "list", buckets), listed)

    # --- everybody, at its place in the order

    def answer(self, survey: Survey) -> Found:
        match survey.kind:
            case "mark":
                return self._mark(survey.site)
            case "left":
                return Found(self._count_left(survey.site))
            case "sums":
                return Found(sums=self._sums())
            case "list":
                return Found(nodes=self._listed(survey))
            case "compare":
                return self._compare(survey)

    def _ours(self) -> list[tuple[Path, Node]]:
        return [(path, node) for path, node in self.machine.own.items() if node.to is None]

    def _mark(self, site: str) -> Found:
        self._set_unsent(site, [path for path, _ in self._ours()])
        return Found()

    def _set_unsent(self, site: str, paths: list[Path]) -> None:
        """In log entries of ``chunk_nodes`` nodes."""
        machine = self.machine
        box = machine.sites.boxes.get(site)
        if box is None:
            return
        size = machine.config.chunk_nodes
        for at in range(0, len(paths), size):
            changes = []
            for path in paths[at : at + size]:
                node = machine.sites.marked(path, machine.own[path], [site])
                machine.own[path] = node
                changes.append((path, node))
            machine.log.append(changes)
        box.bar = box.n

    def _count_left(self, site: str) -> int:
        box = self.machine.sites.boxes.get(site)
        if box is None:
            return 0
        return sum(
            name == site and n <= box.bar for _, node in self._ours() for name, n in node.unsent
        )

    def _sums(self) -> tuple[int, ...]:
        sums = [0] * BUCKETS
        for path, node in self._ours():
            sums[bucket_of(path)] += _weight(path, node)
        return tuple(each & _MASK for each in sums)

    def _listed(self, survey: Survey) -> tuple[There, ...]:
        buckets = set(survey.buckets)
        return tuple(
            There(path, node.stamp, node.removed, node.came == survey.site)
            for path, node in self._ours()
            if bucket_of(path) in buckets
        )

    def _compare(self, survey: Survey) -> Found:
        buckets = set(survey.buckets)
        there = {node.path: node for node in survey.nodes}
        lacking = [
            path
            for path, node in self._ours()
            if bucket_of(path) in buckets
            and (there[path].stamp < node.stamp if path in there else not node.removed)
        ]
        self._set_unsent(survey.site, lacking)
        return Found(paths=tuple(path for path in there if path in self.machine.own))


def bucket_of(path: Path) -> int:
    return crc32("\0".join(path).encode()) % BUCKETS


def _weight(path: Path, node: Node) -> int:
    """Of one node in the sum of its bucket: of path, stamp and whether it is removed."""
    stamp = node.stamp
    text = f"{path} {stamp.site} {stamp.epoch} {stamp.version} {bytes(stamp.owner).hex()} {node.removed}"
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())


def _total(found: list[Found]) -> tuple[int, ...]:
    sums = [0] * BUCKETS
    for each in found:
        if len(each.sums) == BUCKETS:
            sums = [a + b for a, b in zip(sums, each.sums, strict=True)]
    return tuple(each & _MASK for each in sums)
