"""Groups whose members leave and whose keys change, with a recording of all datagrams: no message is lost, and former
members can read no later message. Each group lives for four minutes of virtual time in a test, for an hour with
``make encrypted-hours``."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from churn import Churn, Life, Readings, Sent, lossy_world, stack_with
from cryptography.exceptions import InvalidTag
from sealed import properties, refused, ring_of, seal_of, sealed

from jgroups_py.protocols.seal.ring import Ring, RingKey
from jgroups_py.protocols.seal.wire import HEAD_SIZE, NONCE_AT, OVERHEAD, derived
from jgroups_py.protocols.security.asym_encrypt import ASYM_ENCRYPT
from jgroups_py.protocols.security.ciphers import Cipher, NotDecrypted
from jgroups_py.protocols.security.encrypt import Encrypt
from jgroups_py.protocols.security.key_list import read_keys
from jgroups_py.testing.sim.member import Member
from jgroups_py.wire.headers import EncryptHeader, EncryptType
from jgroups_py.wire.packet import decode_packet

LENGTHS = [
    pytest.param(240.0, id="four minutes"),
    pytest.param(3600.0, id="an hour", marks=pytest.mark.slow),
]
DOOR = (
    '<ASYM_ENCRYPT sym_algorithm="AES/GCM/NoPadding" sym_iv_length="12" change_key_on_leave="{}"/>'
)


# --- ASYM_ENCRYPT: the group makes a key for each view without a former member


def asym(member: Member) -> ASYM_ENCRYPT:
    found = member.stack.find(ASYM_ENCRYPT)
    assert found is not None
    return found


def asym_churn(folder: Path, seconds: float, *, change: str = "true") -> tuple[Churn, Readings]:
    """Run the group, and let former members decrypt the recording."""
    world = lossy_world(11)
    file = stack_with(folder, DOOR.format(change))
    keys: dict[bytes, Cipher] = {}
    had: dict[int, set[bytes]] = {}
    make = Encrypt.cipher

    def noting(self: Encrypt, key: bytes) -> Cipher:
        made = keys[key] = make(self, key)
        had.setdefault(id(self), set()).add(key)
        return made

    def version(member: Member) -> bytes:
        current = asym(member)._current
        assert current is not None
        return current.version

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Encrypt, "cipher", noting)
        churn = Churn(
            world, patch, start=lambda name: world.start(name, file, "demo"), key_of=version
        )
        churn.run(seconds)
    payloads = list(encrypted_payloads(churn.recorded))

    def texts(key: object) -> Iterator[bytes]:
        assert isinstance(key, bytes)
        for iv, payload in payloads:
            with contextlib.suppress(NotDecrypted):
                yield keys[key].decrypt(iv, payload)

    def may(life: Life, sent: Sent) -> bool:
        return before_its_end(life, sent) or id(life.member) in sent.readers

    read = churn.read(keys, texts, may, lambda life: had[id(asym(life.member))])
    return churn, read


def before_its_end(life: Life, sent: Sent) -> bool:
    """The message was sent while the member was there, or before it came: the member's first key may be older
    than itself."""
    return life.ended is not None and sent.at < life.ended


def encrypted_payloads(packets: list[bytes]) -> Iterator[tuple[bytes | None, bytes]]:
    """Return initialization vectors and ciphertexts in packets, including those behind lists of keys."""
    for packet in packets:
        for batch in decode_packet(packet).batches:
            header = batch.headers.get(ASYM_ENCRYPT.protocol_id)
            if not isinstance(header, EncryptHeader):
                continue
            for payload in batch.payloads:
                if payload:
                    keys = header.type == EncryptType.INSTALL_KEYS
                    yield header.iv, read_keys(payload)[1] if keys else bytes(payload)


def departed_of_a_closed_group(churn: Churn, read: Readings, seconds: float) -> int:
    """Return the number of members that left, after showing that nothing was lost and former members read nothing."""
    assert churn.lost() == []
    assert read.stolen == []
    assert read.hidden > len(churn.sent) > 4 * seconds
    assert read.readable == len(churn.sent), "somebody with all keys reads the whole recording"
    left = sum(life.ended is not None for life in churn.lives)
    assert left >= seconds / 45
    return left


@pytest.mark.parametrize("seconds", LENGTHS)
def test_with_asym_encrypt_nothing_is_lost_and_former_members_read_nothing(
    tmp_path: Path, seconds: float
) -> None:
    churn, read = asym_churn(tmp_path, seconds)
    left = departed_of_a_closed_group(churn, read, seconds)
    assert len({sent.key for sent in churn.sent}) > 0.9 * left, "each departure brings a key"


def test_without_a_new_key_former_members_go_on_reading(tmp_path: Path) -> None:
    """The check of the recording with the keys finds a leak."""
    _, read = asym_churn(tmp_path, 60, change="false")
    assert len(read.stolen) > 50


def test_a_message_that_one_member_misses_counts_as_lost(tmp_path: Path) -> None:
    churn, _ = asym_churn(tmp_path, 20)
    first = churn.lives[-1].got
    got = next(got for got in first.values() if len(got) > 4)
    last = got.pop()
    assert any("lost" in text for text in churn.lost())
    got.append(last)
    assert churn.lost() == []
    got[1], got[2] = got[2], got[1]
    assert any("not in order" in text for text in churn.lost())


# --- SEAL: an operator changes the key after each departure


class Operator:
    """Changes the key in three steps after each departure. Each step reaches the members one after the other within
    five seconds, like files that they read again."""

    def __init__(self, seed: int) -> None:
        self.world = lossy_world(seed)
        self.ring = ring_of()
        self.keys: dict[RingKey, None] = dict.fromkeys(self.ring.keys)
        self.had: dict[int, set[RingKey]] = {}
        self._random = random.Random(f"{seed}/operator")
        self._folder_file = ""

    def starts_with(self, folder: Path) -> None:
        self._folder_file = sealed(folder)

    def start(self, name: str) -> Member:
        member = self.world.start(name, self._folder_file, "demo", properties=properties(self.ring))
        self.had[id(member)] = set(self.ring.keys)
        return member

    def departed(self) -> None:
        now = self.world.now
        self.world.at(now + 1, self._new)
        self.world.at(now + 7, self._rotate)
        self.world.at(now + 14, self._drop)

    def _new(self) -> None:
        self._give(self.ring.with_new(int(self.world.now), self._random.randbytes))
        self.keys.update(dict.fromkeys(self.ring.keys))

    def _rotate(self) -> None:
        self._give(self.ring.rotated(2))

    def _drop(self) -> None:
        self._give(Ring(self.ring.keys[:1]))

    def _give(self, ring: Ring) -> None:
        self.ring = ring
        for member in self.world.everybody:
            if member.alive:
                when = self.world.now + self._random.uniform(0, 5)
                self.world.at(when, self._take, member, ring)

    def _take(self, member: Member, ring: Ring) -> None:
        if member.alive and not member.leaving:
            self.had[id(member)].update(ring.keys)
            seal = seal_of(member)
            member.act(lambda: seal.take_ring(ring))


def seal_churn(folder: Path, seconds: float, *, rotate: bool = True) -> tuple[Churn, Readings]:
    """Run the group, and let former members decrypt the recording."""
    operator = Operator(12)
    operator.starts_with(folder)
    with pytest.MonkeyPatch.context() as patch:
        churn = Churn(
            operator.world,
            patch,
            start=operator.start,
            key_of=lambda member: seal_of(member).door.datagrams._ring.writer,
            departed=operator.departed if rotate else lambda: None,
        )
        churn.run(seconds)

    def texts(key: object) -> Iterator[bytes]:
        assert isinstance(key, RingKey)
        return opened_with(key, churn.recorded)

    def may(life: Life, sent: Sent) -> bool:
        return before_its_end(life, sent) or (rotate and sent.key in operator.had[id(life.member)])

    read = churn.read(operator.keys, texts, may, lambda life: operator.had[id(life.member)])
    for life in churn.living():
        assert not refused(life.member).keys() - {"replayed"}, "the network doubles packets"
    return churn, read


def opened_with(key: RingKey, packets: list[bytes]) -> Iterator[bytes]:
    """Yield the payloads of a recording that a key decrypts, even if the packets name another key."""
    ciphers = {}
    for packet in packets:
        assert len(packet) >= OVERHEAD
        head, sender = packet[:HEAD_SIZE], packet[8:24]
        if sender not in ciphers:
            ciphers[sender] = derived(key.secret, b"datagrams", head[3] & 0x0F, b"demo", sender)
        with contextlib.suppress(InvalidTag):
            yield ciphers[sender].decrypt(head[NONCE_AT:], packet[HEAD_SIZE:], head)


@pytest.mark.parametrize("seconds", LENGTHS)
def test_with_seal_nothing_is_lost_and_former_members_read_nothing(
    tmp_path: Path, seconds: float
) -> None:
    churn, read = seal_churn(tmp_path, seconds)
    left = departed_of_a_closed_group(churn, read, seconds)
    assert len({sent.key for sent in churn.sent}) >= left


def test_without_rotation_former_members_go_on_reading(tmp_path: Path) -> None:
    """The check of the recording with the keys finds a leak."""
    _, read = seal_churn(tmp_path, 60, rotate=False)
    assert len(read.stolen) > 50
