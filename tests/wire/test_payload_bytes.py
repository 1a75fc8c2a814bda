"""Payloads that are not bytes reach an application as bytes: exactly those of the wire."""

from __future__ import annotations

from typing import Any

import pytest

from jgroups_py import UUID, MemoryNetwork, Message, open_channel
from jgroups_py.values.batch import Batch
from jgroups_py.values.message import MessageType
from jgroups_py.values.payloads import Streamable, Typed

A = UUID(b"a" * 16)
PART = Batch(None, (b"xyz",), {}, A)

PAYLOADS = [
    (MessageType.BYTES, memoryview(b"abc"), b"abc"),
    (MessageType.NIO, b"abc", b"abc"),
    (MessageType.EMPTY, None, b""),
    (MessageType.LONG, 0x1234, b"\x02\x34\x12"),
    (MessageType.OBJECT, Streamable(21, Typed(17, "hi")), None),
    (MessageType.COMPOSITE, (PART, PART), None),
]


@pytest.mark.parametrize(("type", "payload", "expected"), PAYLOADS)
def test_every_payload_has_bytes(type: int, payload: Any, expected: bytes | None) -> None:
    (message,) = Batch(None, (payload,), {}, A, type=type).messages()
    if expected is None:
        assert b"hi" in message.payload or message.payload.count(b"xyz") == 2
    else:
        assert message.payload == expected


async def test_the_stream_hands_them_out(autojump_clock: object) -> None:
    """A huge number is not a size, and an object does not break the reader."""
    async with open_channel("udp.xml", cluster="c", name="A", transport=MemoryNetwork()) as channel:
        for type, payload in [
            (MessageType.LONG, 10**15),
            (MessageType.OBJECT, Streamable(21, Typed(17, "x"))),
        ]:
            channel.stack.send(Batch(None, (payload,), {}, type=type))
        await channel.send(b"end")
        got = []
        async for item in channel:
            if isinstance(item, Message):
                got.append(item.payload)
                if item.payload == b"end":
                    break
    assert len(got) == 3 and len(got[0]) < 10 and got[2] == b"end"
