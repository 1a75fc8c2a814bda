"""Group keys under public keys: OpenSSL decrypts keys that are encrypted here, and the other way round."""

from __future__ import annotations

import random

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from jgroups_py.protocols.security.rsa import (
    PADDINGS,
    KeyPair,
    UnusableKey,
    encrypt,
    read_public_key,
)
from jgroups_py.stack.key_pairs import new_key_pair
from jgroups_py.stack.machine import Machine
from jgroups_py.stack.protocol import Protocol
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.testing.sim.key_pairs import BITS, seeded_key_pair

PRIVATE = seeded_key_pair("rsa")
EVERY_PADDING = pytest.mark.parametrize("digest", sorted(set(PADDINGS.values())))


def secrets(seed: int) -> random.Random:
    return random.Random(seed)


@EVERY_PADDING
@pytest.mark.parametrize("size", [16, 24, 32])
def test_the_owner_decrypts_its_messages(digest: str, size: int) -> None:
    pair = KeyPair(PRIVATE, digest)
    key = bytes(range(size))
    for seed in range(50):  # random bytes of 0 must not end the padding
        sealed = encrypt(pair.public, key, digest, secrets(seed).randbytes)
        assert len(sealed) == BITS // 8 and pair.decrypt(sealed) == key


@EVERY_PADDING
def test_a_text_that_openssl_encrypted_is_decrypted(digest: str) -> None:
    pair = KeyPair(PRIVATE, digest)
    public = serialization.load_der_public_key(pair.public.encoded)
    assert isinstance(public, RSAPublicKey)
    kinds = {"sha1": hashes.SHA1, "sha256": hashes.SHA256}
    how = (
        padding.OAEP(padding.MGF1(hashes.SHA1()), kinds[digest](), None)
        if digest
        else padding.PKCS1v15()
    )
    assert pair.decrypt(public.encrypt(b"k" * 16, how)) == b"k" * 16


@EVERY_PADDING
def test_another_member_does_not_decrypt_it(digest: str) -> None:
    pair, other = KeyPair(PRIVATE, digest), KeyPair(seeded_key_pair("other"), digest)
    sealed = encrypt(pair.public, b"k" * 16, digest, secrets(1).randbytes)
    try:
        # OpenSSL answers a wrong padding of PKCS #1 with random bytes, so that no attacker learns of it.
        assert other.decrypt(sealed) != b"k" * 16
    except UnusableKey:
        pass


def test_the_filler_has_no_zero() -> None:
    pair = KeyPair(PRIVATE, "")
    seed = iter([b"\0" * 200, b"\1\0" * 100, b"\2" * 200])
    sealed = encrypt(pair.public, b"k" * 16, "", lambda count: next(seed)[:count])
    assert pair.decrypt(sealed) == b"k" * 16


def test_a_key_of_another_kind_is_none() -> None:
    curve = ec.generate_private_key(ec.SECP256R1()).public_key()
    encoded = curve.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    for bad in (encoded, b"", b"\x30\x00", PRIVATE):
        with pytest.raises(UnusableKey):
            read_public_key(bad)


def test_key_pairs_come_from_openssl_and_in_a_simulation_from_the_seed() -> None:
    assert Machine("A", random=random.Random(0)).key_pairs is new_key_pair
    private = serialization.load_der_private_key(new_key_pair(1024), None)
    assert private.key_size == 1024  # type: ignore[union-attr]
    a, again, b = (
        FakeStack(Protocol(), address=make_address(n)).machine.key_pairs(2048) for n in (1, 1, 2)
    )
    assert a == again != b
