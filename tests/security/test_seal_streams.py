"""Connections in SEAL: both ends prove themselves, records come in order, and altered records are refused."""

from __future__ import annotations

import random

import pytest

from jgroups_py.protocols.seal.ring import NO_KEYS, Ring
from jgroups_py.protocols.seal.streams import HELLO_SIZE, RECORD_MAX, Phase, Refused, Stream
from jgroups_py.protocols.seal.wire import SUITES


def ring_of(count: int = 1, seed: int = 0) -> Ring:
    ring = NO_KEYS
    for _ in range(count):
        ring = ring.with_new(1_800_000_000, random.Random(f"{seed}/{len(ring.keys)}").randbytes)
    return ring


RING = ring_of()


def pair(
    ring: Ring = RING,
    others: Ring | None = None,
    *,
    suite: int = 1,
    cluster: bytes = b"demo",
    theirs: bytes = b"demo",
    seed: int = 0,
) -> tuple[Stream, Stream]:
    """Return an end that connects and one that accepts."""
    secrets = random.Random(seed).randbytes
    connects = Stream(ring, suite, cluster, secrets, accepted=False)
    accepts = Stream(others or ring, 1, theirs, secrets, accepted=True)
    return connects, accepts


def opened(**options: object) -> tuple[Stream, Stream]:
    a, b = pair(**options)  # type: ignore[arg-type]
    assert b.feed(a.start()) == b""
    assert a.feed(b.answer) == b"" and a.phase is Phase.OPEN
    assert b.feed(a.answer) == b"" and b.phase is Phase.OPEN
    if b.answer:  # its ring has another first key
        assert a.feed(b.answer) == b""
    return a, b


def test_both_ends_are_open_when_both_have_proved_themselves() -> None:
    a, b = pair()
    phases = []
    b.feed(a.start())
    phases.append((a.phase, b.phase))
    a.feed(b.answer)
    phases.append((a.phase, b.phase))
    assert b.feed(a.answer + a.seal(b"at once")) == b"at once"
    phases.append((a.phase, b.phase))
    assert phases == [
        (Phase.HELLO, Phase.PROOF),
        (Phase.OPEN, Phase.PROOF),
        (Phase.OPEN, Phase.OPEN),
    ]


@pytest.mark.parametrize("suite", SUITES.values())
@pytest.mark.parametrize("size", [0, 1, 1000, RECORD_MAX, RECORD_MAX + 1, 3 * RECORD_MAX + 7])
def test_bytes_of_any_size_go_both_ways(suite: int, size: int) -> None:
    a, b = opened(suite=suite)
    data = random.Random(size).randbytes(size)
    for source, dest in ((a, b), (b, a), (a, b)):
        sealed = source.seal(data)
        records = max(1, -(-size // RECORD_MAX))
        assert len(sealed) == size + 20 * records
        assert size < 16 or data[:16] not in sealed
        assert dest.feed(sealed) == data


@pytest.mark.parametrize("step", [1, 3, 19, 1000])
def test_a_stream_may_be_cut_anywhere(step: int) -> None:
    a, b = pair()

    def carry(data: bytes, dest: Stream) -> tuple[bytes, bytes]:
        plain, answer = b"", b""
        for at in range(0, len(data), step):
            plain += dest.feed(data[at : at + step])
            answer += dest.answer
        return plain, answer

    _, answer = carry(a.start(), b)
    _, answer = carry(answer, a)
    sealed = answer + b"".join(a.seal(bytes([n]) * n) for n in range(50))
    plain, answer = carry(sealed, b)
    assert plain == b"".join(bytes([n]) * n for n in range(50)) and answer == b""


# --- refusals


def refused(stream: Stream, data: bytes) -> str:
    try:
        for at in range(len(data)):
            stream.feed(data[at : at + 1])
    except Refused as cause:
        return str(cause)
    raise AssertionError("not refused")


@pytest.mark.parametrize("accepted", [True, False])
@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b"b", "unsealed"),
        (b"bela\x15\x48", "unsealed"),
        (b"\x00\x00\x00\x05hello", "unsealed"),
        (b"\x5e\xa2", "unsealed"),
        (b"\x5e\xa1\x02\x21" + bytes(60), "other_version"),
        (b"\x5e\xa1\x01\x23" + bytes(60), "other_version"),
        (b"\x5e\xa1\x01\x01" + bytes(60), "malformed"),
    ],
)
def test_a_client_that_does_not_speak_seal_is_refused_by_cause(
    data: bytes, cause: str, accepted: bool
) -> None:
    assert refused(pair()[accepted], data) == cause


