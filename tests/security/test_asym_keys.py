"""ASYM_ENCRYPT: a message before its key, and keys from members that may not hand over any."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from asym_members import (
    GMS,
    ID,
    A,
    B,
    C,
    D,
    Group,
    counters,
    data,
    join_request,
    payloads,
    three,
    view_message,
)

from jgroups_py.errors import RemoteProtocolError
from jgroups_py.protocols.security.asym_encrypt import ASK_AFTER, AWAITING_MAX
from jgroups_py.protocols.security.key_list import KEY_MOST, MemberKeys, encode_keys, read_keys
from jgroups_py.protocols.security.rsa import encrypt
from jgroups_py.values.address import UUID, Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import PrepareView, ViewChange
from jgroups_py.values.view import View, ViewId
from jgroups_py.wire.headers import (
    EncryptHeader,
    EncryptType,
    GmsHeader,
    GmsType,
)

# Messages before their key


def missed(group: Group) -> None:
    """B misses the view without C, and gets a message under its key."""
    view = View(ViewId(A, 3), (A, B))
    group[A].event_down(PrepareView(view))
    group[A].down(view_message(view, A))
    group[A].event_down(ViewChange(view, group.view))
    group[A].take_down()
    group[A].down(data(b"early", A))
    group.carry(A, B)
    assert group[B].take_up() == [] and not counters(group[B])


def test_a_message_before_its_key_waits_for_the_view() -> None:
    group = three()
    missed(group)
    group[A].down(view_message(View(ViewId(A, 3), (A, B)), A))
    group.carry(A, B)
    assert len(group[B].take_up()) == 2
    group[B].advance(1.0)
    assert group[B].take_down() == []


def test_a_member_that_lacks_a_key_asks_its_user() -> None:
    group = three()
    missed(group)
    group[B].advance(ASK_AFTER)
    group.carry(B, A)
    group.carry(A, B)
    assert payloads(group[B]) == [b"early"]
    assert group[B].protocol.statistics()["keys_asked"] == 1
    assert group[A].protocol.statistics()["keys_given"] == 1
    assert group.key(B) != group.key(A)  # its view is yet to come


def test_a_stranger_that_asks_for_the_key_gets_none() -> None:
    group = three()
    current = group.protocol(A)._current
    assert current is not None
    header = EncryptHeader(EncryptType.FETCH_SHARED_KEY, False, current.version)
    group[A].up(replace(Batch.of(A, ID, header), src=D))
    assert group[A].take_down() == [] and counters(group[A]) == {"turned_away_stray_keys": 1}


def test_the_coordinator_gives_the_key_to_users_of_an_earlier_one_but_not_at_once() -> None:
    group = three()
    missed(group)
    group.protocol(B)._awaiting.clear()
    group.protocol(B)._ask_timer.cancel()
    for wait, given in ((0.0, 0), (0.6, 1), (0.1, 1), (0.5, 2)):
        group[A].advance(wait)
        group[B].down(data(b"still", B))
        group.carry(B, A)
        assert group[A].protocol.statistics()["keys_given"] == given


def test_messages_before_their_key_fill_no_memory() -> None:
    group = three()
    header = EncryptHeader(EncryptType.DATA, False, bytes(16))
    for _ in range(AWAITING_MAX + 5):
        group[B].up(data(b"x" * 16, A).with_header(ID, header))
    counts = group[B].protocol.statistics()
    assert (counts["came_before_key"], counts["dropped_before_key"]) == (AWAITING_MAX, 5)
    group[B].event_down(ViewChange(View(ViewId(B, 3), (B, C)), group.view))
    assert group[B].protocol.statistics()["dropped_before_key"] == AWAITING_MAX + 5


# Keys from members that may not hand over any


def forged_view(src: Address, dest: UUID, group: Group) -> Batch:
    """Return a VIEW with a group key for ``dest`` that only its sender knows."""
    public = group.protocol(dest)._pair.public
    cipher = group.protocol(dest).cipher(b"k" * 16)
    sealed = encrypt(public, cipher.key, "", bytes_of_one)
    view = view_message(View(ViewId(src, 9), (src, dest)), src, dest)
    _, secret = cipher.encrypt(view.payloads[0])
    header = EncryptHeader(EncryptType.INSTALL_KEYS, False, cipher.version)
    keys = encode_keys([MemberKeys(dest, b"", sealed)])
    return replace(view.with_header(ID, header), payloads=(keys + secret,))


def bytes_of_one(count: int) -> bytes:
    return b"\1" * count


def test_a_stranger_hands_over_no_key() -> None:
    group = three()
    group[B].up(forged_view(D, B, group))
    assert group[B].take_up() == [] and counters(group[B]) == {"turned_away_stray_keys": 1}
    assert group.key(B) == group.key(A)


def test_a_joiner_takes_the_key_only_of_a_member_that_it_asked() -> None:
    group = Group(A, B, C)
    group.found(A)
    group[B].down(join_request(B, A))
    group[B].up(forged_view(C, B, group))
    assert group[B].take_up() == [] and group.protocol(B)._current is None


def test_a_key_whose_name_does_not_fit_it_is_refused() -> None:
    group = three()
    batch = forged_view(A, B, group)
    header = replace(batch.headers[ID], version=bytes(16))  # type: ignore[call-arg]
    group[B].up(batch.with_header(ID, header))
    assert group[B].take_up() == [] and counters(group[B]) == {"turned_away_bad_key": 1}


def test_a_key_for_another_member_is_refused() -> None:
    group = three()
    batch = forged_view(A, C, group)
    keys, rest = read_keys(batch.payloads[0])
    moved = encode_keys([MemberKeys(B, b"", keys[0].group)]) + rest
    group[B].up(replace(batch, payloads=(moved,), dest=B))
    assert group[B].take_up() == [] and counters(group[B]) == {"turned_away_bad_key": 1}


@pytest.mark.parametrize(
    "payload", [b"", b"\xff\xff\xff\xff", b"\0\0\0\1", b"\x7f\xff\xff\xff" * 3, 7]
)
def test_garbage_in_place_of_keys_is_refused(payload: Any) -> None:
    group = three()
    header = EncryptHeader(EncryptType.INSTALL_KEYS)
    for type in (GmsType.VIEW, GmsType.JOIN_REQ, GmsType.MERGE_RSP, None):
        batch = Batch(B, (payload,), {ID: header}, A)
        group[B].up(batch if type is None else batch.with_header(GMS, GmsHeader(type)))
    assert group[B].take_up() == [] and counters(group[B]) == {"turned_away_malformed": 4}


def test_a_list_of_keys_ends_where_it_says() -> None:
    entries = (MemberKeys(A, b"public", b""), MemberKeys(B, b"", b"group"))
    assert read_keys(encode_keys(entries) + b"rest") == (entries, b"rest")
    for size in range(len(encode_keys(entries))):
        with pytest.raises(RemoteProtocolError):
            read_keys(encode_keys(entries)[:size])


def test_a_key_that_is_longer_than_any_in_use_is_not_read() -> None:
    assert read_keys(encode_keys([MemberKeys(A, bytes(KEY_MOST))]))[0] == (
        MemberKeys(A, bytes(KEY_MOST)),
    )
    with pytest.raises(RemoteProtocolError, match=f"a key of {KEY_MOST + 1} bytes"):
        read_keys(encode_keys([MemberKeys(A, bytes(KEY_MOST + 1))]))
