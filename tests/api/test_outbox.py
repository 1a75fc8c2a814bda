"""The outbox alone: which messages become one run or are refused, counters, and turns for other tasks."""

from __future__ import annotations

from typing import Any

import pytest

from jgroups_py import ChannelClosed, ChannelLimits, LocalProtocolError
from jgroups_py.channel.outbox import Outbox
from jgroups_py.testing import make_address
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import FlowBlocked
from jgroups_py.values.message import Flag, MessageType
from jgroups_py.wire.headers import FragHeader

A, B = make_address(1), make_address(2)
ID = 9


def outbox(**limits: Any) -> Outbox:
    return Outbox(ChannelLimits(**limits), lambda: None, lambda to, seconds: None)


def handed(box: Outbox) -> list[Batch]:
    batches: list[Batch] = []
    box.hand_down(batches.append)
    return batches


def numbered(box: Outbox, number: int, to: Any = A, **more: Any) -> bool:
    return box.put_headed(b"%d" % number, 1, to, ID, FragHeader(number, 0, 0), **more)


def test_numbers_that_follow_each_other_become_one_run() -> None:
    box = outbox()
    assert all([numbered(box, n) for n in (1, 2, 3, 7, 8)])
    batches = handed(box)
    assert [list(b.payloads) for b in batches] == [[b"1", b"2", b"3"], [b"7", b"8"]]
    assert [b.headers[ID].id for b in batches] == [1, 7]  # type: ignore[attr-defined]
    assert box.buffered == 0 and (box.sent, box.sent_bytes) == (5, 5)


def test_a_promise_wakes_later() -> None:
    woken: list[None] = []
    box = Outbox(ChannelLimits(), lambda: woken.append(None), lambda to, seconds: None)
    box.is_promised = True
    box.keep_promise()
    assert not woken and not box.is_promised
    box.is_promised = True
    box.put(b"1", A, 0, True)
    assert not woken and not handed(box)
    box.keep_promise()
    assert len(woken) == 1 and len(handed(box)) == 1
    box.put(b"2", B, 0, True)
    assert len(woken) == 2


