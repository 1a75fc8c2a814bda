"""Datagrams in SEAL: those of living senders are accepted once; the others are turned away by cause."""

from __future__ import annotations

import random
import sys
from collections import Counter
from types import FrameType

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from jgroups_py.protocols.seal.datagrams import (
    ANSWERS_PER_SECOND,
    ASKS_MAX,
    MAX_DATAGRAM,
    PROVE_TIME,
    DatagramLimits,
    Datagrams,
)
from jgroups_py.protocols.seal.ring import NO_KEYS, Ring
from jgroups_py.protocols.seal.senders import HELD_BYTES, IDLE, Recent, Verdict, Window
from jgroups_py.protocols.seal.wire import HEAD_SIZE, OVERHEAD, SUITES, derived
from jgroups_py.stack.ports import Datagram, Endpoint


def ring_of(count: int = 1, seed: int = 0) -> Ring:
    ring = NO_KEYS
    for _ in range(count):
        ring = ring.with_new(1_800_000_000, random.Random(f"{seed}/{len(ring.keys)}").randbytes)
    return ring


RING = ring_of()
LIMITS = DatagramLimits(max_senders=4, max_pending=3, max_held=5, window=64, freshness=5.0)


class End:
    """One member's datagrams, without a network: ``out``: datagrams that proofs sent."""

    def __init__(
        self,
        name: str,
        ring: Ring = RING,
        cluster: bytes = b"demo",
        limits: DatagramLimits = LIMITS,
        suite: str = "AES-256-GCM",
    ) -> None:
        self.place: Endpoint = (f"10.0.0.{ord(name[0]) - 64}", 7000)
        self.now = 100.0
        self.out: list[tuple[bytes, Endpoint]] = []
        self.refused: Counter[str] = Counter()
        self.datagrams = Datagrams(
            ring,
            SUITES[suite],
            limits,
            cluster=lambda: cluster,
            secrets=random.Random(name).randbytes,
            now=lambda: self.now,
            send=lambda data, place: self.out.append((data, place)),
            turn_away=self._turn_away,
        )

    def _turn_away(self, cause: str, place: Endpoint, count: int) -> None:
        self.refused[cause] += count

    def seal(self, data: bytes) -> bytes:
        sealed = self.datagrams.seal(data)
        assert sealed is not None
        return sealed

    def take(self, data: bytes, source: End | Endpoint) -> list[bytes]:
        place = source.place if isinstance(source, End) else source
        return [found.data for found in self.datagrams.open(Datagram(1, data, place))]

    def take_out(self) -> list[bytes]:
        out, self.out = self.out, []
        return [data for data, _ in out]


def meet(a: End, b: End) -> list[bytes]:
    """Carries proofs between two ends until neither has any. Return the accepted datagrams."""
    found: list[bytes] = []
    while a.out or b.out:
        for source, dest in ((a, b), (b, a)):
            for data in source.take_out():
                found += dest.take(data, source)
    return found


def friends(**options: object) -> tuple[End, End]:
    a, b = End("A", **options), End("B", **options)  # type: ignore[arg-type]
    assert b.take(a.seal(b"hello"), a) == []
    assert meet(a, b) == [b"hello"]
    return a, b


def test_a_datagram_goes_in_once_its_sender_has_proved_that_it_is_there() -> None:
    a, b = End("A"), End("B")
    assert b.take(a.seal(b"one"), a) == b.take(a.seal(b"two"), a) == []
    assert [place for _, place in b.out] == [a.place]
    assert meet(a, b) == [b"one", b"two"]
    assert b.take(a.seal(b"three"), a) == [b"three"]
    assert a.take(b.seal(b"back"), b) == [b"back"]  # both have proved themselves
    assert not a.refused and not b.refused


