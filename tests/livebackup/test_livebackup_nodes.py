"""Live node and backups on a network in memory, in virtual time."""

from __future__ import annotations

import random
from typing import Any

import pytest
import trio
from livebackup_group import (
    Queue,
    add,
    bind,
    draw,
    expire,
    livebackup_group,
    move,
    page,
    put,
    put_all,
    put_both,
    require,
    send,
    slow,
    slow_put,
    states,
)

from jgroups_py.errors import ConfigError
from jgroups_py.livebackup import (
    BadOperation,
    Every,
    LiveBackupSettings,
    NotLive,
    OutcomeUnknown,
    Stateful,
    Work,
    open_livebackup,
)

MODES = pytest.mark.parametrize("mode", ["parallel", "one_at_a_time"])


@MODES
@pytest.mark.seed("P1", "P3", "P5")
async def test_sessions_queues_and_a_post_office_are_the_same_on_all_nodes(
    mode: str, autojump_clock: Any
) -> None:
    async with livebackup_group(mode=mode) as group:
        live, *_ = await group.start("ABC")
        await live.run(bind, "news", "q1", ["s2"])
        await live.run(bind, "news", "q2", [])
        assert [await live.run(send, "s1", "news", f"m{n}") for n in range(3)] == [1, 2, 3]
        found = await group.equal()
        assert (
            found["Session/s2"]["delivered"] == found["Queue/q2"]["messages"] == ["m0", "m1", "m2"]
        )
        assert found["Session/s1"]["sent_count"] == 3


@pytest.mark.seed("P1")
async def test_the_reference_runs_on_the_backup_then_on_the_live_node_then_answers(
    autojump_clock: Any,
) -> None:
    async with livebackup_group(mode="one_at_a_time") as group:
        live, backup = await group.start("AB")
        answered: list[int] = []

        async def client() -> None:
            answered.append(await live.run(slow_put, "q", "m", 1.0))

        def seen(node: Any) -> list[Any]:
            return [message for queue in states(node).values() for message in queue["messages"]]

        async with trio.open_nursery() as nursery:
            nursery.start_soon(client)
            await trio.sleep(0.5)
            assert (seen(backup), seen(live), answered) == ([], [], [])
            await trio.sleep(1.0)
            assert (seen(backup), seen(live), answered) == (["m"], [], [])
            await trio.sleep(1.0)
            assert (seen(backup), seen(live), answered) == (["m"], ["m"], [1])


@pytest.mark.seed("P9")
async def test_a_client_is_answered_after_the_backup_has_done_the_operation(
    autojump_clock: Any,
) -> None:
    async with livebackup_group() as group:
        live, backup = await group.start("AB")
        began = trio.current_time()
        assert await live.run(slow_put, "q", "m", 1.0) == 1
        assert trio.current_time() - began >= 2.0, "once on each side"
        assert states(backup)["Queue/q"]["messages"] == ["m"]


@pytest.mark.seed("P8")
async def test_the_numbers_are_collected_in_the_context_of_each_task(autojump_clock: Any) -> None:
    async with livebackup_group() as group:
        live, backup = await group.start("AB")
        async with trio.open_nursery() as nursery:
            for n in range(20):
                nursery.start_soon(live.run, put_both, f"q{n % 3}", f"q{n % 4}", n, 0.1 * (n % 5))
        await group.equal()
        assert backup.counts["diverged"] == 0 and backup.counts["operations_confirmed"] == 20


@pytest.mark.seed("P12")
async def test_independent_operations_run_at_the_same_time_on_the_backup(
    autojump_clock: Any,
) -> None:
    took = {}
    for mode in ("parallel", "one_at_a_time"):
        async with livebackup_group(mode=mode) as group:
            live, _ = await group.start("AB")
            began = trio.current_time()
            async with trio.open_nursery() as nursery:
                for n in range(8):
                    nursery.start_soon(live.run, slow_put, f"q{n}", n, 1.0)
            took[mode] = trio.current_time() - began
    assert took["parallel"] < 3 and took["one_at_a_time"] >= 16


