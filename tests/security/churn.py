"""A group with traffic whose members come and go, while all datagrams are recorded. It shows lost messages, and
messages that a former member could read.

    every second        each member sends one numbered message
    every 25 to 40 s    a member leaves or crashes, and another one joins a few seconds later

``lost`` compares sent with received messages. ``read`` decrypts the recording with all keys that a former member ever
had, and returns the messages that this member must not read.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from jgroups_py.stack.ports import Datagram
from jgroups_py.testing.sim import World
from jgroups_py.testing.sim.host import Host
from jgroups_py.testing.sim.member import Member
from jgroups_py.testing.sim.network import LinkSettings
from jgroups_py.values.batch import Batch

MEMBERS = 5
GRACE = 10.0
"""Seconds before a crash; messages of the crashing member, or to it, in this time do not count."""
TEXT = re.compile(rb"<secret (\d+)>")


@dataclass(slots=True)
class Sent:
    """A message: its sender and its number there, its receivers, and the members that must not read it."""

    number: int
    source: Member
    index: int
    at: float
    readers: frozenset[int]
    key: object
    """The key under which it was encrypted, in the form by which this kind of group distinguishes keys."""


@dataclass(slots=True)
class Life:
    """One start of a member. ``crashed``: it ended without a goodbye."""

    member: Member
    ended: float | None = None
    crashed: bool = False
    got: dict[int, list[int]] = field(default_factory=dict)


class Churn:
    """See the module's docstring.

    Args: world: the world, empty. start: starts a member of that name. key_of: the key with which a
        member encrypts now. departed: called when a member has left or crashed.
    """

    def __init__(
        self,
        world: World,
        patch: pytest.MonkeyPatch,
        *,
        start: Callable[[str], Member],
        key_of: Callable[[Member], object],
        departed: Callable[[], None] = lambda: None,
    ) -> None:
        self.world = world
        self.lives: list[Life] = []
        self.sent: list[Sent] = []
        self.recorded: list[bytes] = []
        self._counts: dict[int, int] = {}
        self._start = start
        self._key_of = key_of
        self._departed = departed
        self._random = random.Random(f"{world.seed}/churn")
        self._record_datagrams(patch)

    def _record_datagrams(self, patch: pytest.MonkeyPatch) -> None:
        send, recorded = Host._send_datagram, self.recorded

        def noting(host: Host, dest: Host, item: Datagram) -> None:
            # A multicast is one datagram for several hosts.
            if not recorded or recorded[-1] is not item.data:
                recorded.append(item.data)
            send(host, dest, item)

        patch.setattr(Host, "_send_datagram", noting)

    # --- events

    def join(self) -> None:
        member = self._start(f"M{len(self.lives)}")
        life = Life(member)
        member.keep_batches = False
        member.on_batch = lambda _, batch: self._received(life, batch)
        self.lives.append(life)

    def _received(self, life: Life, batch: Batch) -> None:
        for payload in batch.payloads:
            found = TEXT.match(bytes(payload or b""))
            assert found is not None
            sent = self.sent[int(found[1])]
            life.got.setdefault(id(sent.source), []).append(sent.index)

    def run(self, seconds: float) -> None:
        """Let the group live for some time, and come to rest."""
        for _ in range(MEMBERS):
            self.join()
        assert self.world.run_until(self._agreed, limit=60)
        end = self.world.now + seconds
        next_end = self.world.now + 5
        next_join: float | None = None
        while self.world.now < end:
            if next_join is not None and self.world.now >= next_join:
                next_join = None
                self.join()
            if self.world.now >= next_end and end - self.world.now > GRACE:
                next_end = self.world.now + self._random.uniform(25, 40)
                next_join = self.world.now + self._random.uniform(2, 6)
                self._end_one()
            for life in self.living():
                self._send(life.member)
            self.world.run_for(1)
        self.world.run_for(30)
        assert self._agreed()

    def living(self) -> list[Life]:
        return [life for life in self.lives if life.ended is None]

    def _agreed(self) -> bool:
        return self.world.views_agree([life.member for life in self.living()])

    def _end_one(self) -> None:
        life = self._random.choice(self.living())
        life.ended, life.crashed = self.world.now, self._random.random() < 0.3
        if life.crashed:
            life.member.crash()
        else:
            life.member.leave()
        self._departed()

    def _send(self, member: Member) -> None:
        view = member.view
        if view is None or len(view) < 2:
            return
        readers = frozenset(
            id(life.member) for life in self.lives if life.member.address in view.members
        )
        index = self._counts.get(id(member), 0)
        self._counts[id(member)] = index + 1
        number = len(self.sent)
        self.sent.append(Sent(number, member, index, self.world.now, readers, self._key_of(member)))
        member.send(b"<secret %d>" % number)

    # --- results

    def lost(self) -> list[str]:
        """Return the messages that a member did not get, got twice, or got in another order."""
        ends = {id(life.member): life for life in self.lives}
        wanted: dict[tuple[int, int], list[int]] = {}
        for sent in self.sent:
            source = ends[id(sent.source)]
            if source.crashed and source.ended is not None and sent.at > source.ended - GRACE:
                continue
            for reader in sent.readers:
                ended = ends[reader].ended
                if ended is None or sent.at < ended - GRACE:
                    wanted.setdefault((reader, id(sent.source)), []).append(sent.index)
        found = []
        for (reader, source_id), indexes in wanted.items():
            got = ends[reader].got.get(source_id, [])
            names = f"{ends[reader].member.name} from {ends[source_id].member.name}"
            if got and got != list(range(got[0], got[0] + len(got))):
                found.append(f"{names}: {got[:5]} ... is not in order, or has gaps")
            missing = set(indexes) - set(got)
            if missing:
                found.append(f"{names}: {len(missing)} lost, the first is {min(missing)}")
        return found

    def read(
        self,
        keys: Iterable[object],
        texts_of: Callable[[object], Iterable[bytes]],
        may: Callable[[Life, Sent], bool],
        keys_of: Callable[[Life], Iterable[object]],
    ) -> Readings:
        """Give the recording to all former members.

        Args: keys: all keys that ever existed. texts_of: the payloads of the recording that a key
            decrypts. may: whether a former member may read a message. keys_of: the keys that the
            member had.
        """
        opened = {
            key: {int(n) for text in texts_of(key) for n in TEXT.findall(text)} for key in keys
        }
        stolen, hidden = [], 0
        for life in self.lives:
            if life.ended is None:
                continue
            read = set().union(*(opened[key] for key in keys_of(life)))
            closed = {sent.number for sent in self.sent if not may(life, sent)}
            hidden += len(closed)
            stolen += [(life.member.name, number) for number in sorted(read & closed)]
        return Readings(stolen, hidden, len(set().union(*opened.values())))


@dataclass(frozen=True, slots=True)
class Readings:
    """``stolen``: former members with messages that they could read and must not. ``hidden``: the number of pairs of a
    former member and a message that it must not read. ``readable``: the number of messages that all keys together
    decrypt in the recording."""

    stolen: list[tuple[str, int]]
    hidden: int
    readable: int


def lossy_world(seed: int) -> World:
    return World(seed, inside=LinkSettings(loss=0.01, jitter=0.005, duplicate=0.005), check=False)


def stack_with(folder: Path, line: str) -> str:
    """Return the stack of simulations, with ``line`` below NAKACK2."""
    text = (Path(__file__).parents[2] / "stacks/sim.xml").read_text()
    file = folder / "encrypted.xml"
    file.write_text(text.replace("<pbcast.NAKACK2", f"{line}\n    <pbcast.NAKACK2"))
    return str(file)
