"""Keystores: read the secret key of an alias from a file that Java's keytool has made.

    PKCS12    the default of keytool since Java 9; the keys of Java 8 (PBE with SHA-1 and triple DES) are read, too
    JCEKS     the default of JGroups

The first bytes of the file tell its kind; ``keystore_type`` does not matter.

Source:  RFC 7292 (PKCS #12), RFC 8018 (PBES2); JGroups SYM_ENCRYPT.readSecretKeyFromKeystore.
Differs: ``cryptography`` reads certificates and private keys of a PKCS12 file, but no secret keys. So those are
         read here, with its primitives.
"""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path
from typing import Final

from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher, modes
from cryptography.hazmat.primitives.ciphers.algorithms import AES

from jgroups_py.errors import RemoteProtocolError
from jgroups_py.protocols.security.der import (
    INTEGER,
    OCTETS,
    SEQUENCE,
    SET,
    TEXT_16,
    BadDer,
    DerElement,
    whole,
)
from jgroups_py.wire.java_stream import read_fields
from jgroups_py.wire.primitives import Reader

MAX_SIZE: Final = 1_000_000
"""The most bytes of a keystore; a larger file is none."""
MAX_ITERATIONS: Final = 1_000_000
"""The most iterations for a key; more would keep a member from starting."""
_JCEKS: Final = 0xCECECECE
_JKS: Final = 0xFEEDFEED

_DATA: Final = "1.2.840.113549.1.7.1"
_ENCRYPTED_DATA: Final = "1.2.840.113549.1.7.6"
_SECRET_BAG: Final = "1.2.840.113549.1.12.10.1.5"
_FRIENDLY_NAME: Final = "1.2.840.113549.1.9.20"
_PBES2: Final = "1.2.840.113549.1.5.13"
_PBE_SHA1_3DES: Final = "1.2.840.113549.1.12.1.3"
_AES_CBC: Final = {
    "2.16.840.1.101.3.4.1.2": 16,
    "2.16.840.1.101.3.4.1.22": 24,
    "2.16.840.1.101.3.4.1.42": 32,
}
"""Cipher -> the bytes of its key."""
_HMACS: Final = {
    "1.2.840.113549.2.7": "sha1",
    "1.2.840.113549.2.9": "sha256",
    "1.2.840.113549.2.10": "sha384",
    "1.2.840.113549.2.11": "sha512",
}
_DIGESTS: Final = {
    "1.3.14.3.2.26": "sha1",
    "2.16.840.1.101.3.4.2.1": "sha256",
    "2.16.840.1.101.3.4.2.2": "sha384",
    "2.16.840.1.101.3.4.2.3": "sha512",
}
_KEY, _IV, _MAC = 1, 2, 3
"""Purposes of the keys that are derived from a password in PKCS #12."""


class KeystoreError(Exception):
    """A keystore does not yield a key. The text has the reason and a remedy, and no password."""


def read_secret_key(path: str, store_password: str, key_password: str, alias: str) -> bytes:
    """Return the bytes of the secret key ``alias``.

    Raises:
        KeystoreError: the file, the password or the key is wrong.
    """
    data = _read(path)
    try:
        if data[:1] == b"\x30":
            return _from_pkcs12(data, store_password, key_password, alias)
        magic = int.from_bytes(data[:4], "big")
        if magic == _JCEKS:
            return _from_jceks(data, store_password, key_password, alias)
    except (BadDer, RemoteProtocolError, IndexError, UnicodeDecodeError):
        raise KeystoreError(f"{path} is damaged, or has a form that is not known here") from None
    except KeystoreError as error:
        raise KeystoreError(f"{path}: {error}") from None
    kind = "a JKS keystore, which holds no secret keys" if magic == _JKS else "no keystore"
    raise KeystoreError(
        f"{path} is {kind} (make one with keytool -genseckey -keyalg AES -keysize 128 "
        f"-storetype PKCS12 -keystore FILE -alias {alias})"
    )


def _read(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_SIZE + 1)
    except OSError as error:
        raise KeystoreError(f"cannot read {path}: {error.strerror}") from None
    if len(data) > MAX_SIZE:
        raise KeystoreError(f"{path} is larger than {MAX_SIZE} bytes, so it is no keystore")
    return data


def _not_there(alias: str, found: list[str]) -> KeystoreError:
    names = ", ".join(found) or "no secret key at all"
    return KeystoreError(f'no secret key "{alias}" in it (it has {names})')


