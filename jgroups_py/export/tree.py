"""A tree cache as a source. Keys are paths; data is one msgpack map with all attributes of a node."""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import msgspec
import trio

from jgroups_py.cache import CacheBatch, CallOptions, Fqn, MsgpackCodec, TreeCache
from jgroups_py.cache.changes import Changes
from jgroups_py.cache.fqn import BACKUP_ROOT, ROOT, as_fqn, parse_all
from jgroups_py.cache.garbage import no_collection
from jgroups_py.cache.holding import PlaceOfMember
from jgroups_py.cache.node import Node, node_from_bytes
from jgroups_py.cache.owned_tree import OwnedTree
from jgroups_py.errors import CacheRefused, NotOwner
from jgroups_py.export.errors import ExportError
from jgroups_py.export.limits import ExportLimits
from jgroups_py.export.log import ChangeLog, LogEntry
from jgroups_py.export.messages import LogPlace, Marker, Offset, PartOpened, place_of
from jgroups_py.export.owners import OwnerLog, OwnerLogs
from jgroups_py.export.source import Frozen, Row, Source
from jgroups_py.export.stored import StoredRows
from jgroups_py.values.address import Address

RETRIES: Final = 20
"""The most times that rows are written again because another member wrote the same marker at the same moment."""
MARKERS: Final = Fqn(("_export_",))
"""The path of the markers of bulk writes. Snapshots and changes leave it out."""
R = TypeVar("R")
Nodes = Sequence[tuple[Fqn, Node | None]]
"""Prepared rows; None means removed."""
_OURS: Final = (*BACKUP_ROOT, *MARKERS)


