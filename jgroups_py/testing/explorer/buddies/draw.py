"""Drawing the steps of one site's schedule, and bringing it to rest."""

from __future__ import annotations

import random as _random
from typing import Final

import msgspec

from jgroups_py.buddy.holders import DISMISSED
from jgroups_py.buddy.machine import BuddyMachine
from jgroups_py.testing.check.violation import Violated, violations_in
from jgroups_py.testing.explorer.buddies.world import PATHS, BuddyWorld, Step, WorldSetting
from jgroups_py.testing.explorer.lab import RunOutcome
from jgroups_py.values.address import Address

STEPS_MAX: Final = 400
"""Steps of the first phase."""
REST_MAX: Final = 30_000
"""Steps after which a schedule should have come to rest."""


class BuddySchedule(msgspec.Struct, frozen=True):
    """``steps``: all steps before the cluster was left to come to rest."""

    setting: WorldSetting
    steps: tuple[Step, ...]


RECOVERY_MAX: Final = 200
"""Steps without faults and calls to become protected again."""
FAULTS: Final = frozenset({"crash", "go", "leave", "join", "split", "merge", "stop", "wake"})


class Scheduler:
    def __init__(self, seed: int, profile: str) -> None:
        self.seed = seed
        self.profile = profile
        self.random = random = _random.Random(f"{profile}:{seed}")
        buddies = random.choice((1, 1, 2, 2, 3))
        members = random.randint(max(2, buddies), 6)
        if profile == "passive":
            profile = "merges" if seed % 2 else "crashes"
        self.skips = profile in ("skips", "missed")
        if self.skips:
            profile = "merges" if profile == "missed" else "crashes" if seed % 2 else "async"
        judged = {"crashes": "values", "stopped": "values", "merges": "merges"}.get(
            profile, "owners"
        )
        sync = profile != "async" and (profile != "chaos" or random.random() < 0.5)
        tombstones = random.choice((0.0, 1000.0)) if profile in ("crashes", "async") else 1000.0
        majority = profile == "stopped" or (profile == "merges" and random.random() < 0.3)
        self.setting = WorldSetting(members, buddies, sync, judged, tombstones, majority)
        self.world = BuddyWorld(self.setting)
        self.taken: list[Step] = []
        self.faults = 0
        self._bend()
        self.crashes = profile in ("crashes", "async", "chaos")
        self.splits = profile in ("merges", "chaos")
        self.leaves = profile in ("crashes", "async")
        self.stops = profile == "stopped"

    def _bend(self) -> None:
        """Bend the weights by the seed, so that runs differ in kind."""
        random = self.random
        self.fault_rate = random.choice((0.02, 0.05, 0.1))
        self.call_rate = random.choice((0.03, 0.08, 0.2))
        self.view_rate = random.choice((0.05, 0.2, 0.5))
        self.writes = random.choice((0.3, 0.6, 0.9))
        self.length = random.randint(60, STEPS_MAX)
        self.slow: frozenset[Address] = frozenset()
        self.last = Address(b"")
        """The member that was delivered a message last."""

    def run(self) -> tuple[BuddySchedule, RunOutcome]:
        problems = violations_in(self._run)
        schedule = BuddySchedule(self.setting, tuple(self.taken))
        return schedule, RunOutcome(
            self.seed, problems, faults=self.faults, events=self.world.steps
        )

    def _run(self) -> None:
        if self.random.random() < 0.9:
            self._recover()
        for at in range(self.length):
            if at % 25 == 0:
                self._slow_down()
            self._one()
        self._heal()

    def _recover(self) -> None:
        """Run until all nodes are protected, so that the next crash must do no harm."""
        for _ in range(RECOVERY_MAX):
            if self.world.look_whether_protected():
                return
            if not (self._deliver() or self._take(("detect", 0))):
                return

    def _take(self, step: Step) -> bool:
        self.taken.append(step)
        if step[0] == "deliver":
            self.last = step[2]
        done = self.world.step(step)
        if not done:
            self.taken.pop()
        elif step[0] in FAULTS:
            self.faults += 1
        return done

    def _slow_down(self) -> None:
        """Let few messages from or to some members arrive for a while."""
        random = self.random
        members = list(self.world.machines)
        count = random.choice((0, 0, 1, 1, 2))
        self.slow = frozenset(random.sample(members, min(count, len(members))))

    def _one(self) -> None:
        random = self.random
        rate = self.fault_rate
        if self.last in self.world.machines and _delicate(self.world.machines[self.last]):
            rate *= 3
        if random.random() < rate:
            self._fault()
            return
        if self.world.spent and self.crashes and self.profile != "chaos" and random.random() < 0.03:
            self._recover()
            return
        if self.profile == "passive" and random.random() < 0.15 and self._passive():
            return
        draw = random.random()
        if draw < self.call_rate:
            self._call()
            return
        if draw < self.call_rate + self.view_rate * (1 - self.call_rate) and self._view():
            return
        if random.random() >= 0.15 or not self._push():
            self._deliver()

    def _deliver(self) -> bool:
        pairs = list(self.world.channels)
        if not pairs:
            return self._push() or self._view() or self._activate()
        for _ in range(4):
            pair = pairs[int(self.random.random() * len(pairs))]
            if pair[0] not in self.slow and pair[1] not in self.slow:
                break
        return self._take(("deliver", *pair))

    def _view(self) -> bool:
        waiting = [m for m, queue in self.world.views.items() if queue]
        if not waiting:
            return False
        member = self.random.choice(waiting)
        skips = self.skips and len(self.world.views[member]) > 1 and self.random.random() < 0.3
        return (skips and self._take(("skip", member))) or self._take(("view", member))

    def _push(self) -> bool:
        pushing = [m for m, machine in self.world.machines.items() if machine.buddies.pushing]
        return bool(pushing) and self._take(("push", self.random.choice(pushing)))

    def _passive(self) -> bool:
        if self.random.random() < 0.3:
            return self._activate()
        members = list(self.world.machines)
        return self._take(("passivate", self.random.choice(members), self.random.choice(PATHS)))

    def _activate(self) -> bool:
        passive = [m for m, x in self.world.machines.items() if _has_passive(x)]
        return bool(passive) and self._take(("activate", self.random.choice(passive)))

    def _call(self) -> None:
        random = self.random
        member = random.choice([m for m in self.world.machines if m not in self.world.stopped])
        kind = self._kind()
        draw = random.random()
        mode = "take"
        if draw < 0.15:
            wanted = tuple((path, False) for path in random.sample(PATHS, 2))
        elif draw < 0.3 and kind != "write":
            wanted = ((("a",), True),)
        else:
            wanted = ((random.choice(PATHS), False),)
            if random.random() < 0.1:
                mode = "create"
        self._take(("call", member, kind, wanted, mode))

    def _kind(self) -> str:
        if self.random.random() < self.writes:
            return "write"
        return self.random.choice(("read", "remove", "remove"))

    def _fault(self) -> None:
        random, world = self.random, self.world
        kinds = ["join", "detect", "detect", "tick", "cancel"]
        if self.crashes:
            kinds += ["crash"] * 8
        if self.leaves:
            kinds += ["leave", "go"]
        if self.splits:
            kinds += ["split", "split", "merge", "merge"]
        if self.stops:
            kinds += ["stop"] * 4 + ["wake"] * 4
        kind = random.choice(kinds)
        members = list(world.machines)
        if kind == "join" and len(members) < 6:
            self._take(("join", random.randrange(len(world.parts))))
        elif kind == "detect":
            self._take(("detect", random.randrange(len(world.parts))))
        elif kind == "tick":
            self._take(("tick", 1.0))
        elif kind == "cancel" and world.operations:
            id = random.choice(list(world.operations))
            self._take(("cancel", world.operations[id].member, id))
        elif kind == "crash":
            delicate = [x for x in members if _delicate(world.machines[x])]
            victim = random.choice(delicate if delicate and random.random() < 0.6 else members)
            if self.profile == "chaos" or world.may_crash():
                if self._take(("crash", victim)) and random.random() < 0.7:
                    self._take(("detect", 0))
        elif kind == "leave" and len(members) > 2:
            self._take(("leave", random.choice(members)))
        elif kind == "go" and world.may_go:
            if self._take(("go", random.choice(list(world.may_go)))):
                self._take(("detect", 0))
        elif kind == "split" and len(world.parts) < 3:
            part = random.choice(world.parts)
            if len(part) > 1:
                side = tuple(random.sample(part, random.randint(1, len(part) - 1)))
                self._take(("split", side, random.randint(0, 3)))
        elif kind == "merge":
            self._take(("merge",))
        elif kind == "stop":
            self._stop(members)
        elif kind == "wake":
            self._take(("wake",))

    def _stop(self, members: list[Address]) -> None:
        """Lose most of the messages under way to stopped members."""
        random = self.random
        self._recover()
        self._call()
        for _ in range(random.randint(0, 3)):
            self._deliver()
        side = tuple(
            random.sample(members, random.randint(1, min(self.setting.buddies, len(members))))
        )
        self._take(("stop", side, random.choice((0, 0, 1, 3))))

    def _heal(self) -> None:
        """End all faults: all messages are delivered, in random order, and the members must come to rest."""
        come_to_rest(self.world, self)


