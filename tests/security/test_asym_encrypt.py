"""ASYM_ENCRYPT of several members, each between a fake above and a fake below, with packets between them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from asym_members import (
    CONVERSATION,
    GMS,
    ID,
    A,
    B,
    C,
    D,
    Group,
    answer,
    counters,
    data,
    gms,
    join_request,
    payloads,
    three,
    view_message,
    wire,
)
from stack_files import encrypted, refusal_of

from jgroups_py.protocols.membership.gms.wire import AGREE_ID, RoundKind
from jgroups_py.protocols.security.key_list import MemberKeys, encode_keys, read_keys
from jgroups_py.protocols.security.public_keys import OtherKey, PublicKeys
from jgroups_py.protocols.security.rsa import KeyPair, UnusableKey, read_public_key
from jgroups_py.testing.sim.key_pairs import seeded_key_pair
from jgroups_py.values.address import UUID, Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import PrepareView, ViewChange
from jgroups_py.values.payloads import MergeId, ViewDigest
from jgroups_py.values.view import Digest, MergeView, View, ViewId
from jgroups_py.wire.headers import (
    EncryptHeader,
    EncryptType,
    FragHeader,
    GmsHeader,
    GmsType,
)
from jgroups_py.wire.packet import decode_packet
from jgroups_py.wire.primitives import encode_whole
from jgroups_py.wire.values import write_view_digest

# Joining


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"sym_keylength": 256},
        {"sym_algorithm": "AES/CBC/PKCS5Padding", "sym_iv_length": 16},
        {"sym_algorithm": "AES/GCM/NoPadding", "sym_iv_length": 12},
        {"asym_algorithm": "RSA/ECB/OAEPWithSHA-1AndMGF1Padding"},
        {"asym_algorithm": "RSA/ECB/OAEPWithSHA-256AndMGF1Padding"},
    ],
    ids=lambda settings: "-".join(map(str, settings.values())),
)
def test_a_joiner_gets_the_group_key_and_reads_and_is_read(settings: dict[str, Any]) -> None:
    group = three(**settings)
    assert group.key(A) == group.key(B) == group.key(C)
    for sender in (A, B, C):
        group[sender].down(data(b"from " + sender, sender))
        group.carry(sender)
        for member in {A, B, C} - {sender}:
            assert payloads(group[member]) == [b"from " + sender]


def test_the_group_key_and_views_are_not_on_the_wire_in_clear() -> None:
    group = Group(A, B)
    group.found(A)
    group[B].down(join_request(B, A))
    group.carry(B)
    view = View(ViewId(A, 1), (A, B))
    group[A].event_down(PrepareView(view))
    group[A].down(view_message(view, A))
    group[A].down(answer(B, A, view))
    seen = b"".join(bytes(b.payloads[0]) for b in group[A].take_down())
    assert group.key(A) not in seen
    assert encode_whole(write_view_digest, ViewDigest(view)) not in seen


def test_messages_that_came_before_the_key_of_a_joiner_are_dropped_and_nobody_is_blamed() -> None:
    group = three()
    joiner = group.add(D)
    group[A].down(data(b"early", A))
    group[A].down(view_message(View(ViewId(A, 3), (A, B, C, D)), A))
    group.carry(A, D)
    assert joiner.take_up() == [] and not counters(joiner)
    assert joiner.protocol.statistics()["dropped_no_key"] == 2


def test_a_multicast_before_the_key_is_sent_when_the_key_is_there() -> None:
    """NAKACK2 has numbered the message, and would miss it for ever."""
    group = Group(A)
    group[A].down(data(b"early", A))
    assert group[A].take_down() == []
    group.found(A)
    (sent,) = group[A].take_down()
    assert ID in sent.headers and sent.payloads[0] != b"early"


def test_a_refused_joiner_is_told_why_and_gets_no_group_key() -> None:
    """JGroups gives it the group key."""
    group = three()
    joiner = group.add(D)
    joiner.down(join_request(D, A))
    group.carry(D, A)
    group[A].take_up()
    group[A].down(answer(D, A, None))
    group.carry(A, D)
    (refusal,) = joiner.take_up()
    assert bytes(refusal.payloads[0]) == answer(D, A, None).payloads[0]
    assert group.protocol(D)._current is None
    group[B].down(data(b"secret", B))
    group.carry(B, D)
    assert joiner.take_up() == []
    joiner.down(join_request(D, A))  # it may ask again
    group.carry(D, A)
    assert len(group[A].take_up()) == 1


def test_a_joiner_without_a_public_key_is_not_let_in() -> None:
    group = three()
    group[A].up(join_request(D, A))
    assert group[A].take_up() == [] and counters(group[A]) == {"turned_away_unencrypted": 1}
    group[A].down(answer(D, A, View(ViewId(A, 3), (A, B, C, D))))
    assert group[A].take_down() == []
    assert group[A].protocol.statistics()["dropped_unasked"] == 1


# Public keys


def request_with(key: bytes, joiner: Address, owner: Address | None = None) -> Batch:
    header = EncryptHeader(EncryptType.INSTALL_KEYS)
    keys = encode_keys([MemberKeys(owner or joiner, key)])
    request = replace(join_request(joiner, A), payloads=(keys,))
    return request.with_header(ID, header)


STRANGERS_KEY = KeyPair(seeded_key_pair("stranger"), "").public.encoded


@pytest.mark.parametrize("victim", [B, D], ids=["member", "waiting joiner"])
def test_a_member_cannot_replace_the_public_key_of_another(victim: UUID) -> None:
    """Otherwise the forger of the request would get the next group key."""
    group = three()
    group.add(D).down(join_request(D, A))
    group.carry(D, A)
    group[A].take_up()
    before = group.protocol(A)._public.of(victim)
    group[A].up(request_with(STRANGERS_KEY, victim))
    assert group[A].take_up() == [] and counters(group[A]) == {"turned_away_other_key": 1}
    assert group.protocol(A)._public.of(victim) == before


def test_a_joiner_brings_its_own_key_only() -> None:
    group = three()
    group[A].up(request_with(STRANGERS_KEY, D, owner=B))
    assert group[A].take_up() == [] and counters(group[A]) == {"turned_away_bad_key": 1}


@pytest.mark.parametrize("key", [b"", b"no key", STRANGERS_KEY[:-1]])
def test_a_public_key_that_is_none_is_refused(key: bytes) -> None:
    group = three()
    group[A].up(request_with(key, D))
    assert group[A].take_up() == [] and counters(group[A]) == {"turned_away_bad_key": 1}


def test_a_public_key_that_is_too_short_is_refused() -> None:
    """The 512 bits of a captured conversation can be broken."""
    events = json.loads(CONVERSATION.read_text())["events"]
    hex = next(e["hex"] for e in events if "JOIN_REQ" in e.get("summary", ""))
    (request,) = decode_packet(bytes.fromhex(hex)).batches
    entries, rest = read_keys(request.payloads[0])
    assert [e.member for e in entries] == [request.src] and rest == b""
    with pytest.raises(UnusableKey, match="length"):
        read_public_key(entries[0].public)


def test_the_oldest_of_many_joiners_is_forgotten_and_old_ones_with_the_next_view() -> None:
    own = KeyPair(seeded_key_pair("own"), "").public
    keys = PublicKeys(A, own, 2)
    for n, joiner in enumerate((B, C, D)):
        keys.add_joiner(joiner, STRANGERS_KEY, 10.0 * n)
        keys.check()
    assert keys.of(B) is None and keys.of(C) is not None
    keys.view_installed((A,), 75.0)
    assert keys.of(C) is None and keys.of(D) is not None
    with pytest.raises(OtherKey):
        keys.add_joiner(D, own.encoded, 76.0)
    keys.view_installed((A, D), 90.0)
    assert keys.of(D) is not None and len(keys) == 2
    with pytest.raises(OtherKey):
        keys.add_listed([MemberKeys(D, own.encoded), MemberKeys(C, STRANGERS_KEY)])
    assert keys.of(C) is not None


# New keys


def test_without_a_member_there_is_a_new_key_which_it_cannot_read() -> None:
    group = three()
    before = group.key(A)
    group.announce(A, View(ViewId(A, 3), (A, B)))
    assert group.key(A) == group.key(B) != before
    group[B].take_up()
    group[A].down(data(b"secret", A))
    group.carry(A)
    assert payloads(group[B]) == [b"secret"] and group[C].take_up() == []


def test_without_change_key_on_leave_the_key_stays() -> None:
    group = three(change_key_on_leave=False)
    before = group.key(A)
    group.announce(A, View(ViewId(A, 3), (A, B)))
    assert group.key(A) == group.key(B) == before


@pytest.mark.parametrize("changes", [True, False])
def test_another_coordinator_makes_a_new_key(changes: bool) -> None:
    group = three(change_key_on_leave=False, change_key_on_coord_leave=changes)
    before = group.key(A)
    group.announce(B, View(ViewId(B, 3), (B, C)))
    assert (group.key(B) != before) == changes and group.key(B) == group.key(C)


def test_a_join_changes_no_key() -> None:
    group = three()
    before = group.key(A)
    group.add(D)
    group.join(D)
    assert group.key(D) == group.key(A) == before


def test_messages_under_way_under_the_earlier_key_are_read_for_a_while() -> None:
    group = three(key_overlap=5.0)
    for seqno in (1, 2):
        group[B].down(data(b"late %d" % seqno, B, seqno))
    late = [b.slice(i, i + 1) for b in wire(group[B].take_down()) for i in range(len(b))]
    group.announce(A, View(ViewId(A, 3), (A, B)))
    group[A].take_up()
    group[A].advance(4.9)
    group[A].up(late[0])
    assert payloads(group[A]) == [b"late 1"] and not counters(group[A])
    assert group[A].protocol.statistics()["decrypted_earlier_key"] == 1
    group[A].advance(0.2)
    group[A].up(late[1])
    assert group[A].take_up() == [] and counters(group[A]) == {"turned_away_old_key": 1}


def test_a_member_that_has_left_cannot_send_under_the_key_it_had() -> None:
    group = three()
    group[C].down(data(b"forged", C))
    forged = wire(group[C].take_down())
    group.announce(A, View(ViewId(A, 3), (A, B)))
    group[A].take_up()
    for batch in forged:
        group[A].up(batch)
    assert group[A].take_up() == [] and counters(group[A]) == {"turned_away_old_key": 1}


def test_a_view_that_is_heard_again_brings_back_no_key() -> None:
    """A replayed packet must not make a member use a key that a former member knows."""
    group = three()
    earlier = View(ViewId(A, 3), (A, B))
    group.announce(A, earlier)
    group[A].down(view_message(earlier, A, B))
    replayed = wire(group[A].take_down())
    group.announce(A, View(ViewId(A, 4), (A, B, C)))
    third = View(ViewId(A, 5), (A, B))
    group.announce(A, third)
    newest = group.key(B)
    group.protocol(B)._kept.clear()  # also when the member has forgotten the key
    for batch in replayed:
        group[B].up(batch)
    assert group.key(B) == newest == group.key(A)


def test_a_leaver_is_told_in_clear_since_it_cannot_read_the_new_key() -> None:
    group = three()
    group.announce(A, View(ViewId(A, 3), (A, B)))
    group[C].take_up()
    group[A].down(gms(GmsType.LEAVE_RSP, C, A))
    group.carry(A, C)
    assert len(group[C].take_up()) == 1


def test_the_view_of_survivors_brings_the_new_key_too() -> None:
    group = three()
    view = View(ViewId(A, 3), (A, B))
    group[A].event_down(PrepareView(view))
    payload = encode_whole(write_view_digest, ViewDigest(view))
    header = FragHeader(7, RoundKind.VIEW, 0)
    group[A].down(replace(Batch.of(B, AGREE_ID, header, payload=payload), src=A))
    group.carry(A, B)
    assert payloads(group[B]) == [payload] and group.key(B) == group.key(A)


def test_a_view_that_is_sent_again_to_one_member_brings_the_key() -> None:
    """In JGroups such a view brings no key."""
    group = three()
    view = View(ViewId(A, 3), (A, B))
    group[A].event_down(PrepareView(view))
    group[A].down(view_message(view, A))
    group[A].take_down()  # lost
    group[A].event_down(ViewChange(view, group.view))
    group[A].event_down(PrepareView(View(ViewId(A, 4), (A, B))))
    group[A].down(view_message(view, A, B))
    group.carry(A, B)
    assert group.key(B) == group.key(A)


# Unencrypted messages


@pytest.mark.parametrize(
    "type",
    [GmsType.MERGE_REQ, GmsType.VIEW_ACK, GmsType.GET_DIGEST_REQ, GmsType.GET_DIGEST_RSP],
)
def test_messages_of_members_of_two_groups_pass_in_clear(type: GmsType) -> None:
    group = three()
    group[A].down(gms(type, B, A, b"x"))
    (sent,) = group[A].take_down()
    assert ID not in sent.headers and sent.payloads == (b"x",)
    group[B].up(sent)
    assert payloads(group[B]) == [b"x"]


@pytest.mark.parametrize(
    "type",
    [
        t
        for t in GmsType
        if t.name
        in ("VIEW", "JOIN_RSP", "LEAVE_REQ", "INSTALL_MERGE_VIEW", "GET_CURRENT_VIEW", "MERGE_RSP")
    ],
)
def test_other_messages_of_gms_in_clear_are_dropped(type: GmsType) -> None:
    group = three()
    group[B].up(gms(type, B, A, b"x"))
    assert group[B].take_up() == [] and counters(group[B]) == {"turned_away_unencrypted": 1}


# Merging


def test_two_groups_merge_under_a_new_key() -> None:
    left, right = Group(A, B), Group(C, D)
    for group, (first, second) in ((left, (A, B)), (right, (C, D))):
        group.found(first)
        group.join(second)
        for fake in group.fakes.values():
            fake.take_up()
    both = Group()
    both.fakes = {**left.fakes, **right.fakes}
    merge = MergeId(A, 1)
    request = Batch.of(C, GMS, GmsHeader(GmsType.MERGE_REQ, A, merge), payload=b"x")
    both[A].down(replace(request, src=A))
    both.carry(A, C)
    both[C].down(gms(GmsType.MERGE_RSP, A, C, b"theirs"))
    both.carry(C, A)
    assert payloads(both[A]) == [b"theirs"]
    assert left.view is not None and right.view is not None
    view = MergeView(ViewId(A, 9), (A, B, C, D), (left.view, right.view))
    content = encode_whole(write_view_digest, ViewDigest(view, Digest(dict.fromkeys(view, (0, 0)))))
    both[A].event_down(PrepareView(view))
    both[A].down(gms(GmsType.INSTALL_MERGE_VIEW, C, A, content))
    both.carry(A, C)
    assert payloads(both[C]) == [b"x", content]
    for leader, member in ((A, B), (C, D)):
        both[leader].event_down(PrepareView(view))
        both[leader].down(gms(GmsType.VIEW, None, leader, content))
        both.carry(leader, member)
        assert payloads(both[member]) == [content]
    assert len({both.key(m) for m in (A, B, C, D)}) == 1
    for member in (A, B, C, D):
        both[member].event_down(ViewChange(view, None))
        assert not counters(both[member])
        assert both[member].protocol.statistics()["public_keys"] == 4


def test_an_answer_to_no_merge_brings_no_keys() -> None:
    group = three()
    header = EncryptHeader(EncryptType.INSTALL_KEYS)
    keys = encode_keys([MemberKeys(D, STRANGERS_KEY)])
    group[A].up(gms(GmsType.MERGE_RSP, A, D, keys + b"x").with_header(ID, header))
    assert payloads(group[A]) == [b"x"]  # GMS drops it, and UNICAST3 acknowledges it
    assert group.protocol(A)._public.of(D) is None


# Java


def test_a_java_member_gets_a_missing_key_with_a_view_that_its_gms_drops() -> None:
    java = UUID(bytes(15) + b"\7")
    assert not java.is_ours
    group = three()
    group.add(java)
    group.join(java)
    group[A].advance(1.0)
    group.protocol(A)._give(java)
    (gift,) = group[A].take_down()
    assert gift.headers[GMS] == GmsHeader(GmsType.VIEW)
    entries, rest = read_keys(gift.payloads[0])
    assert [e.member for e in entries] == [java] and rest == b""


# Settings


def test_no_key_is_in_any_text() -> None:
    group = three()
    for text in (repr(group.protocol(A)), str(vars(group.protocol(A))), str(group[A].traces)):
        assert group.key(A).hex() not in text and repr(group.key(A)) not in text


@pytest.mark.parametrize(
    ("attributes", "attribute", "problem"),
    [
        ('asym_algorithm="DSA"', "asym_algorithm", "must be one of RSA, RSA/ECB/PKCS1Padding"),
        ('asym_keylength="512"', "asym_keylength", "must be within 1024..8192, got 512"),
        ('sym_keylength="64"', "sym_keylength", "must be 128, 192 or 256, got 64"),
        ('key_map_max_size="0"', "key_map_max_size", "must be >= 1"),
        ('use_external_key_exchange="true"', "use_external_key_exchange", "SSL_KEY_EXCHANGE"),
    ],
)
def test_a_wrong_setting_is_told_with_its_place(
    tmp_path: Path, attributes: str, attribute: str, problem: str
) -> None:
    error = refusal_of(encrypted(f"ASYM_ENCRYPT {attributes}"), tmp_path)
    assert (error.line, error.where) == (4, f"ASYM_ENCRYPT.{attribute}")
    assert problem in error.problem