@pytest.mark.seed("P2", "P11")
async def test_changes_of_one_queue_stay_in_the_live_order(autojump_clock: Any) -> None:
    async with livebackup_group() as group:
        live, _ = await group.start("AB")
        chance = random.Random(7)
        async with trio.open_nursery() as nursery:
            for n in range(30):
                nursery.start_soon(live.run, put_both, "a", "b", n, chance.random())
                nursery.start_soon(live.run, put_both, "b", "a", -n, chance.random())
        found = await group.equal()
        assert len(found["Queue/a"]["messages"]) == len(found["Queue/b"]["messages"]) == 60


@pytest.mark.seed("P4", "P14")
async def test_timers_of_the_live_node_are_replicated_and_go_on_after_a_take_over(
    autojump_clock: Any,
) -> None:
    timers = (Every(5.0, expire, ("q",)), Every(7.0, page, ("q", 10)))
    async with livebackup_group(timers=timers) as group:
        live, _ = await group.start("AB")
        await live.run(put, "q", "old 1")
        await live.run(put, "q", "new")
        await trio.sleep(8)
        found = await group.equal()
        assert found["Queue/q"]["messages"][:2] == ["new", "paged 1"]
        assert len(found["Queue/q"]["messages"]) == 11
        group.kill(live.channel.name)
        await group.settled()
        await group.live.run(put, "q", "old 2")
        await trio.sleep(10)
        messages = states(group.live)["Queue/q"]["messages"]
        assert "old 2" not in messages and len(messages) > 11


async def test_time_and_chance_of_an_operation_are_the_same_on_the_backup(
    autojump_clock: Any,
) -> None:
    async with livebackup_group() as group:
        live, _ = await group.start("AB")
        values = [await live.run(draw, "q") for _ in range(5)]
        assert (await group.equal())["Queue/q"]["messages"] == values
        assert len(set(values)) == 5


async def test_an_error_of_an_operation_comes_out_when_it_is_confirmed_and_its_changes_stay(
    autojump_clock: Any,
) -> None:
    async with livebackup_group() as group:
        live, backup = await group.start("AB")
        with pytest.raises(LookupError, match="a is empty"):
            await live.run(move, "a", "b")
        await live.run(put, "a", 1)
        assert await live.run(move, "a", "b") == 1
        await group.equal()
        assert backup.counts["diverged"] == 0 and backup.counts["operations_confirmed"] == 3


@pytest.mark.seed("P3")
async def test_a_kind_whose_work_is_done_in_threads(thread_clock: Any) -> None:
    async with livebackup_group() as group:
        live, _ = await group.start("AB")
        for n in range(5):
            await live.run(add, f"c{n % 2}", n)
        found = await group.equal()
        assert (found["Counter/c0"], found["Counter/c1"]) == ({"value": 6}, {"value": 4})


@MODES
async def test_a_backup_joins_under_load(mode: str, autojump_clock: Any) -> None:
    async with livebackup_group(mode=mode) as group:
        live, _ = await group.start("AB")

        async def load(client: int) -> None:
            for n in range(40):
                await live.run(put_both, f"q{client}", f"q{n % 5}", f"{client}-{n}", 0.01)

        async with trio.open_nursery() as nursery:
            for client in range(5):
                nursery.start_soon(load, client)
            await trio.sleep(0.1)
            await group.start("C")
        found = await group.equal()
        assert sum(len(queue["messages"]) for queue in found.values()) == 400
        assert live.counts["snapshots_given"] == 2
        assert group.nodes["C"].counts["operations_confirmed"] > 0, "it confirmed the tail"


