"""A cluster of machines without a stack: every message, view, push and call is one step.

Messages of one pair are FIFO; the scheduler chooses the order of all other steps. A step is a tuple of
plain values; one that cannot be taken (any more) is skipped, so parts of a schedule can be left out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from jgroups_py.buddy.call import BuddyCall
from jgroups_py.buddy.config import BuddyConfig
from jgroups_py.buddy.machine import BuddyMachine
from jgroups_py.buddy.messages import Answer, Message
from jgroups_py.buddy.outputs import BuddyEvent, BuddyOutcome, Completed, SendMessage, SendSite
from jgroups_py.buddy.site_messages import AnySiteMessage
from jgroups_py.buddy.values import Path, ViewKey, Wanted, covers
from jgroups_py.testing.check.violation import Violated
from jgroups_py.testing.explorer.buddies.follower import LogFollower
from jgroups_py.testing.explorer.buddies.oracle import Oracle
from jgroups_py.values.address import Address
from jgroups_py.values.view import MergeView, View, ViewId

Step = tuple[Any, ...]
KINDS: Final = (
    "deliver",
    "view",
    "skip",
    "push",
    "passivate",
    "activate",
    "call",
    "cancel",
    "tick",
    "crash",
    "leave",
    "go",
    "join",
    "detect",
    "split",
    "merge",
    "stop",
    "wake",
    "at",
    "link",
    "cut",
    "wan",
    "promote",
    "bootstrap",
    "lose",
    "begin",
)
PATHS: tuple[Path, ...] = (("a",), ("a", "b"), ("c",))


class WorldSetting(msgspec.Struct, frozen=True):
    """The settings of a world. ``judged``: values, merges or owners (see ``Oracle``)."""

    members: int = 3
    buddies: int = 1
    sync: bool = True
    judged: str = "values"
    tombstone_time: float = 1000.0
    majority: bool = False
    site: str = ""
    other: WorldSetting | None = None
    """The setting of another site, if there is one (sites.py)."""
    removed_max: int = 1000


class BuddyOperation:
    """A call, with the oracle's notes about it."""

    __slots__ = ("acked", "id", "member", "written")

    def __init__(self, id: int, member: Address, acked: Mapping[Path, frozenset[int]]) -> None:
        self.id = id
        self.member = member
        self.acked = dict(acked)
        self.written: list[Path] = []


