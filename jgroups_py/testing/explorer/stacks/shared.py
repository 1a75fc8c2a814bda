"""Registers that the members share over their channels. All writes have one order, and every member has
callers.

It works like a replicated cache (``cache/total_order.py``, the same machine), on any stack of a schedule.
Its messages are messages of the members as all others, so the checkers count them, too; its history must
be linearizable, as design/linearizability.md has it for ``replicated``. Members of other sites have
registers of their own.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from jgroups_py.cache.total_order import Ordered, Said, TotalOrder
from jgroups_py.testing.check.messages import SHARED
from jgroups_py.testing.check.violation import Violation
from jgroups_py.testing.explorer.caches.callers import TICK, RecordedCall
from jgroups_py.testing.explorer.caches.places import Journey, Places
from jgroups_py.testing.explorer.caches.promises import operations
from jgroups_py.testing.explorer.stacks.scene import Scene
from jgroups_py.testing.histories.check import check_history
from jgroups_py.testing.histories.nodes import Call, Nodes
from jgroups_py.testing.sim import Member
from jgroups_py.values.address import UUID
from jgroups_py.values.batch import Batch
from jgroups_py.values.message import Flag
from jgroups_py.values.view import MergeView, View

HEADER: Final = 25
"""Bytes of the checker before ours in each message."""
NAMES: Final = ("x", "y")
TIMEOUT: Final = 8.0
"""The virtual seconds after which a caller gives up."""
ASK_SECONDS: Final = 1.0
"""The seconds between two questions for the state, each to the next member."""
PUSH_SECONDS: Final = 0.05
"""Seconds between two tries to send while flow control makes a sender wait."""
PAUSE: Final = 1.0
"""The approximate seconds between two calls of one caller."""
OPERATIONS_MAX: Final = 300
"""The most operations of one site; then callers stop."""
STEPS_MAX: Final = 300_000


class TreeAsked(msgspec.Struct, frozen=True, tag="w", array_like=True):
    """A member that has waited for a tree since view ``view`` asks for it."""

    view: int


class Given(msgspec.Struct, frozen=True, tag="g", array_like=True):
    """The registers in view ``view``, and their content."""

    view: int
    applied: dict[bytes, int]
    values: dict[str, Any]


_encode = msgspec.msgpack.Encoder().encode
_decode_own = msgspec.msgpack.Decoder(TreeAsked | Given).decode
_decode_said = msgspec.msgpack.Decoder(Said).decode
_decode_body = msgspec.msgpack.Decoder(tuple[str, str, Any, Any]).decode


@dataclass(eq=False)
class _Asked:
    entry: RecordedCall
    result: Any = None
    applied: bool = False


class Shared:
    """The registers of all sites of one scene. ``judge`` at the end."""

    def __init__(self, scene: Scene, callers: int) -> None:
        self.scene = scene
        self.callers = callers
        self.random = random.Random(f"{scene.schedule.seed}/shared")
        self.places = {site: Places(lambda: scene.world.now) for site in scene.cast.sites}
        self.entries: dict[str, list[RecordedCall]] = {site: [] for site in scene.cast.sites}
        self.peers: dict[Member, _Peer] = {}
        self.ends: dict[str, float] = {}
        """Sites whose history is judged up to an instant only."""
        self._ticks = 0

    def end(self, site: str) -> None:
        """Note that a member is about to take a state of its application. Messages in that state do not come, and the
        state has no registers."""
        self.ends.setdefault(site, self.now())

    def watch(self, member: Member) -> None:
        """Watch a member that begins. Called after ``Checker.watch``."""
        self.peers[member] = _Peer(self, member)

    def begin(self) -> None:
        """Let the callers of all members begin."""
        for site, names in self.scene.cast.sites.items():
            for name in names:
                for number in range(self.callers):
                    self._later(site, name, number)

    def now(self) -> float:
        """A time later than all times noted before."""
        self._ticks += 1
        return self.scene.world.now + self._ticks * TICK

    def _later(self, site: str, name: str, number: int) -> None:
        world = self.scene.world
        wait = PAUSE * self.random.choice((0.05, 0.5, 1.0, 2.0))
        world.at(world.now + wait, self._call, site, name, number)

    def _call(self, site: str, name: str, number: int) -> None:
        scene = self.scene
        if scene.ended or site in self.ends or len(self.entries[site]) >= OPERATIONS_MAX:
            return
        peer = self.peers.get(scene.world.member(name, site))
        if peer is not None and scene.can_act(peer.member) and number not in peer.busy:
            peer.call(number, self.random)
        self._later(site, name, number)

    def judge(self) -> list[Violation]:
        """Check a scene at rest: all members of the core have the same line of views."""
        found = []
        for site, entries in self.entries.items():
            core = [self.peers[m] for m in self.scene.cast.living(site) if self._in_core(m)]
            if not core or any(p.journey is None or not p.order.ready for p in core):
                continue
            for peer in core:
                for name in NAMES:
                    peer.read(f"{peer.member.name}/last", name)
            went = self.places[site].went_on([p.origin for p in core])
            addresses = {n: j.address for n, j in self.places[site].journeys.items()}
            history = operations(entries, "replicated", {}, went, addresses, self.ends.get(site))
            verdict = check_history(history, Nodes(), steps_max=STEPS_MAX)
            if verdict.linearizable is not True:
                check = "linearizable" if verdict.linearizable is False else "not_decided"
                found.append(Violation(check, verdict.text, self.scene.world.now))
        return found

    def _in_core(self, member: Member) -> bool:
        core = self.scene.cast.core
        return core is not None and member.name in core and not member.host.paused


class _Peer:
    """One member's part."""

    def __init__(self, shared: Shared, member: Member) -> None:
        self.shared = shared
        self.member = member
        self.order = TotalOrder(bytes(member.address))
        self.journey: Journey | None = None
        self.values: dict[str, Any] = {}
        self.busy: dict[int, None] = {}
        self._asked: dict[int, tuple[int, _Asked]] = {}
        self._held: list[tuple[bytes, Ordered]] = []
        self._providers: list[bytes] = []
        self._wanted: list[tuple[bytes, int]] = []
        self._pushing = False
        self._calls = 0
        before_batch, before_view = member.on_batch, member.on_view

        def on_batch(who: Member, batch: Batch) -> None:
            if before_batch is not None:
                before_batch(who, batch)
            self._batch(batch)

        def on_view(who: Member, view: View) -> None:
            if before_view is not None:
                before_view(who, view)
            self._view(view)

        member.on_batch, member.on_view = on_batch, on_view

    @property
    def origin(self) -> str:
        return f"{self.member.name}#{self.member.incarnation}"

    @property
    def _places(self) -> Places:
        return self.shared.places[self.member.site]

    # --- callers

    def call(self, number: int, chance: random.Random) -> None:
        """Do one operation of caller ``number``."""
        if self.journey is None or not self.order.ready:
            return
        self._calls += 1
        caller, name = f"{self.member.name}/{number}", chance.choice(NAMES)
        do = chance.choice(("read", "put", "cas", "add"))
        if do == "read":
            self.read(caller, name)
            return
        path, value = (name,), f"{self.origin}/{number}.{self._calls}"
        expected = None
        if do == "put":
            what = Call("put", path, (("v", value),))
        elif do == "cas":
            expected = self.values.get(name, {}).get("v")
            what = Call("cas", path, (("v", value),), expected=expected)
        else:
            what = Call("add", path, (("n", 1),))
        entry = RecordedCall(caller, self.origin, what, self.shared.now(), self.journey.place)
        self.shared.entries[self.member.site].append(entry)
        self.busy[number] = None
        proposal = self.order.propose(_encode((do, name, value, expected)))
        self._asked[proposal] = number, _Asked(entry)
        world = self.shared.scene.world
        world.at(world.now + TIMEOUT, self._give_up, proposal)
        self.push()

    def read(self, caller: str, name: str) -> None:
        """Read from the member's own copy."""
        assert self.journey is not None
        place = self.journey.place
        node = self.values.get(name)
        result = None if node is None else tuple(sorted(node.items()))
        entry = RecordedCall(caller, self.origin, Call("node", (name,)), self.shared.now(), place)
        entry.returned, entry.at_return = self.shared.now(), place
        entry.result, entry.reads_only = result, True
        self.shared.entries[self.member.site].append(entry)

    def _give_up(self, proposal: int) -> None:
        found = self._asked.pop(proposal, None)
        if found is not None:
            self.busy.pop(found[0], None)
            self.order.give_up(proposal)

    # --- arrivals

    def _view(self, view: View) -> None:
        order, me = self.order, self.order.me
        members = [bytes(member) for member in view]
        ready, anew, providers = True, False, [m for m in members if m != me]
        if isinstance(view, MergeView) and view.subgroups:
            winner = max(view.subgroups, key=len)
            there = [bytes(m) for m in winner.members if m in view.members]
            winners = [bytes(m) for m in winner.members]
            # A member that still waits for the tree of an earlier merge has none to keep.
            ready = order.ready or self.journey is None
            ready = ready and order.keeps(winner.id, winners, there[0] if there else b"")
            providers = [m for m in there if m != me]
            anew = view.members[0] not in winner.members
        elif self.journey is None or not order.ready:
            ready = not providers
        if self.journey is None:
            self.journey = self._places.join(self.origin, me, view.id, members, ready=ready)
        else:
            self._places.install(self.journey, view.id, members, ready=ready)
        if ready:
            self._held.clear()
        self._providers = [] if ready else providers
        order.install(view.id, members, ready=ready, anew=anew)
        self._after()
        if not ready:
            self._ask(view.id, 0)
        wanted, self._wanted = self._wanted, []
        for asker, number in wanted:
            self._answer(asker, number)

    def _ask(self, view: int, turn: int) -> None:
        """Ask for the registers, until a member answers or another view comes."""
        if self.order.ready or self.order.view != view or not self.member.alive:
            return
        if self._providers:
            self._send(_encode(TreeAsked(view)), self._providers[turn % len(self._providers)])
        world = self.shared.scene.world
        world.at(world.now + ASK_SECONDS, self._ask, view, turn + 1)

    def _batch(self, batch: Batch) -> None:
        if batch.src is None:
            return
        for payload in batch.payloads:
            data = bytes(payload or b"")[HEADER:]
            if data.startswith(SHARED + b"o"):
                self._own(bytes(batch.src), _decode_own(data[len(SHARED) + 1 :]))
            elif data.startswith(SHARED + b"s"):
                self._said(bytes(batch.src), _decode_said(data[len(SHARED) + 1 :]))
        self._after()

    def _own(self, sender: bytes, message: TreeAsked | Given) -> None:
        if isinstance(message, TreeAsked):
            self._answer(sender, message.view)
        elif message.view == self.order.view and not self.order.ready:
            self.values = {name: dict(node) for name, node in message.values.items()}
            if self.journey is not None:
                self._places.begin(self.journey)
            self.order.begin(message.applied)
            held, self._held = self._held, []
            for origin, ordered in held:
                self.order.receive(origin, ordered)

    def _answer(self, asker: bytes, view: int) -> None:
        if view > self.order.view:
            self._wanted.append((asker, view))
        elif view == self.order.view and self.order.ready and asker in self.order.members:
            self._after()
            given = Given(view, self.order.applied, self.values)
            self._send(_encode(given), asker)

    def _said(self, sender: bytes, said: Said) -> None:
        order = self.order
        if isinstance(said, Ordered) and said.view <= order.view and not order.ready:
            # A slow coordinator orders in a view from before this member; the giver of the tree may get that order
            # after it gave the tree.
            self._held.append((sender, said))
        else:
            order.receive(sender, said)

    def _after(self) -> None:
        order = self.order
        while order.to_apply:
            ordered = order.to_apply.pop(0)
            self._apply(ordered)
            order.applied_now(ordered)
        for number in order.finished:
            self._finish(number)
        order.finished.clear()
        self.push()

    def _apply(self, ordered: Ordered) -> None:
        do, name, value, expected = _decode_body(ordered.body)
        node = self.values.get(name, {})
        result: Any = None
        if do == "cas":
            result = node.get("v") == expected
        elif do == "add":
            result = node.get("n", 0) + 1
        if result is not False:
            changed = {"n": result} if do == "add" else {"v": value}
            self.values[name] = {**node, **changed}
        found = self._asked.get(ordered.number) if ordered.origin == self.order.me else None
        if found is not None:
            found[1].result, found[1].applied = result, True

    def _finish(self, number: int) -> None:
        found = self._asked.pop(number, None)
        if found is None or self.journey is None:
            return
        caller, asked = found
        self.busy.pop(caller, None)
        if asked.applied:
            entry = asked.entry
            entry.result, entry.at_return = asked.result, self.journey.place
            entry.returned = self.shared.now()

    # --- sending

    def push(self) -> None:
        """Send the machine's output, as far as flow control permits."""
        if self._pushing or not self.member.alive:
            return
        self._pushing = True
        world = self.shared.scene.world
        world.at(world.now, self._push)

    def _push(self) -> None:
        self._pushing = False
        order, scene = self.order, self.shared.scene
        while order.to_send and self.member.alive and not self.member.leaving:
            to, said = order.to_send[0]
            dest = None if to is None else scene.checker.members.get(UUID(to))
            if scene.must_wait(self.member, dest):
                scene.world.at(scene.world.now + PUSH_SECONDS, self.push)
                return
            order.to_send.pop(0)
            self._out(b"s" + _encode(said), dest)

    def _send(self, data: bytes, to: bytes) -> None:
        """Send a message of our own at once. A lost one is asked for again."""
        world = self.shared.scene.world
        dest = self.shared.scene.checker.members.get(UUID(to))
        world.at(world.now, self._out, b"o" + data, dest)

    def _out(self, data: bytes, dest: Member | None) -> None:
        scene, member = self.shared.scene, self.member
        if not member.alive or member.leaving or (dest is None and data[:1] == b"o"):
            return
        payload = scene.checker.payload(member, 0, to=dest) + SHARED + data
        member.send(payload, to=dest, flags=int(Flag.NO_RELAY) if scene.schedule.relays else 0)


def callers_drawn(seed: int, profile: str) -> int:
    """Draw the number of callers of each member, in a quarter of the seeds. It has a generator of its own, so that the
    rest of a seed is the same as before there were registers."""
    return random.Random(f"{seed}/shared/{profile}").choice((0, 0, 0, 1, 0, 0, 0, 2))
