"""Drawing faults: steps of each kind, at times of their own or after something was traced."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, Final

from jgroups_py.testing.explorer.stacks.schedule import After, Link, Step

MOMENTS: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "join": (("GMS", "view"), ("GMS", "all have it"), ("discovery", "found")),
    "hand-over": (
        ("GMS", "suspect"),
        ("VERIFY_SUSPECT2", "silent"),
        ("NAKACK2", "frozen"),
        ("NAKACK2", "fetched"),
        ("GMS", "view"),
    ),
    "merge": (("MERGE3", "views differ"), ("MERGE3", "merge"), ("NAKACK2", "moved")),
    "repair": (("NAKACK2", "request"), ("NAKACK2", "retransmit"), ("UNICAST3", "retransmit")),
    "state": (
        ("STATE_TRANSFER", "ask for state"),
        ("STATE_TRANSFER", "state wanted"),
        ("STATE_TRANSFER", "state sent"),
    ),
    "relay": (
        ("RELAY", "takeover"),
        ("RELAY", "view"),
        ("RELAY", "trim"),
        ("RELAY", "relay"),
        ("RELAY", "replay"),
        ("RELAY", "deliver_relayed"),
        ("RELAY", "gap"),
    ),
}
"""The traces that steps wait for (protocol, event), by activity."""
SURE: Final = 7
"""A run has at least five faults; some of these find too few members."""
DELAYS: Final = (0.0, 0.0, 0.0005, 0.005, 0.05, 0.3)


class FaultDraw:
    """Draws steps for ``sites`` during ``seconds``. ``moments``: which of MOMENTS occur."""

    def __init__(
        self,
        rng: random.Random,
        sites: list[str],
        seconds: float,
        moments: tuple[str, ...] = ("join", "hand-over", "merge", "repair"),
    ) -> None:
        self.random = rng
        self.sites = sites
        self.seconds = seconds
        self.moments = [moment for kind in moments for moment in MOMENTS[kind]]

    def steps(self, mix: Mapping[str, int], count: int) -> tuple[Step, ...]:
        """Return ``count`` steps or more, in order of time. At least SURE of them need no particular member."""
        kinds, weights = list(mix), list(mix.values())
        drawn = self.random.choices(kinds, weights, k=count)
        found = [self.step(kind) for kind in drawn]
        sure = ("link", "cut", "clog", "pause", "drift", "slow")
        lacking = SURE - sum(1 for step in found if step.do in sure and step.after is None)
        likely = [kind for kind in sure if mix.get(kind)] or ["link", "pause"]
        found += [self.step(self.random.choice(likely), timed=True) for _ in range(lacking)]
        return tuple(sorted(found, key=lambda step: step.at))

    def step(self, kind: str, *, timed: bool = False) -> Step:
        options: dict[str, Any] = getattr(self, f"_{kind}")()
        after = None
        chance = (
            0.5
            if kind in ("crash", "vanish", "leave", "pause", "fail_site", "cut", "wan", "reset")
            else 0.1
        )
        if not timed and self.random.random() < chance:
            after = self._after(kind, options)
        do = "cut" if kind == "wan" else kind
        return Step(at=self._time(), do=do, after=after, **options)  # type: ignore[arg-type]

    def _time(self) -> float:
        return round(self.random.uniform(0.0, self.seconds * 0.95), 3)

    def _after(self, kind: str, options: dict[str, Any]) -> After:
        protocol, what = self.random.choice(self.moments)
        if self.random.random() < 0.6 and kind != "wan":
            options["who"] = ("*.trigger",)
        return After(
            protocol=protocol,
            what=what,
            nth=self.random.choice([1, 1, 1, 2, 3, 5]),
            delay=self.random.choice(DELAYS),
        )

    # --- members

    def _site(self) -> str:
        return self.random.choice(self.sites)

    def _somebody(self) -> str:
        role = self.random.choice(["relay", "relay", "standby", "last", "any", "any", "sender"])
        if role == "any":
            role = f"any/{self.random.randint(0, 9)}"
        return f"{self._site()}.{role}"

    def _some(self) -> tuple[str, ...]:
        count = self.random.choice([1, 1, 1, 2])
        return tuple(self._somebody() for _ in range(count))

    # --- the kinds

    def _crash(self) -> dict[str, Any]:
        return {"who": self._some(), "gap": self.random.choice([0, 0, 0.002, 0.1, 0.6])}

    _vanish = _crash
    _leave = _crash

    def _fail_site(self) -> dict[str, Any]:
        return {
            "who": (f"{self._site()}.all",),
            "gap": self.random.choice([0, 0, 0.01, 0.5]),
            "how": self.random.choice(["crash", "vanish"]),
        }

    def _restart(self) -> dict[str, Any]:
        return {"who": (f"*.dead/{self.random.randint(0, 3)}",)}

    def _pause(self) -> dict[str, Any]:
        longest = self.random.choice([1, 8, 8, 20, 60])
        return {"who": self._some(), "seconds": round(self.random.uniform(0.1, longest), 3)}

    def _cut(self) -> dict[str, Any]:
        site = self._site()
        few = tuple(f"{site}.any/{self.random.randint(0, 9)}" for _ in range(2))
        shape = self.random.choice(["off", "off", "half", "pair", "one"])
        options: dict[str, Any] = {
            "seconds": round(self.random.choice([1, 5, 15]) * self.random.uniform(0.2, 1), 3),
            "one_way": self.random.random() < 0.3,
        }
        if shape == "half":
            options["who"] = tuple(f"{site}.any/{n}" for n in self.random.sample(range(6), 3))
        elif shape == "pair":
            options["who"], options["other"] = few[:1], few[1:]
        elif shape == "one":
            options["who"] = few[:1]
        else:
            options["who"] = self._some()
        return options

    def _wan(self) -> dict[str, Any]:
        """Draw whole sites, not members."""
        site = self._site()
        others = [other for other in self.sites if other != site]
        return {
            "who": (f"{site}.all",),
            "other": tuple(f"{o}.all" for o in self.random.sample(others, min(1, len(others)))),
            "seconds": round(self.random.choice([1, 4, 12]) * self.random.uniform(0.2, 1), 3),
            "one_way": self.random.random() < 0.2,
        }

    def _link(self) -> dict[str, Any]:
        rng = self.random
        return {
            "who": ("*.all",) if rng.random() < 0.4 else (self._somebody(),),
            "other": ("*.all",),
            "seconds": round(rng.uniform(0.5, 10), 3),
            "link": Link(
                latency=rng.choice([0.0005, 0.01, 0.1, 0.3]),
                jitter=rng.choice([0, 0.02, 0.2]),
                loss=rng.choice([0, 0.1, 0.3, 0.6]),
                duplicate=rng.choice([0, 0.1, 0.3]),
                reorder=rng.choice([0, 0.2]),
                reorder_delay=rng.choice([0.005, 0.05]),
            ),
        }

    def _clog(self) -> dict[str, Any]:
        rng = self.random
        return {
            "who": (self._somebody(),),
            "other": () if rng.random() < 0.5 else (self._somebody(), self._somebody()),
            "seconds": round(rng.uniform(0.1, 6), 3),
            "gap": rng.choice([0, 0.01, 0.3]),
            "how": rng.choice(["same", "reverse"]),
        }

    def _reset(self) -> dict[str, Any]:
        rng = self.random
        return {
            "who": self._some(),
            "other": () if rng.random() < 0.5 else (self._somebody(),),
            "seconds": rng.choice([0.0, 0.0, 0.5, round(rng.uniform(1, 12), 3)]),
            "one_way": rng.random() < 0.3,
        }

    def _drift(self) -> dict[str, Any]:
        rng = self.random
        rate = 1 + rng.choice([-1, 1]) * rng.choice([0.001, 0.01, 0.05, 0.2])
        return {
            "who": self._some(),
            "amount": round(rate, 3),
            "seconds": round(rng.uniform(5, 40), 3),
        }

    def _slow(self) -> dict[str, Any]:
        rng = self.random
        return {
            "who": self._some(),
            "amount": float(rng.choice([0, 0, 1, 10, 50])),
            "seconds": round(rng.uniform(1, 15), 3),
        }

    def _burst(self) -> dict[str, Any]:
        rng = self.random
        return {
            "who": ("*.all",) if rng.random() < 0.3 else (self._somebody(),),
            "amount": float(rng.choice([10, 50, 100])),
        }

    def _state(self) -> dict[str, Any]:
        other = () if self.random.random() < 0.5 else (self._somebody(),)
        return {"who": (self._somebody(),), "other": other}

    def _promote(self) -> dict[str, Any]:
        return {"who": (f"{self._site()}.relay",)}
