"""SYM_ENCRYPT between a fake above and a fake below."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from stack_files import encrypted, refusal_of

from jgroups_py.config.settings import build, load_stack
from jgroups_py.protocols.security.sym_encrypt import SYM_ENCRYPT
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.values.batch import Batch
from jgroups_py.values.message import Flag, MessageType, Transient
from jgroups_py.values.payloads import Streamable, Typed
from jgroups_py.wire.headers import (
    PROTOCOL_IDS,
    EncryptHeader,
    EncryptType,
    NakAckHeader2,
    NakAckType,
)
from jgroups_py.wire.packet import decode_packet
from jgroups_py.wire.packet_memory import PacketReader
from jgroups_py.wire.packing import encode_packets

A, B = make_address(1), make_address(2)
ID, NAKACK = PROTOCOL_IDS["SYM_ENCRYPT"], PROTOCOL_IDS["NAKACK2"]
KEY = bytes(range(16)).hex()
OTHER = bytes(16).hex()
CONVERSATION = Path(__file__).parents[1] / "wire/vectors/conversation_udp_sym_encrypt.json"
KINDS = [
    ("AES", 0),
    ("AES/CBC/PKCS5Padding", 16),
    ("AES/CTR/NoPadding", 16),
    ("AES/GCM/NoPadding", 12),
]
EVERY_KIND = pytest.mark.parametrize(("algorithm", "iv"), KINDS)


def fake(algorithm: str = "AES", iv: int = 0, key: str = KEY, address: Any = A) -> FakeStack:
    protocol = SYM_ENCRYPT(sym_algorithm=algorithm, sym_iv_length=iv, secret_key=key)
    return FakeStack(protocol, address=address)


def run(*payloads: Any, type: int = MessageType.BYTES, seqno: int = 1) -> Batch:
    header = NakAckHeader2(NakAckType.MSG, seqno)
    return Batch(None, payloads, {NAKACK: header}, A, type=type)


def over_the_wire(stack: FakeStack) -> list[Batch]:
    """Return the batches that were passed down, as another member decodes them."""
    packets = encode_packets(stack.take_down(), "test")
    return [batch for packet in packets for batch in decode_packet(packet).batches]


def messages(batches: list[Batch]) -> list[tuple[int, Any, Any, int]]:
    """Seqno, type, payload and flags of each message."""
    return [
        (
            batch.headers[NAKACK].at(i).seqno,  # type: ignore[attr-defined]
            batch.type,
            bytes(p) if isinstance(p, memoryview) else p,
            batch.flags,
        )
        for batch in batches
        for i, p in enumerate(batch.payloads)
    ]


def sent_and_received(sender: FakeStack, receiver: FakeStack, *batches: Batch) -> list[Any]:
    for batch in batches:
        sender.down(batch)
    for batch in over_the_wire(sender):
        receiver.up(batch)
    return messages(receiver.take_up())


@EVERY_KIND
def test_a_run_comes_as_it_was_sent(algorithm: str, iv: int) -> None:
    payloads = (b"one", b"", b"x" * 5000, memoryview(b"four"))
    got = sent_and_received(fake(algorithm, iv), fake(algorithm, iv, address=B), run(*payloads))
    assert got == [(n, 0, bytes(p), 0) for n, p in enumerate(payloads, 1)]


@EVERY_KIND
def test_a_null_payload_stays_null(algorithm: str, iv: int) -> None:
    sender, receiver = fake(algorithm, iv), fake(algorithm, iv, address=B)
    got = sent_and_received(sender, receiver, run(None), run(b"a", None, b"b", seqno=2))
    assert [(number, payload) for number, _, payload, _ in got] == [
        (1, None),
        (2, b"a"),
        (3, None),
        (4, b"b"),
    ]


@EVERY_KIND
def test_every_type_of_message_comes_as_it_was_sent(algorithm: str, iv: int) -> None:
    sent = [
        run(None, type=MessageType.EMPTY),
        run(5000, type=MessageType.LONG, seqno=2),
        run(Streamable(21, Typed(17, "hello")), type=MessageType.OBJECT, seqno=3),
        run(b"direct", type=MessageType.NIO, seqno=4),
    ]
    sent = [replace(batch, flags=int(Flag.OOB | Flag.NO_FC)) for batch in sent]
    got = sent_and_received(fake(algorithm, iv), fake(algorithm, iv, address=B), *sent)
    assert got == messages(sent)


@pytest.mark.parametrize(("algorithm", "iv"), [KINDS[0], *KINDS[2:]])
def test_without_an_iv_or_with_one_that_counts_a_run_stays_a_run(algorithm: str, iv: int) -> None:
    sender = fake(algorithm, iv)
    sender.down(run(b"one", b"two", b"three"))
    (batch,) = sender.take_down()
    assert len(batch) == 3 and batch.payloads[0] != b"one"
    assert batch.headers[NAKACK] == NakAckHeader2(NakAckType.MSG, 1)


@pytest.mark.parametrize(("algorithm", "iv"), KINDS[2:])
def test_a_run_with_ivs_that_count_is_a_run_on_the_wire(algorithm: str, iv: int) -> None:
    """Each message has a header with its own IV there, as Java requires. The receiver gets one run again, and reads
    a single message by its shape."""
    sender = fake(algorithm, iv, address=B)
    sender.down(replace(run(*[b"%d" % n for n in range(700)]), src=B))
    sent = sender.take_down()
    packets = encode_packets(sent, "test")
    for fast in (True, False):
        receiver = fake(algorithm, iv)
        batches = [b for data in packets for b in decode_packet(data, fast=fast).batches]
        assert len(batches) <= len(packets) + 2
        for batch in batches:
            receiver.up(batch)
        got = [bytes(payload) for _, _, payload, _ in messages(receiver.take_up())]
        assert got == [b"%d" % n for n in range(700)]
    ivs = {b.headers[ID].at(n).iv for b in batches for n in range(len(b))}  # type: ignore[attr-defined]
    assert len(ivs) == 700 and all(iv in b"".join(packets) for iv in ivs)
    lists = PacketReader()
    for data in encode_packets(sent, "test", max_size=4000):
        assert lists.decode(data) == decode_packet(data, fast=False)
    assert len(lists) == 1
    reader, alone = PacketReader(), fake(algorithm, iv)
    for n in range(300):
        (one,) = encode_packets([replace(sent[0].slice(n, n + 1), dest=A)], "test")
        (batch,) = reader.decode(one).batches
        alone.up(batch)
    got = [bytes(payload) for _, _, payload, _ in messages(alone.take_up())]
    assert got == [b"%d" % n for n in range(300)] and len(reader) == 1


def test_the_message_of_a_value_is_serialised_with_its_headers() -> None:
    """Java does so, too: the payload becomes a BytesMessage with one header."""
    sender = fake()
    sender.down(run(5000, type=MessageType.LONG))
    (batch,) = sender.take_down()
    assert list(batch.headers) == [ID] and batch.type == MessageType.BYTES
    assert batch.headers[ID].needs_deserialization  # type: ignore[attr-defined]


def test_a_multicast_that_must_not_loop_back_does_not() -> None:
    sender = fake()
    for type, payload in ((MessageType.BYTES, b"x"), (MessageType.LONG, 5)):
        batch = replace(run(payload, type=type), transient=int(Transient.DONT_LOOPBACK))
        sender.down(batch)
        assert sender.take_down()[0].transient == Transient.DONT_LOOPBACK


# Java's own packets


def test_messages_of_java_members_are_read() -> None:
    """The conversation has the plaintext beside each packet."""
    conversation = json.loads(CONVERSATION.read_text())
    read = 0
    for event in conversation["events"]:
        if " decrypts to: " not in event.get("summary", ""):
            continue
        stack = fake("AES/CBC/PKCS5Padding", 16, address=B)
        for batch in decode_packet(bytes.fromhex(event["hex"])).batches:
            stack.up(batch)
        (plain,) = stack.take_up()
        told = event["summary"].partition(" decrypts to: ")[2]
        kind = {"Bytes": MessageType.BYTES, "Object": MessageType.OBJECT}[told.split()[0]]
        assert plain.type == kind
        assert ID not in plain.headers
        if "secret" in told:
            assert plain.payloads == [b"secret"]
        if "object" in told:
            assert plain.payloads[0].value.value == "object o"
            assert plain.headers[NAKACK] == NakAckHeader2(NakAckType.MSG, 3)
        read += 1
    assert read == 6


def test_java_messages_without_payload_are_taken() -> None:
    conversation = json.loads(CONVERSATION.read_text())
    stack = fake("AES/CBC/PKCS5Padding", 16, address=B)
    taken = 0
    for event in conversation["events"]:
        summary = event.get("summary", "")
        if summary.startswith("Empty") and "SYM_ENCRYPT" in summary:
            for batch in decode_packet(bytes.fromhex(event["hex"])).batches:
                stack.up(batch)
            taken += 1
    assert taken > 5 and len(stack.take_up()) == taken


# Refused messages


def counters(stack: FakeStack) -> dict[str, int | float]:
    return {
        k: v for k, v in stack.protocol.statistics().items() if v and k.startswith("turned_away")
    }


def test_a_message_in_clear_is_dropped() -> None:
    stack = fake()
    stack.up(replace(run(b"one", b"two"), src=B))
    assert stack.take_up() == [] and counters(stack) == {"turned_away_unencrypted": 2}
    assert [(what, d["cause"]) for _, _, what, d in stack.traces] == [
        ("turned away", "unencrypted")
    ]


def test_a_message_under_another_key_is_dropped() -> None:
    sender, receiver = fake(key=OTHER, address=B), fake()
    assert sent_and_received(sender, receiver, replace(run(b"one"), src=B)) == []
    assert counters(receiver) == {"turned_away_unknown_key": 1}


@EVERY_KIND
def test_an_altered_message_is_dropped_and_the_rest_of_its_run_is_not(
    algorithm: str, iv: int
) -> None:
    sender, receiver = fake(algorithm, iv, address=B), fake(algorithm, iv)
    sender.down(replace(run(b"one", b"two", b"three"), src=B))
    batches = sender.take_down()
    payloads = [p for batch in batches for p in batch.payloads]
    bad = [payloads[0], payloads[1][:-1], payloads[2]]
    for batch in batches:
        receiver.up(Batch(None, [bad.pop(0) for _ in batch.payloads], batch.headers, B))
    got = messages(receiver.take_up())
    if algorithm == "AES/CTR/NoPadding":  # which notices nothing
        assert [payload for _, _, payload, _ in got] == [b"one", b"tw", b"three"]
        return
    assert [(number, payload) for number, _, payload, _ in got] == [(1, b"one"), (3, b"three")]
    assert counters(receiver) == {"turned_away_altered": 1}


@pytest.mark.parametrize("kind", [EncryptType.INSTALL_KEYS, EncryptType.FETCH_SHARED_KEY])
def test_a_message_with_keys_is_dropped(kind: EncryptType) -> None:
    stack = fake()
    stack.down(run(b"one"))
    (batch,) = stack.take_down()
    header = replace(batch.headers[ID], type=kind)  # type: ignore[call-arg]
    stack.up(replace(batch.with_header(ID, header), src=B))
    assert stack.take_up() == [] and counters(stack) == {"turned_away_malformed": 1}


def test_a_header_of_another_class_is_dropped() -> None:
    stack = fake()
    header = NakAckHeader2(NakAckType.MSG, 1)
    stack.up(Batch(None, (b"x",), {ID: header}, B))
    assert stack.take_up() == [] and counters(stack) == {"turned_away_malformed": 1}


def test_a_payload_that_is_no_bytes_is_dropped() -> None:
    stack = fake()
    stack.down(run(b"x"))
    (sent,) = stack.take_down()
    stack.up(Batch(None, (7,), sent.headers, B, type=MessageType.LONG))
    assert stack.take_up() == [] and counters(stack) == {"turned_away_malformed": 1}


def test_a_serialised_message_of_another_sender_is_dropped() -> None:
    """A message of one member cannot be replayed in the name of another, because the ciphertext contains the sender."""
    sender, receiver = fake(address=B), fake()
    sender.down(replace(run(5000, type=MessageType.LONG), src=B))
    (batch,) = sender.take_down()
    receiver.up(replace(batch, src=make_address(3)))
    assert receiver.take_up() == [] and counters(receiver) == {"turned_away_malformed": 1}
    receiver.up(batch)
    assert len(receiver.take_up()) == 1


def test_garbage_in_place_of_a_serialised_message_is_dropped() -> None:
    stack = fake()
    stack.down(run(b"no message at all"))
    (batch,) = stack.take_down()
    header = replace(batch.headers[ID], needs_deserialization=True)  # type: ignore[call-arg]
    stack.up(replace(batch.with_header(ID, header), src=B))
    assert stack.take_up() == [] and counters(stack) == {"turned_away_malformed": 1}


# A member's own messages


def test_an_own_message_that_comes_back_is_the_one_that_was_sent() -> None:
    stack = fake("AES/CBC/PKCS5Padding", 16)
    sent = run(b"one", b"two")
    stack.down(sent)
    for batch in stack.take_down():
        stack.up(batch)
    assert messages(stack.take_up()) == messages([sent])
    assert stack.protocol.statistics()["messages_decrypted"] == 0


def test_an_own_message_that_was_copied_below_is_decrypted() -> None:
    stack = fake()
    stack.down(run(b"one"))
    stack.up(replace(stack.take_down()[0]))
    assert messages(stack.take_up()) == [(1, 0, b"one", 0)]
    assert stack.protocol.statistics()["messages_decrypted"] == 1


def test_a_message_in_clear_with_our_own_address_is_dropped() -> None:
    stack = fake()
    stack.down(run(b"one"))
    stack.take_down()
    stack.up(run(b"forged"))
    assert stack.take_up() == [] and counters(stack) == {"turned_away_unencrypted": 1}


# Settings


def test_the_key_is_in_no_text() -> None:
    protocol = SYM_ENCRYPT(secret_key=KEY, store_password="open sesame", key_password="too")
    for text in (repr(protocol), repr(protocol.config), str(vars(fake().protocol))):
        assert KEY not in text and repr(bytes(range(16))) not in text
        assert "sesame" not in text and "too" not in text


@pytest.mark.parametrize(
    ("attributes", "where", "problem"),
    [
        ("", "SYM_ENCRYPT", "keystore_name must name a keystore file"),
        (
            'secret_key="00" keystore_name="x"',
            "SYM_ENCRYPT.keystore_name",
            "keystore_name must name a keystore file",
        ),
        ('secret_key="0011"', "SYM_ENCRYPT.secret_key", "must be 32, 48 or 64 hex digits"),
        ('secret_key="sesame"', "SYM_ENCRYPT.secret_key", "must be 32, 48 or 64 hex digits"),
        (
            f'secret_key="{KEY}" sym_algorithm="DES"',
            "SYM_ENCRYPT.sym_algorithm",
            "sym_algorithm must be one of AES,",
        ),
        (
            f'secret_key="{KEY}" sym_algorithm="AES/CBC/PKCS5Padding"',
            "SYM_ENCRYPT",
            "sym_iv_length must be 16",
        ),
        (
            'keystore_name="/no/such/file" store_password="sesame"',
            "SYM_ENCRYPT.keystore_name",
            "cannot read /no/such/file: No such file or directory",
        ),
    ],
)
def test_a_wrong_setting_is_told_with_its_place(
    tmp_path: Path, attributes: str, where: str, problem: str
) -> None:
    error = refusal_of(encrypted(f"SYM_ENCRYPT {attributes}"), tmp_path)
    assert (error.line, error.where) == (4, where)
    assert problem in error.problem
    assert "sesame" not in str(error) and KEY not in str(error)


def test_a_stack_file_can_be_read_where_its_keystore_is_not(tmp_path: Path) -> None:
    file = tmp_path / "s.xml"
    file.write_text(encrypted('SYM_ENCRYPT keystore_name="/no/such/file"'))
    assert len(build(load_stack(str(file)))) == 7


def test_sym_encrypt_stands_below_the_reliable_protocols(tmp_path: Path) -> None:
    door = f'<SYM_ENCRYPT secret_key="{KEY}"/>'
    text = encrypted("BARRIER").replace("<BARRIER/>", "")
    error = refusal_of(text.replace("<pbcast.STABLE/>", f"{door}<pbcast.STABLE/>"), tmp_path)
    assert "needs reliable multicast above it" in error.problem
    assert error.where == "SYM_ENCRYPT"


def test_a_keystore_of_java_is_used(tmp_path: Path) -> None:
    stores = json.loads((Path(__file__).parent / "keystores.json").read_text())
    for kind in ("PKCS12", "JCEKS"):
        path = tmp_path / kind
        path.write_bytes(bytes.fromhex(stores[kind]["file"]))
        protocol = SYM_ENCRYPT(keystore_name=str(path))
        assert protocol.config.key().hex() == stores[kind]["key"]


@pytest.mark.parametrize(("algorithm", "iv"), KINDS[1:])
def test_an_iv_that_comes_twice_harms_nobody(algorithm: str, iv: int) -> None:
    """Equal headers let the reader of a packet take messages for a run, and any process can repeat
    messages of others."""
    sender, receiver = fake(algorithm, iv), fake(algorithm, iv, address=B)
    sender.down(run(b"one"))
    (one,) = sender.take_down()
    header = one.headers[ID]
    assert isinstance(header, EncryptHeader) and header.iv is not None
    forged = replace(header, iv=header.iv[:-4] + b"\xff" * 4)  # no later one counts
    for twice in (header, forged):
        receiver.up(replace(one, payloads=[*one.payloads] * 3, headers={ID: twice}))
    receiver.take_up()
