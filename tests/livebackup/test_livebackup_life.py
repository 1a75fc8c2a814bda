"""Cut networks, fenced live nodes, returning backups: in virtual time."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
import trio
from livebackup_group import Queue, livebackup_group, put, put_both, slow, slow_put, states

from jgroups_py import ChannelClosed, MemoryNetwork
from jgroups_py.livebackup import (
    LiveBackupNode,
    NotLive,
    OutcomeUnknown,
    Stateful,
    Work,
    open_livebackup,
)
from jgroups_py.livebackup.messages import Confirm, Gone, Lead, Op, Part, Standing, Whole, encode
from jgroups_py.livebackup.tickets import Ticket


async def put_until_refused(node: LiveBackupNode, queue: str, answered: list[int]) -> Exception:
    """Put numbers until an error, and return that error."""
    for n in range(100_000):
        try:
            await node.run(put, queue, n)
        except (NotLive, OutcomeUnknown) as error:
            return error
        answered.append(n)
        await trio.sleep(0.5)
    raise AssertionError("nothing refused it")


async def role_of(node: LiveBackupNode, *roles: Any) -> None:
    with trio.fail_after(300):
        await node.wait_role(*roles)


@pytest.mark.seed("P9", "P13")
async def test_a_live_node_that_is_cut_off_confirms_nothing_and_follows_the_new_one_afterwards(
    autojump_clock: Any,
) -> None:
    async with livebackup_group(quorum=2) as group:
        live, *others = await group.start("ABC")
        answered: list[int] = []
        ended: list[Exception] = []

        async def client() -> None:
            ended.append(await put_until_refused(live, "q", answered))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(client)
            await trio.sleep(5.2)
            group.cut(live.channel.name)
            before = list(answered)
            await role_of(live, "fenced")
        assert isinstance(ended[0], OutcomeUnknown) and answered == before
        with trio.fail_after(300):
            while not any(node.role == "live" for node in others):  # noqa: ASYNC110
                await trio.sleep(0.1)
        (new,) = [node for node in others if node.role == "live"]
        with pytest.raises(NotLive, match="fenced, not live"):
            await live.run(put, "q", -1)
        await new.run(put, "q", 1000)
        group.cut()
        found = await group.equal()
        assert group.live is new
        messages = found["Queue/q"]["messages"]
        assert messages[: len(answered)] == answered and messages[-1] == 1000


async def test_a_caller_whose_operation_still_runs_when_the_live_node_is_fenced_does_not_know(
    autojump_clock: Any,
) -> None:
    async with livebackup_group(quorum=2, abandon_timeout=1.0) as group:
        live, *_ = await group.start("ABC")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(unknown, live)
            await trio.sleep(0.1)
            group.cut(live.channel.name)
            with trio.fail_after(300):
                await live.wait_role("fenced")


async def unknown(live: Any) -> None:
    with pytest.raises(OutcomeUnknown), trio.fail_after(300):
        await live.run(slow_put, "q", 1, 1_000.0)


class Disk(Stateful):
    def make(self) -> None:
        pass

    async def read(self) -> None:
        """Wait in a way that nothing ends, as for a thread."""
        with trio.CancelScope(shield=True):
            await trio.sleep(1_000)

    async def is_busy(self) -> bool:
        await self.read()
        return False


async def read_and_put(work: Work) -> None:
    await work.get(Disk, "d").read()
    await work.get(Queue, "q").put("too late")
    await work.get(Queue, "other").put("too late")


async def make(work: Work) -> None:
    await work.get(Disk, "d").make()


async def remove_later(work: Work) -> None:
    await work.remove(Disk, "d", unless="is_busy")


@pytest.mark.parametrize("operation", [read_and_put, remove_later])
async def test_an_operation_that_outlives_its_term_changes_no_object_of_the_next_one(
    operation: Any, autojump_clock: Any
) -> None:
    async def call(live: LiveBackupNode) -> None:
        with pytest.raises(OutcomeUnknown):
            await live.run(operation)

    async with livebackup_group(quorum=2, abandon_timeout=1.0) as group:
        group.also(kinds=(Disk,), operations=(read_and_put, remove_later, make))
        live, *others = await group.start("ABC")
        await live.run(put, "q", "before")
        await live.run(make)
        async with trio.open_nursery() as nursery:
            began = trio.current_time()
            nursery.start_soon(call, live)
            await trio.sleep(0.1)
            group.cut(live.channel.name)
            with trio.fail_after(300):
                await live.wait_role("fenced")
                while not any(node.role == "live" for node in others):  # noqa: ASYNC110
                    await trio.sleep(0.1)
            group.cut()
            found = await group.equal()
            assert live.role == "backup" and trio.current_time() < began + 1_000
        assert trio.current_time() >= began + 1_000
        assert await group.equal() == found
        assert found["Queue/q"]["messages"] == ["before"] and "Disk/d" in found
        assert not any(node.counts["operations_of_others"] for node in group.nodes.values())


async def test_one_of_two_live_nodes_gives_way_when_a_cut_network_heals(
    autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with livebackup_group() as group:
        live, *others = await group.start("ABC")
        await live.run(put, "q", "before")
        group.cut(live.channel.name)
        with trio.fail_after(300):
            while not any(node.role == "live" for node in others) or live.backups:  # noqa: ASYNC110
                await trio.sleep(0.1)
        (new,) = [node for node in others if node.role == "live"]
        await live.run(put, "q", "old side")
        await new.run(put, "q", "new side")
        group.cut()
        found = await group.equal()
        assert group.live is new, "its term is newer"
        assert found["Queue/q"]["messages"] == ["before", "new side"]
        assert live.counts["gave_way"] == 1
        assert "gives way to" in caplog.text and caplog.records[0].levelno >= logging.WARNING


async def test_a_backup_that_was_cut_off_comes_back_with_a_snapshot(autojump_clock: Any) -> None:
    async with livebackup_group(quorum=2) as group:
        live, cut_off, _ = await group.start("ABC")
        await live.run(put, "q", 0)
        group.cut(cut_off.channel.name)
        await role_of(cut_off, "fenced")
        for n in range(1, 20):
            await live.run(put, "q", n)
        group.cut()
        found = await group.equal()
        assert found["Queue/q"]["messages"] == list(range(20)) and group.live is live
        assert cut_off.counts["snapshots_asked"] == 2


async def test_the_live_node_goes_on_without_a_backup_that_is_lost(autojump_clock: Any) -> None:
    async with livebackup_group() as group:
        live, lost, _ = await group.start("ABC")
        group.kill(lost.channel.name)
        with trio.fail_after(100):
            assert await live.run(put, "q", 1) == 1
        await group.settled()
        assert live.counts["terms_ended"] == 0 and len(live.backups) == 1


async def test_a_new_live_node_answers_nobody_before_its_backups_follow_it(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with livebackup_group() as group:
        live, *others = await group.start("ABC")
        for node in others:  # their messages to the new live node are slow

            def slowly(usual: Any) -> Any:
                async def send(payload: Any, to: Any = None, **options: Any) -> None:
                    if to is not None:
                        await trio.sleep(5)
                    await usual(payload, to, **options)

                return send

            monkeypatch.setattr(node.channel, "send", slowly(node.channel.send))
        group.kill(live.channel.name)
        with trio.fail_after(300):
            while not any(node.role == "live" for node in others):  # noqa: ASYNC110
                await trio.sleep(0.01)
        (new,) = [node for node in others if node.role == "live"]
        assert new.backups == ()
        await new.run(put, "q", 1)
        (backup,) = [node for node in others if node is not new]
        assert states(backup)["Queue/q"]["messages"] == [1]


async def test_take_overs_go_on_to_the_last_node(autojump_clock: Any) -> None:
    async with livebackup_group() as group:
        await group.start("ABCD")
        for n in range(4):
            live = group.live
            assert await live.run(put_both, "a", "b", n, 0.01) == [n + 1, n + 1]
            if n < 3:
                group.kill(live.channel.name)
                await group.settled()
        (last,) = group.nodes.values()
        assert states(last)["Queue/a"]["messages"] == [0, 1, 2, 3] and last.term == 4
        assert last.counts["state_lost"] == 0


async def test_a_backup_waits_no_longer_than_it_may_for_an_operation_that_hangs(
    autojump_clock: Any,
) -> None:
    async with livebackup_group(abandon_timeout=2.0, confirm="all") as group:
        live, backup = await group.start("AB")
        await live.run(put, "a", 1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(live.run, slow_put, "a", 2, 10.0)
            await trio.sleep(12)  # done on the live node, still running on the backup
            assert backup.statistics()["unconfirmed"] == 1
            began = trio.current_time()
            group.kill(live.channel.name)
            nursery.cancel_scope.cancel()
        await group.settled()
        assert 2.0 <= trio.current_time() - began < 6.0
        assert states(backup)["Queue/a"]["messages"] == [1]
        assert backup.counts["operations_reversed"] == 1


async def test_an_operation_that_runs_too_long_for_a_snapshot_keeps_a_joiner_waiting(
    autojump_clock: Any,
) -> None:
    async with livebackup_group(snapshot_wait=3.0) as group:
        (live,) = await group.start("A")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(live.run, slow_put, "a", 1, 10.0)
            await trio.sleep(0.1)
            await group.start("B")
        assert live.counts["snapshots_too_slow"] >= 2
        assert (await group.equal())["Queue/a"]["messages"] == [1]


async def test_an_operation_that_never_ends_keeps_a_joiner_waiting_and_no_client(
    autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with livebackup_group(snapshot_wait=3.0) as group:
        (live,) = await group.start("A")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(live.run, slow_put, "a", 1, 20.0)
            await trio.sleep(0.1)
            nursery.start_soon(group.start, "B")
            while not live.counts["snapshots_too_slow"]:
                with trio.fail_after(1.0):
                    await live.run(put, "b", 1)
                await trio.sleep(0.1)
        assert "too long for a snapshot, slow_put has run longest" in caplog.text
        found = await group.equal()
        assert found["Queue/a"]["messages"] == [1] and len(found["Queue/b"]["messages"]) > 20


async def test_a_snapshot_has_no_half_of_an_operation_though_others_go_on_beginning(
    autojump_clock: Any,
) -> None:
    """At any time some operation is half done, until new ones wait."""
    async with livebackup_group(snapshot_wait=3.0) as group:
        (live,) = await group.start("A")

        async def client(number: int) -> None:
            await trio.sleep(number)
            for n in range(20):
                await live.run(put_both, f"a{number}", f"b{number}", n, 2.0)

        async with trio.open_nursery() as nursery:
            for number in range(2):
                nursery.start_soon(client, number)
            await trio.sleep(0.5)
            (joiner,) = await group.start("B")
            assert live.counts["snapshots_too_slow"] == 0
        await group.equal()
        assert joiner.counts["snapshots_asked"] == 1, "it lacked nothing and had nothing twice"


async def test_messages_of_nodes_that_are_not_live_change_nothing(autojump_clock: Any) -> None:
    async with livebackup_group() as group:
        live, backup, stranger = await group.start("ABC")
        await live.run(put, "q", 1)
        for data in forged(live.term):
            await stranger.channel.send(data)
        await stranger.channel.send(b"\xc1 no message")
        await trio.sleep(1)
        assert await live.run(put, "q", 2) == 2
        found = await group.equal()
        assert found == {"Queue/q": {"messages": [1, 2], "consumers": []}}
        assert backup.counts["operations_of_others"] == 3
        assert backup.counts["bad_messages"] == live.counts["bad_messages"] == 1
        assert backup.counts["diverged"] == 0


def forged(term: int) -> list[bytes]:

    return [
        encode(Op(term, 2, "put", ["q", "forged"], 0.0, 1, [Ticket("Queue/q", 2)], "")),
        encode(Op(term + 1, 1, "put", ["q", "forged"], 0.0, 1, [Ticket("Queue/q", 2)], "")),
        encode(Op(term, 1, "nothing", [], 0.0, 1, None, "")),
        encode(Confirm(term, [1, 2, 3])),
        encode(Lead(term - 1, 0, b"")),
        encode(Gone(term)),
        encode(Part(term, 1, [("Queue/q", 9, {"messages": []})])),
        encode(Whole(term, 1, 1, 9)),
        encode(Standing(1, 99, True, True)),
    ]


@pytest.mark.seed("P9", "P13")
@pytest.mark.parametrize("slow_one", [0, 1])
async def test_the_backup_that_confirmed_all_answered_operations_goes_on(
    slow_one: int, autojump_clock: Any
) -> None:
    """With confirm="first" one backup is enough. The other backup hangs, and undoes the operation when the live node is
    lost."""
    async with livebackup_group(confirm="first", abandon_timeout=1.0) as group:
        live, *backups = await group.start("ABC")
        await live.run(put, "q", "before")
        slow(backups[slow_one], 100.0)
        assert await live.run(put, "q", "answered") == 2
        group.kill(live.channel.name)
        found = await group.equal()
        assert found["Queue/q"]["messages"] == ["before", "answered"]
        assert group.live is backups[1 - slow_one]


async def test_a_node_keeps_its_state_when_too_few_for_a_live_node_go_on_without_it(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = trio.Event()

    async def wait(work: Work) -> None:
        await gate.wait()

    async def call(node: LiveBackupNode) -> None:
        with suppress(OutcomeUnknown):
            await node.run(wait)

    async with livebackup_group(quorum=2) as group:
        group.also(operations=[wait])
        live, other = await group.start("AB")
        await live.run(put, "q", "answered")
        term, usual = live.term, live._say
        said: list[Any] = []

        def say(message: Any, *arguments: Any, **options: Any) -> bool:
            said.append(message)
            return usual(message, *arguments, **options)

        monkeypatch.setattr(live, "_say", say)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, live)
            await trio.sleep(1)
            joiner = await group.open("C")
            await trio.sleep(1)
            assert joiner.role == "joining", "an operation runs, so there is no snapshot"
            group.network.deaf = {id(joiner.channel.driver)}
            group.kill(other.channel.name)
            with trio.fail_after(300):
                while len(joiner.channel.view or ()) != 1:  # noqa: ASYNC110
                    await trio.sleep(0.1)
            group.network.deaf.clear()
            with trio.fail_after(300):
                while not live.channel.statistics().excluded:  # noqa: ASYNC110
                    await trio.sleep(0.1)
            gate.set()
        found = await group.equal()
        assert Gone(term) in said
        assert found["Queue/q"]["messages"] == ["answered"]
        assert not any(node.statistics().get("state_lost") for node in group.nodes.values())


async def test_backups_whose_live_node_ended_its_term_unheard_elect_another_one(
    autojump_clock: Any,
) -> None:
    """The live node says Gone while the network is cut, and need not repeat it: nobody else is in its view. The others
    regard it as a member until the merge."""
    gossip = {"pbcast.STABLE.desired_avg_gossip": "2s"}
    async with livebackup_group(quorum=2, attributes=gossip) as group:
        live, *others = await group.start("ABC")
        await live.run(put, "q", "before")
        early = Standing(0, live.term - 1, True, False)
        await others[0]._on_message(live.channel.address, early)
        assert others[0].role == "backup", "the live node said that before its term"
        live.on_view = lambda view: group.cut(live.channel.name)
        group.network.deaf = {id(live.channel.driver)}
        await role_of(live, "fenced")
        await trio.sleep(10)
        assert [node.live for node in others] == [live.channel.address] * 2
        group.cut()
        group.network.deaf.clear()
        live.on_view = None
        assert (await group.equal())["Queue/q"]["messages"] == ["before"]


async def test_callers_of_a_node_that_ends_do_not_wait_for_ever(autojump_clock: Any) -> None:
    told: dict[str, str] = {}

    async def call(live: LiveBackupNode, what: str) -> None:
        with trio.move_on_after(300):
            try:
                await live.run(slow_put, what, 1, 1_000.0)
            except (NotLive, OutcomeUnknown) as error:
                told[what] = type(error).__name__

    async with trio.open_nursery() as nursery:
        async with livebackup_group(lag_operations=1) as group:
            live, _ = await group.start("AB")
            nursery.start_soon(call, live, "runs")
            await trio.sleep(0.1)
            nursery.start_soon(call, live, "waits for the lag")
            await trio.sleep(0.1)
        await call(live, "comes later")
    assert told == {
        "runs": "OutcomeUnknown",
        "waits for the lag": "NotLive",
        "comes later": "NotLive",
    }


async def test_the_caller_is_told_when_the_wall_clock_of_a_user_ends_the_node(
    autojump_clock: Any,
) -> None:
    is_broken = False

    def wall() -> float:
        return 1 / 0 if is_broken else 0.0

    told: list[type] = []

    async def call(live: LiveBackupNode) -> None:
        with trio.move_on_after(300):
            try:
                await live.run(put, "q", 1)
            except (NotLive, OutcomeUnknown) as error:
                told.append(type(error))

    async with trio.open_nursery() as nursery:
        with pytest.RaisesGroup(ZeroDivisionError, flatten_subgroups=True):
            async with open_livebackup(
                "sim.xml",
                cluster="wall",
                kinds=(Queue,),
                operations=(put,),
                transport=MemoryNetwork(),
                wall=wall,
            ) as live:
                await live.wait_role("live")
                is_broken = True
                nursery.start_soon(call, live)
                await trio.sleep(60)
    assert told == [OutcomeUnknown]


async def test_waits_of_tasks_outside_end_with_the_node(autojump_clock: Any) -> None:
    ended: list[str] = []

    async def wait(what: Callable[..., Awaitable[Any]], *arguments: Any) -> None:
        with trio.fail_after(300), pytest.raises(ChannelClosed, match="the node is closed"):
            await what(*arguments)
        ended.append(what.__name__)

    async with trio.open_nursery() as nursery:
        async with livebackup_group() as group:
            (live,) = await group.start("A")
            nursery.start_soon(wait, live.wait_role, "fenced")
            nursery.start_soon(wait, live.wait_backups, 1)
            await trio.sleep(1)
        await wait(live.wait_role, "backup")
    assert sorted(ended) == ["wait_backups", "wait_role", "wait_role"]
