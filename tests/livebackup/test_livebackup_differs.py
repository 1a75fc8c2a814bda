"""Operations that act differently on the backup: checksums find them, and their effects make them equal. In
virtual time."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
import trio
from livebackup_group import Queue, livebackup_group, put, put_both, slow_put, states

from jgroups_py.errors import ConfigError
from jgroups_py.livebackup import (
    BadOperation,
    Every,
    LiveBackupSettings,
    Stateful,
    Work,
    by_effects,
    open_livebackup,
)
from jgroups_py.livebackup.home import ASIDE_MAX
from jgroups_py.livebackup.live import STATE_MAX
from jgroups_py.livebackup.messages import ARGUMENTS_MAX, Op, Part, checksum_of, decode, encode
from jgroups_py.livebackup.snapshots import RETRY_SECONDS
from jgroups_py.livebackup.tickets import Ticket

NUMBERS: Iterator[int] = itertools.count()
"""A foreign service that gives each caller a different answer."""


async def put_foreign(work: Work, queue: str) -> int:
    number = next(NUMBERS)
    await work.get(Queue, queue).put(number)
    return number


@by_effects
async def put_foreign_once(work: Work, queue: str) -> int:
    number = next(NUMBERS)
    await work.get(Queue, queue).put((number, number))
    return number


@by_effects
async def take_or_note(work: Work, queue: str, notes: str) -> None:
    """A method that raises, and the node's reaction."""
    try:
        await work.get(Strict, queue).take()
    except LookupError:
        await work.get(Queue, notes).put(next(NUMBERS))


PLACES = ("here", "there")
_places = itertools.cycle(PLACES)


async def put_somewhere(work: Work) -> None:
    """The live node, which is first, puts here, and the backup there."""
    await work.get(Queue, next(_places)).put(1)


class Strict(Stateful):
    def __init__(self) -> None:
        self.things: list[Any] = []

    def add(self, thing: Any) -> None:
        self.things.append(thing)

    def add_object(self) -> None:
        self.things.append(object())

    def take(self) -> Any:
        if not self.things:
            raise LookupError("empty")
        return self.things.pop()


async def add_thing(work: Work, name: str, thing: Any) -> None:
    await work.get(Strict, name).add(thing)


async def add_object(work: Work, name: str) -> None:
    await work.get(Strict, name).add_object()


@by_effects
async def add_object_by_effects(work: Work, name: str) -> None:
    await work.get(Strict, name).add(object())


async def put_named(work: Work, name: list[Any]) -> None:
    await work.get(Queue, "\ud800" if name == ["half"] else name[0]).put(1)


OPERATIONS = (
    *(put_foreign, put_foreign_once, take_or_note),
    *(add_thing, add_object, add_object_by_effects),
)


def with_these(group: Any) -> Any:
    group.also(kinds=(Strict,), operations=OPERATIONS)
    return group


# --- checksums


async def test_without_checksums_an_operation_that_differs_in_its_values_is_not_found(
    autojump_clock: Any,
) -> None:
    async with livebackup_group() as group:
        live, backup = await with_these(group).start("AB")
        await live.run(put_foreign, "q")
        await group.settled()
        assert backup.counts["diverged"] == 0 and states(live) != states(backup)


