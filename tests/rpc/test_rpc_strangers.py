"""Calls of callers who are not in the view."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any

import pytest
import trio

from jgroups_py import UUID, Address, Batch, Channel, View, open_rpc
from jgroups_py.protocols.membership.gms.protocol import GMS
from jgroups_py.rpc import Methods, RpcLimits, with_caller
from jgroups_py.rpc.ours import Msgpack, OurForm
from jgroups_py.wire.headers import CorrelatorHeader, CorrelatorType

Open = Callable[..., AbstractAsyncContextManager[Channel]]
STRANGER = UUID(b"stranger of ours")
REQUEST = OurForm(Msgpack()).write_request("note", (1,)).payload


@pytest.fixture
def callers() -> list[Address]:
    return []


@pytest.fixture
def target(callers: list[Address]) -> Methods:
    @with_caller
    def note(caller: Address, value: Any) -> None:
        callers.append(caller)

    return Methods({"note": note})


def call(channel: Channel, src: Address) -> None:
    """Lets a call come up in the stack of ``channel``, as UNICAST3 hands it up."""
    gms = channel.stack.find(GMS)
    assert gms is not None
    header = CorrelatorHeader(CorrelatorType.REQ, 1)
    batch = Batch(channel.address, (REQUEST,), {200: header}, src)
    channel._step(lambda: gms.pass_up(batch))


def install(channel: Channel, view: View) -> None:
    gms = channel.stack.find(GMS)
    assert gms is not None
    channel._step(lambda: gms.install(view))


async def test_a_strangers_call_does_not_run_and_is_counted(
    open_sim: Open, autojump_clock: Any, target: Methods, callers: list[Address]
) -> None:
    async with open_sim(name="A") as a, open_rpc(a, target) as rpc:
        call(a, a.address)
        call(a, STRANGER)
        await trio.sleep(4.9)
        assert callers == [a.address] and "RPC.not_member" not in a.statistics().turned_away
        await trio.sleep(0.2)
        assert callers == [a.address]
        assert a.statistics().turned_away["RPC.not_member"] == 1
        assert rpc.statistics().counters.strangers == 1


async def test_more_calls_than_can_wait_are_turned_away_at_once(
    open_sim: Open, autojump_clock: Any, target: Methods, callers: list[Address]
) -> None:
    limits = RpcLimits(early_max=2)
    async with open_sim(name="A") as a, open_rpc(a, target, limits=limits) as rpc:
        for _ in range(5):
            call(a, STRANGER)
        await trio.sleep(0.1)
        assert rpc.statistics().counters.strangers == 3
        await trio.sleep(5)
        assert rpc.statistics().counters.strangers == 5
        assert callers == []


async def test_a_joiners_call_waits_for_the_view_with_it(
    open_sim: Open, autojump_clock: Any, target: Methods, callers: list[Address]
) -> None:
    async with open_sim(name="A") as a, open_rpc(a, target) as rpc:
        call(a, STRANGER)
        await trio.sleep(1)
        assert callers == []
        view = a.view
        later = replace(
            view,
            view_id=replace(view.view_id, id=view.view_id.id + 1),
            members=(*view.members, STRANGER),
        )
        install(a, later)
        await trio.sleep(0.1)
        assert callers == [STRANGER]
        assert rpc.statistics().counters.strangers == 0
