"""Memcached's text protocol: bytes in, commands out."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jgroups_py.buckets.items.requests import Change, Count, Put, Read, Remove, Touch
from jgroups_py.buckets.memcached.commands import (
    Command,
    Modify,
    Retrieve,
    Serve,
    ServiceCommand,
    Wrong,
)
from jgroups_py.buckets.memcached.limits import TextLimits
from jgroups_py.buckets.memcached.parser import TEXT_CAUSES, CommandParser

NOW = 1_000_000_000.0
SMALL = TextLimits(value_max=100, skip_max=1000, line_max=300, keys_max=5)


def commands(data: bytes, limits: TextLimits = SMALL, cuts: tuple[int, ...] = ()) -> list[Command]:
    """Return all commands in ``data``, fed in pieces that begin at ``cuts``."""
    parser = CommandParser(limits)
    found = []
    places = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    for start, stop in pairwise(places):
        parser.feed(data[start:stop])
        while (command := parser.next_command(NOW)) is not None:
            found.append(command)
    return found


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"get a", Retrieve((Read("a"),), False)),
        (b"gets a  b", Retrieve((Read("a"), Read("b")), True)),
        (b"gat 10 a", Retrieve((Touch("a", NOW + 10, read=True),), False)),
        (b"gats 0 a", Retrieve((Touch("a", 0, read=True),), True)),
        (b"incr a 5", Modify(Count("a", 5), False)),
        (b"decr a 5 noreply", Modify(Count("a", 5, down=True), True)),
        (b"delete a", Modify(Remove("a"), False)),
        (b"delete a 0 noreply", Modify(Remove("a"), True)),
        (b"delete noreply", Modify(Remove("noreply"), False)),
        (b"touch a 2000000000", Modify(Touch("a", 2e9), False)),
        (b"touch a -1 noreply", Modify(Touch("a", 1.0), True)),
        (b"stats", Serve(ServiceCommand.STATS)),
        (b"stats items", Serve(ServiceCommand.STATS, b"items")),
        (b"version", Serve(ServiceCommand.VERSION)),
        (b"verbosity 1 noreply", Serve(ServiceCommand.VERBOSITY, b"1", noreply=True)),
        (b"flush_all 10", Serve(ServiceCommand.FLUSH_ALL, b"10")),
        (b"quit", Serve(ServiceCommand.QUIT)),
    ],
)
def test_a_line_is_a_command(line: bytes, expected: Command) -> None:
    assert commands(line + b"\r\n") == [expected]
    assert commands(line + b"\n") == [expected]


@pytest.mark.parametrize("change", list(Change))
def test_a_storage_command_waits_for_its_data(change: Change) -> None:
    unique = 7 if change is Change.CAS else 0
    head = f"{change} key 5 60 4{' 7' if unique else ''}"
    put = Put("key", change, b"a\r\nb", 5, NOW + 60, unique)
    assert commands(head.encode() + b"\r\na\r\n") == []
    assert commands(head.encode() + b"\r\na\r\nb\r\n") == [Modify(put, False)]
    assert commands(head.encode() + b" noreply\r\na\r\nb\r\n") == [Modify(put, True)]


def test_an_expiry_of_more_than_thirty_days_is_a_unix_time() -> None:
    """The rule is that of memcached."""
    month = 30 * 86_400

    def expires(word: str) -> float:
        (command,) = commands(f"touch a {word}\r\n".encode())
        assert isinstance(command, Modify) and isinstance(command.request, Touch)
        return command.request.expires

    assert expires("0") == 0
    assert expires(f"{month}") == NOW + month
    assert expires(f"{month + 1}") == month + 1
    assert 0 < expires("-5") < NOW


@pytest.mark.parametrize(
    "line",
    [
        *(
            b"",
            b"get",
            b"foo",
            b"GET a",
            b"get " + b"k" * 251,
            b"get a\tb",
            b"get a\0b",
            b"get \xff",
        ),
        *(b"get a b c d e f", b"gat a", b"gat x a", b"incr a", b"incr a -1", b"incr a 1 2"),
        *(b"incr a 18446744073709551616", b"decr a 1x", b"delete", b"delete a 5", b"touch a"),
        *(b"touch a x", b"touch a 1 2", b"version 1", b"quit now", b"stats noreply"),
        *(b"verbosity", b"verbosity x", b"flush_all x", "incr a ²".encode()),
    ],
)
def test_a_wrong_line_is_answered_and_the_next_one_is_read(line: bytes) -> None:
    wrong, after = commands(line + b"\r\nget z\r\n")
    assert isinstance(wrong, Wrong) and wrong.cause in TEXT_CAUSES and not wrong.ends
    assert wrong.reply.split(b" ")[0] in (b"ERROR", b"CLIENT_ERROR", b"SERVER_ERROR")
    assert after == Retrieve((Read("z"),), False)


@pytest.mark.parametrize(
    "head",
    [
        *(b"set " + b"k" * 251 + b" 0 0 9", b"set k x 0 9", b"set k 4294967296 0 9"),
        *(b"set k 0 x 9", b"cas k 0 0 9 x", b"cas k 0 0 9", b"set k 0 0 9 1", b"set k 0 0 101"),
    ],
)
def test_data_of_a_wrong_storage_command_is_never_run(head: bytes) -> None:
    length = int(head.split(b" ")[4])
    data = b"get evil\r\n".ljust(length, b".")[:length]
    wrong, after = commands(head + b"\r\n" + data + b"\r\nget z\r\n")
    assert isinstance(wrong, Wrong) and not wrong.ends
    assert after == Retrieve((Read("z"),), False)


@pytest.mark.parametrize(
    "data",
    [
        *(b"set k 0 0 x\r\nget evil\r\n", b"set k 0 0\r\nget evil\r\n", b"set\r\nget evil\r\n"),
        *(b"set k 0 0 -1\r\nget evil\r\n", b"set k 0 0 1001\r\nget evil\r\n"),
        b"set k 0 0 3\r\nabcdef\r\nget evil\r\n",
        b"get " + b"k" * 300 + b"\r\nget evil\r\n",
        b"x" * 400,
    ],
)
def test_the_connection_ends_where_data_cannot_be_told_from_commands(data: bytes) -> None:
    found = commands(data)
    assert len(found) == 1 and isinstance(found[0], Wrong) and found[0].ends
    parser = CommandParser(SMALL)
    parser.feed(data)
    parser.next_command(NOW)
    parser.feed(b"get evil\r\n")
    assert parser.next_command(NOW) is None and parser.held == 0 and not parser.is_inside


_words = st.sampled_from(
    [
        *(b"get", b"gets", b"gat", b"set", b"add", b"cas", b"append", b"incr", b"delete"),
        *(b"touch", b"stats", b"quit", b"k", b"0", b"1", b"5", b"-1", b"99999", b"noreply"),
        *(b" ", b"\r\n", b"\n", b"\r", b"\0", b"ab", b"x" * 251),
    ]
)
_streams = st.one_of(
    st.binary(max_size=600),
    st.lists(_words, max_size=60).map(b" ".join),
    st.lists(_words, max_size=60).map(b"".join),
)


@settings(max_examples=300)
@given(_streams, st.lists(st.integers(0, 600), max_size=8))
def test_any_bytes_give_commands_of_bounded_size_in_whatever_pieces_they_come(
    data: bytes, cuts: list[int]
) -> None:
    whole = commands(data)
    assert commands(data, cuts=tuple(cuts)) == whole
    assert commands(data, cuts=tuple(range(len(data)))) == whole
    for command in whole:
        if isinstance(command, Retrieve):
            assert len(command.requests) <= SMALL.keys_max
            assert all(0 < len(r.key.encode()) <= SMALL.key_max for r in command.requests)
        elif isinstance(command, Modify) and isinstance(command.request, Put):
            assert len(command.request.data) <= SMALL.value_max


@settings(max_examples=100)
@given(st.lists(_streams, max_size=10))
def test_the_parser_keeps_a_line_and_a_value_at_most(pieces: list[bytes]) -> None:
    parser = CommandParser(SMALL)
    for piece in pieces:
        parser.feed(piece)
        while parser.next_command(NOW) is not None:
            pass
        assert parser.held <= max(SMALL.line_max, SMALL.value_max + 2)


@settings(max_examples=100)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([c for c in Change if c is not Change.CAS]), st.binary(max_size=100)
        )
    )
)
def test_a_value_of_any_bytes_arrives(puts: list[tuple[Change, bytes]]) -> None:
    sent = b"".join(b"%b k 1 0 %d\r\n%b\r\n" % (c.encode(), len(d), d) for c, d in puts)
    assert commands(sent) == [Modify(Put("k", c, d, 1), False) for c, d in puts]
