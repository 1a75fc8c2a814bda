"""Remote calls between Python's open_rpc and Java's RpcDispatcher, in both directions and to all members at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
from java_parts import JavaParts
from mixed_group import Group, Member, ProcessMember, PythonMember, mixed_group

from jgroups_py import Answer, Raised, RemoteError, Suspected
from jgroups_py.rpc import Arg, JavaObject

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]
STACKS = pytest.mark.parametrize("stack", ["udp", "tcp"])


class Target:
    """The target of calls on Python members; ``Calls.Target`` is nearly the same in Java."""

    def __init__(self) -> None:
        self.noted: list[str] = []

    def add(self, a: int, b: int) -> int:
        return a + b

    async def slowly(self, a: int) -> int:
        await trio.sleep(0.05)
        return a

    def twice(self, a: float) -> float:
        return 2 * a

    def join(self, a: str, b: str) -> str:
        return a + b

    def reversed(self, data: bytes) -> bytes:
        return data[::-1]

    def described(self, value: Any) -> str:
        return f"{type(value).__name__} {value}"

    def same(self, value: Any) -> Any:
        return value

    def nothing(self) -> None:
        return None

    def note(self, text: str) -> None:
        self.noted.append(text)

    def fail(self, text: str) -> None:
        raise ValueError(text)

    def unsayable(self) -> dict[str, int]:
        return {"no": 1}


async def until(condition: Callable[[], Any]) -> None:
    with trio.fail_after(60):
        while not condition():  # noqa: ASYNC110
            await trio.sleep(0.02)


async def two(group: Group) -> tuple[ProcessMember, PythonMember]:
    java = await group.java("J", rpc=True)
    python = await group.python("P", target=Target())
    await java.until_view("J", "P")
    await python.until_view("J", "P")
    return java, python


@STACKS
async def test_python_calls_java(parts: JavaParts, stack: str) -> None:
    async with mixed_group(parts, stack) as group:
        java, python = await two(group)
        j = python.address_of(java)

        async def call(method: str, *args: Any) -> Any:
            return await python.rpc.call(j, method, *args)

        with trio.fail_after(60):
            assert await call("add", 1, 2) == 3
            assert await call("add", 1 << 40, 2 << 40) == 3 << 40
            assert await call("add", Arg(1, "long"), 1 << 40) == 1 + (1 << 40)
            assert await call("half", Arg(7, "java.lang.Integer")) == 3
            assert await call("half", Arg(None, "java.lang.Integer")) is None
            assert await call("twice", 1.25) == 2.5
            assert await call("not", True) is False
            assert await call("join", "grün", "🎉") == "grün🎉"
            assert await call("#7", "a", "b") == "ab"
            assert await call("reversed", b"abc") == b"cba"
            assert await call("letter", Arg("a", "char")) == "b"
            assert await call("described", Arg("x", "java.lang.Object")) == "String x"
            assert await call("described", None) == "null"
            assert await call("same", j) == j
            assert await call("nothing") is None
            assert isinstance(await call("list"), JavaObject)
            large = bytes(range(256)) * 1000
            assert await call("reversed", large) == large[::-1]
            with pytest.raises(RemoteError, match="no good") as caught:
                await call("fail", "no good")
            assert caught.value.type == "java.lang.IllegalArgumentException"
            assert caught.value.member == j
            with pytest.raises(RemoteError, match="NoSuchMethodException"):
                await call("missing")
            await python.rpc.cast("note", "one", dests=j)
            assert await call("noted") == "one"
            await python.rpc.cast("note", "all")
            while await call("noted") != "one,all":  # noqa: ASYNC110 - no order between the two
                await trio.sleep(0.02)


@STACKS
async def test_java_calls_python(parts: JavaParts, stack: str) -> None:
    async with mixed_group(parts, stack) as group:
        java, python = await two(group)

        async def call(*words: object) -> Any:
            return await java.call("call", "P", *words)

        assert await call("add", "int:1", "int:2") == "Integer 3"
        assert await call("add", "long:1099511627776", "int:2") == "Long 1099511627778"
        assert await call("slowly", "int:5") == "Integer 5"
        assert await call("twice", "double:1.25") == "Double 2.5"
        assert await call("join", "String:a", "String:b") == "String ab"
        assert await call("reversed", "bytes:200000") == "byte[] 200000"
        assert await call("described", "null:String") == "String NoneType None"
        assert await call("described", "boolean:true") == "String bool True"
        assert (await call("described", "list:x")).startswith("String JavaObject")
        assert await call("same", "Address:J") == "UUID J"
        assert await call("nothing") == "null"
        assert await call("fail", "String:no-good") == (
            "raised java.lang.RuntimeException: ValueError: no-good"
        )
        assert "there is no method 'missing'" in await call("missing")
        assert "a dict is no Java value" in await call("unsayable")
        await java.tell("cast", "note", "String:all")
        await until(lambda: python.target.noted == ["all"])  # type: ignore[attr-defined]


async def four(group: Group) -> tuple[ProcessMember, PythonMember, ProcessMember, PythonMember]:
    j, k = await group.java("J", rpc=True), await group.java("K", rpc=True)
    p, q = await group.python("P", target=Target()), await group.python("Q", target=Target())
    members: tuple[Member, ...] = (j, k, p, q)
    for member in members:
        await member.until_view("J", "K", "P", "Q")
    return j, p, k, q


@STACKS
async def test_calls_in_a_mixed_group_are_answered(parts: JavaParts, stack: str) -> None:
    async with mixed_group(parts, stack) as group:
        j, p, k, q = await four(group)
        name = p.channel.name_of

        async def all_of(method: str, *args: Any, **options: Any) -> dict[str, Any]:
            found: dict[str, Any] = {}
            with trio.fail_after(60):
                async for reply in p.rpc.call_all(method, *args, **options):
                    found[name(reply.member)] = reply.value if isinstance(reply, Answer) else reply
            return found

        assert await all_of("add", 1, 2) == {"J": 3, "K": 3, "P": 3, "Q": 3}
        some = [p.address_of(j), p.address_of(q)]
        assert await all_of("add", 1, 2, exclude=some) == {"K": 3, "P": 3}
        assert await all_of("add", 1, 2, dests=some) == {"J": 3, "Q": 3}
        assert await all_of("add", 1, 2, dests=some, exclude=some[:1]) == {"Q": 3}
        failed = await all_of("fail", "all")
        assert all(isinstance(reply, Raised) for reply in failed.values())
        kinds = {n: reply.error.type for n, reply in failed.items()}
        assert kinds == {
            "J": "java.lang.IllegalArgumentException",
            "K": "java.lang.IllegalArgumentException",
            "P": "ValueError",
            "Q": "ValueError",
        }
        assert (await p.rpc.call_first("add", 1, 2)).value == 3

        three = {member: "Integer 3" for member in ("J", "K", "P", "Q")}
        words = ["add", "int:1", "int:2"]
        assert await j.call("call-all", "-", "-", *words) == three
        del three["P"]
        assert await j.call("call-all", "-", "P", *words) == three
        assert await j.call("call-all", "P,K", "-", *words) == {"K": "Integer 3", "P": "Integer 3"}
        # Messages and views still come, in the right order.
        await k.tell("send", "*", "-", "hello")
        await p.until(lambda: p.texts(k) == ["hello"])


class Slow(Target):
    async def add(self, a: int, b: int) -> int:  # type: ignore[override]
        await trio.sleep_forever()
        raise AssertionError


async def test_a_member_that_is_killed_meanwhile_is_suspected(parts: JavaParts) -> None:
    """A Python caller learns that a Java member has ended, and a Java caller learns that a Python member has ended."""
    async with mixed_group(parts, "udp", allowed=["failed sending graceful close"]) as group:
        j = await group.java("J")  # without RpcDispatcher: it never answers
        p = await group.python("P", target=Slow())
        k = await group.java("K", rpc=True)
        for member in (j, p, k):
            await member.until_view("J", "P", "K")
        found = {}

        async def call() -> None:
            async for reply in p.rpc.call_all("half", Arg(4, "java.lang.Integer")):
                found[p.channel.name_of(reply.member)] = reply

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            await until(lambda: len(found) == 2)
            assert found["K"] == Answer(p.address_of(k), 2) and isinstance(found["P"], Raised)
            j.kill()
        assert isinstance(found["J"], Suspected)

        await k.start("call", "P", "add", "int:1", "int:2")
        await until(lambda: p.rpc.statistics().handlers == 1)
        await p.leave()
        group.python_members.remove(p)
        await k.finished()
        assert "Suspect" in k.called[-1]["problem"]


@STACKS
async def test_many_calls_at_once_both_ways(parts: JavaParts, stack: str) -> None:
    async with mixed_group(parts, stack) as group:
        java, python = await two(group)
        j = python.address_of(java)
        done = 0

        async def call(n: int) -> None:
            nonlocal done
            for i in range(50):
                assert await python.rpc.call(j, "add", n, i) == n + i
                done += 1

        with trio.fail_after(90):
            async with trio.open_nursery() as nursery:
                for n in range(8):
                    nursery.start_soon(call, n)
                for _ in range(50):
                    await java.start("call", "P", "add", "int:1", "int:2")
            await java.finished()
        assert done == 400
        assert [c["value"] for c in java.called] == ["Integer 3"] * 50
        assert python.rpc.statistics().counters.late == 0
