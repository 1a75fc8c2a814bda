"""Secret keys from keystores that keytool has made."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from jgroups_py.protocols.security.der import whole
from jgroups_py.protocols.security.keystore import KeystoreError, read_secret_key

STORES = json.loads((Path(__file__).parent / "keystores.json").read_text())
KINDS = [kind for kind in STORES if kind != "note"]


def store(folder: Path, kind: str) -> tuple[str, bytes, bytes]:
    """Path, content and key."""
    data, key = bytes.fromhex(STORES[kind]["file"]), bytes.fromhex(STORES[kind]["key"])
    path = folder / "keys"
    path.write_bytes(data)
    return str(path), data, key


@pytest.mark.parametrize("kind", KINDS)
def test_the_key_is_read(tmp_path: Path, kind: str) -> None:
    path, _, key = store(tmp_path, kind)
    assert read_secret_key(path, "changeit", "changeit", "mykey") == key
    assert read_secret_key(path, "changeit", "changeit", "MyKey") == key


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("store_password", "key_password", "alias", "problem"),
    [
        ("guess", "changeit", "mykey", "store_password does not fit it, or it was altered"),
        ("changeit", "guess", "mykey", "key_password does not fit the key"),
        ("changeit", "changeit", "other", 'no secret key "other" in it (it has mykey)'),
    ],
)
def test_a_mistake_is_told_without_a_password(
    tmp_path: Path, kind: str, store_password: str, key_password: str, alias: str, problem: str
) -> None:
    path, _, _ = store(tmp_path, kind)
    with pytest.raises(KeystoreError) as caught:
        read_secret_key(path, store_password, key_password, alias)
    assert str(caught.value) == f"{path}: {problem}"
    assert "guess" not in str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_any_damage_gives_one_kind_of_error(tmp_path: Path, kind: str) -> None:
    path, data, key = store(tmp_path, kind)
    chance = random.Random(7)
    for number in range(50):
        bad = bytearray(data)
        if number % 2:
            del bad[chance.randrange(len(bad)) :]
        else:
            bad[chance.randrange(len(bad))] ^= 1 << chance.randrange(8)
        Path(path).write_bytes(bad)
        try:
            found = read_secret_key(path, "changeit", "changeit", "mykey")
        except KeystoreError:
            continue
        assert found == key, "a damaged key was taken"


def der(tag: int, content: bytes) -> bytes:
    size = len(content).to_bytes(2, "big")
    return bytes([tag, 0x82]) + size + content


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "JCEKS"])
def test_a_store_without_a_check_sum_is_read(tmp_path: Path, kind: str) -> None:
    """keytool makes such keystores with -J-Dkeystore.pkcs12.macAlgorithm=NONE: they need no store password."""
    path, data, key = store(tmp_path, kind)
    top = whole(data)
    version, content, _mac = top.children()
    parts = der(version.tag, version.content) + der(content.tag, content.content)
    Path(path).write_bytes(der(top.tag, parts))
    assert read_secret_key(path, "anything", "changeit", "mykey") == key


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is no keystore (make one with keytool -genseckey"),
        (b"hello world", "is no keystore"),
        (b"\xfe\xed\xfe\xed" + bytes(30), "is a JKS keystore, which holds no secret keys"),
        (b"0" + bytes(1_000_000), "is larger than 1000000 bytes"),
    ],
    ids=["empty", "text", "jks", "large"],
)
def test_a_file_that_is_no_keystore_is_reported(
    tmp_path: Path, content: bytes, problem: str
) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(KeystoreError) as caught:
        read_secret_key(str(path), "changeit", "changeit", "mykey")
    assert problem in str(caught.value)


def test_a_file_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(KeystoreError, match="No such file or directory"):
        read_secret_key(str(tmp_path / "none"), "changeit", "changeit", "mykey")