@MODES
@pytest.mark.seed("P13")
@pytest.mark.parametrize("seed", range(4))
async def test_answered_operations_are_there_and_none_is_half_done_after_the_loss_of_the_live_node(
    mode: str, seed: int, autojump_clock: Any
) -> None:
    chance = random.Random(seed)
    async with livebackup_group(mode=mode) as group:
        await group.start("ABC")
        answered: set[str] = set()
        unknown: set[str] = set()

        async def client(number: int, live: Any, act: int) -> None:
            for n in range(30):
                message = f"{act}-{number}-{n}"
                first, second = f"q{chance.randrange(4)}", f"q{chance.randrange(4)}"
                try:
                    unknown.add(message)
                    await live.run(put_both, first, second, message, chance.random() / 50)
                except (NotLive, OutcomeUnknown):
                    return
                answered.add(message)

        for act in range(2):
            live = group.live
            with trio.move_on_after(0.5 + chance.random()):
                async with trio.open_nursery() as nursery:
                    for number in range(6):
                        nursery.start_soon(client, number, live, act)
                    await trio.sleep(0.1 + chance.random() / 4)
                    group.kill(live.channel.name)
                    nursery.cancel_scope.cancel()
            await group.settled()
        found = await group.equal()
        counts: dict[str, int] = {}
        for state in found.values():
            for message in state["messages"]:
                counts[message] = counts.get(message, 0) + 1
        assert answered and answered <= set(counts) <= unknown
        assert set(counts.values()) == {2}, "half an operation is visible"


@pytest.mark.seed("P13")
async def test_half_done_operations_are_reversed_when_the_live_node_is_lost(
    autojump_clock: Any,
) -> None:
    """The first operation changed "a" and never ends. The second one took a message from "a" and waits for its turn
    at "a". The third operation is complete and has seen the second one's change."""
    async with livebackup_group() as group:
        live, backup = await group.start("AB")
        for queue in ("a", "b"):
            await live.run(put, queue, "kept")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(live.run, put_both, "a", "c", "first", 60.0)
            await trio.sleep(0.1)
            nursery.start_soon(live.run, move, "b", "a")
            await trio.sleep(0.1)
            nursery.start_soon(live.run, put, "b", "third")
            await trio.sleep(0.1)
            assert backup.statistics()["unconfirmed"] == 2
            assert states(backup)["Queue/b"]["messages"] == ["third"]
            group.kill(live.channel.name)
            nursery.cancel_scope.cancel()
        await group.settled()
        kept = {"messages": ["kept"], "consumers": []}
        assert states(backup) == {"Queue/a": kept, "Queue/b": kept}
        assert backup.counts["operations_reversed"] == 2
        assert await backup.run(put, "a", "after") == 2


async def empty_into(work: Work, queue: str, messages: list[Any]) -> None:
    while messages:
        await work.get(Queue, queue).put(messages.pop())


async def test_an_operation_that_changes_its_arguments_does_the_same_on_the_backup(
    autojump_clock: Any,
) -> None:
    async with livebackup_group() as group:
        group.also(operations=(empty_into,))
        live, backup = await group.start("AB")
        await live.run(empty_into, "q", [1, 2, 3])
        assert (await group.equal())["Queue/q"]["messages"] == [3, 2, 1]
        assert backup.put_aside == ()