@pytest.mark.parametrize(
    ("parts", "each"),
    [
        (["11", "22", "33"], 2),
        ([["11", "22"], "33", ["44"]], 2),
        (["11", "2"], -1),
        (["11", "2", "1"], -1),
        ([["11", "2"]], -1),
        ([["11", "2"], ["11"]], -1),
        ([["11"], "2", ["33", "44"]], -1),
        (["", ""], 0),
    ],
)
async def test_a_run_says_the_size_of_its_payloads_if_they_are_alike(
    parts: list[str | list[str]], each: int
) -> None:
    box = outbox()
    for part in parts:
        if isinstance(part, str):
            assert box.put(part.encode(), A, 0, True)
        else:
            await box.put_many([one.encode() for one in part], A, 0, True)
    (batch,) = handed(box)
    assert batch.size_of_each == each
    assert batch.length == sum(map(len, batch.payloads))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({}, {"flags": Flag.OOB}),
        ({"flags": Flag.OOB}, {}),
        ({}, {"type": MessageType.OBJECT}),
        ({"type": MessageType.OBJECT}, {}),
        ({"type": MessageType.OBJECT}, {"type": MessageType.OBJECT}),
        ({}, {"to": B}),
        ({}, {"to": None}),
    ],
)
def test_a_message_that_differs_from_the_run_begins_a_new_run(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    box = outbox()
    numbered(box, 1, **first)
    numbered(box, 2, **second)
    batches = handed(box)
    assert [list(b.payloads) for b in batches] == [[b"1"], [b"2"]]
    for batch, wanted in zip(batches, (first, second), strict=True):
        assert batch.flags == int(wanted.get("flags", 0))
        assert batch.type == wanted.get("type", MessageType.BYTES)
        assert batch.dest == wanted.get("to", A)


def test_plain_and_numbered_messages_do_not_mix() -> None:
    box = outbox()
    box.put(b"plain", A, 0, True)
    numbered(box, 1)
    box.put(b"plain again", A, 0, True)
    assert [(list(b.payloads), bool(b.headers)) for b in handed(box)] == [
        ([b"plain"], False),
        ([b"1"], True),
        ([b"plain again"], False),
    ]


def test_the_buffer_takes_as_much_as_it_may_and_the_first_message_of_any_size() -> None:
    box = outbox(send_buffer_max=10)
    assert box.put(bytes(50), A, 0, True), "else it could never be sent"
    assert not box.put(b"x", A, 0, True)
    handed(box)
    assert box.put(bytes(9), A, 0, True) and box.put(b"x", A, 0, True)
    assert not box.put(b"x", A, 0, True) and not numbered(box, 1)
    assert not numbered(box, 1, beyond=0) and numbered(box, 1, beyond=1)
    assert box.buffered == 11


@pytest.mark.parametrize(("count", "size"), [(4, 0), (3, 4), (1, 10)])
def test_a_turn_ends_after_a_number_of_messages_or_bytes(count: int, size: int) -> None:
    box = outbox(turn_messages=4, turn_bytes=10)
    for n in range(count):
        assert not box.is_turn_over
        if n % 2:
            box.put(bytes(size), A, 0, True)
        else:
            box.put_headed(bytes(size), size, A, ID, FragHeader(n, 0, 0))
    assert box.is_turn_over


def test_hundreds_of_messages_share_the_cost_of_a_turn() -> None:
    box = outbox()
    count = 0
    while not box.is_turn_over:
        assert box.put(bytes(1000), A, 0, True), "they all have room"
        count += 1
    assert count == 512


@pytest.mark.parametrize("limits", [{"turn_messages": 10}, {"turn_bytes": 10}])
@pytest.mark.parametrize(
    ("lists", "in_turn"),
    [
        ([4, 4, 4, 4], [4, 8, 4, 8]),  # a third one would not fit
        ([5, 5, 1], [5, 0, 1]),
        ([9, 9], [9, 9]),
        ([4, 25], [4, 5]),  # 10, 10 and 5 after others ran
        ([0, 3], [0, 3]),
    ],
)
async def test_lists_share_a_turn_that_has_room_for_them(
    limits: dict[str, int], lists: list[int], in_turn: list[int]
) -> None:
    """Return, after each list, the messages that were added while other tasks ran (``in_turn``)."""
    box, found = outbox(**limits), []
    for count in lists:
        await box.put_many([b"x"] * count, A, 0, True)
        found.append(box.turn_messages)
    assert found == in_turn
    assert len(handed(box)[0].payloads) == sum(lists)


def test_flags_that_nobody_knows_are_refused() -> None:
    with pytest.raises(LocalProtocolError, match="unknown flags 0x8000"):
        outbox().put(b"", A, 0x8000, True)


def test_after_the_end_nothing_is_taken() -> None:
    box = outbox(send_buffer_max=1)
    box.put(b"x", A, 0, True)
    box.end(ZeroDivisionError("the end"))
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            numbered(box, 1)
        with pytest.raises(ZeroDivisionError):
            box.put(b"y", A, 0, True)


def test_a_release_without_a_block_changes_nothing() -> None:
    box = outbox()
    box.on_opened("MFC", A)
    box.on_blocked(FlowBlocked("MFC", A, ()))
    box.on_opened("UFC", A)
    box.on_opened("MFC", B)
    assert not box.has_room(A, 1) and box.has_room(B, 1)
    box.on_opened("MFC", A)
    assert box.has_room(A, 1) and box.blocked == {}


def test_a_message_alone_is_handed_out_only_if_nothing_stands_before_it() -> None:
    def alone(box: Outbox) -> Batch | None:
        return box.alone(b"12", 2, A, {ID: FragHeader(1, 0, 0)}, 0)

    box = outbox()
    first, second = alone(box), alone(box)
    assert first is not None and second is not None
    assert (first.number, second.number, first.length) == (1, 2, 2)
    assert (box.sent, box.sent_bytes, box.buffered) == (2, 4, 0)
    box.put(b"x", B, 0, True)
    assert alone(box) is None
    assert [batch.number for batch in handed(box)] == [1]
    box.on_blocked(FlowBlocked("UFC", A, (A,)))
    assert alone(box) is None
    box.on_opened("UFC", A)
    assert alone(box) is not None
    box.end(ChannelClosed("a test"))
    assert alone(box) is None


def test_a_message_that_is_put_in_while_others_are_handed_down_is_not_lost() -> None:
    """A message to this member itself arrives within ``send``, and its receiver may send."""
    box = outbox()
    sent: list[bytes] = []

    def send(batch: Batch) -> None:
        sent.extend(batch.payloads)
        if batch.payloads == [b"to all"]:
            box.put(b"meanwhile", B, 0, True)
        elif batch.payloads == [b"1"]:
            box.on_blocked(FlowBlocked("UFC", B, (B,)))

    box.put(b"to all", None, 0, True)
    box.put(b"1", B, 0, True)
    box.put(b"2", B, int(Flag.OOB), True)
    box.hand_down(send)
    assert sent == [b"to all", b"1"] and box.buffered == len(b"2meanwhile")
    box.on_opened("UFC", B)
    box.hand_down(send)
    assert sent == [b"to all", b"1", b"2", b"meanwhile"] and box.buffered == 0