@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize("size", [0, 1, 1400, MAX_DATAGRAM - OVERHEAD])
def test_every_size_goes_through_and_grows_by_the_same(suite: str, size: int) -> None:
    a, b = friends(suite=suite)
    sealed = a.seal(bytes(size))
    assert len(sealed) == size + OVERHEAD == size + 48
    assert b.take(sealed, a) == [bytes(size)]


def test_a_message_too_large_for_a_datagram_is_counted() -> None:
    a = End("A")
    assert a.datagrams.seal(bytes(MAX_DATAGRAM - OVERHEAD + 1)) is None
    assert a.datagrams.dropped_too_large == 1


def test_members_with_different_ciphers_read_each_other() -> None:
    a, b = End("A"), End("B", suite="ChaCha20-Poly1305")
    b.take(a.seal(b"one"), a)
    assert meet(a, b) == [b"one"]
    assert a.take(b.seal(b"two"), b) == [b"two"]


def test_the_key_of_a_sender_is_made_with_hkdf() -> None:
    """Compare with another implementation: one can be written from design/seal.md alone."""
    secret, sender = bytes(range(32)), bytes(16)
    info = b"jgroups_py seal 1 datagrams 1 4 demo" + sender
    key = HKDFExpand(hashes.SHA256(), 32, info).derive(secret)
    sealed = derived(secret, b"datagrams", 1, b"demo", sender).encrypt(bytes(12), b"x", b"")
    assert AESGCM(key).decrypt(bytes(12), sealed, b"") == b"x"


def test_two_purposes_clusters_or_senders_never_share_a_key() -> None:
    secret = bytes(32)
    sealed = {
        derived(secret, purpose, suite, cluster, salt).encrypt(bytes(12), b"x", b"")
        for purpose in (b"datagrams", b"hello")
        for suite in (1, 2)
        for cluster in (b"", b"a", b"ab")
        for salt in (bytes(16), b"b" + bytes(15))
    }
    assert len(sealed) == 24


def test_no_counter_is_used_twice_whatever_is_sent() -> None:
    a, b = friends()
    heads = [a.seal(b"x")[:HEAD_SIZE] for _ in range(100)]
    a.take(b.seal(b"y"), b)
    a.datagrams.take_ring(ring_of(2))
    heads += [a.seal(b"x")[:HEAD_SIZE] for _ in range(100)]
    assert len({head[-12:] for head in heads}) == 200


# --- refusals


def test_every_altered_bit_is_noticed() -> None:
    a, b = friends()
    sealed = a.seal(b"pay 10")
    for bit in range(8 * len(sealed)):
        bad = bytearray(sealed)
        bad[bit // 8] ^= 1 << bit % 8
        assert b.take(bytes(bad), a) == []
    assert b.take(sealed, a) == [b"pay 10"]
    assert b.refused.total() == 8 * len(sealed)
    assert set(b.refused) == {"unsealed", "other_version", "unknown_key", "altered"}
    assert not b.datagrams.senders.pending  # no sender has an entry without an authentic packet


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b"", "unsealed"),
        (b"\x15\x48" + bytes(100), "unsealed"),
        (b"bela" + bytes(100), "unsealed"),
        (b"\x5e\xa1", "malformed"),
        (b"\x5e\xa1\x01\x01" + bytes(43), "malformed"),
        (b"\x5e\xa1\x02\x01" + bytes(60), "other_version"),
        (b"\x5e\xa1\x01\x03" + bytes(60), "other_version"),
        (b"\x5e\xa1\x01\x01" + bytes(60), "unknown_key"),
        (b"\x5e\xa1\x01\x01" + RING.writer.id + bytes(60), "altered"),
    ],
)
def test_a_packet_that_no_member_has_made_is_turned_away_by_its_cause(
    data: bytes, cause: str
) -> None:
    b = End("B")
    assert b.take(data, ("10.0.0.99", 1)) == []
    assert b.refused == {cause: 1} and not b.out and not b.datagrams.senders.pending