# PKCS12


def _from_pkcs12(data: bytes, store_password: str, key_password: str, alias: str) -> bytes:
    parts = whole(data).children()
    safe = _content_of(parts[1])
    if len(parts) > 2:
        _check_mac(parts[2], safe, store_password)
    names: list[str] = []
    for info in whole(safe).children():
        kind = info.child(0).oid
        if kind == _ENCRYPTED_DATA:
            continue  # certificates; keytool puts secret keys elsewhere
        for bag in whole(_content_of(info)).children():
            if bag.child(0).oid != _SECRET_BAG:
                continue
            name = _friendly_name(bag)
            names.append(name)
            if name.lower() == alias.lower():
                return _secret(bag.child(1), key_password)
    raise _not_there(alias, names)


def _content_of(info: DerElement) -> bytes:
    """Return the octets of a ContentInfo of type data."""
    if info.tag != SEQUENCE or info.child(0).oid != _DATA:
        raise BadDer
    return info.child(1).child(0, OCTETS).content


def _friendly_name(bag: DerElement) -> str:
    for attribute in bag.child(2, SET).children():
        if attribute.child(0).oid == _FRIENDLY_NAME:
            return attribute.child(1, SET).child(0, TEXT_16).content.decode("utf-16-be")
    return ""


def _secret(wrapped: DerElement, password: str) -> bytes:
    """Decrypt a SecretBag: a type and an EncryptedPrivateKeyInfo, which has the key's bytes in a PrivateKeyInfo."""
    encrypted = whole(wrapped.child(0, SEQUENCE).child(1).child(0, OCTETS).content)
    plain = _decrypt(encrypted.child(0, SEQUENCE), encrypted.child(1, OCTETS).content, password)
    try:
        return whole(plain).child(2, OCTETS).content
    except BadDer:
        raise KeystoreError("key_password does not fit the key") from None


def _decrypt(algorithm: DerElement, data: bytes, password: str) -> bytes:
    kind, parameters = algorithm.child(0).oid, algorithm.child(1, SEQUENCE)
    if not data:
        raise BadDer
    if kind == _PBE_SHA1_3DES:
        salt = parameters.child(0, OCTETS).content
        rounds = _iterations(parameters.child(1, INTEGER))
        key = _pkcs12_key("sha1", password, salt, rounds, _KEY, 24)
        iv = _pkcs12_key("sha1", password, salt, rounds, _IV, 8)
        return _plain(Cipher(TripleDES(key), modes.CBC(iv)), data, 8)
    if kind != _PBES2:
        raise KeystoreError(f"a key is encrypted in a way that is not known here ({kind})")
    derive, cipher = parameters.child(0, SEQUENCE).child(1, SEQUENCE), parameters.child(1, SEQUENCE)
    size, iv = _AES_CBC.get(cipher.child(0).oid), cipher.child(1, OCTETS).content
    if size is None or len(iv) != 16:
        raise KeystoreError("a key is encrypted with a cipher that is not known here")
    digest = "sha1"
    for element in derive.children()[2:]:
        if element.tag == SEQUENCE:
            digest = _HMACS.get(element.child(0).oid, "")
    if not digest:
        raise KeystoreError("a key is encrypted with a digest that is not known here")
    salt, rounds = derive.child(0, OCTETS).content, _iterations(derive.child(1, INTEGER))
    key = hashlib.pbkdf2_hmac(digest, password.encode(), salt, rounds, size)
    return _plain(Cipher(AES(key), modes.CBC(iv)), data, 16)


def _iterations(element: DerElement) -> int:
    if not 0 < element.number <= MAX_ITERATIONS:
        raise KeystoreError(f"it wants {element.number} iterations (at most {MAX_ITERATIONS})")
    return element.number


def _plain(cipher: Cipher[modes.CBC], data: bytes, block: int) -> bytes:
    """Decrypt, and remove the padding."""
    if len(data) % block:
        raise BadDer
    plain = cipher.decryptor().update(data)
    count = plain[-1]
    if not 1 <= count <= block or plain[-count:] != bytes([count]) * count:
        raise KeystoreError("key_password does not fit the key")
    return plain[:-count]


