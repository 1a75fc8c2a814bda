"""The cost of each schedule of buddy replication: messages by kind, events, counters, and the nodes of each member at
its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import passive_schedules
import pytest
import site_schedules
from account import Account, check
from buddy_schedules import SCHEDULES

from jgroups_py.buddy.machine import BuddyMachine
from jgroups_py.buddy.outputs import BuddyEvent, Completed, SendMessage, SendSite
from jgroups_py.testing.explorer.buddies.explore import PROFILES, explore

assert passive_schedules and site_schedules


DRAWN = range(5)
"""Seeds of drawn schedules. The drawn steps depend on the machines' behaviour, so an intended change may change all of
these accounts."""


class Watched:
    """Machines that are made from now on, and the account of what they put out."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.account = Account()
        self._machines: list[BuddyMachine] = []
        init, take = BuddyMachine.__init__, BuddyMachine.take

        def watched_init(machine: BuddyMachine, *args: Any, **more: Any) -> None:
            init(machine, *args, **more)
            self._machines.append(machine)

        def watched_take(machine: BuddyMachine) -> list[Any]:
            outputs = take(machine)
            for out in outputs:
                self.account.add(*_named(out), machine.membership.now)
            return outputs

        monkeypatch.setattr(BuddyMachine, "__init__", watched_init)
        monkeypatch.setattr(BuddyMachine, "take", watched_take)

    def played(self, play: Callable[[], object]) -> Account:
        self.account = Account()
        self._machines.clear()
        play()
        for machine in self._machines:
            self.account.add_all("counted", _not_sent(machine.statistics))
            _add_tables(self.account, machine)
        return self.account


def test_schedules_cost_the_recorded_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch)
    check("buddy", {name: watched.played(play) for name, play in SCHEDULES.items()})


def test_drawn_schedules_cost_the_recorded_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch)
    accounts = {}
    for profile in PROFILES:
        accounts[profile] = watched.played(lambda p=profile: [explore(s, p) for s in DRAWN])  # type: ignore[misc]
    check("buddy_drawn", accounts)


def _named(out: Any) -> tuple[str, str]:
    match out:
        case SendMessage(to, _, message):
            return "sent to all" if to is None else "sent to one", type(message).__name__
        case SendSite(site, message):
            return f"sent to site {site}", type(message).__name__
        case Completed():
            return "completed", out.outcome.name
        case BuddyEvent(kind, _):
            return "events", kind
    raise AssertionError(out)


def _not_sent(statistics: dict[str, int]) -> dict[str, int]:
    """Return the counters without those of sent messages, which are in the account already."""
    return {name: value for name, value in statistics.items() if not name.startswith("sent_")}


def _add_tables(account: Account, machine: BuddyMachine) -> None:
    """Add the tables that the machines still keep. Members that have left or crashed count, too."""
    sizes = {
        "own": len(machine.own),
        "adopted": len(machine.ownership.adopted),
        "adopted safely": len(machine.ownership.adopted_safely),
        "adopted from": len(machine.ownership.adopted_from),
        "sides": len(machine.membership.sides),
        "backups": len(machine.backups.of),
        "holders": len(machine.buddies.holders),
        "unsent": sum(len(node.unsent) for node in machine.own.values()),
        "lineages": sum(len(node.lineage) for node in machine.own.values()),
        "hints": len(machine.arrivals.hints),
        "arrivals": machine.calls.inner,
        "wanted of sites": len(machine.sites.wanted),
        "epochs": sum(node.epoch[1] for node in machine.own.values()),
        "floors": machine.ownership.floor[1],
        "site epochs": machine.known.epoch,
    }
    account.add_all("kept", sizes)