def test_another_key_and_another_cluster_do_not_read_each_other() -> None:
    b = End("B")
    other = End("A", ring_of(seed=1))
    assert b.take(other.seal(b"x"), other) == []
    other = End("A", cluster=b"demo2")
    assert b.take(other.seal(b"x"), other) == []
    assert b.refused == {"unknown_key": 1, "altered": 1}


def test_a_packet_comes_in_once() -> None:
    a, b = friends()
    sealed = [a.seal(b"%d" % n) for n in range(10)]
    order = [3, 0, 1, 2, 9, 5, 4, 8, 7, 6]
    assert [b.take(sealed[n], a) for n in order] == [[b"%d" % n] for n in order]
    assert [b.take(data, a) for data in sealed] == [[]] * 10
    assert b.refused == {"replayed": 10}


def test_a_usual_packet_costs_one_call_of_the_cipher_and_few_others() -> None:
    """A count in place of a time: the work that SEAL adds to each packet, beside the cipher."""
    a, b = friends()
    b.take(a.seal(b"once"), a)
    calls: Counter[str] = Counter()

    def count(frame: FrameType, event: str, arg: object) -> None:
        if event == "call":
            calls["python"] += "protocols/seal" in frame.f_code.co_filename
        elif event == "c_call" and getattr(arg, "__name__", "") in ("encrypt", "decrypt", "digest"):
            calls[arg.__name__] += 1  # type: ignore[attr-defined]

    sys.setprofile(count)
    try:
        sealed = a.datagrams.seal(bytes(1000))
        found = b.datagrams.open(Datagram(1, sealed or b"", a.place))
    finally:
        sys.setprofile(None)
    assert len(list(found)) == 1
    assert calls == {"encrypt": 1, "decrypt": 1, "python": 5}


def test_a_packet_that_is_older_than_the_window_is_late() -> None:
    a, b = friends()
    old, edge = a.seal(b"old"), a.seal(b"edge")
    for _ in range(LIMITS.window - 1):
        b.take(a.seal(b"x"), a)
    assert b.take(old, a) == [] and b.refused == {"late": 1}
    assert b.take(edge, a) == [b"edge"]


def test_own_multicasts_that_come_back_are_passed_over() -> None:
    a, _ = friends()
    assert a.take(a.seal(b"all"), a) == []
    assert a.datagrams.own == 1 and not a.refused


def test_a_sealed_packet_that_is_neither_data_nor_a_proof_is_malformed() -> None:
    a, b = friends()
    for kind, body in ((0x10, b"short"), (0x30, b"x")):
        sealed = a.datagrams.seal(body, kind)
        assert sealed is not None and b.take(sealed, a) == []
    assert b.refused == {"malformed": 2}


# --- recordings


def test_a_recording_is_worth_nothing_to_a_member_that_starts_when_its_sender_has_gone() -> None:
    a, b = friends()
    recording = [a.seal(b"x") for _ in range(3)]
    asked = b.out or [(a.seal(b"y"), a.place)]
    c = End("C")
    for data in (*recording, *(data for data, _ in asked)):
        assert c.take(data, ("10.0.0.99", 1)) == []
    c.now += PROVE_TIME
    assert c.datagrams.ask_again() is None
    assert c.refused == {"unproved": 4}
    assert not c.datagrams.senders.pending and c.datagrams.senders.held_bytes == 0


def test_a_recording_is_worth_nothing_to_a_member_that_starts_while_its_sender_lives() -> None:
    a, c = End("A"), End("C")
    recording = [a.seal(b"old %d" % n) for n in range(3)]
    a.now += 7.0
    a.seal(b"for others")
    a.now += 7.0
    fresh = a.seal(b"new")
    for data in (*recording, fresh):
        assert c.take(data, a) == []
    assert meet(a, c) == [b"new"]
    assert c.refused == {"stale": 3}


def test_a_burst_before_a_long_silence_is_too_old_as_well() -> None:
    a, c = End("A"), End("C")
    a.seal(b"first")
    a.now += 0.5
    burst = a.seal(b"burst")
    a.now += 1000
    c.take(burst, a)
    assert meet(a, c) == [] and c.refused == {"stale": 1}