async def test_a_live_node_does_not_hear_its_own_operations(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with livebackup_group() as group:
        live, backup = await group.start("AB")
        heard: list[str] = []
        for node in (live, backup):
            usual = node._on_operations

            def note(*given: Any, usual: Any = usual, node: Any = node, **more: Any) -> None:
                heard.append(node.role)
                usual(*given, **more)

            monkeypatch.setattr(node, "_on_operations", note)
        await live.run(put, "q", 1)
        await group.equal()
        assert heard == ["backup"]


async def test_a_joiner_keeps_the_operations_that_come_before_its_snapshot(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with livebackup_group() as group:
        (live,) = await group.start("A")
        await live.run(put, "q", 0)
        usual = live.channel.send

        async def slow_to_one(payload: Any, to: Any = None, **options: Any) -> None:
            if to is not None:
                await trio.sleep(2)
            await usual(payload, to, **options)

        monkeypatch.setattr(live.channel, "send", slow_to_one)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(group.start, "B")
            for n in range(1, 30):
                await live.run(put, "q", n)
                await trio.sleep(0.3)
        found = await group.equal()
        assert found["Queue/q"]["messages"] == list(range(30))
        assert live.counts["snapshots_given"] == 1
        assert group.nodes["B"].counts["operations_confirmed"] > 0


async def test_a_backup_on_which_an_operation_does_something_else_begins_anew(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: Any
) -> None:
    async with livebackup_group() as group:
        live, backup = await group.start("AB")
        await live.run(put, "a", 1)
        backup.space.object("Queue/a").state.load({"messages": [], "consumers": []})
        await live.run(move, "a", "b")  # its method finds no object on the backup
        found = await group.equal()
        assert found["Queue/b"]["messages"] == [1]
        assert backup.counts["diverged"] == 1 and backup.counts["snapshots_asked"] == 2
        assert backup.role == "backup"


async def test_a_backup_on_which_an_operation_raises_another_error_begins_anew(
    autojump_clock: Any,
) -> None:
    async with livebackup_group() as group:
        live, backup = await group.start("AB")
        await live.run(put, "a", 1)
        backup.space.object("Queue/a").state.load({"messages": [], "consumers": []})
        await live.run(require, "a")
        assert (await group.equal())["Queue/a"]["messages"] == [1]
        assert backup.counts["diverged"] == 1


async def test_changes_of_one_object_never_overlap(autojump_clock: Any) -> None:
    async with livebackup_group() as group:
        live, _ = await group.start("AB")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(live.run, slow_put, "a", "slow", 5.0)
            await trio.sleep(0.1)
            nursery.start_soon(live.run, slow_put, "a", "quick", 0.1)
        assert (await group.equal())["Queue/a"]["messages"] == ["slow", "quick"]


async def test_an_operation_that_only_runs_on_is_kept_at_a_take_over(autojump_clock: Any) -> None:
    async with livebackup_group() as group:
        live, backup = await group.start("AB")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(live.run, slow_put, "a", 1, 1.0)
            await trio.sleep(1.5)
            group.kill(live.channel.name)
            nursery.cancel_scope.cancel()
        await group.settled()
        assert states(backup)["Queue/a"]["messages"] == [1]
        assert backup.counts["operations_reversed"] == 0


@pytest.mark.parametrize(("confirm", "slowest"), [("all", 3.0), ("quorum", 2.0), ("first", 1.0)])
async def test_an_answer_waits_for_the_backups_that_confirm_names(
    confirm: str, slowest: float, autojump_clock: Any
) -> None:
    async with livebackup_group(confirm=confirm) as group:
        live, *backups = await group.start("ABCD")
        for number, backup in enumerate(backups, start=1):
            slow(backup, float(number))
        began = trio.current_time()
        await live.run(put, "q", 1)
        assert slowest <= trio.current_time() - began < slowest + 0.9


async def test_a_live_node_without_enough_backups_answers_nobody(autojump_clock: Any) -> None:
    async with livebackup_group(backups_min=1) as group:
        (live,) = await group.start("A")
        with trio.move_on_after(30) as waited:
            await live.run(put, "q", 1)
        assert waited.cancelled_caught
        await group.start("B")
        assert await live.run(put, "q", 2) == 2
        assert (await group.equal())["Queue/q"]["messages"] == [1, 2]


@pytest.mark.parametrize(
    "limits", [{"lag_operations": 5}, {"lag_bytes": 300}, {"lag_seconds": 0.5}]
)
async def test_a_backup_that_is_too_far_behind_slows_the_live_node(
    limits: dict[str, Any], autojump_clock: Any
) -> None:
    async with livebackup_group(confirm="first", lag_aim=0.0, **limits) as group:
        live, _, second = await group.start("ABC")
        slow(second, 1.0)
        most = 0
        for n in range(20):
            await live.run(put, "q", n)
            most = max(most, int(live.statistics()["lag_operations"]))
            await trio.sleep(0.05)
        assert live.statistics()["slowed"] > 0 and most <= 12
        await group.equal()


@pytest.mark.parametrize("confirm", ["all", "first"])
async def test_an_operation_that_never_ends_does_not_stop_clients_of_other_objects(
    confirm: Any, autojump_clock: Any
) -> None:
    async with livebackup_group(confirm=confirm, lag_seconds=10.0) as group:
        live, _ = await group.start("AB")
        with trio.move_on_after(1):
            await live.run(put_both, "a", "b", 1, 1e9)
        with trio.move_on_after(1) as waited:
            await live.run(put, "a", 2)  # the backup needs the first change of "a" for this
        assert waited.cancelled_caught
        for n in range(1, 6):
            await trio.sleep(10)
            with trio.fail_after(1):
                assert await live.run(put, "c", n) == n
        assert live.statistics()["lag_seconds"] == live.statistics()["slowed"] == 0


async def test_a_caller_that_gives_up_does_not_end_the_operation(autojump_clock: Any) -> None:
    async with livebackup_group() as group:
        live, _ = await group.start("AB")
        with trio.move_on_after(0.1):
            await live.run(put_both, "a", "b", 1, 1.0)
        await trio.sleep(5)
        found = await group.equal()
        assert found["Queue/a"]["messages"] == found["Queue/b"]["messages"] == [1]


async def test_a_backup_runs_nothing_and_names_the_live_node(autojump_clock: Any) -> None:
    async with livebackup_group() as group:
        live, backup = await group.start("AB")
        with pytest.raises(NotLive, match="backup, not live") as refused:
            await backup.run(put, "a", 1)
        assert refused.value.live == live.channel.address == backup.live


async def test_bad_calls_are_told_and_change_nothing(autojump_clock: Any) -> None:
    async def stranger(work: Work) -> None:
        pass

    async with livebackup_group() as group:
        live, _ = await group.start("AB")
        with pytest.raises(BadOperation, match="was not given"):
            await live.run(stranger)
        with pytest.raises(TypeError):
            await live.run(put, "a", object())
        assert await group.equal() == {}


@pytest.mark.parametrize(
    ("kinds", "operations", "problem"),
    [
        ([int], [], "a kind is a class that derives from Stateful, got"),
        ([Queue, type("Queue", (Stateful,), {})], [], "two kinds are named Queue"),
        ([], [len], "an operation is an async function, got"),
        ([], [put, put], "two operations are named put"),
    ],
)
async def test_a_wrong_kind_or_operation_is_refused(
    kinds: list[Any], operations: list[Any], problem: str, autojump_clock: Any
) -> None:
    with pytest.raises(TypeError, match=problem):
        async with open_livebackup("sim.xml", cluster="test", kinds=kinds, operations=operations):
            pass  # pragma: no cover


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("confirm", "most"),
        ("mode", "fast"),
        ("backups_min", -1),
        ("quorum", -1),
        ("lag_operations", 0),
        ("lag_bytes", 0),
        ("lag_seconds", 0),
        ("abandon_timeout", -1),
        ("snapshot_wait", 0),
    ],
)
def test_settings_that_cannot_be_are_refused(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"{name} must be"):
        LiveBackupSettings(**{name: value})
    with pytest.raises(ConfigError, match="interval must be more than 0"):
        Every(0, put)


@MODES
async def test_an_operation_with_too_many_changes_fails_on_both_sides_alike(
    mode: str, autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jgroups_py.livebackup.work.RECORD_MAX", 5)
    async with livebackup_group(mode=mode) as group:
        live, backup = await group.start("AB")
        await live.run(put_all, "q", 5)
        with pytest.raises(BadOperation, match="put_all has made 5 changes, and may make no more"):
            await live.run(put_all, "q", 6)
        found = await group.equal()
        assert found["Queue/q"]["messages"] == [0, 1, 2, 3, 4] * 2
        counts = backup.statistics()
        assert counts["snapshots_asked"] == 1 and not counts.get("diverged")