def test_a_client_that_has_no_key_is_refused_at_its_first_bytes() -> None:
    a, b = pair(RING, ring_of(seed=1))
    assert refused(b, a.start()) == "unknown_key"
    a, b = pair(theirs=b"demo2")
    assert refused(b, a.start()) == "altered"


@pytest.mark.parametrize("at", range(3, HELLO_SIZE))
def test_an_altered_hello_is_refused(at: int) -> None:
    a, b = pair()
    hello = bytearray(a.start())
    hello[at] ^= 1
    assert refused(b, bytes(hello)) in {"altered", "unknown_key", "other_version", "malformed"}


@pytest.mark.parametrize("at", range(3, HELLO_SIZE + 20))
def test_an_altered_answer_is_refused(at: int) -> None:
    a, b = pair()
    b.feed(a.start())
    answer = bytearray(b.answer)
    answer[at] ^= 1
    assert refused(a, bytes(answer)) in {"altered", "unknown_key", "other_version", "malformed"}


def test_a_recorded_beginning_proves_nothing() -> None:
    a, b = pair()
    hello = a.start()
    b.feed(hello)
    a.feed(b.answer)
    recording = hello + a.answer + a.seal(b"pay 10")
    _, again = pair(seed=1)
    again.feed(recording[:HELLO_SIZE])
    assert again.phase is Phase.PROOF
    assert refused(again, recording[HELLO_SIZE:]) == "altered"


def test_a_client_that_sends_our_own_bytes_back_is_refused() -> None:
    a, _ = pair()
    assert refused(a, a.start()) == "malformed"
    a, _ = opened()
    assert refused(a, a.seal(b"x")) == "altered"


def test_a_stranger_makes_nobody_wait_for_a_long_record() -> None:
    a, b = pair()
    b.feed(a.start())
    assert refused(b, b"\x00\x01\x00\x00") == "malformed"
    for head in (b"\x00\x01\x00\x01", b"\x80\x00\x00\x05", b"\xff\xff\xff\xff"):
        a, b = opened()
        assert refused(b, head) == "malformed"


def test_a_record_that_was_altered_left_out_doubled_or_moved_is_refused() -> None:
    for spoil in (
        lambda one, two: one[:-1] + bytes([one[-1] ^ 1]),
        lambda one, two: bytes([*one[:3], one[3] - 1, *one[4:-1]]),
        lambda one, two: two,
        lambda one, two: one + one,
        lambda one, two: two + one,
    ):
        a, b = opened()
        assert refused(b, spoil(a.seal(b"one"), a.seal(b"two"))) == "altered"


# --- keys


def test_a_connection_changes_its_key_as_it_runs() -> None:
    two = ring_of(2)
    turned = two.rotated(2)
    a, b = opened(ring=two)
    said = a.take_ring(turned)
    assert said and b.feed(said + a.seal(b"new")) == b"new"
    assert b.feed(a.seal(b"again")) == b"again"
    assert a.feed(b.seal(b"old")) == b"old"  # B still writes with the first key
    said = b.take_ring(turned)
    assert said and a.feed(said + b.seal(b"new")) == b"new"
    assert a.take_ring(turned) == b.take_ring(turned) == b""


def test_members_whose_rings_have_another_order_connect() -> None:
    two = ring_of(2)
    a, b = opened(ring=two, others=two.rotated(2))
    assert b.feed(a.seal(b"x")) == b"x" and a.feed(b.seal(b"y")) == b"y"


def test_a_key_that_was_dropped_ends_the_connections_that_are_written_with_it() -> None:
    two = ring_of(2)
    last = Ring(two.rotated(2).keys[:1])
    a, b = opened(ring=two)
    with pytest.raises(Refused, match="retired_key"):
        a.take_ring(last)
    a, b = opened(ring=two)
    a.feed(b.take_ring(two.rotated(2)))
    b.feed(a.take_ring(two.rotated(2)))
    assert (
        a.take_ring(last) == b.take_ring(last) == b""
    )  # no side encrypts with the old key any more
    assert b.feed(a.seal(b"x")) == b"x"


def test_a_next_key_that_is_not_in_the_ring_ends_the_connection() -> None:
    two = ring_of(2)
    a, b = opened(ring=RING)
    assert two.keys[0] == RING.keys[0]
    assert refused(b, a.take_ring(two.rotated(2))) == "unknown_key"


@pytest.mark.parametrize("seed", range(30))
def test_any_bytes_at_all_are_a_refusal_at_most(seed: int) -> None:
    rng = random.Random(seed)
    a, b = pair() if seed % 2 else opened()
    stream = a if seed % 4 < 2 else b
    if stream is a and seed % 2:
        a.start()
    noise = b"".join(rng.choice([b"\x5e\xa1\x01", b""]) + rng.randbytes(200) for _ in range(400))
    assert refused(stream, noise)
