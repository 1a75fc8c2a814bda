"""Clients that do not prove that they know the token have few places, and keep no other client out."""

from __future__ import annotations

import socket
from contextlib import ExitStack, suppress

import pytest
import trio
import trio.testing
from export_kit import TOKEN, client_of, exported, in_thread

from jgroups_py import MemoryNetwork
from jgroups_py.cache import open_tree_cache
from jgroups_py.export import ExportClient, ExportLimits, NoMember, WrongToken, open_export
from jgroups_py.export.lobby import Lobby

pytestmark = pytest.mark.sockets


class Visitors:
    """A lobby, and the clients in it."""

    def __init__(self, **limits: float) -> None:
        self.lobby = Lobby(ExportLimits(**limits), self.away_hosts)  # type: ignore[arg-type]
        self.away: list[str] = []
        self.entered: list[str] = []
        self.passed: list[str] = []

    def away_hosts(self, host: str) -> None:
        self.away.append(host)

    async def visit(self, name: str, host: str, seconds: float) -> None:
        async def greeting() -> bool:
            self.entered.append(name)
            await trio.sleep(seconds)
            return True

        if await self.lobby.visit(host, greeting):
            self.passed.append(name)


async def test_of_one_host_the_first_goes_when_its_places_are_taken(
    autojump_clock: trio.testing.MockClock,
) -> None:
    visitors = Visitors(lobby_max=4, lobby_per_host=2)
    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(visitors.visit, f"silent-{number}", "10.6.6.6", 100)
            await trio.sleep(0.01)
        await visitors.visit("elsewhere", "10.0.0.2", 0.01)
        assert visitors.passed == ["elsewhere"] and visitors.away == []
        await trio.sleep(1)
        assert visitors.entered[3:] == ["silent-4", "silent-3"]
        assert visitors.away == ["10.6.6.6"] * 2
        await trio.sleep(1)
        assert visitors.away == ["10.6.6.6"] * 3 and len(visitors.lobby) == 2
        nursery.cancel_scope.cancel()


async def test_a_member_that_comes_last_waits_for_one_turn_only(
    autojump_clock: trio.testing.MockClock,
) -> None:
    visitors = Visitors()
    async with trio.open_nursery() as nursery:
        for number in range(64):
            nursery.start_soon(visitors.visit, f"silent-{number}", "10.6.6.6", 100)
        await trio.sleep(0.1)
        start = trio.current_time()
        await visitors.visit("honest", "10.6.6.6", 0.9)
        assert visitors.passed == ["honest"]
        assert trio.current_time() - start <= 2
        nursery.cancel_scope.cancel()


async def test_a_hundred_honest_clients_that_come_at_once_all_pass(
    autojump_clock: trio.testing.MockClock,
) -> None:
    visitors = Visitors(lobby_waiting_max=100)
    async with trio.open_nursery() as nursery:
        for number in range(100):
            nursery.start_soon(visitors.visit, str(number), "10.0.0.2", 0.01)
    assert len(visitors.passed) == 100 and visitors.away == []


async def test_many_hosts_together_have_their_limit_too(
    autojump_clock: trio.testing.MockClock,
) -> None:
    visitors = Visitors(lobby_max=4, lobby_per_host=2)
    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(visitors.visit, str(number), f"10.6.6.{number}", 100)
        await trio.sleep(10)
        assert len(visitors.lobby) == 4 and len(visitors.away) == 16
        nursery.cancel_scope.cancel()


async def test_few_wait_for_a_place_and_the_one_that_waited_longest_goes(
    autojump_clock: trio.testing.MockClock,
) -> None:
    visitors = Visitors(lobby_max=1, lobby_waiting_max=2)
    async with trio.open_nursery() as nursery:
        for number in range(4):
            nursery.start_soon(visitors.visit, str(number), f"10.6.6.{number}", 100)
            await trio.sleep(0.01)
        assert visitors.away == ["10.6.6.1"]
        await trio.sleep(1)
        assert visitors.entered == ["0", "3"]
        nursery.cancel_scope.cancel()


async def test_a_member_that_gives_up_leaves_its_place_to_others(
    autojump_clock: trio.testing.MockClock,
) -> None:
    visitors = Visitors(lobby_max=1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(visitors.visit, "first", "10.0.0.2", 0.5)
        await trio.sleep(0.1)
        with trio.move_on_after(0.1):
            await visitors.visit("impatient", "10.0.0.2", 1)
        await visitors.visit("patient", "10.0.0.2", 1)
    assert visitors.passed == ["first", "patient"] and visitors.away == []


async def test_sixty_four_silent_connections_do_not_lock_the_port() -> None:
    async with exported(lobby_patience=0.5) as (_, port):

        def crowd(stack: ExitStack) -> None:
            for _ in range(64):
                stack.enter_context(socket.create_connection(port.address, 5))

        with ExitStack() as stack:
            await in_thread(crowd, stack)
            while True:  # on a machine that is busy for a second another try may be necessary
                with suppress(NoMember):
                    async with client_of(port) as client:
                        assert (await in_thread(client.describe)).kind == "tree"
                        break
            assert port.counters["silent"] > 0


async def test_clients_that_know_the_token_have_places_of_their_own() -> None:
    async with (
        exported(connections_max=3, lobby_max=1, lobby_per_host=1) as (_, port),
        client_of(port),
        client_of(port),
        client_of(port) as client,
    ):
        assert (await in_thread(client.describe)).kind == "tree"


async def test_the_member_counts_and_names_refused_clients() -> None:
    def say_nothing(address: tuple[str, int]) -> bytes:
        with socket.create_connection(address, 5) as one:
            while data := one.recv(1000):
                last = data
            return last

    async with open_tree_cache(
        "replicated.xml", cluster="doors", transport=MemoryNetwork()
    ) as cache:
        async with open_export(cache, token=TOKEN) as port:
            with pytest.raises(WrongToken):
                await in_thread(ExportClient, port.address, "a token of somebody else")
        # On a busy machine an honest hello may take longer than this.
        short = ExportLimits(hello_timeout=0.2)
        async with open_export(cache, token=TOKEN, limits=short) as port:
            assert b"challenge" in await in_thread(say_nothing, port.address)
        channel = cache._replication.channel
        assert channel is not None
        counted = channel.statistics().turned_away
        assert counted["EXPORT.wrong_token"] == counted["EXPORT.late"] == 1
