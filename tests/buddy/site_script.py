"""Two sites for scripted schedules: N has members A, B, C ..., S has S, T, U ..."""

from typing import Any

from buddy_script import Script

from jgroups_py.buddy.messages import Message
from jgroups_py.buddy.values import OwnedNode, Path
from jgroups_py.testing.explorer.buddies.sites import WorldSites
from jgroups_py.testing.explorer.buddies.sites_draw import sites_come_to_rest
from jgroups_py.testing.explorer.buddies.world import Step, WorldSetting
from jgroups_py.values.address import Address


class Side(Script):
    """One of the two sites."""

    def __init__(self, sites: WorldSites, at: int) -> None:
        self.sites = sites
        self.at = at
        self.world = sites.world(at)
        self.world.attentive = True
        self.held: dict[tuple[Address, Address], type[Message] | None] = {}
        self.held_views = set()
        self.held_pushes = set()

    def _take(self, step: Step) -> bool:
        return self.sites.step(("at", self.at, *step))


class TwoScript:
    """``n``, ``s``: the sites. They are linked, and everything is delivered unless the script holds it back."""

    def __init__(
        self,
        here: int = 3,
        there: int = 3,
        buddies: int = 1,
        judged: str = "values",
        removed_max: int = 1000,
        tombstone_time: float = 1000.0,
    ) -> None:
        first, second = (
            WorldSetting(
                members,
                buddies,
                judged=judged,
                site=site,
                removed_max=removed_max,
                tombstone_time=tombstone_time,
            )
            for members, site in ((here, "N"), (there, "S"))
        )
        self.sites = WorldSites(
            WorldSetting(**{f: getattr(first, f) for f in FIELDS}, other=second)
        )
        self.sites.attentive = True
        self.n, self.s = Side(self.sites, 0), Side(self.sites, 1)
        self.held: set[int] = set()
        self.run()
        self.step("link")
        self.run()

    def step(self, *step: Any) -> None:
        assert self.sites.step(step), step

    def hold_wire(self, at: int) -> None:
        """Hold messages of site ``at`` to the other site on the link."""
        self.held.add(at)

    def run(self) -> None:
        for _ in range(10_000):
            for side in (self.n, self.s):
                if self.sites.worlds[side.at] is not None:
                    side.run()
            sending = [
                at for at in range(2) if at not in self.held and self.sites.wires[at, 1 - at]
            ]
            if not sending:
                return
            self.step("wan", sending[0])
        raise AssertionError("no end")

    def tick(self, seconds: float) -> None:
        for at, _ in self.sites.both:
            self.step("at", at, "tick", seconds)
        self.run()

    def lose(self) -> None:
        self.step("lose")

    def begin(self) -> None:
        """Start site N anew."""
        self.step("begin")
        self.n = Side(self.sites, 0)

    def node(self, side: Side, path: str) -> OwnedNode | None:
        """Return the node as the owner at that site has it."""
        key: Path = tuple(path.split("/"))
        found = [
            machine.own[key]
            for machine in side.world.machines.values()
            if key in machine.own and machine.own[key].to is None
        ]
        assert len(found) < 2
        return found[0] if found else None

    def value(self, side: Side, path: str) -> object:
        node = self.node(side, path)
        return None if node is None or node.removed else node.value

    def rest(self) -> None:
        self.held.clear()
        for side in (self.n, self.s):
            side.free_all()
        sites_come_to_rest(self.sites, None)


FIELDS = ("members", "buddies", "sync", "judged", "tombstone_time", "site", "removed_max")