def test_an_answer_to_another_nonce_proves_nothing() -> None:
    a, b = End("A"), End("B")
    b.take(a.seal(b"x"), a)
    b.take_out()
    c = End("C")
    c.take(a.seal(b"y"), a)
    for data in c.take_out():
        a.take(data, c)
    for data in a.take_out():  # A's answer to C, carried to B
        assert b.take(data, a) == []
    assert not b.datagrams.senders.known


def test_a_sender_is_asked_again_and_then_forgotten() -> None:
    a, b = End("A"), End("B")
    b.take(a.seal(b"x"), a)
    asked, at = len(b.take_out()), b.datagrams.ask_again()
    times = []
    while at is not None:
        times.append(at - 100)
        b.now = at
        at = b.datagrams.ask_again()
        asked += len(b.take_out())
    assert asked == ASKS_MAX and times == pytest.approx([0.25, 0.75, 1.75, PROVE_TIME])
    assert b.refused == {"unproved": 1}


def test_a_lost_challenge_or_answer_costs_time_only() -> None:
    a, b = End("A"), End("B")
    b.take(a.seal(b"x"), a)
    b.take_out()  # lost
    b.now += 0.25
    b.datagrams.ask_again()
    for data in b.take_out():
        a.take(data, b)
    a.take_out()  # lost
    b.now += 0.5
    b.datagrams.ask_again()
    assert meet(a, b) == [b"x"]


def test_a_forged_source_does_not_keep_the_sender_from_proving_itself() -> None:
    a, b = End("A"), End("B")
    sealed = a.seal(b"x")
    b.take(sealed, ("10.0.0.99", 1))
    b.take(sealed, a)
    assert {place for _, place in b.out} == {("10.0.0.99", 1), a.place}
    assert meet(a, b) == [b"x"] and b.refused == {"replayed": 1}


# --- limits


def test_packets_that_wait_for_a_proof_are_bounded() -> None:
    a, b = End("A"), End("B")
    for _ in range(LIMITS.max_held + 2):
        b.take(a.seal(b"x"), a)
    assert b.datagrams.dropped_held == 2
    assert len(meet(a, b)) == LIMITS.max_held


