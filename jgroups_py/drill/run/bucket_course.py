"""Faults of a drill of a bucket store that name a member by its components, or come in the middle of a move; and
upgrades.

A component ends with its process. So a drill that kills a router, an index copy or a manager alone names the members
that have them (``buckets: {managers, indices}``). The administrator, the first member of the view, knows every member's
components.
"""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

import trio

from jgroups_py.drill.file.model import Selector
from jgroups_py.drill.file.plan import DrillPlan, PlannedEvent
from jgroups_py.drill.run.course import Lasting, TrioCourse
from jgroups_py.drill.run.resolve import DrillError
from jgroups_py.drill.run.runner import Progress

MOVE_SECONDS: Final = 10.0
"""The longest time that an event waits for its move, on an idle machine."""
BEFORE_END: Final = 0.5
"""The seconds before the end of the drill at which a missing move is reported."""
REACH: Final = 1.2
"""An event comes at a random time of a move. The move is expected to take the time of the previous one, times this."""

M = TypeVar("M", bound=Lasting)


class BucketCourse(TrioCourse[M]):
    """Call ``_move_began`` with the arguments of ``BucketUser.on_move``."""

    def __init__(self, plan: DrillPlan, progress: Progress, *more: Any) -> None:
        super().__init__(plan, progress, *more)
        self._told: dict[str, Any] = {}
        self._began = trio.Event()
        self._hit_as: dict[tuple[str, str], str] = {}
        """The role for which a member is hit, until that is logged."""

    # --- defined by a runner

    @abstractmethod
    async def _standing(self, administrator: M) -> dict[str, Any]:
        """Return ``BucketUser.standing`` of that member. Raises DrillError."""

    @abstractmethod
    async def _order(self, administrator: M, do: str, **what: str) -> None:
        """Order a ``move``, or an ``upgrade`` with ``frm`` and ``to``."""

    def _patient(self, seconds: float) -> float:
        return seconds

    # --- the course

    def _move_began(self, told: dict[str, Any] | None = None, /, **more: Any) -> None:
        self._told = {**(told or {}), **more}
        began, self._began = self._began, trio.Event()
        began.set()

    async def _fire(self, event: PlannedEvent) -> None:
        if event.fault == "upgrade":
            frm, to = (str(target.what) for target in event.targets)
            self.progress.say(self.now, str(event))
            await self._order(self._administrator(event), "upgrade", frm=frm, to=to)
        else:
            await super()._fire(await self._by_name(event))

    def _administrator(self, event: PlannedEvent) -> M:
        found = self._relay(event.targets[0].site)
        if found is None:
            raise DrillError(f"{event.place}: no member leads the view")
        return found

    async def _by_name(self, event: PlannedEvent) -> PlannedEvent:
        """Return the event with names for components, at the time of its hit."""
        if not event.during and not any(target.component for target in event.targets):
            return event
        chance = random.Random(f"{event.stream}:components")
        if event.fault == "restart":
            return replace(event, targets=tuple(await self._fallen(event, chance)))
        if event.during:
            known = await self._reach(event, chance)
        else:
            known = await self._standing(self._administrator(event))
        targets: list[Selector] = []
        for target in event.targets:
            if target.component:
                taken = [one.what for one in targets]
                there = [name for name in self._living()[target.site] if name not in taken]
                name = self._choose(event, target, known, there, chance)
                role = f"{target.what} during {event.during}" if event.during else str(target.what)
                self._hit_as[target.site, name] = role
                target = Selector(target.site, name, target.place)
            targets.append(target)
        return replace(event, targets=tuple(targets))

    async def _fallen(self, event: PlannedEvent, chance: random.Random) -> list[Selector]:
        """Wait for such a member: a fault that comes in the middle of a move may come later than it was planned."""
        named = [str(target.what) for target in event.targets if not target.component]
        wanted = len(event.targets) - len(named)

        def fallen() -> list[str]:
            return [n for n in self._not_there()[event.targets[0].site] if n not in named]

        seconds = self._seconds_left()
        with trio.move_on_after(seconds):
            await self._until(lambda: len(fallen()) >= wanted)
        free = fallen()
        if len(free) < wanted:
            raise DrillError(f"{event.place}: nobody has fallen in {seconds:.1f} s")
        chance.shuffle(free)
        found = []
        for target in event.targets:
            name = free.pop() if target.component else target.what
            found.append(Selector(target.site, name, target.place))
        return found

    def _choose(
        self,
        event: PlannedEvent,
        target: Selector,
        known: dict[str, Any],
        there: Sequence[str],
        chance: random.Random,
    ) -> str:
        managers, indices = known["managers"], known["indices"]
        names: list[str]
        match target.what:
            case "master" | "slave" | "target" if event.during:
                names = [known[target.what]]
            case "master":
                names = [master for master, _ in known["pairs"]]
            case "slave":
                names = [slave for _, slave in known["pairs"]]
            case "index":
                names = [name for name in indices if name in there][:1]
            case "manager":
                names = managers
            case "router":
                names = [name for name in there if name not in managers]
            case "proxy":
                names = [name for name in there if name not in (*managers, *indices)]
            case _:
                names = [name for name in managers if name in indices]
        free = [name for name in names if name in there]
        if not free:
            raise DrillError(f"{event.place}: there is no {target}")
        return chance.choice(free)

    async def _reach(self, event: PlannedEvent, chance: random.Random) -> dict[str, Any]:
        """Wait for the middle of a move. Return the move as it was reported when it began."""
        of_upgrade = event.during == "upgrade"
        turn: int | None = None
        seconds = self._seconds_left()
        with trio.move_on_after(seconds):
            began = self._began
            if not of_upgrade:
                await self._order(self._administrator(event), "move")
            while True:
                await began.wait()
                told, began = self._told, self._began
                if told["upgrade"] != of_upgrade:
                    continue
                if turn is None:
                    turn = chance.randint(told["number"], told["of"])
                if told["number"] >= turn:
                    break
            await trio.sleep(chance.uniform(0.0, REACH * told["took"]))
            return told
        raise DrillError(f"{event.place}: no {event.during} began in {seconds:.1f} s")

    def _seconds_left(self) -> float:
        """Return the seconds for which an event may still wait for its move."""
        left = self.end - self.now - BEFORE_END
        return max(0.0, min(self._patient(MOVE_SECONDS), left))

    # --- log records

    def _about(self, member: M) -> dict[str, str]:
        role = self._hit_as.pop((member.site, member.name), None)
        return {} if role is None else {"role": role}
