"""Each protocol's account: its outgoing messages, socket requests, counters and tables in its own tests."""

from __future__ import annotations

import functools
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from account import Account, check, kept
from gms_slow import Slow

from jgroups_py.testing import fake
from jgroups_py.testing.fake import FakeStack
from jgroups_py.values.batch import Batch
from jgroups_py.wire.headers import PROTOCOL_IDS

PROTOCOLS: Final = {number: name for name, number in PROTOCOL_IDS.items()}
MODULES: Final = (
    "test_fd_all3",
    "test_fd_sock2",
    "test_fd_sock2_proof",
    "test_frag2",
    "test_gms_agreement",
    "test_gms_departures",
    "test_gms_left_out",
    "test_gms_membership",
    "test_gms_merge",
    "test_gms_overtaken",
    "test_merge3",
    "test_mfc",
    "test_nakack2",
    "test_nakack2_agreement",
    "test_nakack2_views",
    "test_ping",
    "test_stable",
    "test_state_transfer",
    "test_tcp",
    "test_tcp_both_connect",
    "test_tcp_limits",
    "test_tcp_versions",
    "test_tcpping",
    "test_udp",
    "test_ufc",
    "test_unicast3",
    "test_verify_suspect2",
)
TESTS: Final = Path(__file__).parent.parent
NETS: Final = {"net": ("protocols/gms", "Net"), "network": ("transports", "Network")}
"""A fixture that a test may need, and the folder whose conftest.py has its class."""


def scenes(module: str) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the tests of a module that need no fixtures, and those that need a network of fakes."""
    found = importlib.import_module(module)
    for name, function in vars(found).items():
        if not name.startswith("test_") or not inspect.isfunction(function):
            continue
        if hasattr(function, "hypothesis") or getattr(function, "pytestmark", []):
            continue
        needed = [*inspect.signature(function).parameters]
        if not needed:
            yield name.removeprefix("test_"), function
        elif len(needed) == 1 and needed[0] in NETS:
            network = _class_of(*NETS[needed[0]])
            yield name.removeprefix("test_"), lambda f=function, n=network: f(n())  # type: ignore[misc]


@functools.cache
def _class_of(folder: str, name: str) -> type:
    file = TESTS / folder / "conftest.py"
    spec = importlib.util.spec_from_file_location(f"accounts_{name}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    found: type = getattr(module, name)
    return found


class Watched:
    """The fake stacks made from now on, and the account of everything that passes their ends."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.account = Account()
        self._fakes: list[FakeStack] = []
        init, on_trace = FakeStack.__init__, FakeStack._on_trace

        def watched_init(stack: FakeStack, *protocols: Any, **more: Any) -> None:
            init(stack, *protocols, **more)
            self._fakes.append(stack)

        def watched_trace(
            stack: FakeStack, at: float, member: str, protocol: str, what: str, more: dict[str, Any]
        ) -> None:
            self.account.add("told", f"{protocol} {what}", at)
            on_trace(stack, at, member, protocol, what, more)

        monkeypatch.setattr(FakeStack, "__init__", watched_init)
        monkeypatch.setattr(FakeStack, "_on_trace", watched_trace)
        for kind, handler, name in [
            (fake._Bottom, "down", "down"),
            (fake._Top, "up", "up"),
            (fake._Bottom, "event_down", "events down"),
            (fake._Top, "event_up", "events up"),
        ]:
            monkeypatch.setattr(kind, handler, self._watch(getattr(kind, handler), name))

    def _watch(self, handler: Callable[[Any, Any], None], name: str) -> Any:
        def watched(end: Any, what: Any) -> None:
            now = end._fake.now
            if isinstance(what, Batch):
                for kind in _named(what):
                    self.account.add(name, kind, now, len(what))
            else:
                self.account.add(name, type(what).__name__, now)
            handler(end, what)

        return watched

    def played(self, play: Callable[[], None]) -> Account:
        self.account = Account()
        self._fakes.clear()
        play()
        for stack in self._fakes:
            machine = stack.machine
            for protocol in stack.stack.protocols[1:-1]:
                self.account.add_all(protocol.name, protocol.statistics())
            self.account.add_all("kept", kept(machine))
            due = machine.next_deadline()
            if due is not None:
                self.account.add("next timer", "due", due)
        return self.account


def _named(batch: Batch) -> list[str]:
    """Return the names of headers: protocol and type, or the protocol's own kind for a numbered header."""
    names = []
    header: Any
    for number, header in batch.headers.items():
        kind = getattr(header, "type", None)
        shown: str = kind.name if kind is not None else type(header).__name__
        if type(header).__name__ == "FragHeader":
            shown += f" {header.index}"
        names.append(f"{PROTOCOLS.get(number, number)} {shown}")
    return names or ["plain"]


@pytest.mark.parametrize("module", MODULES)
def test_protocols_act_as_recorded(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch)
    accounts = {name: watched.played(play) for name, play in scenes(module)}
    check(module.removeprefix("test_"), accounts)


def test_rounds_on_a_slow_network_cost_the_recorded_messages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watched = Watched(monkeypatch)
    network = _class_of(*NETS["net"])

    def play(seed: int) -> None:
        Slow(network(), seed).play()

    check("gms_slow", {f"seed {n}": watched.played(lambda n=n: play(n)) for n in range(24)})  # type: ignore[misc]
