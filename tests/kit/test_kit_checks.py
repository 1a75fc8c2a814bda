"""Each named check finds the fault that was planted for it, in an otherwise correct cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec
import pytest

from jgroups_py.errors import ConfigError
from jgroups_py.protocols.failure.verify_suspect2 import VERIFY_SUSPECT2
from jgroups_py.stack.protocol import Protocol
from jgroups_py.testing import CHECKS, PropertyViolated, SimCluster, make_address
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import Event, Exclude, StateReceived, Suspect, ViewChange
from jgroups_py.values.view import View


class Sound(Protocol):
    """A correct protocol. Derived classes break it at the second member, B."""

    @property
    def mine(self) -> bool:
        return self.stack.name == "B"

    def up(self, batch: Batch) -> None:
        if self.mine:
            self.broken(batch)
        else:
            self.pass_up(batch)

    def broken(self, batch: Batch) -> None:
        self.pass_up(batch)

    def event_up(self, event: Event) -> None:
        if self.mine and isinstance(event, ViewChange):
            for view in self.views(event.view):
                self.pass_event_up(replace(event, view=view))
        elif self.mine and isinstance(event, StateReceived):
            self.pass_event_up(replace(event, state=self.state(event.state)))
        else:
            self.pass_event_up(event)

    def views(self, view: View) -> list[View]:
        return [view]

    def state(self, state: bytes | None) -> bytes | None:
        return state


class Swaps(Sound):
    def broken(self, batch: Batch) -> None:
        self.pass_up(replace(batch, payloads=list(reversed(batch.payloads))))


class Repeats(Sound):
    def broken(self, batch: Batch) -> None:
        self.pass_up(replace(batch, credits=()))
        self.pass_up(batch)


class Omits(Sound):
    def broken(self, batch: Batch) -> None:
        self.pass_up(replace(batch, payloads=[batch.payloads[0], *batch.payloads[2:]]))


class Forgets(Sound):
    """Drops the last message of a run."""

    def broken(self, batch: Batch) -> None:
        if len(batch) > 1:
            self.pass_up(replace(batch, payloads=batch.payloads[:-1]))
        else:
            self.consume(batch)


class Damages(Sound):
    def broken(self, batch: Batch) -> None:
        self.pass_up(replace(batch, payloads=[bytes(p[:-1]) + b"?" for p in batch.payloads]))


class Misattributes(Sound):
    def broken(self, batch: Batch) -> None:
        self.pass_up(replace(batch, src=self.local_address))


class Keeps(Sound):
    """Does not give credits back."""

    def broken(self, batch: Batch) -> None:
        self.pass_up(replace(batch, credits=()))


class Remembers(Sound):
    def start(self) -> None:
        self.heard: dict[Address | None, int] = {}

    def broken(self, batch: Batch) -> None:
        self.heard[batch.src] = 1
        self.pass_up(batch)


class Hoards(Sound):
    """Reports more than its settings allow, under a name that is checked."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Protocol.Config):
        max_messages: int = 10
        max_bytes: int = 10

    def start(self) -> None:
        self.name = "FRAG2"

    def statistics(self) -> dict[str, int | float]:
        return {"incomplete": 1000 if self.mine else 0, "incomplete_bytes": 0}


class Slanders(Sound):
    """Reports that the sender is dead, as a failure detector with a proof would."""

    def broken(self, batch: Batch) -> None:
        verify = self.stack.find(VERIFY_SUSPECT2)
        if verify is not None and batch.src is not None:
            verify.event_up(Suspect((batch.src,), True))
        self.pass_up(batch)


class Again(Sound):
    def views(self, view: View) -> list[View]:
        return [view, view]


class Without(Sound):
    def views(self, view: View) -> list[View]:
        return [View(view.view_id, tuple(m for m in view if m != self.local_address))]


class Invents(Sound):
    def views(self, view: View) -> list[View]:
        return [View(view.view_id, (*view.members, make_address(99)))]


class Conceals(Sound):
    """Reports neither the view of the others nor the losses."""

    def event_up(self, event: Event) -> None:
        if not isinstance(event, Exclude):
            super().event_up(event)


class Outdated(Sound):
    def state(self, state: bytes | None) -> bytes | None:
        rows = msgspec.msgpack.decode(state or b"", type=list[tuple[bytes, int, bool, list[int]]])
        return msgspec.msgpack.encode([(who, number - 1, *more) for who, number, *more in rows])