class BuddyWorld:
    """``machines``: those that run. ``parts``: sets of members that reach each other."""

    def __init__(self, setting: WorldSetting, sites: tuple[str, ...] = (), first: int = 0) -> None:
        self.setting = setting
        self.sites = sites
        self.site_out: Callable[[Address, str, AnySiteMessage], None]
        """Called with messages to another site."""
        self.oracle = Oracle(
            values=setting.judged == "values" and setting.sync,
            merges=setting.judged == "merges" and setting.sync,
        )
        self.follower = LogFollower(setting.sync and setting.judged in ("values", "merges"))
        self.now = 0.0
        self.machines: dict[Address, BuddyMachine] = {}
        self.channels: dict[tuple[Address, Address], deque[tuple[ViewKey, Message]]] = {}
        """The non-empty channels, by sender and receiver."""
        self.views: dict[Address, deque[View]] = {}
        self.latest: dict[Address, View] = {}
        """The newest view formed for each member, installed or not."""
        self.parts: list[list[Address]] = [[]]
        self.stopped: tuple[Address, ...] = ()
        """The part whose processes are stopped; it notices nothing."""
        self.unaware: dict[Address, None] = {}
        """Members that were stopped and do not know of the merge: they read old values."""
        self.operations: dict[int, BuddyOperation] = {}
        self.outcomes: dict[int, Completed] = {}
        self.events: list[tuple[Address, BuddyEvent]] = []
        self.may_go: dict[Address, None] = {}
        self.stored: dict[Address, dict[Path, Any]] = {}
        """The rows in the store of each member."""
        self.spent = 0
        """Crashes since all nodes were protected."""
        self.allowed = 0
        self.attentive = False
        """True: check before every step whether all nodes are protected."""
        self.steps = 0
        self._names = first
        self._ops = first * 1_000_000
        for _ in range(setting.members):
            self._new_member(self.parts[0])
        self._form(self.parts[0])

    # --- steps

    def step(self, step: Step) -> bool:
        """Take one step. False: the step could not be taken. Raises Violated."""
        if self.attentive:
            self.look_whether_protected()
        done: bool = getattr(self, f"_do_{step[0]}")(*step[1:])
        self.steps += done
        if done and not self.steps % self.follower.EVERY:
            self.follower.look(self.machines)
        return done

    def _do_deliver(self, src: Address, dst: Address) -> bool:
        queue = self.channels.get((src, dst))
        if queue is None:
            return False
        tag, message = queue.popleft()
        if not queue:
            del self.channels[(src, dst)]
        machine = self.machines[dst]
        stale = type(message) is Answer and tag != machine.tag and tag[0] <= machine.tag[0]
        before = dict(machine.own) if stale else None
        machine.receive(src, tag, message, self.now)
        if before is not None and before != machine.own:
            raise Violated("I4", f"{dst!r} took an answer of view {tag[0]}")
        self._after(machine)
        return True

    def _do_view(self, member: Address) -> bool:
        queue = self.views.get(member)
        if not queue:
            return False
        machine = self.machines[member]
        view = queue.popleft()
        if isinstance(view, MergeView):
            self.unaware.pop(member, None)
        machine.install(view, self.now)
        self._after(machine)
        return True

    def _do_skip(self, member: Address) -> bool:
        """Let a member miss a view; the next one arrives."""
        queue = self.views.get(member)
        if queue is None or len(queue) < 2 or not self.machines[member].members:
            return False
        queue.popleft()
        return self._do_view(member)

    def _do_push(self, member: Address) -> bool:
        machine = self.machines.get(member)
        if machine is None or not machine.push(self.now):
            return False
        self._after(machine)
        return True

    def _do_passivate(self, member: Address, path: Path) -> bool:
        """Passivate a node, unless a call is about to use it: a cache has a lock on it then."""
        machine = self.machines.get(member)
        if machine is None or any(covers(c.wanted, path) for c in machine.calls.open.values()):
            return False
        value = machine.own[path].value if path in machine.own else None
        if not machine.passivate(path):
            return False
        self.stored.setdefault(member, {})[path] = value
        return True

    def _do_activate(self, member: Address) -> bool:
        """Activate all passive nodes of a member."""
        machine = self.machines.get(member)
        passive = [p for p, node in machine.own.items() if node.passive] if machine else []
        if machine is None or not (passive or machine.buddies.blocked):
            return False
        machine.activate({path: self.stored[member][path] for path in passive}, self.now)
        self._after(machine)
        return True

    def _do_call(self, member: Address, kind: str, wanted: tuple[Wanted, ...], mode: str) -> bool:
        machine = self.machines.get(member)
        if machine is None or not machine.members:
            return False
        self._do_activate(member)
        self._ops += 1
        operation = BuddyOperation(self._ops, member, self.oracle.acked)
        self.operations[operation.id] = operation
        explicit = [path for path, _ in wanted]

        def change(old: Mapping[Path, Any]) -> Mapping[Path, Any]:
            oracle = self.oracle
            found = {}
            known = [path for path in oracle.acked if covers(wanted, path)]
            for path in dict.fromkeys([*explicit, *old, *known]):
                unaware = member in self.unaware
                must = frozenset() if unaware else operation.acked.get(path, frozenset())
                found[path] = oracle.before(machine, path, must)
            if kind == "read":
                return {}
            written = explicit if kind == "write" else [p for p in found if p in machine.own]
            for path in written:
                value = operation.id if kind == "write" else None
                oracle.writes(call, path, found[path] | {operation.id}, value)
            operation.written = written
            return {path: operation.id if kind == "write" else None for path in written}

        call = BuddyCall(operation.id, wanted, change, mode=mode)  # type: ignore[arg-type]
        machine.submit(call, self.now)
        self._after(machine)
        return True

    def _do_cancel(self, member: Address, id: int) -> bool:
        machine = self.machines.get(member)
        if machine is None or id not in machine.calls.open:
            return False
        machine.cancel(id, self.now)
        self._after(machine)
        return True

    def _do_tick(self, seconds: float) -> bool:
        self.now += seconds
        for machine in list(self.machines.values()):
            if machine.members and machine.me not in self.unaware:
                machine.advance(self.now)
                self._after(machine)
        return True

    # --- faults

    def may_crash(self) -> bool:
        """Return whether a crash now must lose nothing."""
        self.look_whether_protected()
        return self.spent < min(self.allowed, len(self.machines) - 1)

    def look_whether_protected(self) -> bool:
        """Begin a new count of crashes if all nodes are protected."""
        protected = self.protected
        if protected:
            self.spent = 0
            self.allowed = min(self.setting.buddies, len(self.machines) - 1)
        return protected

    @property
    def protected(self) -> bool:
        return all(
            machine.protected
            and not self.views[member]
            and set(self.latest[member].members) == set(self.machines)
            for member, machine in self.machines.items()
        )

    def _do_crash(self, member: Address) -> bool:
        """Crash a member. Messages that it sent before may still arrive, as long as its view is not replaced. Return
        whether the crash is allowed. Where harm is judged, only as many crashes are allowed as the buddies
        must survive."""
        if member not in self.machines or len(self.machines) < 2:
            return False
        if self.setting.judged == "values" and not self.may_crash():
            return False
        self.spent += 1
        self._gone(member)
        return True

    def _do_leave(self, member: Address) -> bool:
        machine = self.machines.get(member)
        if machine is None or machine.leaving.begun or not machine.members:
            return False
        machine.leave(self.now)
        self._after(machine)
        return True

    def _do_go(self, member: Address) -> bool:
        """End a leaver that may still go. A leave below b + 1 members counts as a crash. Present members count, and
        members that the leaver knows: it cannot wait for members of a view that has not come yet."""
        if member not in self.may_go or len(self.machines) < 2:
            return False
        machine = self.machines[member]
        if not machine.leaving.may_go():
            return False
        staying = min(len(self.machines), len(machine.members)) - 1
        if staying < self.setting.buddies + 1:
            if self.setting.judged == "values" and not self.may_crash():
                return False
            self.spent += 1
        self._gone(member)
        return True

    def _gone(self, member: Address) -> None:
        del self.machines[member]
        del self.views[member]
        del self.latest[member]
        self.may_go.pop(member, None)
        for part in self.parts:
            if member in part:
                part.remove(member)
        self.parts = [part for part in self.parts if part]
        for pair in [p for p in self.channels if p[1] == member]:
            del self.channels[pair]
        for id in [i for i, op in self.operations.items() if op.member == member]:
            del self.operations[id]

    def _do_join(self, part: int) -> bool:
        if part >= len(self.parts) or self.parts[part][0] in self.stopped:
            return False
        self._new_member(self.parts[part])
        self._form(self.parts[part])
        return True

    def _do_detect(self, part: int) -> bool:
        """Let a part notice that a member is gone."""
        if part >= len(self.parts) or not self.outdated(self.parts[part]):
            return False
        self._form(self.parts[part])
        return True

    def outdated(self, part: list[Address]) -> bool:
        """Is the latest view of a part outdated, and can the part notice it?"""
        return part[0] not in self.stopped and any(
            m not in self.latest or set(self.latest[m].members) != set(part) for m in part
        )

    def _do_split(self, side: tuple[Address, ...], cut: int) -> bool:
        """Cut ``side`` off from the others of its part. Of the messages between them the first ``cut`` of each pair
        arrive."""
        part = next((p for p in self.parts if side and side[0] in p), [])
        left = [m for m in part if m in side]
        right = [m for m in part if m not in side]
        if not left or not right:
            return False
        self.parts.remove(part)
        self.parts += [left, right]
        for pair, queue in list(self.channels.items()):
            if (pair[0] in left and pair[1] in right) or (pair[0] in right and pair[1] in left):
                while len(queue) > cut:
                    queue.pop()
                if not queue:
                    del self.channels[pair]
        return True

    def _do_merge(self) -> bool:
        """Merge all parts; each has installed its own view before."""
        if not self.can_merge():
            return False
        subgroups = tuple(self.latest[part[0]] for part in self.parts)
        members = [m for part in self.parts for m in part]
        for pair in [p for p in self.channels if self._part_of(p[0]) != self._part_of(p[1])]:
            del self.channels[pair]
        self.parts = [members]
        self._form(members, subgroups)
        return True

    def can_merge(self) -> bool:
        return len(self.parts) > 1 and not any(
            self.outdated(part) or any(self.views[m] for m in part) for part in self.parts
        )

    def may_stop(self, side: tuple[Address, ...]) -> bool:
        """Return ``may_crash``, if the others are more than half."""
        self.look_whether_protected()
        return (
            len(self.parts) == 1
            and all(member in self.machines for member in side)
            and self.spent + len(side) <= self.allowed
            and 2 * len(side) < len(self.machines)
        )

    def _do_stop(self, side: tuple[Address, ...], cut: int) -> bool:
        """Stop the processes of ``side``; ``cut`` as in ``split``. The others go on without them."""
        if not self.may_stop(side) or not self._do_split(side, cut):
            return False
        self.stopped = side
        self.unaware.update(dict.fromkeys(side))
        self.spent += len(side)
        return True

    def _do_wake(self) -> bool:
        """Resume the stopped part. It had no view of its own: its first news is the merge."""
        awake = [part for part in self.parts if part[0] not in self.stopped]
        if not self.stopped or any(
            self.outdated(p) or any(self.views[m] for m in p) for p in awake
        ):
            return False
        [others], first = awake, self.latest[self.stopped[0]]
        subgroups = (self.latest[others[0]], View(first.view_id, self.stopped))
        members = [*others, *self.stopped]
        for pair in [p for p in self.channels if self._part_of(p[0]) != self._part_of(p[1])]:
            del self.channels[pair]
        self.parts, self.stopped = [members], ()
        self._form(members, subgroups)
        return True

    # --- inside

    def _part_of(self, member: Address) -> int:
        return next((i for i, part in enumerate(self.parts) if member in part), -1)

    def _new_member(self, part: list[Address]) -> None:
        setting = self.setting
        self._names += 1
        me = Address(b"%02d" % self._names)
        config = BuddyConfig(
            sync=setting.sync,
            locator_properties={"numBuddies": str(setting.buddies)},
            tombstone_time=setting.tombstone_time,
            partition="majority" if setting.majority else "all",
            chunk_nodes=1,
            leave_timeout=1e9,
            site=setting.site,
            sites=self.sites,
            removed_max=setting.removed_max,
            event_timeout=3.0,
            communication_timeout=1e9,
        )
        self.machines[me] = machine = BuddyMachine(me, config, name=str(me))
        self.follower.attach(machine)
        self.views[me] = deque()
        part.append(me)

    def _form(self, part: list[Address], subgroups: tuple[View, ...] = ()) -> None:
        """Form the next view of a part."""
        known = [self.latest[m] for m in part if m in self.latest]
        number = max((view.id for view in known), default=0) + 1
        view_id = ViewId(part[0], number)
        members = tuple(part)
        view = MergeView(view_id, members, subgroups) if subgroups else View(view_id, members)
        for member in part:
            self.latest[member] = view
            self.views[member].append(view)

    def _after(self, machine: BuddyMachine) -> None:
        """Take the machine's outputs and judge them."""
        me = machine.me
        for out in machine.take():
            if type(out) is SendMessage:
                if out.to is None:
                    for member in machine.members:
                        if member != me:
                            self._post(me, member, out.tag, out.message)
                else:
                    self._post(me, out.to, out.tag, out.message)
            elif type(out) is SendSite:
                self.site_out(me, out.site, out.message)
            elif type(out) is Completed:
                self._completed(out)
            elif type(out) is BuddyEvent:
                self._event(me, out)
        self.oracle.resolve()
        self.oracle.counts(machine)
        self.oracle.single_owner(machine, list(self.machines.values()))

    def _post(self, src: Address, dst: Address, tag: ViewKey, message: Message) -> None:
        if dst in self.machines and (
            len(self.parts) == 1 or self._part_of(src) == self._part_of(dst)
        ):
            queue = self.channels.get((src, dst))
            if queue is None:
                queue = self.channels[(src, dst)] = deque()
            queue.append((tag, message))

    def _completed(self, out: Completed) -> None:
        operation = self.operations.pop(out.call)
        self.outcomes[out.call] = out
        if isinstance(out.error, Violated):
            raise out.error
        if out.outcome is BuddyOutcome.DONE:
            for path in operation.written:
                self.oracle.acknowledged(path, operation.id)
        elif out.outcome is BuddyOutcome.FAILED and operation.written:
            raise Violated("outcome", f"call {out.call} was done and is said to have failed")

    def _event(self, me: Address, event: BuddyEvent) -> None:
        self.events.append((me, event))
        if event.kind == "may_leave":
            self.may_go[me] = None
        elif event.kind == "purged":
            self.oracle.resolve()
            self.oracle.was_purged(*event.detail)
        elif event.kind == "discarded":
            self.oracle.was_listed(event.detail.path, event.detail.stamp)
        elif event.kind == "site_discarded":
            self.oracle.resolve()
            self.oracle.was_listed(event.detail.path, event.detail.stamp)
        elif event.kind == "removed_there":
            self.oracle.removed_there(*event.detail)

    # --- rest

    def at_rest(self) -> None:
        """Judge the end: no message is on its way any more."""
        self.oracle.at_rest(list(self.machines.values()))
        self.follower.at_rest(self.machines)
        if self.operations:
            raise Violated("end", f"calls {sorted(self.operations)} never ended")
