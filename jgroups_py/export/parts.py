"""open_parts: opens a snapshot of a cache with buddies. Each member owns a part of the nodes.

    all members:  part?  ->  open, part  ->  part?        the same each time, and nothing moving: it holds
                                                          else: close all, wait, again

This is a seqlock with one counter for each member. If every member answers the same after the last part was frozen as
when its own was frozen, no node changed its owner between the first freeze and the last. So each node is in one part.
Each part is of one moment, and all moments are within that short time. They are not the same moment: of two writes at
two members the later one may be in the snapshot without the earlier one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from jgroups_py.errors import ConfigError
from jgroups_py.export.client import Access, Address, ExportClient
from jgroups_py.export.errors import ExportError, Moving, NoMember
from jgroups_py.export.following import merged
from jgroups_py.export.messages import Offset, PartOpened

TRIES_MAX: Final = 20
"""The most tries to open all parts; they take some 15 seconds."""
PAUSE: Final = 0.02
"""Seconds before the second try. Each pause is twice the one before."""
PAUSE_MAX: Final = 1.0
TOLD_TRIES: Final = 50
"""The most questions to a member, ``PAUSE`` apart, whether its buddies have everything in its part."""


@dataclass(frozen=True, slots=True)
class KeptPicture:
    """A snapshot, or a part of one, that a member keeps. Its text is ``host:port/id/rows``."""

    member: Address
    id: str
    rows: int

    def __str__(self) -> str:
        return f"{self.member[0]}:{self.member[1]}/{self.id}/{self.rows}"


@dataclass(frozen=True, slots=True)
class SnapshotParts:
    """One part of each member, opened after ``tries`` tries. ``offset`` is the place in all owners' logs from which they can be
    followed."""

    pictures: tuple[KeptPicture, ...]
    tries: int
    offset: Offset


def open_parts(
    members: Sequence[Address],
    token: Access,
    map: str,
    under: Sequence[str] = ("/",),
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> SnapshotParts:
    """Open the parts of all members. Nothing stays open if it raises.

    Args:
        members: export ports of all members of the view, in any order. Ports of members that are gone do no harm.
        under: keys that are one of these or below it.

    Raises:
        ConfigError: a member's port is not among ``members``.
        NoMember: no member can be reached.
        Moving: nodes moved or members came and went, ``TRIES_MAX`` times. The text has the last reason.
        ExportError: as ``ExportClient.open_snapshot``.
    """
    pause = PAUSE
    for number in range(1, TRIES_MAX + 1):
        try:
            with ExitStack() as connections:
                clients = _at_all(members, token, map, connections)
                pictures, places = _opened(clients, map, under, sleep)
                return SnapshotParts(pictures, number, merged(places))
        except Moving as problem:
            last = problem
        if number < TRIES_MAX:
            sleep(pause)
            pause = min(2 * pause, PAUSE_MAX)
    raise Moving(f'map "{map}" did not hold still, tried {TRIES_MAX} times (TRIES_MAX): {last}')


def close_all(pictures: Sequence[KeptPicture], token: Access) -> None:
    """Close the open parts where that is possible. A member closes the others when they are not read any more."""
    for picture in pictures:
        try:
            with ExportClient(picture.member, token) as client:
                client.close_snapshot(picture.id)
        except ExportError:
            pass


Clients = Sequence[tuple[ExportClient, PartOpened]]
"""Clients of all members, each with the state of its part that it reported at first."""


def _at_all(members: Sequence[Address], token: Access, map: str, connections: ExitStack) -> Clients:
    """Return a client of each member. All members have the same view, and no node moves."""
    clients: dict[str, tuple[ExportClient, PartOpened]] = {}
    unreachable: list[NoMember] = []
    for address in members:
        try:
            client = connections.enter_context(ExportClient(address, token))
            part = client.part(map)
        except NoMember as problem:
            unreachable.append(problem)
            continue
        clients.setdefault(part.member, (client, part))  # one port of a member is enough
    if not clients:
        raise NoMember(f"no member can be reached: {_said(unreachable)}")
    found = [*clients.values()]
    for _, part in found:
        _check(found[0][1], part)
    missing = sorted(name for id, name in found[0][1].members.items() if id not in clients)
    if missing:
        said = f"no export port of {', '.join(missing)} is among those given"
        if not unreachable:
            raise ConfigError(
                f'map "{map}": {said}; each member of a cache with buddies has a part of it'
            )
        raise Moving(f"{said} or can be reached: {_said(unreachable)}")
    return found


def _said(problems: Sequence[Exception]) -> str:
    return "; ".join([str(problem) for problem in problems])


def _opened(
    clients: Clients, map: str, under: Sequence[str], sleep: Callable[[float], None]
) -> tuple[tuple[KeptPicture, ...], list[Offset]]:
    opened: list[tuple[ExportClient, KeptPicture, PartOpened]] = []
    places: list[Offset] = []
    try:
        for client, first in clients:
            said = client.open_snapshot(map, under, part=True)
            if said.part is None:
                raise ExportError(f'map "{map}": {client.member} has opened no part of it')
            opened.append((client, KeptPicture(client.address, said.id, said.rows), said.part))
            places.append(said.offset)
            _check(first, said.part)
        for client, _, part in opened:
            now = client.part(map)
            _check(part, now)
            if now.moves != part.moves:
                moves = now.moves - part.moves
                raise Moving(f"{_name(now)}: {moves} nodes changed hands while parts were opened")
        for (client, _, part), place in zip(opened, places, strict=True):
            _wait_until_told(client, map, place.origins[part.member], sleep)
    except BaseException as problem:
        for client, picture, _ in opened:
            try:
                client.close_snapshot(picture.id)
            except ExportError:
                pass  # the member is gone, or will close it when it is not read
        if isinstance(problem, NoMember):
            raise Moving(str(problem)) from None  # the next try sees the view without that member
        raise
    return tuple([picture for _, picture, _ in opened]), places


def _wait_until_told(
    client: ExportClient, map: str, number: int, sleep: Callable[[float], None]
) -> None:
    """Wait until all holders have the content of a part. Otherwise a crash could take changes back, and a follower
    would not learn of it."""
    for _ in range(TOLD_TRIES):
        part = client.part(map)
        if part.told >= number:
            return
        sleep(PAUSE)
    raise Moving(f"{_name(part)}: not all its buddies have what it wrote")


def _check(before: PartOpened, now: PartOpened) -> None:
    """Raise Moving if the members have different views or a node moves."""
    if now.view != before.view:
        views = f"{_name(before)} in {_view(before)}, {_name(now)} in {_view(now)}"
        raise Moving(f"members are not in one view: {views}")
    if now.moving:
        raise Moving(f"{_name(now)}: {now.moving}")


def _name(part: PartOpened) -> str:
    return part.members.get(part.member, part.member)


def _view(part: PartOpened) -> str:
    return f"{part.view.partition('|')[0]} of {', '.join(sorted(part.members.values()))}"
