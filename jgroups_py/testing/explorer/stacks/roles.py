"""Roles name members that are found at run time.

    SITE.relay      the first of its site, which is coordinator (and relay)
    SITE.standby    the next one                    SITE.last       the last one
    SITE.any/3      the fourth living member; counting begins again after the last
    SITE.dead/0     the first of those that are gone
    SITE.all        all that live                   SITE.NAME       that one, if it lives
    SITE.trigger    the member whose trace the step waited for
    SITE.sender     the last sender                 SITE.asker      the last that asked for a state

``*`` as SITE: any site. If no member has the role, another member of the site is hit. A role of the dead, and a name, then
find no member.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from jgroups_py.testing.sim import Member, World


@dataclass(slots=True)
class Cast:
    """The present members, by site and name, in the order in which they were named."""

    world: World
    sites: dict[str, tuple[str, ...]]
    sender: Member | None = None
    asker: Member | None = None
    core: dict[str, None] | None = None

    def newest(self, site: str = "*") -> list[Member]:
        """Return the newest incarnation of each member."""
        return [
            self.world.member(name, place)
            for place, names in self.sites.items()
            if site in ("*", place)
            for name in names
            if f"{place}/{name}" in self.world.members
        ]

    def living(self, site: str = "*") -> list[Member]:
        return [m for m in self.newest(site) if m.alive and not m.leaving]

    def dead(self, site: str = "*") -> list[Member]:
        """Return the members that can be started again."""
        return [m for m in self.newest(site) if not m.host.alive or m.host.vanished]

    def in_line(self, site: str) -> list[Member]:
        """Return the living members: first those of the most common view, in its order, then the others."""
        living = self.living(site)
        counts: dict[tuple[str, ...], int] = {}
        for member in living:
            if member.view is not None:
                counts[member.view_names] = counts.get(member.view_names, 0) + 1
        if not counts:
            return living
        line = max(counts, key=lambda names: counts[names])
        order = {name: at for at, name in enumerate(line)}
        return sorted(living, key=lambda m: order.get(m.name, len(order)))

    def find(self, roles: Iterable[str], trigger: Member | None = None) -> list[Member]:
        """Return the members meant, each once, in the order of ``roles``."""
        found: dict[Member, None] = {}
        for role in roles:
            found.update(dict.fromkeys(self._of(role, trigger)))
        return list(found)

    def _of(self, role: str, trigger: Member | None) -> list[Member]:
        site, _, who = role.partition(".")
        who, _, digits = who.partition("/")
        turn = int(digits) if digits.isdigit() else 0
        if who in ("trigger", "sender", "asker"):
            member = {"trigger": trigger, "sender": self.sender, "asker": self.asker}[who]
            if member is not None and member.alive and site in ("*", member.site):
                return [member]
            return _one(self.living(site), turn)
        if who == "dead":
            return _one(self.dead(site), turn)
        if who == "all":
            return self.living(site)
        if who == "any":
            return _one(self.living(site), turn)
        if who in ("relay", "standby", "last"):
            line = self.in_line(self._one_site(site, turn))
            at = {"relay": 0, "standby": 1, "last": len(line) - 1}[who]
            return line[at : at + 1] or line[:1]
        return [m for m in self.living(site) if m.name == who]

    def _one_site(self, site: str, turn: int) -> str:
        names = list(self.sites)
        return names[turn % len(names)] if site == "*" else site


def _one(members: list[Member], turn: int) -> list[Member]:
    return [members[turn % len(members)]] if members else []
