"""Every message survives encoding and decoding; all other bytes are refused with one error."""

import random
from typing import Any

import pytest

from jgroups_py.buddy import messages as m
from jgroups_py.buddy import site_messages as w
from jgroups_py.buddy.codec import decode, encode
from jgroups_py.buddy.values import BuddyGroup, OwnedNode, Stamp
from jgroups_py.errors import RemoteProtocolError
from jgroups_py.testing.explorer.buddies.world import BuddyWorld, WorldSetting
from jgroups_py.values.address import UUID, Address

A, B = (UUID.make(random.Random(seed)) for seed in (1, 2))
STAMP = Stamp(0, (1, 0), 3, A)
NODE = OwnedNode({"k": b"1", "l": [1, 2.5, None]}, (1, 0), STAMP, False, B, (("S", 3),), (STAMP,))
LISTED = m.Listed(("a",), (1, 0), STAMP, True, (STAMP,))
ORPHAN = m.Orphan(A, True, 5, ((B, 2, 5),), ((("a",), (1, 1)),), (LISTED,))

MESSAGES: list[m.Message] = [
    m.Assign(BuddyGroup(A, (B,), "A-1"), 5, ((B, 2, 5),), 4, 7),
    m.Chunk(((("a", "b"), NODE),)),
    m.Filled(),
    m.FillAck(7, 3),
    m.Dismiss("A-1"),
    m.DismissAck(),
    m.Pool(A, "pool", "zone", ("127.0.0.1",)),
    m.Part(((("a", "b"), NODE), (("c",), None))),
    m.Op(3, ((("a", "b"), NODE), (("c",), None)), ((A, 3, 4),), True),
    m.OpAck(3),
    m.ClaimRequest((A, 1), (((), True),), "take", B),
    m.Claim((A, 1), ((("a",), False),), "create", None, w.Survey("S", "list", (1,))),
    m.Answer((A, 1), ((("a",), NODE, (1, 1)),), (("b",),), ((("c",), B),)),
    m.Taken(("a",), (1, 0)),
    m.Done(("a",), (1, 0)),
    m.Inventory(
        *(True, True, (ORPHAN,), ((("a",), (1, 1)),), ((A, 2, True),), (LISTED,)),
        holders=(A,),
        keeps=(A, B),
    ),
    m.AskAll(),
    m.Settle(
        ((A, B),),
        ((B, A),),
        (A,),
        ((("a",), (1, 1), B),),
        True,
        (m.Winner(("a",), (2, 0), STAMP, A, B),),
        (m.Discarded(("a",), STAMP, A, B),),
        ends=((A, 9),),
        lost=((A, B),),
        stray=((B, A),),
    ),
    m.Adopted(((A, 3, 4),)),
    m.Leaving(True),
    m.TakeMine(),
    m.Clean(),
    m.Merged(),
    m.ToSite("S", w.SiteEvent(A, 3, (w.Sent(("a",), {"k": b"1"}, STAMP, False, (STAMP,)),))),
    m.FromSite("N", w.EventAck(A, 3, (("a",),))),
    m.SiteTold(w.SiteState(1, 2, ("S",), ("S",), (w.Walk("S", "bootstrap"),), ("S",))),
    m.SiteAsk("promote", "", 4),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_comes_back_from_its_bytes(message: m.Message) -> None:
    data = encode((7, A), message)
    tag, got = decode(data)
    assert (tag, got) == ((7, A), message)
    assert type(tag[1]) is UUID
    for end in range(len(data)):
        with pytest.raises(RemoteProtocolError):
            decode(data[:end])


def test_every_message_of_the_machine_is_among_them() -> None:
    world = BuddyWorld(WorldSetting())
    handled = set(next(iter(world.machines.values()))._handlers)
    assert {type(message) for message in MESSAGES} == handled


@pytest.mark.parametrize(
    "message",
    [m.Taken(("",), (1, 0)), m.Taken("a", (1, 0)), m.OpAck("x"), m.Adopted(((5, 3),))],  # type: ignore[arg-type]
)
def test_impossible_settings_are_refused(message: Any) -> None:
    data = encode((7, A), message)
    with pytest.raises(RemoteProtocolError):
        decode(data)


def test_random_changes_raise_nothing_else() -> None:
    chance, refused = random.Random(3), 0
    for message in MESSAGES:
        data = bytearray(encode((7, A), message))
        for _ in range(300):
            broken = bytearray(data)
            broken[chance.randrange(len(broken))] = chance.randrange(256)
            try:
                decode(bytes(broken))
            except RemoteProtocolError:
                refused += 1
    assert 0.1 < refused / (300 * len(MESSAGES)) < 1


def test_a_value_without_bytes_is_the_callers_mistake() -> None:
    with pytest.raises(TypeError, match="has no bytes"):
        encode((1, Address(b"x")), m.Chunk(((("a",), OwnedNode(object(), (1, 0), STAMP)),)))