def _check_mac(mac: DerElement, safe: bytes, password: str) -> None:
    info = mac.child(0, SEQUENCE)
    digest = _DIGESTS.get(info.child(0).child(0).oid)
    if digest is None:
        raise KeystoreError("its checksum is of a kind that is not known here")
    salt = mac.child(1, OCTETS).content
    rounds = _iterations(mac.child(2, INTEGER)) if len(mac.children()) > 2 else 1
    size = hashlib.new(digest).digest_size
    key = _pkcs12_key(digest, password, salt, rounds, _MAC, size)
    if not hmac.compare_digest(hmac.digest(key, safe, digest), info.child(1, OCTETS).content):
        raise KeystoreError("store_password does not fit it, or it was altered")


def _pkcs12_key(
    digest: str, password: str, salt: bytes, rounds: int, purpose: int, size: int
) -> bytes:
    """Derive bytes from a password (RFC 7292, appendix B.2)."""
    block = 128 if digest in ("sha384", "sha512") else 64
    text = (password + "\0").encode("utf-16-be")
    filled = _filled(salt, block) + _filled(text, block)
    out = b""
    while True:
        part = bytes([purpose]) * block + filled
        for _ in range(rounds):
            part = hashlib.new(digest, part).digest()
        out += part
        if len(out) >= size:
            return out[:size]
        add = int.from_bytes(_filled(part, block)[:block], "big") + 1
        modulus = 1 << 8 * block
        pieces = [filled[at : at + block] for at in range(0, len(filled), block)]
        filled = b"".join(
            [
                ((int.from_bytes(piece, "big") + add) % modulus).to_bytes(block, "big")
                for piece in pieces
            ]
        )


def _filled(data: bytes, block: int) -> bytes:
    """Return ``data``, repeated to whole blocks."""
    if not data:
        return b""
    size = block * ((len(data) + block - 1) // block)
    return (data * (size // len(data) + 1))[:size]


# JCEKS


def _from_jceks(data: bytes, store_password: str, key_password: str, alias: str) -> bytes:
    """| u32 magic | u32 version | u32 count | entries | SHA-1 of the password and all of it |"""
    body, checksum = data[:-20], data[-20:]
    salted = store_password.encode("utf-16-be") + b"Mighty Aphrodite" + body
    if not hmac.compare_digest(hashlib.sha1(salted, usedforsecurity=False).digest(), checksum):
        raise KeystoreError("store_password does not fit it, or it was altered")
    r = Reader(body, 8)
    names: list[str] = []
    for _ in range(r.count(r.i32(), 14, "entries")):
        kind, name = r.u32(), r.mutf()
        r.i64()
        if kind == 3:
            sealed = read_fields(r)
            names.append(name)
            if name.lower() == alias.lower():
                return _unsealed(sealed, key_password)
        else:
            _skip_jceks_entry(r, kind)
    raise _not_there(alias, names)


def _skip_jceks_entry(r: Reader, kind: int) -> None:
    """Skip a private key with its certificates (1), or a certificate (2)."""
    count = 1
    if kind == 1:
        r.skip(r.i32())
        count = r.count(r.i32(), 6, "certificates")
    elif kind != 2:
        raise BadDer
    for _ in range(count):
        r.mutf()
        r.skip(r.i32())


def _unsealed(sealed: dict[str, bytes | str], password: str) -> bytes:
    """Decrypt a SealedObject of the algorithm PBEWithMD5AndTripleDES. It holds a SecretKeySpec or a KeyRep."""
    data, parameters = sealed.get("encryptedContent"), sealed.get("encodedParams")
    if not isinstance(data, bytes) or not isinstance(parameters, bytes):
        raise BadDer
    if sealed.get("sealAlg") != "PBEWithMD5AndTripleDES":
        raise KeystoreError("a key is encrypted in a way that is not known here")
    element = whole(parameters)
    salt, rounds = element.child(0, OCTETS).content, _iterations(element.child(1, INTEGER))
    if len(salt) != 8:
        raise BadDer
    halves = [salt[:4], salt[4:]]
    if halves[0] == halves[1]:
        first = halves[0]
        halves[0] = bytes([first[3], first[0], first[1], first[3]])  # Java reverses it, too
    secret = password.encode("ascii", "replace")
    key = b""
    for half in halves:
        for _ in range(rounds):
            half = hashlib.md5(half + secret, usedforsecurity=False).digest()
        key += half
    plain = _plain(Cipher(TripleDES(key[:24]), modes.CBC(key[24:])), data, 8)
    fields = read_fields(Reader(plain))
    found = fields.get("key", fields.get("encoded"))
    if not isinstance(found, bytes):
        raise BadDer
    return found