Script = Callable[[SimCluster], None]


def multicasts(cluster: SimCluster) -> None:
    cluster["A"].send(b"one", b"two", b"three")
    cluster.run_for(1)


def unicasts(cluster: SimCluster) -> None:
    cluster["A"].send(b"one", b"two", b"three", to=cluster["B"])
    cluster.run_for(1)


def a_departure(cluster: SimCluster) -> None:
    multicasts(cluster)
    cluster.crash("A")
    cluster.run_for(3)


def an_exclusion(cluster: SimCluster) -> None:
    multicasts(cluster)
    cluster["B"].send(b"before")
    cluster.pause("B", seconds=20)
    cluster.run_for(19)
    cluster["B"].send(b"in vain")
    cluster.run_for(20)
    cluster["B"].send(b"afterwards")
    cluster.run_for(5)


def a_state(cluster: SimCluster) -> None:
    multicasts(cluster)
    cluster["B"].send(b"mine")
    cluster.run_for(1)
    cluster["B"].fetch_state(cluster["C"])
    cluster.run_for(1)


def rest(cluster: SimCluster) -> None:
    multicasts(cluster)
    cluster.settle(within=10)


def rest_without_one(cluster: SimCluster) -> None:
    a_departure(cluster)
    cluster.settle(within=90)


SMALL = {"MFC.max_credits": "4000", "UFC.max_credits": "4000"}

PLANTED: list[tuple[str, type[Protocol], Script]] = [
    ("fifo", Swaps, multicasts),
    ("duplicate", Repeats, multicasts),
    ("gap", Omits, multicasts),
    ("named", Conceals, an_exclusion),
    ("agreement", Forgets, a_departure),
    ("unicast", Repeats, unicasts),
    ("unicast", Omits, unicasts),
    ("content", Damages, multicasts),
    ("state", Outdated, a_state),
    ("stream", Misattributes, multicasts),
    ("view_order", Again, multicasts),
    ("view_holder", Without, multicasts),
    ("view_identity", Invents, multicasts),
    ("bounds", Hoards, multicasts),
    ("death", Slanders, multicasts),
    ("healing", Forgets, rest),
    ("credits", Keeps, rest),
    ("leftovers", Remembers, rest_without_one),
]


def cluster_of(top: type[Protocol], checks: tuple[str, ...] = tuple(CHECKS)) -> SimCluster:
    return SimCluster("ABC", ["sim.xml", top], seed=1, attributes=SMALL, checks=checks)


@pytest.mark.parametrize(
    ("check", "top", "script"), PLANTED, ids=[f"{c}-{t.__name__}" for c, t, _ in PLANTED]
)
def test_each_check_finds_its_planted_fault(
    check: str, top: type[Protocol], script: Script
) -> None:
    with pytest.raises(PropertyViolated) as caught, cluster_of(top, (check,)) as cluster:
        script(cluster)
    violated = caught.value
    assert (violated.check, violated.seed) == (check, 1)
    assert "SimCluster(seed=1)" in str(violated)


def test_every_check_has_been_broken() -> None:
    assert {check for check, _, _ in PLANTED} == set(CHECKS)


@pytest.mark.parametrize("script", dict.fromkeys(script for _, _, script in PLANTED))
def test_a_sound_run_passes_all_rules(script: Script) -> None:
    with cluster_of(Sound) as cluster:
        script(cluster)


def test_figures_without_a_wish_are_not_judged() -> None:
    others = tuple(c for c in CHECKS if c not in ("duplicate", "fifo"))
    with cluster_of(Repeats, others) as cluster:
        multicasts(cluster)
        assert len(cluster["B"].received) == 6


def test_without_tags_payloads_are_left_alone_and_only_the_rest_is_judged() -> None:
    class Reads(Sound):
        def start(self) -> None:
            self.read: list[bytes] = []

        def broken(self, batch: Batch) -> None:
            self.read += [bytes(p) for p in batch.payloads]
            self.pass_up(batch)

    with SimCluster("AB", ["sim.xml", Reads], tagged=False) as cluster:
        cluster["A"].send(b"as it is")
        cluster.settle()
        assert cluster["B"].protocol(Reads).read == [b"as it is"]
        assert [m.payload for m in cluster["B"].received] == [b"as it is"]


def test_an_unknown_check_is_refused() -> None:
    with pytest.raises(ConfigError, match="no check is called 'order'"):
        SimCluster("AB", checks=["order"])