class TreeSource(Source):
    """The source of a cache: alone or with buddies, with or without a store, or replicated. With buddies it has a part of the
    rows, and a log of each owner whose holder it is."""

    kind = "tree"

    def __init__(self, cache: TreeCache, limits: ExportLimits) -> None:
        self._cache = cache
        self._tree = cache.tree
        self.values = (
            "msgpack" if isinstance(cache.codec, MsgpackCodec) else type(cache.codec).__name__
        )
        self._alone = f"{secrets.token_hex(8)}"
        self._count = 0
        self._lost = False
        self._log = ChangeLog(secrets.token_hex(8), self._position(), limits)
        self._owners: OwnerLogs | None = None
        said = cache.holding()
        if said is None:
            self._tree.observers.append(self._applied)
            self._unfollow: Callable[[], None] = partial(self._tree.observers.remove, self._applied)
        else:
            self._owners = OwnerLogs(Address(bytes.fromhex(said.member)), self._holding, limits)
            self._unfollow = cache.follow_owners(self._owners)

    def turn_away(self, by: str, cause: str, host: str, causes: Mapping[str, str]) -> bool:
        return self._cache.turn_away(by, cause, host, causes=causes)

    def _position(self) -> Mapping[str, int]:
        position = self._cache.position()
        return {self._alone: self._count} if position is None else position

    def _applied(self, changes: Changes, origin: tuple[str, int] | None) -> None:
        """Log a batch, in the step in which it was applied."""
        if origin is None:
            if self._cache.position() is not None:  # the tree of another side replaced ours
                self._lost = True
                return
            self._count += 1
            origin = self._alone, self._count
        self._now().append(*origin, time.time_ns() // 1000, changes)

    def _holding(self) -> PlaceOfMember:
        said = self._cache.holding()
        assert said is not None, "only asked where each member has a part"
        return said

    def logs(self) -> Mapping[str, LogPlace] | None:
        return None if self._owners is None else self._owners.places()

    def log_at(self, place: Offset | None) -> ChangeLog | OwnerLog:
        if self._owners is not None:
            if place is None or not place.log:
                raise ExportError("each owner has a log of its own: say in which one")
            return self._owners.log_of(place.log)
        return self._now()

    def _now(self) -> ChangeLog:
        """Return the log. If the tree was replaced, begin the log anew, because the new content is known by now."""
        if self._lost:
            self._lost = False
            self._log.reset(secrets.token_hex(8), self._position())
        return self._log

    @property
    def member(self) -> str:  # type: ignore[override]
        return self._cache.name

    @property
    def members(self) -> tuple[str, ...]:
        return self._cache.members or (self.member,)

    @property
    def origins(self) -> Collection[str]:
        return (self._alone, *self._cache.origins, *(self._owners.origins if self._owners else ()))

    @property
    def rows(self) -> int:
        return len(self._tree.container)

    def close(self) -> None:
        self._unfollow()

    # --- reading

    def part(self) -> PartOpened | None:
        said = self._cache.holding()
        if said is None:
            return None
        return PartOpened(
            said.view, said.member, dict(said.members), said.moves, said.moving, said.told
        )

    async def freeze(self, under: Sequence[str]) -> Frozen:
        container = self._tree.container
        # Backups are nodes of other members, which report them.
        roots = [root for root in map(as_fqn, under) if not root.is_within(BACKUP_ROOT)]
        if self._cache.old_rows is not None:
            await self._cache.old_rows.require_none(roots, MARKERS)
        async with self._cache.still() as picture:
            if ROOT in roots:
                nodes = {**picture.nodes, **picture.left}
            else:
                inside = {path: None for r in roots for path in container.within(r)}
                nodes = {path: picture.nodes[path] for path in inside if path in picture.nodes}
                nodes.update(
                    (p, n) for p, n in picture.left.items() if any(map(p.is_within, roots))
                )
            for path in [*container.within(MARKERS), *picture.left]:
                if path.is_within(MARKERS):
                    nodes.pop(path, None)
            part = self.part()
            offset = self._here()
        rows = [*nodes.items()]  # nodes themselves never change
        if picture.stored is None:
            return Frozen(rows, offset, part=part)
        stored = StoredRows(
            picture.stored, roots, MARKERS, (nodes, picture.gone), only=picture.only
        )
        try:
            await stored.begin()
        except BaseException:
            await stored.aclose()
            raise
        return Frozen(rows, offset, stored, part)

    def _here(self) -> Offset:
        """Return the place whose state the tree has now."""
        if self._owners is None:
            return self.log_at(None).end_offset()
        me = self._holding()
        ends = {o: place.end for o, place in self._owners.places().items() if place.end >= 0}
        return place_of(ends | {me.member: me.seq}, [o for o in ends if o not in me.members])

    def state_columns(self, rows: Sequence[Any]) -> list[list[Any]]:
        return [[str(path) for path, _ in rows], [_data(node) for _, node in rows]]

    def change_columns(self, entries: Sequence[LogEntry]) -> list[list[Any]]:
        columns: list[list[Any]] = [[], [], [], [], [], [], []]
        origins, numbers, times, keys, stamps, removed, data = columns
        for entry in entries:
            for path, node, stamp in zip(entry.paths, entry.nodes, entry.stamps, strict=True):
                if path[:1] == MARKERS:
                    continue
                origins.append(entry.origin)
                numbers.append(entry.number)
                times.append(entry.time)
                keys.append(str(path))
                stamps.append(stamp)
                removed.append(node is None)
                data.append(b"" if node is None else _data(node))
        return columns

    # --- writing

    def prepared(self, rows: Sequence[Row]) -> Nodes:
        with no_collection():
            return _nodes(rows)

    async def write(self, rows: Nodes, *, replace: bool, skip_equal: bool = False) -> None:
        nodes = rows
        if skip_equal:
            nodes = [row for row in nodes if not await self._is_so(*row, replace)]
        if not nodes or await self._cache.put_at_once(nodes, replace=replace):
            await trio.lowlevel.checkpoint()
            return

        async def once(batch: CacheBatch) -> None:
            _put_all(batch, nodes, replace)

        await self._in_a_batch(once)

    async def _is_so(self, path: Fqn, wanted: Node | None, replace: bool) -> bool:
        container = self._tree.container
        there = container.get(path)
        if isinstance(container, OwnedTree):
            there = container.owned(path)
            if there is None:  # another member may own it, even if the store here has it
                return False
        elif there is None and self._cache.has_store:
            there = await self._cache.read_node(path)
        if wanted is None or there is None:
            return there is wanted
        if replace:
            return there == wanted
        return wanted.attributes.items() <= there.attributes.items()

    async def write_marked(self, rows: Nodes, marker: Marker, *, replace: bool, last: bool) -> bool:
        place = MARKERS.child(marker.query)

        async def once(batch: CacheBatch) -> bool:
            if await batch.get(place, "batch", -1) >= marker.batch:
                return False
            _put_all(batch, rows, replace)
            if last:
                batch.put(place, "batch", marker.batch)
            return True

        return await self._in_a_batch(once)

    async def _in_a_batch(self, fill: Callable[[CacheBatch], Awaitable[R]]) -> R:
        """Run ``fill`` as a batch. With buddies, nodes of other members are searched for and taken over only if there
        are such nodes, because the search costs much."""
        batch, options = self._cache.batch, CallOptions()
        if self._cache.is_shared_out:
            try:
                return await batch(retries=RETRIES, gravitation=False).run(fill)
            except NotOwner:
                options["gravitation"] = True
        return await batch(retries=RETRIES, **options).run(fill)


def _put_all(batch: CacheBatch, nodes: Nodes, replace: bool) -> None:
    for path, node in nodes:
        if node is None:
            batch.remove_node(path)
        else:
            batch.put_encoded(path, node, replace=replace)


_encode = msgspec.msgpack.Encoder(order="deterministic").encode


def _data(node: Node) -> bytes:
    """Return the bytes of a node. Equal nodes have the same bytes, in whatever order attributes were put."""
    return _encode(node.attributes)


def _nodes(rows: Sequence[Row]) -> Nodes:
    nodes: list[tuple[Fqn, Node | None]] = []
    paths = parse_all([key for key, _, _ in rows])
    for path, (_, removed, data) in zip(paths, rows, strict=True):
        if not path or path[0] in _OURS:
            which = "the cache's own" if path else "the root"
            raise CacheRefused(f"{path} is {which}: it cannot be written")
        try:
            nodes.append((path, None if removed else node_from_bytes(data)))
        except ValueError as error:
            raise ExportError(f"{path}: {error}") from None
    return nodes
