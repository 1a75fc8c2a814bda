"""Places in the change logs of a cache with buddies. Each member has the logs of some owners.

    owner alive    it reports its last fully replicated entry: the end of its log
    owner gone     the member that adopted its nodes reports the last entry; holders have the entries
    not reached    its end does not move; its changes come when the owner is reached, or is gone

A place is the last number of each owner that was read. Changes are read at a member that has them. Only their stamps
order changes of different owners.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Self

from jgroups_py.errors import ConfigError
from jgroups_py.export.client import Access, Address, ExportClient
from jgroups_py.export.errors import NoMember, Trimmed
from jgroups_py.export.messages import LogPlace, Logs, Offset, place_of


@dataclass(frozen=True, slots=True)
class Piece:
    """Changes of one owner that this member has."""

    client: ExportClient
    start: Offset
    stop: Offset


class OwnersFollowed:
    """The logs of all owners, through every member that can be reached. Use it with ``with``.

    Args:
        members: export ports of all members, in any order.
        map: the name of the cache.

    Raises:
        ConfigError: a member's port is not among ``members``.
        NoMember: no member can be reached.
        ExportError: as ``ExportClient``.
    """

    def __init__(self, members: Sequence[Address], token: Access, map: str) -> None:
        self._map = map
        self._stack = ExitStack()
        self._said: list[tuple[ExportClient, Logs]] = []
        self.unreached: list[str] = []
        """Logical names of members whose changes come only when they are reached, or gone."""
        try:
            self._connect(members, token)
        except BaseException:
            self._stack.close()
            raise

    def _connect(self, members: Sequence[Address], token: Access) -> None:
        unreachable: list[str] = []
        for address in members:
            try:
                client = self._stack.enter_context(ExportClient(address, token))
                self._said.append((client, client.logs(self._map)))
            except NoMember as problem:
                unreachable.append(str(problem))
        if not self._said:
            raise NoMember(f"no member can be reached: {'; '.join(unreachable)}")
        reached = {logs.part.member for _, logs in self._said}
        there = {id: name for _, logs in self._said for id, name in logs.part.members.items()}
        self.unreached = sorted(name for id, name in there.items() if id not in reached)
        if len(self.unreached) > len(unreachable):
            raise ConfigError(
                f'map "{self._map}": no export port of {", ".join(self.unreached)} is among those given; each '
                "member of a cache with buddies has changes of its own"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    # --- places

    def end(self) -> Offset:
        """Return the place after everything that may be read now."""
        return self._all({origin: max(0, at) for origin, at in self._ends().items()})

    def begin(self) -> Offset:
        """Return the place before the first change of each owner that is still kept."""
        ends = self._ends()
        floors: dict[str, int] = {}
        for origin, place in self._places():
            floors[origin] = min(floors.get(origin, place.floor), place.floor)
        return self._all({o: min(n, max(0, ends[o])) for o, n in floors.items()})

    def after(self, start: Offset, max_changes: int | None = None) -> Offset:
        """Return the end, or a place after ``start`` with about ``max_changes`` between them (of each owner at least one batch).

        Raises:
            Trimmed: no member keeps the changes after ``start`` any more.
        """
        ends = self._ends()
        self._check_lost(start, ends)
        known = dict(start.origins)
        waiting = [o for o, end in ends.items() if end > known.get(o, 0)]
        left = max_changes
        for number, origin in enumerate(waiting):
            share = None if left is None else max(1, left // (len(waiting) - number))
            at, count = self._reached(origin, known.get(origin, 0), ends[origin], share)
            known[origin] = at
            if left is not None:
                left = max(0, left - count)
        for origin in ends:
            known.setdefault(origin, 0)
        for origin in start.ended:
            if origin not in ends and not self._is_member(origin):
                del known[origin]  # all members have forgotten it
        return self._all(known)

    def _reached(self, origin: str, start: int, stop: int, most: int | None) -> tuple[int, int]:
        count = 0
        for piece in self._pieces_of(origin, start, stop):
            rest = None if most is None else most - count
            if rest is not None and rest <= 0:
                return piece.start.at, count
            found = piece.client.find_offset(self._map, piece.start, max_changes=rest)
            count += found.changes
            if found.offset.at < piece.stop.at:
                return found.offset.at, count
        return stop, count

    def pieces(self, start: Offset, stop: Offset) -> list[Piece]:
        """Return the ranges between two places, by owner.

        Raises:
            Trimmed: no member keeps some of the changes any more.
        """
        return [
            piece
            for origin, end in stop.origins.items()
            if end > start.origins.get(origin, 0)
            for piece in self._pieces_of(origin, start.origins.get(origin, 0), end)
        ]

    # --- inside

    def _all(self, origins: Mapping[str, int]) -> Offset:
        ends = self._ends()
        ended = [o for o, n in origins.items() if n == ends.get(o) and not self._is_member(o)]
        return place_of(origins, ended)

    def _places(self) -> list[tuple[str, LogPlace]]:
        return [(origin, place) for _, logs in self._said for origin, place in logs.places.items()]

    def _ends(self) -> Mapping[str, int]:
        ends: dict[str, int] = {}
        for origin, place in self._places():
            ends[origin] = max(ends.get(origin, -1), place.end)
        return ends

    def _pieces_of(self, origin: str, start: int, stop: int) -> list[Piece]:
        """Choose for each range the member that has the most from there on."""
        found: list[Piece] = []
        while start < stop:
            client, have = None, start
            for other, logs in self._said:
                place = logs.places.get(origin)
                if place is not None and place.floor <= start and place.have > have:
                    client, have = other, place.have
            if client is None:
                raise Trimmed(
                    f"changes of {origin} after number {start}, up to {stop}, are kept by no member that was reached: "
                    "take a snapshot and follow from its offset"
                )
            have = min(have, stop)
            found.append(Piece(client, _one(origin, start), _one(origin, have)))
            start = have
        return found

    def _check_lost(self, start: Offset, ends: Mapping[str, int]) -> None:
        """Raise Trimmed if no member knows any more how the log of an owner ended: its last changes are lost, or were
        never read."""
        if self.unreached:
            return  # these members may know it
        for origin, number in start.origins.items():
            known = origin in ends or origin in start.ended or self._is_member(origin)
            if number and not known:
                raise Trimmed(
                    f"no member that was reached knows how the changes of {origin} ended after number {number}: "
                    "take a snapshot and follow from its offset"
                )

    def _is_member(self, origin: str) -> bool:
        return any(origin in logs.part.members for _, logs in self._said)


def merged(places: Sequence[Offset]) -> Offset:
    """Return the place of the whole, from the snapshots of all parts."""
    found: dict[str, int] = {}
    for place in places:
        for origin, number in place.origins.items():
            found[origin] = max(number, found.get(origin, 0))
    return place_of(found, {origin for place in places for origin in place.ended})


def bounded(end: Offset, start: Offset, target: Offset) -> Offset:
    """Return ``end``, limited for each owner to ``target`` and not before ``start``. Places have no order, so an end may be past
    a target in one owner's log and before it in another's."""
    found = {
        o: max(start.origins.get(o, 0), min(n, target.origins.get(o, 0)))
        for o, n in end.origins.items()
    }
    return place_of(found, [o for o in end.ended if found[o] == end.origins[o]])


def _one(origin: str, number: int) -> Offset:
    return Offset(origin, number, {origin: number})