async def test_with_checksums_it_is_found_named_and_mended(
    autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with livebackup_group(checksum_every=1) as group:
        live, backup = await with_these(group).start("AB")
        await live.run(put, "q", "before")
        await live.run(put_foreign, "q")
        found = await group.equal()
        assert len(found["Queue/q"]["messages"]) == 2
        assert backup.counts["diverged"] == 1
        assert "operation put_foreign (2): change 1, Queue/q(2) by put: the object is not" in (
            caplog.text
        )


async def test_a_change_of_another_object_than_on_the_live_node_is_found_though_both_exist(
    autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with livebackup_group() as group:
        group.also(operations=(put_somewhere,))
        live, backup = await group.start("AB")
        for queue in PLACES:
            await live.run(put, queue, "before")
        await live.run(put_somewhere)
        found = await group.equal()
        assert [len(found[f"Queue/{queue}"]["messages"]) for queue in PLACES] == [2, 1]
        assert backup.counts["diverged"] == 1
        assert "change 1 is of Queue/there, not Queue/here(2)" in caplog.text


async def test_each_third_change_is_compared_when_asked_for(autojump_clock: Any) -> None:
    async with livebackup_group(checksum_every=3) as group:
        live, backup = await with_these(group).start("AB")
        await live.run(put_foreign, "q")
        await live.run(put, "q", 1)
        await group.settled()
        assert backup.counts["diverged"] == 0
        await live.run(put, "q", 1)
        await group.equal()
        assert backup.counts["diverged"] == 1


async def test_equal_operations_have_equal_checksums(autojump_clock: Any) -> None:
    async with livebackup_group(checksum_every=1) as group:
        live, backup = await with_these(group).start("AB")
        async with trio.open_nursery() as nursery:
            for n in range(20):
                nursery.start_soon(live.run, put_both, f"q{n % 3}", f"q{n % 4}", n, 0.1 * (n % 5))
        await group.equal()
        assert backup.counts["diverged"] == 0 and backup.counts["operations_confirmed"] == 20


def test_a_checksum_is_that_of_the_state_and_its_order() -> None:
    assert checksum_of({"a": [1], "b": {2: b"3"}}) == checksum_of({"a": [1], "b": {2: b"3"}})
    assert checksum_of([1, 2]) != checksum_of([2, 1])
    with pytest.raises(TypeError):
        checksum_of(object())


async def test_a_state_that_is_not_plain_data_is_told_by_the_operation_on_both_sides(
    autojump_clock: Any,
) -> None:
    async with livebackup_group(checksum_every=1) as group:
        live, backup = await with_these(group).start("AB")
        with pytest.raises(BadOperation, match=r"Strict/s: save\(\) returned no plain data"):
            await live.run(add_object, "s")
        await group.settled()
        assert backup.counts["diverged"] == 0 and backup.counts["operations_confirmed"] == 1


async def test_a_snapshot_of_an_object_that_is_not_plain_data_does_not_end_the_live_node(
    autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with livebackup_group() as group:
        (live,) = await with_these(group).start("A")
        await live.run(add_object, "s")
        joiner = await group.open("B")
        await trio.sleep(3 * RETRY_SECONDS)
        assert joiner.role == "joining" and 2 <= live.counts["snapshots_failed"] <= 4
        assert "cannot give a snapshot: Strict/s: save() returned no plain data" in caplog.text
        live.space.object("Strict/s").state.load({"things": []})
        await group.equal()


class Odd(Stateful):
    """An object whose ``save`` returns, or raises, the given value."""

    def __init__(self) -> None:
        self.state: Any = 0

    def become(self, how: str) -> None:
        self.state = ODD.get(how)
        if how == "itself":
            self.state = []
            self.state.append(self.state)

    def save(self) -> Any:
        if isinstance(self.state, Exception):
            raise self.state
        return {"state": self.state}

    def load(self, state: Any) -> None:
        self.state = state["state"]


class Wordless(Exception):
    """Its text cannot be made."""

    def __str__(self) -> str:
        raise ValueError("no text")

    __repr__ = __str__


class WordlessType(Wordless, TypeError):
    pass


ODD: dict[str, Any] = {
    "huge": 2**64,
    "half": "\ud800",
    "raises": KeyError("gone"),
    "raises without a text": Wordless(),
    "raises a type without a text": WordlessType(),
    "large": bytes(STATE_MAX),
}
TOLD = {
    "huge": "Odd/o: save() returned no plain data: can't serialize ints",
    "half": "Odd/o: save() returned no plain data: 'utf-8' codec",
    "itself": "Odd/o: save() returned no plain data: maximum recursion",
    "raises": "Odd/o: save raised KeyError: 'gone'",
    "raises without a text": "Odd/o: save raised Wordless: (its text cannot be made)",
    "raises a type without a text": "Odd/o: save() returned no plain data: (its text cannot be made)",
    "large": "Odd/o: its state has 66,",
}


async def become(work: Work, name: str, how: str) -> None:
    await work.get(Odd, name).become(how)


@pytest.mark.parametrize("how", TOLD)
async def test_a_state_that_cannot_be_sent_ends_no_live_node_when_a_backup_joins(
    autojump_clock: Any, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    """Otherwise each live node in turn would end as long as members join, and all objects would be lost with the
    last one."""
    async with livebackup_group() as group:
        group.also(kinds=(Odd,), operations=(become,))
        (live,) = await group.start("A")
        await live.run(become, "o", how)
        joiner = await group.open("B")
        await trio.sleep(2 * RETRY_SECONDS)
        assert joiner.role == "joining" and live.role == "live"
        assert "cannot give a snapshot: " + TOLD[how] in caplog.text
        await live.run(become, "o", "")  # the object can be repaired
        await group.equal()


async def page_badly(work: Work, name: str) -> None:
    await work.get(Odd, name).become("")
    raise Wordless


async def test_a_timer_whose_operation_raises_goes_on(
    autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with livebackup_group(timers=(Every(1.0, page_badly, ("o",)),)) as group:
        group.also(kinds=(Odd,), operations=(page_badly,))
        live, backup = await group.start("AB")
        await trio.sleep(3.5)
        assert live.counts["timer_failures"] >= 3 and backup.counts["diverged"] == 0
        assert "operation page_badly, started by a timer: Wordless: (its text" in caplog.text


class Picky(Stateful):
    """It takes no state."""

    raised: ClassVar[list[Exception]] = [Wordless()]

    def __init__(self) -> None:
        self.count = 0

    def add(self) -> int:
        self.count += 1
        return self.count

    def load(self, state: Any) -> None:
        if self.raised:
            raise self.raised.pop()
        super().load(state)


async def add_picky(work: Work, name: str) -> int:
    found: int = await work.get(Picky, name).add()
    return found


async def test_a_backup_whose_load_raises_asks_again(
    autojump_clock: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Picky, "raised", [Wordless()])
    async with livebackup_group() as group:
        group.also(kinds=(Picky,), operations=(add_picky,))
        (live,) = await group.start("A")
        await live.run(add_picky, "p")
        await group.open("B")
        await live.wait_backups(1)
        assert "the state of Picky/p was refused: Wordless: (its text" in caplog.text
        await group.equal()


@pytest.mark.parametrize(
    "how",
    ["huge", "half", "itself", "raises", "raises without a text", "raises a type without a text"],
)
async def test_a_state_without_a_checksum_is_told_by_its_operation(
    autojump_clock: Any, how: str
) -> None:
    async with livebackup_group(checksum_every=1) as group:
        group.also(kinds=(Odd,), operations=(become,))
        live, backup = await group.start("AB")
        with pytest.raises(BadOperation, match=re.escape(TOLD[how])):
            await live.run(become, "o", how)
        await group.settled()
        assert backup.counts["diverged"] == 0 and live.role == "live"


async def test_names_and_arguments_that_no_backup_would_take_are_refused_by_the_live_node(
    autojump_clock: Any,
) -> None:
    """A backup that cannot read an operation is cut off, and so is each later snapshot with that name."""
    async with livebackup_group() as group:
        group.also(operations=(put_named,))
        live, backup = await group.start("AB")
        for name, text in (
            (
                "q" * 1_000,
                r"Queue/q+\.\.\.: kind and name of an object have at most 1000 .*, got 1006",
            ),
            (5, "the name of an object must be a str, got 5"),
            ("\ud800", r"the name has half of a character \(a lone surrogate\)"),
        ):
            with pytest.raises(BadOperation, match=text):
                await live.run(put_named, [name] if name != "\ud800" else ["half"])
        for argument in (2**64, "\ud800", bytes(ARGUMENTS_MAX)):
            with pytest.raises(TypeError):
                await live.run(put, "q", argument)
        await live.run(put, "q" * 994, 1)
        await group.equal()
        assert backup.counts["operations_confirmed"] == 4 and backup.counts["snapshots_asked"] == 1


# --- operations that are set aside


async def test_only_the_objects_of_an_operation_that_differs_are_taken_anew(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with livebackup_group(checksum_every=1) as group:
        live, backup = await with_these(group).start("AB")
        for n in range(20):
            await live.run(put, f"q{n}", n)
        sent: list[Any] = []
        usual = live.channel.send

        async def note(payload: Any, to: Any = None, **options: Any) -> None:
            sent.append(decode(payload))
            await usual(payload, to, **options)

        monkeypatch.setattr(live.channel, "send", note)
        kept = backup.space.object("Queue/q1")
        await live.run(put_foreign, "q3")
        await group.equal()
        (part,) = [message for message in sent if isinstance(message, Part)]
        assert [key for key, _, _ in part.objects] == ["Queue/q3"]
        assert backup.space.object("Queue/q1") is kept
        (aside,) = backup.put_aside
        assert (aside.operation, aside.number) == ("put_foreign", 21)
        assert aside.resynchronised == ("Queue/q3",) and "Queue/q3(2) by put" in aside.why
        assert backup.marked == ()
        assert await live.run(put, "q1", 2) == 2, "the numbers of the others go on"
        await group.equal()
        assert backup.counts["diverged"] == 1


async def test_objects_are_marked_while_they_are_taken_anew(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with livebackup_group(checksum_every=1) as group:
        live, backup = await with_these(group).start("AB")
        await live.run(put, "a", 1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(live.run, slow_put, "b", 2, 5.0)
            await trio.sleep(0.1)
            await live.run(put_foreign, "a")
            await trio.sleep(0.1)
            assert backup.marked == ("Queue/a",) and backup.role == "joining"
        await group.equal()
        assert backup.marked == () and backup.counts["snapshots_asked"] == 2


async def test_unconfirmed_operations_are_taken_anew_with_the_one_that_differs(
    autojump_clock: Any,
) -> None:
    """Operation 1 is still under way on the backup when operation 2 differs."""
    async with livebackup_group(checksum_every=1) as group:
        live, backup = await with_these(group).start("AB")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(live.run, slow_put, "slow", 1, 5.0)
            await trio.sleep(5.5)
            nursery.start_soon(live.run, put_foreign, "a")
        found = await group.equal()
        assert found["Queue/slow"]["messages"] == [1]
        assert backup.put_aside[0].resynchronised == ("Queue/a", "Queue/slow")


async def test_a_backup_that_takes_objects_anew_does_not_become_live(autojump_clock: Any) -> None:
    async with livebackup_group(checksum_every=1) as group:
        live, first, second = await with_these(group).start("ABC")
        usual = first.space.object("Queue/a").state
        await live.run(put, "a", 1)
        usual.load({"messages": [], "consumers": []})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(live.run, slow_put, "b", 2, 5.0)
            await trio.sleep(0.1)
            await live.run(put, "a", 2)
            await trio.sleep(0.1)
            assert first.marked == ("Queue/a",) and second.marked == ()
            group.kill(live.channel.name)
            nursery.cancel_scope.cancel()
        found = await group.equal()
        assert group.live is second and found["Queue/a"]["messages"] == [1, 2]


async def test_messages_that_come_while_operations_end_are_in_the_snapshot_after_that(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There may be more than a backup keeps. It drops no objects while operations may change them."""
    async with livebackup_group() as group, trio.open_nursery() as nursery:
        group.also(operations=(put_somewhere,))
        live, backup = await group.start("AB")
        await live.run(put, "old", 1)
        assert backup._following is not None and backup._following.side is not None
        side = backup._following.side
        usual = side.cancel

        async def slow_cancel() -> None:
            await trio.sleep(1)
            await usual()

        monkeypatch.setattr(side, "cancel", slow_cancel)
        monkeypatch.setattr(backup._arrival, "_tail_max", 0)
        nursery.start_soon(live.run, put_somewhere)
        await trio.sleep(0.1)
        nursery.start_soon(live.run, put, "other", 1)
        await trio.sleep(0.1)
        assert backup.role == "joining" and backup.counts["snapshots_asked"] == 1
        assert backup.space.find("Queue/old") is not None
        found = await group.equal()
        assert found["Queue/old"]["messages"] == [1] == found["Queue/other"]["messages"]
        assert len(backup.put_aside) == 1 and backup.counts["snapshots_asked"] == 2


class Disk(Stateful):
    """The second call, that of the backup, takes long, and nothing ends it sooner: as a thread."""

    seconds: ClassVar[Iterator[float]]

    def __init__(self) -> None:
        self.reads = 0

    async def read(self) -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(next(Disk.seconds))
        await trio.lowlevel.checkpoint()
        self.reads += 1


async def read(work: Work) -> None:
    await work.get(Disk, "d").read()


async def test_the_next_term_begins_when_the_operations_of_the_one_before_have_ended(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that ends late would remove the object that it had created, and that came with a snapshot meanwhile."""
    monkeypatch.setattr(Disk, "seconds", iter([0.1, 5.0]), raising=False)
    async with livebackup_group() as group, trio.open_nursery() as nursery:
        group.also(kinds=(Disk,), operations=(put_somewhere, read))
        live, backup = await group.start("AB")
        nursery.start_soon(live.run, read)
        await trio.sleep(0.5)
        nursery.start_soon(live.run, put_somewhere)
        await trio.sleep(0.5)
        assert backup.role == "joining" and live._leading is not None
        live._leading.lead(anew=True)
        await trio.sleep(6)
        found = await group.equal()
        assert found["Disk/d"]["reads"] == 1 and group.live is live


async def test_a_node_remembers_the_newest_operations_that_were_put_aside(
    autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with livebackup_group(checksum_every=1) as group:
        live, backup = await with_these(group).start("AB")
        n = 0
        while backup.counts["diverged"] <= ASIDE_MAX:
            await live.run(put_foreign, f"q{(n := n + 1) % 3}")
        await group.equal()
        assert backup.counts["diverged"] > ASIDE_MAX
        assert len(backup.put_aside) == ASIDE_MAX
        assert caplog.text.count("takes Queue/q") < 5, "one line a minute"


@pytest.mark.parametrize("seed", range(3))
async def test_under_load_with_operations_that_differ_all_nodes_have_the_same_at_the_end(
    seed: int, autojump_clock: Any
) -> None:
    chance = random.Random(seed)
    async with livebackup_group(checksum_every=1) as group:
        live, *backups = await with_these(group).start("ABC")

        async def client() -> None:
            for n in range(30):
                first, second = f"q{chance.randrange(5)}", f"q{chance.randrange(5)}"
                await live.run(put_both, first, second, n, chance.random() / 10)
                if not chance.randrange(6):
                    await live.run(put_foreign, f"q{chance.randrange(5)}")

        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(client)
        found = await group.equal()
        assert sum(len(queue["messages"]) for queue in found.values()) > 240
        assert all(backup.counts["diverged"] > 3 for backup in backups)
        assert all(backup.counts["bad_snapshots"] == 0 for backup in backups)


# --- effects


async def test_an_operation_by_its_effects_runs_once_and_is_the_same_on_all_nodes(
    autojump_clock: Any,
) -> None:
    async with livebackup_group(checksum_every=1) as group:
        live, *backups = await with_these(group).start("ABC")
        before = next(NUMBERS)
        values = [await live.run(put_foreign_once, "q") for _ in range(3)]
        assert values == [before + 1, before + 2, before + 3], "nobody else asked"
        found = await group.equal()
        assert found["Queue/q"]["messages"] == [[value, value] for value in values]
        assert [backup.counts["diverged"] for backup in backups] == [0, 0]


async def test_effects_repeat_methods_that_raise(autojump_clock: Any) -> None:
    async with livebackup_group(checksum_every=1) as group:
        live, backup = await with_these(group).start("AB")
        await live.run(take_or_note, "s", "notes")
        await live.run(add_thing, "s", 1)
        await live.run(take_or_note, "s", "notes")
        found = await group.equal()
        assert found["Strict/s"]["things"] == [] and len(found["Queue/notes"]["messages"]) == 1
        assert backup.counts["diverged"] == 0


async def test_a_method_that_raises_on_one_side_only_is_found_in_effects(
    autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with livebackup_group() as group:
        live, backup = await with_these(group).start("AB")
        await live.run(add_thing, "s", 1)
        backup.space.object("Strict/s").state.load({"things": []})
        await live.run(take_or_note, "s", "notes")
        await group.equal()
        assert backup.counts["diverged"] == 1
        assert "Strict/s(2) by take raised LookupError, on the live node nothing" in caplog.text


async def test_effects_that_are_not_plain_data_are_refused_and_change_nothing(
    autojump_clock: Any,
) -> None:
    async with livebackup_group() as group:
        live, _ = await with_these(group).start("AB")
        with pytest.raises(TypeError):
            await live.run(add_object_by_effects, "s")
        assert await group.equal() == {}


@pytest.mark.parametrize("effects", [[], [("put", [1], ""), ("put", [2], "")]])
async def test_effects_that_do_not_fit_their_list_are_refused(
    effects: list[Any], autojump_clock: Any
) -> None:
    async with livebackup_group() as group:
        live, backup = await with_these(group).start("AB")
        backup._following.side.take(
            Op(live.term, 1, "put", [], 0.0, 1, [Ticket("Queue/q", 1)], "", [], effects)
        )
        assert await group.equal() == {}
        assert backup.counts["diverged"] == 1


def test_effects_and_checksums_travel_with_the_operation() -> None:
    op = Op(
        1, 2, "put", [], 0.0, 1, [Ticket("Queue/q", 1)], "", [(0, b"12345678")], [("put", [1], "")]
    )
    assert decode(encode(op)) == op


async def test_the_reference_refuses_calls_that_need_the_live_node_first(
    autojump_clock: Any,
) -> None:
    with pytest.raises(ConfigError, match="checksum_every must be 0 with mode"):
        LiveBackupSettings(checksum_every=1, mode="one_at_a_time")
    with pytest.raises(ConfigError, match="effects such as put_foreign_once"):
        async with open_livebackup(
            "sim.xml",
            cluster="test",
            kinds=[Queue],
            operations=[put_foreign_once],
            settings=LiveBackupSettings(mode="one_at_a_time"),
        ):
            pass  # pragma: no cover
