"""A world for scripted schedules: everything is delivered unless the script holds it back."""

from collections.abc import Callable
from typing import Any

from jgroups_py.buddy.machine import BuddyMachine
from jgroups_py.buddy.messages import Message
from jgroups_py.buddy.outputs import Completed
from jgroups_py.buddy.values import OwnedNode
from jgroups_py.testing.explorer.buddies.world import BuddyWorld, Step, WorldSetting
from jgroups_py.values.address import Address
from jgroups_py.values.view import View

STEPS_MAX = 20_000


NAMES = "ABCDEFGHIJ"
OTHERS = "STUVWXYZ"
"""Members of a second site."""


def address(name: str) -> Address:
    number = OTHERS.index(name) + 51 if name in OTHERS else NAMES.index(name) + 1
    return Address(b"%02d" % number)


def limit(machine: BuddyMachine, **limits: int) -> None:
    """Other limits for a running machine. All its parts have the same settings."""
    for name, value in limits.items():
        object.__setattr__(machine.config, name, value)


class Script:
    """Members are A (the coordinator), B, C ... in the order of the ring; paths are ``a/b``."""

    def __init__(
        self,
        members: int,
        buddies: int = 1,
        judged: str = "values",
        sync: bool = True,
        tombstone_time: float = 1000.0,
        majority: bool = False,
    ) -> None:
        setting = WorldSetting(members, buddies, sync, judged, tombstone_time, majority)
        self.world = BuddyWorld(setting)
        self.world.attentive = True
        self.held: dict[tuple[Address, Address], type[Message] | None] = {}
        self.held_views: set[Address] = set()
        self.held_pushes: set[Address] = set()
        self.run()

    # --- held messages

    def hold(self, src: str, dst: str, kind: type[Message] | None = None) -> None:
        """Let messages from ``src`` to ``dst`` wait, from the first ``kind`` on."""
        self.held[(address(src), address(dst))] = kind

    def free(self, src: str, dst: str) -> None:
        del self.held[(address(src), address(dst))]

    def hold_views(self, *names: str) -> None:
        self.held_views |= {address(name) for name in names}

    def hold_pushes(self, *names: str) -> None:
        self.held_pushes |= {address(name) for name in names}

    def free_all(self) -> None:
        self.held.clear()
        self.held_views.clear()
        self.held_pushes.clear()

    def _next(self) -> Step | None:
        world = self.world
        for pair, queue in world.channels.items():
            if pair in self.held:
                kind = self.held[pair]
                if kind is None or type(queue[0][1]) is kind:
                    continue
            return ("deliver", *pair)
        for member, views in world.views.items():
            if views and member not in self.held_views:
                return ("view", member)
        for member, machine in world.machines.items():
            if machine.buddies.pushing and member not in self.held_pushes:
                return ("push", member)
        return None

    # --- steps

    def run(self) -> None:
        """Deliver all messages except held ones."""
        for _ in range(STEPS_MAX):
            step = self._next()
            if step is None:
                return
            self._take(step)
        raise AssertionError("no end")

    def _take(self, step: Step) -> bool:
        return self.world.step(step)

    def step(self, *step: Any) -> None:
        assert self._take(step), step

    def deliver(self, src: str, dst: str, count: int = 1) -> None:
        for _ in range(count):
            self.step("deliver", address(src), address(dst))

    def waiting(self, src: str, dst: str) -> list[str]:
        """Return the kinds of messages on their way."""
        queue = self.world.channels.get((address(src), address(dst)), ())
        return [type(message).__name__ for _, message in queue]

    def call(
        self, name: str, kind: str, *paths: str, deep: bool = False, mode: str = "take"
    ) -> int:
        """Begin a call and return its number."""
        wanted = tuple((tuple(path.split("/")), deep) for path in paths)
        self.step("call", address(name), kind, wanted, mode)
        return self.world._ops

    def write(self, name: str, *paths: str) -> int:
        """Write, and return when the write is done."""
        number = self.call(name, "write", *paths)
        self.run()
        assert self.outcome(number) is not None, f"write {number} is not done"
        return number

    def outcome(self, number: int) -> Completed | None:
        return self.world.outcomes.get(number)

    def done(self, number: int) -> Completed:
        completed = self.world.outcomes.get(number)
        assert completed is not None, f"call {number} is not completed"
        return completed

    def crash(self, *names: str) -> None:
        for name in names:
            self.step("crash", address(name))
        self._take(("detect", 0))

    def join(self) -> None:
        self.step("join", 0)

    def leave(self, name: str) -> None:
        self.step("leave", address(name))

    def go(self, name: str) -> None:
        self.step("go", address(name))
        self._take(("detect", 0))

    def split(self, names: str, cut: int = 0) -> None:
        self.step("split", tuple(address(name) for name in names), cut)
        for part in range(len(self.world.parts)):
            self._take(("detect", part))

    def merge(self) -> None:
        self.step("merge")

    def stop(self, name: str) -> None:
        """Stop the process: the others go on without it, and it gets no view."""
        self.step("split", (address(name),), 0)
        for part, members in enumerate(self.world.parts):
            if address(name) not in members:
                self._take(("detect", part))

    def wake(self, name: str) -> None:
        """Let a stopped member go on; its next view is that of the merge."""
        world, me = self.world, address(name)
        [others] = [part for part in world.parts if me not in part]
        theirs, mine = world.latest[others[0]], View(world.latest[me].view_id, (me,))
        world.parts = [[*others, me]]
        world._form(world.parts[0], (theirs, mine))

    # --- results

    def machine(self, name: str) -> BuddyMachine:
        return self.world.machines[address(name)]

    def node(self, name: str, path: str) -> OwnedNode:
        return self.machine(name).own[tuple(path.split("/"))]

    def owner(self, path: str) -> str:
        key = tuple(path.split("/"))
        owners = [
            name
            for name in NAMES + OTHERS
            if (machine := self.world.machines.get(address(name))) is not None
            and key in machine.own
            and machine.own[key].to is None
        ]
        return "".join(owners)

    def holders(self, name: str) -> str:
        held = self.machine(name).buddies.holders
        return "".join(n for n in NAMES + OTHERS if address(n) in held)

    def rest(self) -> None:
        """Release all held messages, let everything come to rest, and judge."""
        self.free_all()
        self.run()
        self.world.at_rest()


def violated(schedule: Callable[[], object]) -> bool:
    """Return whether the script fails in the way that a missing rule causes."""
    try:
        schedule()
    except (AssertionError, KeyError):
        return True
    return False
