"""The duties of every driver towards its machine: scripts as data, and one runner.

A harness runs machines named by letters on the tested driver (sockets, memory, simulator):

    harness.put(who, out)           one Out, executed by the next ``wait`` at the latest
    await harness.wait(seconds)     time passes (a stepped harness advances its clock)
    harness.inputs(who)             every In so far, oldest first
    harness.host(who)               the numeric address that machine may bind to

``Local(who, handle)`` stands for the endpoint a Bound or Connected named, ``Took(who, n)`` for the
handle of the n-th accepted connection of ``who``, ``HOST`` for the harness' host, ``Any_`` for
whatever comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

from jgroups_py.stack.ports import (
    Accepted,
    Bind,
    BindFailed,
    Bound,
    Close,
    Closed,
    Connect,
    Connected,
    ConnectFailed,
    Datagram,
    In,
    JoinGroup,
    Out,
    Received,
    SendTo,
    Write,
)


@dataclass(frozen=True)
class _Local:
    who: str
    handle: int


@dataclass(frozen=True)
class _Took:
    who: str
    number: int = 0


class _Host:
    pass


class _Any:
    pass


# Typed Any, because they stand where the real thing will be.
Local: Any = _Local
Took: Any = _Took
HOST: Any = _Host()
Any_: Any = _Any()
GROUP: Any = ("239.255.98.7", 0)


@dataclass(frozen=True)
class Do:
    """Let ``who`` put out ``out``."""

    who: str
    out: Any


@dataclass(frozen=True)
class Expect:
    """Expect this input at ``who``; inputs of other kinds or handles may come before it."""

    who: str
    item: Any
    within: float = 2.0


@dataclass(frozen=True)
class ExpectBytes:
    """The stream of ``handle`` brings exactly these bytes next, cut anywhere. ``within``: the longest time without a new
    byte. A busy machine may need many turns for all of them."""

    who: str
    handle: Any
    data: bytes
    within: float = 5.0


@dataclass(frozen=True)
class Quiet:
    """Expect no input at ``who`` for a while."""

    who: str
    seconds: float = 0.1


Step = Do | Expect | ExpectBytes | Quiet


class Harness(Protocol):
    def host(self, who: str) -> str: ...

    def put(self, who: str, out: Out) -> None: ...

    async def wait(self, seconds: float) -> None: ...

    def inputs(self, who: str) -> Sequence[In]: ...


def bind_udp(who: str, handle: int = 1) -> list[Step]:
    return [Do(who, Bind(handle, "udp", HOST, 0)), Expect(who, Bound(handle, Any_, Any_))]


def connected() -> list[Step]:
    """b listens (1), a connects (2)."""
    return [
        Do("b", Bind(1, "tcp", HOST, 0)),
        Expect("b", Bound(1, Any_, Any_)),
        Do("a", Connect(2, Local("b", 1), 60.0)),
        Expect("a", Connected(2, Any_)),
        Expect("b", Accepted(1, Any_, Local("a", 2))),
    ]


LARGE = bytes(range(256)) * 65536  # 16 MiB: more than the kernel takes at once

SCRIPTS: dict[str, list[Step]] = {
    "a datagram arrives with its source": [
        *bind_udp("a"),
        *bind_udp("b"),
        Do("a", SendTo(1, b"hello", Local("b", 1))),
        Expect("b", Datagram(1, b"hello", Local("a", 1))),
    ],
    "datagrams of one turn keep their order on a good network": [
        *bind_udp("a"),
        *bind_udp("b"),
        *(Do("a", SendTo(1, bytes([n]), Local("b", 1))) for n in range(100)),
        *(Expect("b", Datagram(1, bytes([n]), Any_)) for n in range(100)),
    ],
    "an empty datagram and one of 60 KB arrive whole": [
        *bind_udp("a"),
        *bind_udp("b"),
        Do("a", SendTo(1, b"", Local("b", 1))),
        Expect("b", Datagram(1, b"", Any_)),
        Do("a", SendTo(1, LARGE[:60_000], Local("b", 1))),
        Expect("b", Datagram(1, LARGE[:60_000], Any_)),
    ],
    "a datagram to nobody is lost without a word": [
        *bind_udp("a"),
        *bind_udp("b"),
        Do("b", Close(1)),
        Quiet("b"),
        Do("a", SendTo(1, b"x", Local("b", 1))),
        Quiet("a"),
        Quiet("b"),
    ],
    "a port that is taken": [
        *bind_udp("a"),
        Do("a", Bind(2, "udp", HOST, Local("a", 1))),
        Expect("a", BindFailed(2, Any_)),
    ],
    "the next port of the range is taken instead": [
        *bind_udp("a"),
        Do("a", Bind(2, "udp", HOST, Local("a", 1), 10)),
        Expect("a", Bound(2, Any_, Any_)),
    ],
    "a listener's port that is taken": [
        Do("a", Bind(1, "tcp", HOST, 0)),
        Expect("a", Bound(1, Any_, Any_)),
        Do("a", Bind(2, "tcp", HOST, Local("a", 1))),
        Expect("a", BindFailed(2, Any_)),
    ],
    "members of a group hear it, the sender included, others do not": [
        *bind_udp("a"),
        *bind_udp("c"),
        Do("a", JoinGroup(2, GROUP, HOST)),
        Expect("a", Bound(2, Any_, Any_)),
        Do("b", JoinGroup(2, GROUP, HOST)),
        Expect("b", Bound(2, Any_, Any_)),
        Do("a", SendTo(1, b"all", GROUP)),
        Expect("a", Datagram(2, b"all", Local("a", 1))),
        Expect("b", Datagram(2, b"all", Local("a", 1))),
        Quiet("c"),
    ],
    "who left a group hears it no more": [
        *bind_udp("a"),
        Do("b", JoinGroup(2, GROUP, HOST)),
        Expect("b", Bound(2, Any_, Any_)),
        Do("b", Close(2)),
        Quiet("b"),
        Do("a", SendTo(1, b"all", GROUP)),
        Quiet("b"),
    ],
    "a group must be a multicast address": [
        Do("a", JoinGroup(2, ("10.1.2.3", 45000), HOST)),
        Expect("a", BindFailed(2, Any_)),
    ],
    "bytes go both ways, in order": [
        *connected(),
        Do("a", Write(2, b"one ")),
        Do("a", Write(2, b"two")),
        ExpectBytes("b", Took("b"), b"one two"),
        Do("b", Write(Took("b"), b"three")),
        ExpectBytes("a", 2, b"three"),
    ],
    "more than the kernel takes arrives whole": [
        *connected(),
        Do("a", Write(2, LARGE)),
        Do("a", Write(2, b"end")),
        ExpectBytes("b", Took("b"), LARGE + b"end"),
    ],
    "nobody listens": [
        Do("b", Bind(1, "tcp", HOST, 0)),
        Expect("b", Bound(1, Any_, Any_)),
        Do("b", Close(1)),
        Quiet("b"),
        Do("a", Connect(2, Local("b", 1), 60.0)),
        Expect("a", ConnectFailed(2, True, Any_)),
    ],
    "what was written before closing arrives, then the end": [
        *connected(),
        Do("a", Write(2, LARGE)),
        Do("a", Close(2)),
        ExpectBytes("b", Took("b"), LARGE),
        Expect("b", Closed(Took("b"), False)),
        Quiet("a"),
    ],
    "an aborted connection is reset": [
        *connected(),
        Do("a", Close(2, abort=True)),
        Expect("b", Closed(Took("b"), True)),
        Quiet("a"),
    ],
    "the accepting side may close": [
        *connected(),
        Do("b", Close(Took("b"))),
        Expect("a", Closed(2, False)),
        Quiet("b"),
    ],
    "a closed listener keeps its connections": [
        *connected(),
        Do("b", Close(1)),
        Do("a", Write(2, b"still here")),
        ExpectBytes("b", Took("b"), b"still here"),
    ],
    "writing to what is gone is no error": [
        *connected(),
        Do("b", Close(Took("b"))),
        Expect("a", Closed(2, False)),
        Do("a", Write(2, b"x")),
        Do("a", Close(2)),
        Quiet("a"),
    ],
    "two connections to one listener are two": [
        *connected(),
        Do("c", Connect(5, Local("b", 1), 60.0)),
        Expect("c", Connected(5, Any_)),
        Expect("b", Accepted(1, Any_, Local("c", 5))),
        Do("c", Write(5, b"c")),
        Do("a", Write(2, b"a")),
        ExpectBytes("b", Took("b", 0), b"a"),
        ExpectBytes("b", Took("b", 1), b"c"),
    ],
}

STEP = 0.005


async def run_script(steps: Sequence[Step], harness: Harness, group_port: int = 45777) -> None:
    """Play a script. AssertionError: an expectation is not met."""
    await _Runner(harness, ("239.255.98.7", group_port)).run(steps)


class _Runner:
    def __init__(self, harness: Harness, group: tuple[str, int]) -> None:
        self.harness = harness
        self.group = group
        self.used: dict[str, set[int]] = {}

    async def run(self, steps: Sequence[Step]) -> None:
        for step in steps:
            match step:
                case Do(who, out):
                    self.harness.put(who, self.filled(who, out))
                case Expect(who, item, within):
                    await self.until(lambda w=who, i=item: self.heard(w, i), within, step)
                case ExpectBytes(who, handle, data, within):
                    await self.read(who, self.value(handle), data, within)
                case Quiet(who, seconds):
                    await self.harness.wait(seconds)
                    new = [
                        i for n, i in enumerate(self.harness.inputs(who)) if n not in self.seen(who)
                    ]
                    new = [i for i in new if type(i).__name__ != "Writable"]
                    assert not new, f"{who} should hear nothing, but heard {new}"

    def seen(self, who: str) -> set[int]:
        return self.used.setdefault(who, set())

    async def until(self, is_true: Any, within: float, step: Step) -> None:
        waited = 0.0
        while not is_true():
            assert waited < within, f"{step} did not come; {self.harness.inputs(step.who)}"
            await self.harness.wait(STEP)
            waited += STEP

    def heard(self, who: str, wanted: Any) -> bool:
        """Return whether the next unused input of that kind and handle is the wanted one."""
        for number, item in enumerate(self.harness.inputs(who)):
            if number in self.seen(who) or type(item) is not type(wanted):
                continue
            if all(self.same(getattr(wanted, f.name), getattr(item, f.name)) for f in fields(item)):
                self.seen(who).add(number)
                return True
            of_ours = self.same(wanted.handle, item.handle)
            assert not of_ours, f"{who} heard {item}, not {wanted}"
        return False

    def same(self, wanted: Any, got: Any) -> bool:
        return wanted is Any_ or self.value(wanted) == got

    async def read(self, who: str, handle: int, data: bytes, within: float) -> None:
        got, waited, looked = bytearray(), 0.0, 0
        while len(got) < len(data):
            inputs = self.harness.inputs(who)
            before = len(got)
            for number in range(looked, len(inputs)):
                item = inputs[number]
                if (
                    isinstance(item, Received)
                    and item.handle == handle
                    and number not in self.seen(who)
                ):
                    self.seen(who).add(number)
                    got += item.data
            looked = len(inputs)
            if len(got) > before:
                waited = 0.0
            assert waited < within, f"{who} read {len(got)} of {len(data)} bytes"
            if len(got) < len(data):
                await self.harness.wait(STEP)
                waited += STEP
        assert got == data

    def filled(self, who: str, out: Any) -> Out:
        values = {f.name: self.value(getattr(out, f.name), who) for f in fields(out)}
        if isinstance(out, Bind) and isinstance(out.port, _Local):
            values["port"] = values["port"][1]
        result: Out = replace(out, **values)
        return result

    def value(self, value: Any, doer: str = "") -> Any:
        match value:
            case _Local(who, handle):
                for item in self.harness.inputs(who):
                    if isinstance(item, (Bound, Connected)) and item.handle == handle:
                        return item.local
                raise AssertionError(f"{who} has no handle {handle}")
            case _Took(who, number):
                return [i.handle for i in self.harness.inputs(who) if isinstance(i, Accepted)][
                    number
                ]
            case _Host():
                return self.harness.host(doer)
        return self.group if value is GROUP else value
