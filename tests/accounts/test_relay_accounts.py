"""The cost of each scripted schedule of RELAY: messages over the bridge and inside the sites, by kind, and the reports
of RELAY."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import msgspec
import pytest
import test_relay_cut_off
import test_relay_forgetting
import test_relay_leftovers
import test_relay_messages
import test_relay_promotion
import test_relay_requirements
import test_relay_rules
import test_relay_schedules
import test_relay_snapshots
import test_relay_state
from account import Account, check, kept
from relay_explorer import ANYBODY, CRASHES, EVERYTHING, SPLITS, explore
from relay_harness import Net
from relay_member import Member

from jgroups_py.protocols.relay import wire as relay_wire
from jgroups_py.protocols.relay.wire import ID, MessageKind
from jgroups_py.stack.stack import Stack
from jgroups_py.values.batch import Batch

MODULES: tuple[ModuleType, ...] = (
    test_relay_cut_off,
    test_relay_forgetting,
    test_relay_leftovers,
    test_relay_messages,
    test_relay_promotion,
    test_relay_requirements,
    test_relay_rules,
    test_relay_schedules,
    test_relay_snapshots,
    test_relay_state,
)
NAMES = {
    kind.__struct_config__.tag: kind.__name__
    for kind in vars(relay_wire).values()
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
}
"""The names of control records, by their tag."""


DRAWN = {"crashes": CRASHES, "anybody": ANYBODY, "everything": EVERYTHING, "splits": SPLITS}
SEEDS = range(6)
"""The seeds of drawn schedules. The drawn steps depend on the members' behaviour, so an intended change may change all
of these accounts."""
EXHAUSTIVE = ("test_t18_", "test_t19_")
"""Schedules that other tests play again for each of their steps: they are long and show nothing new in an account."""


def schedules() -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the tests that need no fixtures."""
    for module in MODULES:
        for name, function in vars(module).items():
            if not name.startswith("test_") or name.startswith(EXHAUSTIVE):
                continue
            if not inspect.signature(function).parameters:
                yield (
                    f"{module.__name__.removeprefix('test_')} {name.removeprefix('test_')}",
                    function,
                )


class Watched:
    """The networks made from now on, and the account of what their members send and report."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.account = Account()
        self._nets: list[Net] = []
        init, sent, over_bridge = Net.__init__, Net.sent, Net.sent_over_bridge
        notify, on_trace = Member.notify, Member._on_trace

        def watched_init(net: Net, **more: Any) -> None:
            self._nets.append(net)
            init(net, **more)

        def watched_sent(net: Net, member: Member, batch: Batch) -> None:
            kind = "multicast" if batch.dest is None else "unicast"
            self.account.add(kind, _named(batch), net.now, len(batch.payloads))
            sent(net, member, batch)

        def watched_bridge(net: Net, member: Member, stack: Stack, batch: Batch) -> None:
            self.account.add("bridge", _named(batch), net.now, len(batch.payloads))
            over_bridge(net, member, stack, batch)

        def watched_notify(member: Member, event: Any) -> None:
            self.account.add("events", type(event).__name__, member.net.now)
            notify(member, event)

        def watched_trace(
            member: Member, at: float, name: str, by: str, what: str, more: dict[str, Any]
        ) -> None:
            self.account.add("told", what, at)
            on_trace(member, at, name, by, what, more)

        monkeypatch.setattr(Net, "__init__", watched_init)
        monkeypatch.setattr(Net, "sent", watched_sent)
        monkeypatch.setattr(Net, "sent_over_bridge", watched_bridge)
        monkeypatch.setattr(Member, "notify", watched_notify)
        monkeypatch.setattr(Member, "_on_trace", watched_trace)

    def played(self, play: Callable[[], object]) -> Account:
        self.account = Account()
        self._nets.clear()
        play()
        for member in [m for net in self._nets for m in net.everybody]:
            self.account.add_all("counted", member.relay.statistics())
            self.account.add_all("kept", kept(member.machine))
            self.account.add("delivered", "messages", times=sum(map(len, member.got.values())))
        return self.account


@pytest.mark.parametrize("module", [m.__name__.removeprefix("test_") for m in MODULES])
def test_schedules_cost_the_recorded_messages(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch)
    found = {name: play for name, play in schedules() if name.startswith(f"{module} ")}
    check(module, {name: watched.played(play) for name, play in found.items()})


@pytest.mark.parametrize("name", DRAWN)
def test_drawn_schedules_cost_the_recorded_messages(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    logging.disable(logging.CRITICAL)
    try:
        watched = Watched(monkeypatch)
        account = watched.played(lambda: [explore(seed, DRAWN[name]) for seed in SEEDS])
    finally:
        logging.disable(logging.NOTSET)
    check(f"relay_drawn_{name}", {name: account})


def _named(batch: Batch) -> str:
    header: Any = batch.headers.get(ID)
    if header is None:
        return "PLAIN"
    kind = MessageKind(header.index)
    if kind is not MessageKind.CONTROL:
        return kind.name
    return NAMES[msgspec.msgpack.decode(batch.payloads[0])[0]]
