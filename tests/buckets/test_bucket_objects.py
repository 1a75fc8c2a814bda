"""Plain Python classes as entries, on a network in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
import trio
from bucket_group import bucket_group
from seats import Flight, Seat, SeatTaken, seats
from seed_instance import PAIRS

from jgroups_py.buckets import (
    BadKey,
    BadPlugin,
    EntryFailed,
    NotSensible,
    Request,
    bucket_of,
    digest_of,
)
from jgroups_py.buckets.objects import Earlier, Kind, Objects, StateCodec, modifies, object_plugin
from jgroups_py.buckets.objects.calls import ObjectCall, call_from, value_of
from jgroups_py.buckets.objects.entry import ObjectEntry, this
from jgroups_py.buckets.plugin import Plugin


@pytest.mark.seed("A5", "A11", "A34", "A40", "A43", "A63")
async def test_methods_of_objects_are_called_from_any_member(autojump_clock: Any) -> None:
    async with bucket_group(plugin=seats()) as group:
        client = await group.start("c", client=True)
        await client.wait_ready()
        for number, node in enumerate(group.nodes.values()):
            mine = Objects(node, Seat)
            assert await mine[f"LH400/{number}A"].book("Ann") == 1
            assert await mine.call(f"LH400/{number}A", Seat.book, passenger="Ann") == 2
            assert await mine[f"LH400/{number}A"].holder() == "Ann"
            assert await mine.call(f"LH400/{number}A", Seat.all, last=1) == ["Ann"]
        flights = Objects(client, Flight)
        await flights["LH400"].set_gate("B7")
        assert await flights["LH400"].where() == "B7"


async def test_a_declared_error_reaches_the_caller_and_changes_nothing(autojump_clock: Any) -> None:
    async with bucket_group(plugin=seats()) as group:
        mine = Objects(group.nodes["n1"], Seat)
        with_errors = mine["LH400/12A"]
        await with_errors.book("Ann")
        with pytest.raises(SeatTaken) as raised:
            await with_errors.book("Bob")
        assert raised.value.args == ("Ann", 1)
        assert await mine.call("LH400/12A", Seat.all) == ["Ann"]
        with pytest.raises(EntryFailed, match="ValueError: as asked"):
            await with_errors.fail()
        assert await with_errors.holder() == "Ann"


@pytest.mark.seed("A13", "A14")
async def test_a_changed_object_is_saved_an_unchanged_one_is_not_and_a_deleted_one_is_gone(
    autojump_clock: Any,
) -> None:
    async with bucket_group(plugin=seats()) as group:
        mine = Objects(group.nodes["n1"], Seat)
        key, is_new, now = await mine["k"].seen()
        assert (key, is_new) == ("k", True) and abs(now - trio.current_time()) < 1
        await mine.call("k", Seat.free)
        bucket = bucket_of(digest_of("Seat/k"), PAIRS)
        states = group.states(bucket)
        saved = msgspec.msgpack.encode({"passenger": None, "history": []})
        assert list(states.values()) == [{"Seat/k": ({"": saved}, 1)}] * 2
        before = sum(n.statistics().get(f"m/{name}.saves", 0) for name, n in group.nodes.items())
        await mine.call("k", Seat.free)
        after = sum(n.statistics().get(f"m/{name}.saves", 0) for name, n in group.nodes.items())
        assert after == before, "nothing has changed, so the slave is not told"
        assert await mine["k"].forget() == "k"
        assert list(group.states(bucket).values()) == [{}, {}]


async def test_arguments_that_do_not_fit_are_refused_before_anything_is_sent(
    autojump_clock: Any,
) -> None:
    async with bucket_group(plugin=seats()) as group:
        node = group.nodes["n1"]
        seat: Any = Objects(node, Seat)["k"]
        for arguments, problem in [
            ((), "missing a required argument: 'passenger'"),
            ((1,), "Seat.book: Expected `str`, got `int`"),
            ((object(),), "type object is unsupported"),
            (("Ann", "Bob"), "too many positional arguments"),
        ]:
            with pytest.raises(TypeError, match=problem):
                await seat.book(*arguments)
        with pytest.raises(AttributeError, match="Seat has no method 'fly', but all, book, "):
            seat.fly()
        with pytest.raises(BadKey):
            await Objects(node, Seat)[""].holder()
        with pytest.raises(BadPlugin, match="no public method of Seat"):
            await Objects(node, Seat).call("k", Flight.where)  # type: ignore[call-overload]
        with pytest.raises(BadPlugin, match="int is no kind of 'seats'"):
            Objects(node, int)
        assert node.router.counts["requests"] == 0


async def test_bytes_that_are_no_call_reach_no_entry(autojump_clock: Any) -> None:
    async with bucket_group(plugin=seats()) as group:
        node = group.nodes["n1"]
        encode = msgspec.msgpack.encode
        for body, key in [
            (b"", "Seat/k"),
            (b"\xc1", "Seat/k"),
            (b"\x91" * 100_000, "Seat/k"),
            (encode(ObjectCall("fly", {})), "Seat/k"),
            (encode(ObjectCall("holder", {})), "Train/k"),
            (encode(ObjectCall("holder", {})), None),
        ]:
            with pytest.raises(NotSensible):
                await node.request(Request(body, key))
        for call, problem in [
            (ObjectCall("book", {"passenger": 7}), "argument 'passenger': Expected `str`"),
            (ObjectCall("book", {"seat": "A"}), "no argument 'seat'"),
            (ObjectCall("book", {}), "missing 1 required positional argument"),
        ]:
            with pytest.raises(EntryFailed, match=problem):
                await node.request(Request(encode(call), "Seat/k"))


def test_classes_that_cannot_be_entries_are_refused() -> None:
    @dataclass
    class NoMethods:
        pass

    class NeedsArguments:
        def __init__(self, size: int) -> None:
            self.size = size

    @dataclass
    class Starred:
        def add(self, *values: int) -> None: ...

    @dataclass
    class Odd:
        def take(self, value: int) -> complex:
            return 0j

    @dataclass
    class OddState:
        value: complex = 0j

        def look(self) -> int:
            return 0

    for cls, problem in [
        (NoMethods, "no public method"),
        (NeedsArguments, "made without arguments"),
        (Starred, r"Starred.add: \*values cannot be called from afar"),
        (Odd, "Odd.take: return cannot be written: complex is no plain type"),
        (OddState, "OddState: its fields cannot be written: complex"),
    ]:
        with pytest.raises(BadPlugin, match=problem):
            object_plugin(cls, application="a")
    with pytest.raises(BadPlugin, match="two kinds are named 'Seat'"):
        object_plugin(Seat, Seat, application="a")
    with pytest.raises(BadPlugin, match="at least one class"):
        object_plugin(application="a")
    with pytest.raises(BadPlugin, match="no /"):
        Kind(Seat, name="a/b")


class Quiet:
    """A bucket that records the calls of an entry."""

    is_new, now = True, 0.0

    def __init__(self, key: str = "K/k") -> None:
        self.key = key
        self.saved: list[bytes] = []
        self.replies: list[Any] = []
        self.deleted = False

    def save_serialised_entry(self, data: bytes, piece: str = "") -> None:
        self.saved.append(data)

    def delete_entry(self) -> None:
        self.deleted = True

    def specify_replies(self, replies: Any) -> None:
        self.replies += replies

    def find_proxy(self, accept: Any = None, /, **attributes: str) -> list[Any]:
        return []


@dataclass
class Sloppy:
    reads: int = 0

    def look(self) -> int:
        self.reads += 1
        return self.reads

    async def wait(self) -> None:
        await trio.lowlevel.checkpoint()

    @modifies
    async def odd(self) -> Any:
        return object()


def run(entry: ObjectEntry[Any], method: str) -> Quiet:
    bucket = Quiet()
    entry.manipulate(bucket, Request(msgspec.msgpack.encode(ObjectCall(method, {})), "K/k"), None)
    return bucket


def test_a_method_that_only_reads_and_changes_its_object_is_found_by_a_check() -> None:
    plugin = object_plugin(Sloppy, application="a", check_reads=True)
    with pytest.raises(BadPlugin, match=r"Sloppy\.look changes its object: mark it @modifies"):
        run(plugin.provider.create_entry("Sloppy/k"), "look")  # type: ignore[arg-type]


def test_a_method_must_not_wait_and_its_value_needs_a_codec() -> None:
    entry = ObjectEntry(Kind(Sloppy), 1, False)
    with pytest.raises(BadPlugin, match="wait waits for something"):
        run(entry, "wait")
    with pytest.raises(TypeError, match="unsupported"):
        run(entry, "odd")


def test_an_answer_of_another_kind_is_an_error_and_no_value() -> None:
    kind = Kind(Seat, errors=(SeatTaken,))
    method = kind.methods["holder"]
    for replies in (
        [],
        [b""],
        [b"\xc1"],
        [msgspec.msgpack.encode(["r", 7])],
        [msgspec.msgpack.encode(["e", "X", []])],
    ):
        with pytest.raises(EntryFailed, match="no answer of this kind"):
            value_of(kind, method, replies)
    assert call_from(b"\x91" * 10_000) is None


@dataclass
class OldSeat:
    name: str = ""

    @modifies
    async def book(self, name: str) -> None:
        self.name = name

    async def who(self) -> str:
        return self.name


@dataclass
class NewSeat:
    """First and last name are apart now."""

    first: str = ""
    last: str = ""

    @modifies
    async def book(self, name: str) -> None:
        self.first, _, self.last = name.partition(" ")

    async def who(self) -> str:
        return f"{self.last}, {self.first}"


def new_seats() -> Plugin:
    def up(old: Any) -> NewSeat:
        first, _, last = old.name.partition(" ")
        return NewSeat(first, last)

    earlier = {73: Earlier(OldSeat, up=up, down=lambda new: OldSeat(f"{new.first} {new.last}"))}
    kind = Kind(NewSeat, name="OldSeat", earlier=earlier)
    return object_plugin(kind, application="seats", version=81, reads=(73,), writes=(73,))


@pytest.mark.seed("A65")
def test_state_of_an_earlier_version_is_read_and_written() -> None:
    entry = new_seats().provider.create_entry("OldSeat/k")
    entry.unserialise(msgspec.msgpack.encode({"name": "Ann Lee"}), 73)
    assert entry.value == NewSeat("Ann", "Lee")  # type: ignore[attr-defined]
    assert msgspec.msgpack.decode(entry.serialise(73)) == {"name": "Ann Lee"}
    assert msgspec.msgpack.decode(entry.serialise(81)) == {"first": "Ann", "last": "Lee"}
    one_way: StateCodec[NewSeat] = StateCodec(NewSeat, {73: Earlier(OldSeat, up=NewSeat)})
    with pytest.raises(ValueError, match="version 73 cannot be written"):
        one_way.encode(NewSeat(), 73)


@dataclass
class Ticket:
    used: bool = False

    @modifies
    def use(self) -> None:
        this().delete()
        if self.used:
            raise SeatTaken("Ann", 1)


def test_an_object_that_is_deleted_by_a_method_that_raises_stays() -> None:
    for used in (False, True):
        bucket = Quiet("Ticket/1")
        entry: ObjectEntry[Ticket] = ObjectEntry(Kind(Ticket, errors=(SeatTaken,)), 1, False)
        entry.value.used = used
        call = msgspec.msgpack.encode(ObjectCall("use", {}))
        entry.manipulate(bucket, Request(call, "Ticket/1"), None)
        assert bucket.deleted is not used
