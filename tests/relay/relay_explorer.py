"""Random schedules of RELAY from a seed: the next steps, senders, failing members, slow links.

Faults stay within what RELAY.md promises: after a crash at home one complete holder is left, and one member at
each other site. After the faults everything is repaired and must come to rest without losses.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from relay_harness import Net
from relay_member import Member, Violation

from jgroups_py.protocols.relay.protocol import RELAY


@dataclass(frozen=True)
class Mix:
    """The kinds of steps, with the weight of each."""

    send: float = 0.12
    time: float = 0.10
    slow: float = 0.04
    crash: float = 0.02
    join: float = 0.01
    leave: float = 0.008
    wan: float = 0.01
    split: float = 0.0
    steps: int = 300
    crashes: int = 4
    anybody: bool = False
    """All holders may fail: then only messages of living origins are promised."""


CALM = Mix(crash=0.0, join=0.0, leave=0.0, wan=0.0)
CRASHES = Mix(join=0.0, leave=0.0, wan=0.0)
EVERYTHING = Mix()
ANYBODY = Mix(join=0.0, leave=0.0, wan=0.0, crash=0.03, anybody=True)
SPLITS = Mix(split=0.01, crash=0.005, wan=0.005)


class Explorer:
    """One schedule. ``run`` raises Violation; ``story`` has all events, for replaying by hand."""

    def __init__(
        self,
        seed: int,
        mix: Mix = EVERYTHING,
        *,
        relay_class: type[RELAY] = RELAY,
        config: dict[str, Any] | None = None,
    ) -> None:
        self.random = random.Random(f"explore/{seed}")
        choose = self.random.choice
        home = "EDCBA"[: choose((3, 4, 5))]
        away = "TSUVW"[: choose((2, 2, 3))]
        third = {"LON": "XYZ"[: choose((1, 2))]} if self.random.random() < 0.15 else {}
        primary = choose(("NYC", "NYC", "all"))
        settings: dict[str, Any] = {
            "primary": primary,
            "sites": ("NYC", "SFO", *third),
            "buffering_members": choose((2, 3, 3)),
            "relay_when": choose(("received", "received", "stable")) if not config else "received",
            "fetch_bytes": choose((1, 100, 1_000_000)),
            "chunk_bytes": choose((10, 200, 100_000)),
        }
        settings.update(config or {})
        self.mix = mix
        self.net = Net(
            seed=seed,
            config=settings,
            relay_class=relay_class,
            NYC=home,
            SFO=away,
            **third,
        )
        self.sites = ["NYC", "SFO", *third]
        self.story: list[str] = []
        self.crashes = mix.crashes
        self.joins = 3
        self.split_sites: list[str] = []

    def run(self) -> Net:
        net = self.net
        if self.random.random() < 0.5:
            net.settle(3)
        weights = {
            "send": self.mix.send,
            "time": self.mix.time,
            "slow": self.mix.slow,
            "crash": self.mix.crash,
            "join": self.mix.join,
            "leave": self.mix.leave,
            "wan": self.mix.wan,
            "split": self.mix.split,
        }
        weights["step"] = 1.0 - sum(weights.values())
        kinds, values = list(weights), list(weights.values())
        for _ in range(self.mix.steps):
            kind = self.random.choices(kinds, values)[0]
            getattr(self, f"do_{kind}")()
        self.repair()
        return net

    def tell(self, text: str) -> None:
        self.story.append(f"{self.net.now:8.3f} {text}")

    def repair(self) -> None:
        net = self.net
        net.release()
        for site in list(net.cut_off):
            net.heal_wan(site)
        for site in self.split_sites:
            net.merge(site)
        self.tell("repair")
        net.settle(120)
        for member in net.alive():
            if member.wants_to_leave:
                net.leave(member.name)
        net.settle(120)
        if not all(net.alive(site) for site in self.sites):
            return
        if self.mix.anybody:
            lost = [what for what in net.lost(primary=net.primary) if self._promised(what)]
            if lost:
                raise Violation(f"lost although the origin lives: {lost[:10]}")
            net.at_rest(lost=True, gaps=True)
            return
        net.at_rest(gaps=net.split)
        if not net.split:
            net.agreed()

    def _promised(self, what: str) -> bool:
        return self.net.members[what.split("#")[0]].alive

    # --- steps

    def do_step(self) -> None:
        steps = self.net.enabled()
        if steps:
            step = self.random.choice(steps)
            self.tell(" ".join(map(str, step)))
            self.net.step(*step)

    def do_time(self) -> None:
        due = self.net.next_deadline()
        if due is not None:
            self.net.step("time", due)
        self._finish_leaves()

    def do_send(self) -> None:
        members = [m for m in self.net.alive() if m.view is not None and not m.wants_to_leave]
        if members:
            member = self.random.choice(members)
            count = self.random.choice((1, 1, 1, 2, 5))
            self.tell(f"{member} sends {count}")
            self.net.send(member.name, count)

    def do_slow(self) -> None:
        """Stop one kind of step, or one pair, for a while."""
        if self.net.holds and self.random.random() < 0.6:
            self.net.holds.pop(0)
            return
        kind = self.random.choice(("mc", "mc", "uc", "uc", "view", "bridge", "bridge", "bview"))
        names = [m.name for m in self.net.alive()]
        dst = self.random.choice(names)
        src = self.random.choice(["", *names])
        self.tell(f"slow {kind} {dst} <- {src}")
        self.net.hold(kind, dst=dst, src="" if kind in ("view", "bview") else src)

    def do_crash(self) -> None:
        if self.crashes <= 0:
            return
        member = self.random.choice(self.net.alive())
        if not self._may_fall(member):
            return
        self.crashes -= 1
        self.tell(f"crash {member}")
        self.net.crash(member.name)

    def _may_fall(self, member: Member) -> bool:
        """Return whether this leaves a complete holder (home) or a member (elsewhere). A site that is split
        loses no members."""
        others = [
            m for m in self.net.alive(member.site) if m is not member and not m.wants_to_leave
        ]
        if not any(m.view is not None for m in others):
            return False
        if member.site in self.split_sites:
            return False
        if self.mix.anybody or not member.relay.is_relaying:
            return True
        return any(m.relay.holding.complete for m in others)

    def do_join(self) -> None:
        if self.joins <= 0:
            return
        self.joins -= 1
        site = self.random.choice(self.sites)
        if site in self.split_sites or not self.net.site_view(site):
            return
        name = f"j{self.joins}"
        self.tell(f"{name} joins {site}")
        self.net.join(name, site)

    def do_leave(self) -> None:
        members = [m for m in self.net.alive() if m.view is not None and self._may_fall(m)]
        members = [m for m in members if not m.wants_to_leave]
        if self.crashes > 0 and members:
            self.crashes -= 1
            member = self.random.choice(members)
            self.tell(f"{member} leaves")
            member.stack.disconnect()

    def _finish_leaves(self) -> None:
        for member in self.net.alive():
            if member.wants_to_leave and self._may_fall(member):
                self.tell(f"{member} has left")
                self.net.leave(member.name)

    def do_wan(self) -> None:
        if self.net.cut_off:
            self.tell("wan heals")
            self.net.heal_wan(self.net.cut_off[0])
        else:
            site = self.random.choice(self.sites)
            self.tell(f"wan of {site} is cut")
            self.net.cut_wan(site)

    def do_split(self) -> None:
        if self.split_sites:
            site = self.split_sites.pop()
            self.tell(f"{site} merges")
            self.net.merge(site)
            return
        site = self.random.choice(self.sites[:2])
        members = self.net.alive(site)
        if len(members) < 2 or any(m.pending or m.view is None for m in members):
            return
        names = [m.name for m in members]
        self.random.shuffle(names)
        at = self.random.randint(1, len(names) - 1)
        groups = (names[:at], names[at:])
        self.split_sites.append(site)
        self.tell(f"{site} splits: {groups}")
        self.net.partition(site, *groups)


def explore(
    seed: int,
    mix: Mix = EVERYTHING,
    *,
    relay_class: type[RELAY] = RELAY,
    config: dict[str, Any] | None = None,
) -> Net:
    """Run one schedule. A failure has its seed and the last steps."""
    explorer = Explorer(seed, mix, relay_class=relay_class, config=config)
    try:
        return explorer.run()
    except AssertionError as error:
        story = "\n".join(explorer.story[-60:])
        raise type(error)(f"seed {seed}: {error}\n{story}") from error
