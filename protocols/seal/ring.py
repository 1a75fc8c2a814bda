"""The key ring of SEAL: the keys that members of a group share, as a text.

    # a comment
    key 5f2a90c1 2026-11-25T10:30:00Z 0123...cdef        its id, the time when it was made, 32 bytes in hex

The first key encrypts. All keys decrypt, so a ring may change at one member after the other. An id is the beginning of
a hash of its key. It goes over the wire in clear, and it shows that a line was damaged.

Limits:  KEYS_MAX keys, and RING_SIZE_MAX bytes of text.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from jgroups_py.config.private_file import read_private
from jgroups_py.errors import ConfigError

KEYS_MAX: Final = 16
"""Keys of a ring. A packet names its key, so more of them cost memory and no time."""
RING_SIZE_MAX: Final = 65_536
"""Bytes of a ring's text, comments included."""
KEY_SIZE: Final = 32
ID_SIZE: Final = 4
_FORM: Final = "%Y-%m-%dT%H:%M:%SZ"
_HEADING: Final = (
    "# Key ring of jgroups_py (SEAL). Everybody who has this file is a member of the group.\n"
    "# The first key writes, all keys read. jgroups-py keys new|rotate|show changes and shows it.\n"
)


@dataclass(frozen=True, slots=True)
class RingKey:
    """One key. ``made``: the time when it was made, in seconds since 1970."""

    secret: bytes = field(repr=False)
    made: int
    id: bytes = field(init=False)

    def __post_init__(self) -> None:
        assert len(self.secret) == KEY_SIZE
        digest = hashlib.sha256(b"jgroups_py key id" + self.secret).digest()
        object.__setattr__(self, "id", digest[:ID_SIZE])

    @property
    def made_text(self) -> str:
        """The time when the key was made, as in the file."""
        return datetime.fromtimestamp(self.made, UTC).strftime(_FORM)


@dataclass(frozen=True, slots=True)
class Ring:
    """The keys of a group, in the order of the file. There is at least one."""

    keys: tuple[RingKey, ...]

    @property
    def writer(self) -> RingKey:
        """The key that encrypts."""
        return self.keys[0]

    def find(self, id: bytes) -> RingKey | None:
        """Return the key with that id."""
        return next((key for key in self.keys if key.id == id), None)

    def text(self) -> str:
        """Return the contents of the file."""
        lines = (f"key {key.id.hex()} {key.made_text} {key.secret.hex()}\n" for key in self.keys)
        return _HEADING + "".join(lines)

    def with_new(self, now: int, secrets: Callable[[int], bytes]) -> Ring:
        """Add a key at the end. It only decrypts as yet.

        Raises:
            ConfigError: the ring is full.
        """
        if len(self.keys) >= KEYS_MAX:
            raise ConfigError(
                f"has {KEYS_MAX} keys already (jgroups-py keys rotate drops those that are old)"
            )
        # Later than all others, so that rotate knows the new one even if the clock is wrong.
        made = max([now, *(key.made + 1 for key in self.keys)])
        return replace(self, keys=(*self.keys, RingKey(secrets(KEY_SIZE), made)))

    def rotated(self, keep: int) -> Ring:
        """Let the newest key encrypt. Of the others, the newest ones stay, so that ``keep`` keys are left.

        Raises:
            ConfigError: the newest key encrypts already.
        """
        by_age = sorted(self.keys, key=lambda key: -key.made)
        if by_age[0] is self.writer:
            raise ConfigError(
                f"has no key newer than {self.writer.id.hex()}, which writes (make one with jgroups-py keys new, and give "
                "the file to all members before you rotate)"
            )
        return replace(self, keys=tuple(by_age[:keep]))


NO_KEYS: Final = Ring(())
"""The ring without keys. It is of no use before ``with_new``."""


def parse_ring(data: bytes, file: str) -> Ring:
    """Read the text of a ring. ``file`` is for errors.

    Raises:
        ConfigError: the text is no key ring. The error has file and line, and contains no part of a key.
    """
    if len(data) > RING_SIZE_MAX:
        raise ConfigError(f"is larger than {RING_SIZE_MAX} bytes", file=file)
    try:
        lines = data.decode("ascii").splitlines()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError("has a character that is not ASCII", file=file, line=line) from None
    keys: dict[bytes, tuple[RingKey, int]] = {}
    for number, text in enumerate(lines, 1):
        words = text.partition("#")[0].split()
        if not words:
            continue
        try:
            key = _key(words)
        except ValueError as error:
            raise ConfigError(str(error), file=file, line=number) from None
        if key.id in keys:
            before = keys[key.id][1]
            problem = f"key {key.id.hex()} is in line {before} already"
            raise ConfigError(problem, file=file, line=number)
        if len(keys) >= KEYS_MAX:
            raise ConfigError(f"has more than {KEYS_MAX} keys", file=file, line=number)
        keys[key.id] = key, number
    if not keys:
        raise ConfigError("has no key (jgroups-py keys new makes one)", file=file)
    return Ring(tuple(key for key, _ in keys.values()))


def read_ring(file: str) -> Ring:
    """Read the ring in a file.

    Raises:
        ConfigError: as ``parse_ring``, or the file cannot be read, or others than its owner can read it.
    """
    found = read_private(file, RING_SIZE_MAX)
    assert found is not None
    return parse_ring(found.data, file)


def _key(words: list[str]) -> RingKey:
    """Read the words of one line. A word is shown only if it cannot be a key's."""
    if words[0] != "key" or len(words) != 4:
        raise ValueError(
            f"is not a line of a key ring: key ID TIME SECRET has 4 words, this line has {len(words)}"
        )
    _, id, made, secret = words
    if not re.fullmatch("[0-9a-f]{8}", id):
        raise ValueError("the id of a key is 8 hex digits, in lower case")
    try:
        seconds = int(datetime.strptime(made, _FORM).replace(tzinfo=UTC).timestamp())
    except ValueError:
        raise ValueError(f"key {id}: the time must be like 2026-11-25T10:30:00Z") from None
    if not re.fullmatch("[0-9a-f]{64}", secret):
        raise ValueError(f"key {id}: the secret must be 64 hex digits, in lower case")
    key = RingKey(bytes.fromhex(secret), seconds)
    if key.id.hex() != id:
        raise ValueError(f"key {id}: the secret does not fit the id, so the line was damaged")
    return key
