"""Payloads as Java encrypts them, and refused ones."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from jgroups_py.protocols.security.ciphers import Cipher, NotDecrypted, Transformation, key_version
from jgroups_py.values.counted_iv import iv_after, ivs_from

KEY = bytes(range(16))
VECTORS = [
    vector
    for vector in json.loads(
        (Path(__file__).parents[1] / "wire/vectors/transforms.json").read_text()
    )
    if vector["kind"] == "sym_encrypt"
]
KINDS = [("AES", 0), ("AES/CBC/PKCS5Padding", 16), ("AES/CTR/NoPadding", 16)]
ALL_KINDS = [*KINDS, ("AES/GCM/NoPadding", 12), ("AES/GCM/NoPadding", 16)]


def made(algorithm: str, iv_length: int, key: bytes = KEY) -> Cipher:
    return Cipher(Transformation.parse(algorithm, iv_length), key, os.urandom)


def octets(field: Any) -> bytes:
    return bytes.fromhex(field["b"]) if field else b""


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v["name"])
def test_a_payload_that_java_encrypted_is_made_and_read(vector: dict[str, Any]) -> None:
    fields = vector["fields"]
    key, iv, plain = octets(fields["key"]), octets(fields["iv"]), octets(fields["plaintext"])
    how = Transformation.parse(fields["algorithm"], len(iv))
    cipher = Cipher(how, key, lambda count: iv)
    assert cipher.version == octets(fields["version"])
    assert cipher.encrypt(plain) == (iv or None, bytes.fromhex(vector["hex"]))
    assert cipher.decrypt(iv or None, bytes.fromhex(vector["hex"])) == plain


def test_vectors_with_and_without_an_iv_are_recorded() -> None:
    assert sorted(v["fields"]["iv"] is None for v in VECTORS) == [False, False, True, True]


@pytest.mark.parametrize(("algorithm", "iv_length"), ALL_KINDS)
@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 60_000])
def test_an_encrypted_payload_is_decrypted(algorithm: str, iv_length: int, size: int) -> None:
    plain = os.urandom(size)
    iv, data = made(algorithm, iv_length).encrypt(memoryview(plain))
    assert made(algorithm, iv_length).decrypt(iv, memoryview(data)) == plain
    assert len(iv or b"") == iv_length
    assert size < 16 or plain[:16] not in data


@pytest.mark.parametrize("key", [os.urandom(16), os.urandom(24), os.urandom(32)], ids=len)
def test_all_lengths_of_keys_are_taken(key: bytes) -> None:
    iv, data = made("AES/GCM/NoPadding", 12, key).encrypt(b"hello")
    assert made("AES/GCM/NoPadding", 12, key).decrypt(iv, data) == b"hello"
    assert key_version(key) != key_version(KEY)


@pytest.mark.parametrize("size", [0, 1, 40])
def test_gcm_notices_every_altered_bit(size: int) -> None:
    cipher = made("AES/GCM/NoPadding", 12)
    iv, data = cipher.encrypt(bytes(size))
    assert iv is not None
    for bit in range(8 * len(data)):
        bad = bytearray(data)
        bad[bit // 8] ^= 1 << bit % 8
        with pytest.raises(NotDecrypted):
            cipher.decrypt(iv, bytes(bad))
    with pytest.raises(NotDecrypted):
        cipher.decrypt(bytes(12), data)


@pytest.mark.parametrize(("algorithm", "iv_length"), [*KINDS[:2], *ALL_KINDS[3:]])
def test_another_key_does_not_decrypt(algorithm: str, iv_length: int) -> None:
    """With ECB and CBC one padding in 256 is valid by chance. The IV is the same in each run, so the result is, too."""
    cipher = Cipher(Transformation.parse(algorithm, iv_length), KEY, bytes)
    iv, data = cipher.encrypt(bytes(16))
    with pytest.raises(NotDecrypted):
        made(algorithm, iv_length, bytes(16)).decrypt(iv, data)


@pytest.mark.parametrize(("algorithm", "iv_length"), ALL_KINDS[:2])
def test_a_ciphertext_that_is_cut_is_refused(algorithm: str, iv_length: int) -> None:
    cipher = made(algorithm, iv_length)
    iv, data = cipher.encrypt(bytes(20))
    for size in (1, 15, 17, 31):
        with pytest.raises(NotDecrypted):
            cipher.decrypt(iv, data[:size])


@pytest.mark.parametrize(("algorithm", "iv_length"), ALL_KINDS)
@pytest.mark.parametrize("wrong", [None, b"", bytes(4), bytes(15)], ids=["none", "0", "4", "15"])
def test_an_iv_of_another_length_is_refused(
    algorithm: str, iv_length: int, wrong: bytes | None
) -> None:
    cipher = made(algorithm, iv_length)
    _, data = cipher.encrypt(bytes(20))
    if len(wrong or b"") == iv_length:
        return
    with pytest.raises(NotDecrypted):
        cipher.decrypt(wrong, data)


@pytest.mark.parametrize(("algorithm", "iv_length"), ALL_KINDS[1:])
def test_no_iv_comes_twice(algorithm: str, iv_length: int) -> None:
    ciphers = [made(algorithm, iv_length) for _ in range(3)]
    ivs = [cipher.encrypt(b"x")[0] for cipher in ciphers for _ in range(1000)]
    assert len(set(ivs)) == 3000


def test_the_blocks_of_two_messages_never_share_a_counter() -> None:
    """CTR counts up from the IV, one for each block: the next message begins beyond the blocks of the previous one."""
    cipher = made("AES/CTR/NoPadding", 16)
    first, second = (cipher.encrypt(b"x")[0] or b"" for _ in range(2))
    assert first[:12] != second[:12] and first[12:] == second[12:] == bytes(4)


def test_a_new_prefix_is_drawn_when_the_counter_is_full() -> None:
    drawn: list[int] = []

    def chance(count: int) -> bytes:
        drawn.append(count)
        return bytes([len(drawn)]) * count

    cipher = Cipher(Transformation.parse("AES/GCM/NoPadding", 12), KEY, chance)
    cipher.encrypt(b"")
    cipher._ivs._next = 2**32 - 1
    assert cipher.encrypt(b"")[0] == b"\1" * 8 + b"\xff" * 4
    assert cipher.encrypt(b"")[0] == b"\2" * 8 + b"\1\0\0\0"
    cipher._ivs._next = 2**32 - 2
    assert cipher.encrypt_run([b""] * 3)[0] == b"\3" * 8 + b"\1\0\0\0"
    assert drawn == [8, 8, 8]


@pytest.mark.parametrize(("algorithm", "iv_length"), ALL_KINDS[2:])
def test_the_ivs_of_a_run_follow_each_other_and_each_is_decrypted(
    algorithm: str, iv_length: int
) -> None:
    cipher = made(algorithm, iv_length)
    plain = [b"%d" % n for n in range(600)]
    first, data = cipher.encrypt_run(plain)
    ivs = ivs_from(first, len(plain))
    assert ivs == [iv_after(first, n) for n in range(len(plain))] and len(set(ivs)) == len(plain)
    assert cipher.encrypt(b"")[0] == iv_after(first, len(plain))
    assert [cipher.decrypt(iv, one) for iv, one in zip(ivs, data, strict=True)] == plain


def test_an_iv_of_random_bytes_may_not_count() -> None:
    for iv in (b"", bytes(8), bytes(12), b"\1" * 7 + b"\0" + b"\1" * 4):
        assert iv_after(iv, 1) is None and ivs_from(iv, 1) == [iv]
    last = b"\1" * 8 + b"\xff" * 4
    assert iv_after(last, 1) is None and ivs_from(last, 3) == [last]


@pytest.mark.parametrize(
    ("algorithm", "iv_length", "problem"),
    [
        ("DES", 0, "sym_algorithm must be one of AES, "),
        ("AES/XTS/NoPadding", 16, 'got "AES/XTS/NoPadding"'),
        ("AES/CBC/NoPadding", 16, "sym_algorithm must be one of"),
        ("AES/GCM/PKCS5Padding", 12, "sym_algorithm must be one of"),
        ("AES", 16, "sym_iv_length must be 0 with AES, got 16"),
        ("AES/CBC/PKCS5Padding", 0, "sym_iv_length must be 16 with AES/CBC/PKCS5Padding, got 0"),
        ("AES/GCM/NoPadding", 8, "sym_iv_length must be 12 to 16 with AES/GCM/NoPadding, got 8"),
    ],
)
def test_a_cipher_that_is_not_there_is_explained(
    algorithm: str, iv_length: int, problem: str
) -> None:
    with pytest.raises(ValueError, match=r"^sym_") as caught:
        Transformation.parse(algorithm, iv_length)
    assert problem in str(caught.value)
