"""The events that one owner has not sent to other sites yet, by number. The values are in the nodes."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from jgroups_py.buddy.known_sites import KnownSites
from jgroups_py.buddy.values import OwnedNode, Path


class SiteOutbox:
    """The events for one site. ``n``: the last number given. ``todo``: events to be sent, with the log entry that must
    be safe before. ``flying``: events that were sent and are not acknowledged. Both are in the order of their numbers,
    and all of ``flying`` comes before all of ``todo``. ``bar``: the last number that a bootstrap has given."""

    __slots__ = ("_at", "bar", "flying", "n", "since", "todo")

    def __init__(self) -> None:
        self.n = 0
        self.bar = 0
        self.todo: dict[int, tuple[tuple[Path, ...], int]] = {}
        self.flying: dict[int, tuple[Path, ...]] = {}
        self._at: dict[Path, int] = {}
        """The number under which a path is in ``todo``. A path has one number, so ``todo`` is bounded by the nodes."""
        self.since = 0.0
        """The time when the last event was acknowledged, or the first one began to wait."""

    @property
    def waiting(self) -> int:
        """Count nodes that are unsent or unacknowledged, some of them twice."""
        return len(self._at) + sum(map(len, self.flying.values()))

    def add(self, paths: tuple[Path, ...], seq: int) -> int:
        """Number a new event and return the number. It is sent when all holders have log entry ``seq``."""
        self.n += 1
        for path in paths:
            self.drop(path)
            self._at[path] = self.n
        self.todo[self.n] = (paths, seq)
        return self.n

    def drop(self, path: Path) -> None:
        """Do not send the path under its present number."""
        n = self._at.pop(path, None)
        if n is None:
            return
        paths, seq = self.todo[n]
        if len(paths) == 1:
            del self.todo[n]
        else:
            self.todo[n] = (tuple(p for p in paths if p != path), seq)

    def next(self, acked: int) -> tuple[int, tuple[Path, ...]] | None:
        """Take the next event. None: no event's log entry is safe."""
        for n, (paths, seq) in self.todo.items():
            if seq > acked:
                break
            del self.todo[n]
            for path in paths:
                del self._at[path]
            return n, paths
        return None

    def acked(self, n: int, paths: Iterable[Path]) -> None:
        """Note that the other site has these paths of event ``n``."""
        rest = tuple(path for path in self.flying.get(n, ()) if path not in paths)
        if rest:
            self.flying[n] = rest
        else:
            self.flying.pop(n, None)

    def again(self) -> None:
        """Send all unacknowledged events again: they may be lost."""
        flying, self.flying = self.flying, {}
        last = {path: n for n, paths in flying.items() for path in paths} | self._at
        sent = {}
        for n, paths in flying.items():
            rest = tuple(path for path in paths if last[path] == n)
            if rest:
                sent[n] = (rest, 0)
        self.todo = sent | self.todo
        self._at = last


class Outboxes(dict[str, SiteOutbox]):
    """One outbox for each other site. ``Ownership`` numbers its nodes here; ``seq`` is the log entry that will have the
    number. ``Events`` sends numbered events."""

    def __init__(self, sites: Iterable[str], known: KnownSites) -> None:
        super().__init__({site: SiteOutbox() for site in sites})
        self._known = known

    def numbered(
        self, changes: list[tuple[Path, OwnedNode]], seq: int
    ) -> list[tuple[Path, OwnedNode]]:
        """Number the nodes of one write: one event for each site."""
        if not self:
            return changes
        paths = tuple(path for path, _ in changes)
        unsent = tuple((site, box.add(paths, seq)) for site, box in self.items())
        return [(path, replace(node, unsent=unsent)) for path, node in changes]

    def mine(self, path: Path, node: OwnedNode, seq: int) -> OwnedNode:
        """Return a node that this member took over, with numbers of its own."""
        if not node.unsent:
            return node
        return self.marked(path, node, [site for site, _ in node.unsent], seq)

    def marked(self, path: Path, node: OwnedNode, sites: Iterable[str], seq: int) -> OwnedNode:
        """Return the node with new numbers for ``sites``."""
        unsent = dict(node.unsent)
        for site in sites:
            box = self.get(site)
            if box is None:
                unsent.pop(site, None)
                continue
            unsent[site] = box.add((path,), seq)
            if any(walk.site == site for walk in self._known.walks):
                box.bar = box.n
        return replace(node, unsent=tuple(unsent.items()))

    def dropped(self, path: Path) -> None:
        """Forget a node that this member no longer owns."""
        for box in self.values():
            box.drop(path)
