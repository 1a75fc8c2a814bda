"""The key ring: reading, refusals, changes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jgroups_py.config.private_file import read_private, write_private
from jgroups_py.errors import ConfigError
from jgroups_py.protocols.seal.ring import (
    KEYS_MAX,
    NO_KEYS,
    RING_SIZE_MAX,
    Ring,
    RingKey,
    parse_ring,
    read_ring,
)

NOW = 1_800_000_000


def ring_of(*made: int) -> Ring:
    return Ring(tuple(RingKey(bytes([n]) * 32, at) for n, at in enumerate(made)))


def line_of(key: RingKey) -> str:
    return f"key {key.id.hex()} {key.made_text} {key.secret.hex()}"


def test_a_ring_that_was_written_is_read_again() -> None:
    ring = ring_of(NOW, NOW - 5, NOW + 7)
    assert parse_ring(ring.text().encode(), "ring") == ring
    assert ring.writer is ring.keys[0]
    assert ring.find(ring.keys[2].id) is ring.keys[2] and ring.find(b"none") is None


def test_comments_and_empty_lines_are_passed_over() -> None:
    key = ring_of(NOW).keys[0]
    text = f"# a ring\r\n\r\n  {line_of(key)}   # of the shop\n\n"
    assert parse_ring(text.encode(), "ring").keys == (key,)


def test_an_id_is_public_and_tells_keys_apart() -> None:
    """The bytes are fixed in this test: a ring made by one release is read by the next."""
    a, b = ring_of(NOW, NOW).keys
    assert a.id.hex() == "0850aaeb" and a.id != b.id


GOOD = line_of(ring_of(NOW).keys[0])
ID, TIME, SECRET = GOOD.split()[1:]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("hello", "this line has 1"),
        (GOOD + " more", "this line has 5"),
        (GOOD.replace("key", "Key"), "this line has 4"),
        (GOOD.replace(ID, ID.upper()), "the id of a key is 8 hex digits"),
        (GOOD.replace(ID, "12"), "the id of a key is 8 hex digits"),
        (GOOD.replace(TIME, "yesterday"), f"key {ID}: the time must be like 2026-11-25T10:30:00Z"),
        (GOOD.replace(SECRET, SECRET[2:]), f"key {ID}: the secret must be 64 hex digits"),
        (GOOD.replace(SECRET, "g" * 64), f"key {ID}: the secret must be 64 hex digits"),
        (GOOD.replace(SECRET, "1" * 64), f"key {ID}: the secret does not fit the id"),
        (GOOD, f"key {ID} is in line 1 already"),
    ],
)
def test_a_bad_line_is_told_with_its_number_and_without_its_secret(line: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_ring(f"{GOOD}\n# next\n{line}\n".encode(), "ring.keys")
    assert str(caught.value).startswith("ring.keys:3: ") and problem in str(caught.value)
    assert all(word not in str(caught.value) for word in line.split() if len(word) > 40)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "ring.keys: has no key (jgroups-py keys new makes one)"),
        (b"# nothing\n", "ring.keys: has no key"),
        (b"# \xc3\xa4\n", "ring.keys:1: has a character that is not ASCII"),
        (b"#\n\xff", "ring.keys:2: has a character that is not ASCII"),
        (b"#" * (RING_SIZE_MAX + 1), "ring.keys: is larger than 65536 bytes"),
    ],
)
def test_a_file_that_is_no_ring_is_reported(data: bytes, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_ring(data, "ring.keys")
    assert problem in str(caught.value)


def test_a_ring_has_a_limit_of_keys() -> None:
    full = ring_of(*range(NOW, NOW + KEYS_MAX))
    assert len(parse_ring(full.text().encode(), "ring").keys) == KEYS_MAX
    with pytest.raises(ConfigError, match="has more than 16 keys"):
        parse_ring(ring_of(*range(NOW, NOW + KEYS_MAX + 1)).text().encode(), "ring")
    with pytest.raises(ConfigError, match="has 16 keys already"):
        full.with_new(NOW, os.urandom)


def test_no_secret_is_in_a_repr() -> None:
    ring = ring_of(NOW)
    assert SECRET not in repr(ring) and repr(ring.keys[0].secret) not in repr(ring)
    assert "secret" not in repr(ring)


# --- changing


def test_the_first_key_writes_and_a_new_one_only_reads() -> None:
    one = NO_KEYS.with_new(NOW, os.urandom)
    two = one.with_new(NOW, os.urandom)
    assert two.writer == one.writer and len(two.keys) == 2
    assert len({key.secret for key in two.keys}) == 2


def test_a_new_key_is_the_newest_even_if_the_clock_went_back() -> None:
    ring = ring_of(NOW).with_new(NOW - 1000, os.urandom)
    assert ring.keys[1].made == NOW + 1


def test_rotate_lets_the_newest_key_write_and_keeps_the_one_that_wrote() -> None:
    ring = ring_of(NOW, NOW + 1)
    turned = ring.rotated(2)
    assert turned.keys == (ring.keys[1], ring.keys[0])


def test_rotate_drops_the_oldest_keys() -> None:
    ring = ring_of(NOW + 2, NOW + 1, NOW, NOW + 3)
    assert [key.made - NOW for key in ring.rotated(2).keys] == [3, 2]
    assert [key.made - NOW for key in ring.rotated(3).keys] == [3, 2, 1]


def test_rotate_never_brings_an_old_key_back() -> None:
    with pytest.raises(ConfigError, match="has no key newer than"):
        ring_of(NOW, NOW + 1).rotated(2).rotated(2)


# --- the file


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "ring.keys"
    file.write_text(ring_of(NOW).text())
    for mode in (0o600, 0o400):
        file.chmod(mode)
        assert read_ring(str(file)) == ring_of(NOW)
    for mode in (0o640, 0o604, 0o620, 0o644):
        file.chmod(mode)
        with pytest.raises(ConfigError, match=rf"ring\.keys: holds secrets.*mode {mode:04o}; 0600"):
            read_ring(str(file))


def test_a_path_that_is_no_plain_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_ring(str(tmp_path / "nothing"))
    with pytest.raises(ConfigError, match="is no plain file"):
        read_ring(str(tmp_path))
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(ConfigError, match="is no plain file"):
        read_ring(str(tmp_path / "pipe"))
    write_private(str(tmp_path / "large"), b"#" * (RING_SIZE_MAX + 1))
    with pytest.raises(ConfigError, match="is larger than 65536 bytes"):
        read_ring(str(tmp_path / "large"))


def test_a_file_that_has_not_changed_is_not_read_again(tmp_path: Path) -> None:
    name = str(tmp_path / "ring.keys")
    write_private(name, b"one")
    first = read_private(name, 100)
    assert first is not None and first.data == b"one" and b"one" not in repr(first).encode()
    assert read_private(name, 100, first.stamp) is None
    write_private(
        name, b"two"
    )  # another file replaces it, so the stamp differs on fast machines, too
    second = read_private(name, 100, first.stamp)
    assert second is not None and second.data == b"two"


def test_a_written_file_is_private_whole_and_behind_its_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "ring.keys")
    write_private(str(tmp_path / "link"), b"one")
    write_private(str(tmp_path / "link"), b"two")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "ring.keys").read_bytes() == b"two"
    assert (tmp_path / "ring.keys").stat().st_mode & 0o777 == 0o600
    assert sorted(os.listdir(tmp_path)) == ["link", "ring.keys"]
    with pytest.raises(ConfigError, match="cannot be written: No such file"):
        write_private(str(tmp_path / "no" / "ring.keys"), b"x")