def test_bytes_that_wait_for_a_proof_are_bounded() -> None:
    many = DatagramLimits(max_senders=4, max_pending=3, max_held=1000, window=64, freshness=5.0)
    a, b = End("A"), End("B", limits=many)
    for _ in range(80):
        b.take(a.seal(bytes(60_000)), a)
        b.datagrams.senders.check()
    assert b.datagrams.senders.held_bytes == 60_000 * (HELD_BYTES // 60_000)


def test_senders_that_have_yet_to_prove_themselves_are_bounded() -> None:
    b = End("B")
    ends = [End(name) for name in "CDEF"]
    for end in ends:
        b.take(end.seal(b"x"), end)
        b.datagrams.senders.check()
    assert len(b.datagrams.senders.pending) == LIMITS.max_pending
    assert b.refused == {"unproved": 1}  # the oldest entry has been removed
    assert meet(ends[-1], b) == [b"x"]


def test_known_senders_are_bounded_and_the_silent_make_room() -> None:
    b = End("B")
    ends = [End(name) for name in "CDEFG"]
    for end in ends:
        b.take(end.seal(b"x"), end)
        meet(end, b)
        b.datagrams.senders.check()
    assert b.refused == {"too_many_senders": 1}
    b.now += IDLE + 1
    b.datagrams.ask_again()
    b.take(ends[0].seal(b"y"), ends[0])
    b.take(ends[4].seal(b"z"), ends[4])
    assert meet(ends[4], b) == [b"z"]
    assert len(b.datagrams.senders.known) == 2


def test_a_sender_that_made_room_cannot_be_replayed_when_it_is_known_again() -> None:
    b = End("B", limits=DatagramLimits(1, 3, 5, 64, 5.0))
    c, d = End("C"), End("D")
    sealed = c.seal(b"x")
    b.take(sealed, c)
    assert meet(b, c) == [b"x"]
    for end in (b, c, d):
        end.now += IDLE + 1
    b.take(d.seal(b"y"), d)
    assert meet(b, d) == [b"y"]
    for end in (b, c, d):
        end.now += IDLE + 1
    b.take(sealed, c)
    assert meet(b, c) == [] and b.refused == {"stale": 1}


def test_answers_are_bounded_in_a_second() -> None:
    a, b = End("A"), End("B")
    b.take(a.seal(b"x"), a)
    (challenge,) = b.take_out()
    for _ in range(ANSWERS_PER_SECOND + 5):
        a.take(challenge, b)
    assert len(a.out) == ANSWERS_PER_SECOND and a.datagrams.answers_held_back == 5
    a.now += 1
    a.take(challenge, b)
    assert len(a.out) == ANSWERS_PER_SECOND + 1


# --- keys


def test_keys_rotate_at_one_member_after_the_other_and_nothing_is_lost() -> None:
    a, b = friends()
    one = RING
    two = one.with_new(0, random.Random("new").randbytes)
    three = two.rotated(2)
    got = 0
    for step, (mine, others) in enumerate(
        [(one, one), (two, one), (two, two), (three, two), (three, three)]
    ):
        a.datagrams.take_ring(mine)
        b.datagrams.take_ring(others)
        got += b.take(a.seal(b"%d" % step), a) == [b"%d" % step]
        got += a.take(b.seal(b"%d" % step), b) == [b"%d" % step]
    assert got == 10 and not a.refused and not b.refused
    assert a.seal(b"")[4:8] == three.writer.id != one.writer.id


def test_a_key_that_was_dropped_reads_nothing_any_more() -> None:
    a, b = friends()
    sealed = a.seal(b"x")
    b.datagrams.take_ring(ring_of(seed=1))
    assert b.take(sealed, a) == [] and b.refused == {"unknown_key": 1}


def test_a_window_survives_a_change_of_keys() -> None:
    a, b = friends()
    sealed = a.seal(b"x")
    assert b.take(sealed, a) == [b"x"]
    b.datagrams.take_ring(ring_of(2))
    assert b.take(sealed, a) == [] and b.refused == {"replayed": 1}


# --- the tables alone


def test_a_window_equals_a_set_of_counters() -> None:
    """Compare with a model: any order, repetitions, jumps."""
    rng = random.Random(1)
    for _ in range(50):
        size, floor = rng.choice([1, 2, 64, 100]), rng.choice([0, 0, 30])
        window, seen, newest = Window(size, floor), set(), -1
        at = 0
        for _ in range(300):
            at = max(0, at + rng.choice([-70, -3, -1, 0, 1, 1, 2, 5, 150]))
            verdict = window.take(at)
            if at < floor:
                assert verdict is Verdict.STALE
            elif at <= newest - size:
                assert verdict is Verdict.LATE
            elif at in seen:
                assert verdict is Verdict.REPLAYED
            else:
                assert verdict is Verdict.NEW
                seen.add(at)
                newest = max(newest, at)


def test_the_floor_excludes_all_older_packets_and_no_fresh_one() -> None:
    rng = random.Random(2)
    recent, now, sent = Recent(5.0), 0.0, []
    for counter in range(2000):
        now += rng.choice([0.0, 0.001, 0.1, 0.4, 3.0, 12.0])
        if now >= recent.next_mark:
            recent.sends(now, counter)
        sent.append(now)
        floor = recent.floor(now, counter + 1)
        assert all(now - at >= 5.0 for at in sent[:floor])
        assert all(now - at <= 6.0 for at in sent[floor:])
    assert len(recent._marks) <= 7
