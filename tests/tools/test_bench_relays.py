"""The bench of RELAY reports the added latency of a second site, and losses."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
import trio

from jgroups_py.tools.bench.peers import libraries, measures, relays
from jgroups_py.tools.bench.peers.java import JavaPeer
from jgroups_py.tools.bench.peers.plan import Case, PeersPlan
from jgroups_py.tools.bench.peers.relay_member import (
    FAST,
    HEAD,
    PACED,
    PROBE,
    ArrivalListener,
    RelayPlan,
)
from jgroups_py.tools.bench.peers.summary import OURS
from jgroups_py.tools.children import ChildError

PLAN = RelayPlan("relay-udp.xml", relays.SITES, relays.SENDER, 100, 1.0, 0.5, "test")


def told(per_s: float, p50: float, p99: float, wrong: int = 0) -> dict[str, float]:
    return {"per_s": per_s, "p50_us": p50, "p99_us": p99, "wrong": wrong}


def test_the_added_latency_is_the_difference_between_the_other_site_and_the_own_one() -> None:
    found = {0: told(9, 100, 500), 2: told(10, 300, 900), 3: told(20, 500, 1100)}
    assert relays.figures(PLAN, found) == {
        "relayed_per_s": 15,
        "here_p50_us": 100,
        "there_p50_us": 400,
        "added_p50_us": 300,
        "added_p99_us": 500,
    }


def test_a_listener_counts_missing_and_repeated_messages() -> None:
    listener = ArrivalListener()
    listener.take(HEAD.pack(PROBE, 0, 0.0), 1.0)
    assert listener.heard.is_set() and not listener.took
    for number, at in ((0, 1.0), (1, 1.5), (1, 1.5), (3, 2.0)):
        listener.take(HEAD.pack(PACED, number, at), 2.0)
    listener.take(HEAD.pack(FAST, 0, 0.0), 2.0)
    assert listener.wrong == 2 and listener.took == [1.0, 0.5, 0.5, 0.0]
    assert listener.next == {PACED: 4, FAST: 1}


class Scripted:
    """A member's process with the given lines."""

    def __init__(self, wrong: int = 0) -> None:
        self.told: list[dict[str, Any]] = []
        self._wrong = wrong

    async def tell(self, **what: Any) -> None:
        self.told.append(what)

    async def hear(self, event: str) -> dict[str, Any]:
        said: dict[str, dict[str, Any]] = {
            "sent": {"paced": 3, "fast": 7},
            "measured": told(1, 1, 1, self._wrong),
        }
        return said.get(event, {})


async def test_a_lost_message_makes_the_case_fail() -> None:
    children = [Scripted() for _ in relays.SITES]
    assert await relays.measured(PLAN, children)  # type: ignore[arg-type]
    assert children[0].told[1] == {"paced": 3, "fast": 7}
    assert len(children[relays.SENDER].told) == 2, "begin and leave"
    children[3] = Scripted(wrong=2)
    with pytest.raises(ChildError, match="2 messages were lost"):
        await relays.measured(PLAN, children)  # type: ignore[arg-type]


async def test_a_sender_that_nobody_hears_is_named(autojump_clock: Any) -> None:
    class Silent(Scripted):
        async def hear(self, event: str) -> dict[str, Any]:
            await trio.sleep_forever()
            raise AssertionError

    with pytest.raises(ChildError, match="not all members hear the sender within 60 s"):
        await relays.measured(PLAN, [Silent() for _ in relays.SITES])  # type: ignore[misc]


@pytest.mark.sockets
def test_two_real_sites_are_measured() -> None:
    for seconds in (0.3, 5.0):  # a busy machine may relay nothing in so short a time
        plan = PeersPlan(("udp.xml",), (), (), (), (), seconds, 0.1, 1, relay_sizes=(100,))
        (case,) = plan.cases()
        assert libraries.names(case) == [OURS, JavaPeer.name]
        found = trio.run(measures.one_relay, plan, libraries.Ours(), case, "test-relay")[""]
        if found["relayed_per_s"] > 0 and found["there_p50_us"] > 0:
            break
    assert found["relayed_per_s"] > 0 and found["there_p50_us"] > 0


@pytest.mark.java
@pytest.mark.parametrize("stack", ["udp.xml", "tcp.xml"])
def test_two_sites_of_java_members_are_measured(stack: str) -> None:
    class Hasty(JavaPeer):
        warm_up_least = 0.5

    for seconds in (0.5, 5.0):
        plan = PeersPlan((stack,), (), (), (), (), seconds, 0.5, 1, relay_sizes=(1000,))
        (case,) = plan.cases()
        found = trio.run(measures.one_relay, plan, Hasty(), case, "test-relay2")[""]
        if found["relayed_per_s"] > 0:
            break
    assert found["relayed_per_s"] > 0 and min(found["there_p50_us"], found["here_p50_us"]) > 0


async def test_members_with_a_compiler_have_time_before_the_measurement() -> None:
    children = [Scripted() for _ in relays.SITES]
    before = time.monotonic()
    await relays.measured(replace(PLAN, probing=50.0), children)  # type: ignore[arg-type]
    assert all(child.told[0]["begin"] > before + 50.0 for child in children)


def test_each_stack_has_a_row_for_each_size() -> None:
    plan = PeersPlan(("udp.xml", "tcp.xml"), (), (), (), (), 1.0, 1.0, 1, relay_sizes=(100, 1000))
    cases: list[Case] = list(plan.cases())
    assert [(case.stack, case.arguments) for case in cases] == [
        ("udp.xml", (100,)),
        ("udp.xml", (1000,)),
        ("tcp.xml", (100,)),
        ("tcp.xml", (1000,)),
    ]