def _has_passive(machine: BuddyMachine) -> bool:
    return machine.buddies.blocked or any(node.passive for node in machine.own.values())


def _delicate(machine: BuddyMachine) -> bool:
    """Return whether it is in the middle of a step that a crash might spoil."""
    return any(n.to is not None or n.giver is not None for n in machine.own.values()) or any(
        holder.state is DISMISSED for holder in machine.buddies.holders.values()
    )


def come_to_rest(world: BuddyWorld, scheduler: Scheduler | None) -> None:
    """Deliver all messages, merge the parts, and judge. Without scheduler: pair by pair."""

    def take(step: Step) -> bool:
        return scheduler._take(step) if scheduler is not None else world.step(step)

    for _ in range(REST_MAX):
        if world.channels:
            if scheduler is None or not scheduler._deliver():
                take(("deliver", *next(iter(world.channels))))
            if scheduler is not None and scheduler.random.random() < 0.1:
                scheduler._view()
            continue
        viewing = next((m for m, queue in world.views.items() if queue), None)
        if viewing is not None:
            take(("view", viewing))
            continue
        pushing = next((m for m, x in world.machines.items() if x.buddies.pushing), None)
        if pushing is not None:
            take(("push", pushing))
            continue
        passive = next((m for m, x in world.machines.items() if _has_passive(x)), None)
        if passive is not None:
            take(("activate", passive))
            continue
        late = next((i for i, part in enumerate(world.parts) if world.outdated(part)), None)
        if late is not None:
            take(("detect", late))
        elif len(world.parts) > 1:
            take(("wake",) if world.stopped else ("merge",))
        elif not any(take(("go", member)) for member in list(world.may_go)):
            world.at_rest()
            return
    raise Violated("end", f"no rest after {REST_MAX} steps")
