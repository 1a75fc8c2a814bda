"""Texts of a stack file as times, sizes, fractions and hosts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jgroups_py import units


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1500", 1.5),
        ("500ms", 0.5),
        ("1.5s", 1.5),
        ("2m", 120.0),
        ("1.5H", 5400.0),
        ("1d", 86400.0),
        (" 20 s ", 20.0),
        ("0", 0.0),
        ("-1", -0.001),
    ],
)
def test_times_have_units_and_bare_numbers_are_milliseconds(text: str, seconds: float) -> None:
    assert units.parse_seconds(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "s", "1x", "1 0s", "1.2.3s", "5kb", "1e3", "٣s", "nan", "inf"]
)
def test_a_wrong_time_is_refused_with_accepted_values(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a time.*500ms"):
        units.parse_seconds(text)


def test_numbers_beyond_a_long_are_refused() -> None:
    assert units.parse_seconds("9223372036854775807") == pytest.approx(9.2e15, rel=0.01)
    with pytest.raises(
        ValueError, match=r"^longer than 9223372036854775807 ms: \"9{20}\.\.\.9{10}"
    ):
        units.parse_seconds("9" * 400)
    with pytest.raises(ValueError, match=r"^longer than"):
        units.parse_seconds("106751991168d")
    assert units.parse_bytes("9223372036854775807") == 2**63 - 1
    with pytest.raises(ValueError, match=r"^more than 9223372036854775807 bytes"):
        units.parse_bytes("9" * 400)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("60000", 60_000),
        ("60K", 60_000),
        ("4M", 4_000_000),
        ("1.5kb", 1_500),
        ("2gb", 2_000_000_000),
        ("10kib", 10_240),
        ("1MiB", 1_048_576),
        ("1gib", 1_073_741_824),
    ],
)
def test_sizes_are_decimal_unless_they_say_binary(text: str, size: int) -> None:
    assert units.parse_bytes(text) == size


def test_with_binary_is_decimal_a_kib_is_1000_bytes() -> None:
    assert units.parse_bytes("10kib", binary_is_decimal=True) == 10_000
    assert units.parse_bytes("2gib", binary_is_decimal=True) == 2_000_000_000
    assert units.parse_bytes("10k", binary_is_decimal=True) == 10_000


@pytest.mark.parametrize("text", ["", "k", "1.0001k", "1s", "0x10", "1,000"])
def test_a_wrong_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a size"):
        units.parse_bytes(text)


def test_fractions_and_percentages() -> None:
    assert units.parse_fraction("0.25") == 0.25
    assert units.parse_fraction("25%") == 0.25
    with pytest.raises(ValueError, match="not a fraction"):
        units.parse_fraction("25s")


def test_hosts_with_ports() -> None:
    assert units.parse_hosts("localhost[7800], 10.0.0.1[7801],::1[1]") == (
        ("localhost", 7800),
        ("10.0.0.1", 7801),
        ("::1", 1),
    )
    for wrong in ("localhost", "a[99999]", "a[7800]b", "[7800]", "a[-1]"):
        with pytest.raises(ValueError, match="not a host with a port"):
            units.parse_hosts(wrong)


@given(st.integers(0, 10**9))
def test_a_written_time_reads_back(milliseconds: int) -> None:
    seconds = milliseconds / 1000
    assert units.parse_seconds(units.seconds_text(seconds)) == seconds


@given(st.integers(0, 10**12))
def test_a_written_size_reads_back(size: int) -> None:
    assert units.parse_bytes(units.bytes_text(size)) == size
