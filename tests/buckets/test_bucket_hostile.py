"""Any bytes from a member are counted, or change only what a member may change, and raise no error."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
import trio
from bucket_group import ask, bucket_group
from seed_instance import PAIRS, Instance, key_in

from jgroups_py.buckets.messages import encode
from jgroups_py.values.batch import Batch
from jgroups_py.values.message import MessageType

ODD_NUMBERS = (0, 1, -1, 8, 9, 65_535, 2**31, 2**63 - 1)
ODD_TEXTS = ("", "n1.1", "n2.1", "m/n1", "i/n2", "*", "x" * 200, "master", "moved", "census")


def recorded() -> list[tuple[str, str, bytes]]:
    """Messages of a running instance with moves: sender, receiver, bytes."""
    found: list[tuple[str, str, bytes]] = []
    instance = Instance()
    send = instance.world._send

    def listen(frm: str, to: str, data: bytes) -> None:
        found.append((frm, to, data))
        send(frm, to, data)

    instance.world._send = listen  # type: ignore[method-assign]
    for pair in range(1, PAIRS + 1):
        instance.ask("n1", key_in(pair), "+x")
        instance.ask("n2", key_in(pair), "?")
    n1, n3 = instance.cep("n1"), instance.cep("n3")
    instance.do("n1", "migrate_master_bucket", n1, n3)
    instance.do("n1", "migrate_slave_bucket", n3, n1)
    instance.world.machines["n1.1"].census.ask(lambda nodes, missing: None)
    instance.world.flush("n1.1")
    instance.world.run(1)
    return found


def changed(chance: random.Random, value: Any) -> Any:
    """Return the value with one change somewhere in it."""
    match value:
        case list() if value and chance.random() < 0.8:
            at = chance.randrange(len(value))
            return [*value[:at], changed(chance, value[at]), *value[at + 1 :]]
        case list():
            return chance.choice([[], value + value, None])
        case dict() if value:
            key = chance.choice(list(value))
            return {**value, key: changed(chance, value[key])}
        case bool():
            return not value
        case int():
            return chance.choice([*ODD_NUMBERS, value + 1, max(0, value - 1)])
        case float():
            return chance.choice([0.0, -1.0, float("nan"), float("inf"), 1e300])
        case str():
            return chance.choice(ODD_TEXTS)
        case bytes():
            return chance.choice([b"", value[:-1], b"\xff" * 10, value + value])
        case _:
            return chance.choice([0, [], "x"])


MESSAGES = recorded()


@pytest.mark.parametrize("seed", range(8))
def test_changed_messages_of_members_raise_nothing(seed: int) -> None:
    chance = random.Random(seed)
    instance = Instance()
    for _ in range(200):
        frm, to, data = chance.choice(MESSAGES)
        value = msgspec.msgpack.decode(data)
        for _ in range(chance.choice([1, 1, 2])):
            value = changed(chance, value)
        machine = instance.world.machines[to]
        machine.advance(instance.world.now)
        machine.receive(frm, msgspec.msgpack.encode(value))
        instance.world.flush(to)
        instance.world.run(0.002)
    instance.world.run(20)
    assert sum(m.counts["bad_messages"] for m in instance.world.machines.values()) > 20


def test_bytes_that_are_no_message_are_counted_and_change_nothing() -> None:
    instance = Instance()
    machine = instance.world.machines["n1.1"]
    before = encode(machine.indices["i/n1"].state)
    pieces = [
        b"",
        b"\xc1",
        b"\x91" * 50_000,
        b"\xdd\xff\xff\xff\xff",
        *(d[:9] for *_, d in MESSAGES),
    ]
    for data in pieces:
        machine.receive("n2.1", data)
    assert machine.counts["bad_messages"] == len(pieces)
    assert encode(machine.indices["i/n1"].state) == before
    assert instance.ask("n1", key_in(4), "+x") == "0"


def test_a_stranger_is_not_heard() -> None:
    instance = Instance()
    machine = instance.world.machines["n1.1"]
    for _, to, data in MESSAGES:
        if to == "n1.1":
            machine.receive("stranger", data)
    assert machine.take() == []
    assert instance.ask("n1", key_in(4), "+x") == "0"


async def test_messages_of_other_types_are_counted_and_dropped(autojump_clock: Any) -> None:
    """Java members send numbers and objects in such messages."""
    async with bucket_group() as group:
        node, sender = group.nodes["n1"], group.nodes["n2"].channel.address
        before = node.machine.counts["bad_messages"]
        for type, payload in (
            (MessageType.LONG, 5),
            (MessageType.EMPTY, None),
            (MessageType.BYTES, memoryview(b"no message")),
        ):
            batch = Batch(None, (payload,), {}, sender, type=type)
            node.channel._stream.put_batch(batch)
        await trio.sleep(5)
        assert node.machine.counts["bad_messages"] == before + 3
        assert await ask(node, key_in(4), "+goes on") == "0"
