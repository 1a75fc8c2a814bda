"""FILE_PING: its files, the members that it asks, and a folder full of rubbish."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from listing import FIND, A, B, C, Listing, at, became, view

from jgroups_py.errors import ConfigError
from jgroups_py.protocols.discovery.entries import (
    StoredMember,
    file_name,
    lines_of,
    parse_lines,
    parse_place,
    parse_uuid,
)
from jgroups_py.protocols.discovery.file_ping import FILE_PING
from jgroups_py.stack.directories import (
    FolderContents,
    OpenFolder,
    ReadFolder,
    RemoveFiles,
    WriteFile,
)
from jgroups_py.testing import make_address
from jgroups_py.values.address import UUID, IpAddress
from jgroups_py.values.events import (
    Disconnect,
    Failed,
    GetPhysical,
    MembersFound,
    TransportReady,
    Unreachable,
)


def ping(**attributes: Any) -> Listing:
    listing = Listing(FILE_PING(location="/shared", **attributes))
    listing.ready()
    return listing


def contents(*entries: StoredMember, refused: int = 0) -> FolderContents:
    return FolderContents((("x.list", lines_of(entries)),), refused)


OTHERS = contents(StoredMember("B", B, at(7801), True), StoredMember("C", C, at(7802), False))


# --- opening


def test_the_folder_is_opened_before_anybody_hears_that_the_transport_is_ready() -> None:
    listing = Listing(FILE_PING(location="/shared"))
    listing.stack.event_up(TransportReady(at(7800)))
    assert listing.requests() == [OpenFolder("/shared", "test")]
    assert listing.stack.take_up_events() == []
    listing.answer()
    assert listing.stack.take_up_events() == [TransportReady(at(7800))]


def test_a_folder_that_cannot_be_ends_the_stack_with_the_reason() -> None:
    listing = Listing(FILE_PING(location="/shared"))
    listing.stack.event_up(TransportReady(at(7800)))
    listing.answer(problem="location must be a folder", final=True)
    assert listing.stack.take_up_events() == [Failed("FILE_PING: location must be a folder")]


def test_a_folder_that_does_not_answer_yet_does_not_keep_the_member_from_starting() -> None:
    listing = Listing(FILE_PING(location="/shared"))
    listing.stack.event_up(TransportReady(at(7800)))
    listing.answer(problem="no answer within 5 s")
    assert listing.stack.take_up_events() == [TransportReady(at(7800))]
    assert listing.statistics()["lookups_failed"] == 1


# --- searching


def test_a_starting_member_writes_its_entry_and_asks_the_members_in_the_files() -> None:
    listing = ping()
    listing.stack.event_down(FIND)
    written = listing.answer()
    assert isinstance(written, WriteFile)
    assert parse_lines(written.data, 10) == ([StoredMember("A", A, at(7800), False)], 0)
    assert isinstance(listing.answer(OTHERS), ReadFolder)
    assert listing.asked() == ["127.0.0.1:7801", "127.0.0.1:7802"]


def test_with_nobody_but_us_in_the_folder_we_are_alone_at_once() -> None:
    listing = ping()
    listing.stack.event_down(FIND)
    listing.answer()
    listing.answer(contents(StoredMember("A", A, at(7800), False)))
    assert listing.stack.take_up_events() == [MembersFound("GMS", (), alone=True)]


def test_an_entry_that_a_dead_member_has_left_behind_keeps_nobody_waiting() -> None:
    listing = ping()
    listing.stack.event_down(FIND)
    listing.answer()
    listing.answer(OTHERS)
    listing.stack.event_up(Unreachable(at(7801)))
    assert listing.stack.take_up_events() == []
    listing.stack.event_up(Unreachable(at(7802)))
    assert listing.stack.take_up_events() == [MembersFound("GMS", (), alone=True)]


def test_a_folder_that_cannot_be_read_does_not_make_us_certain_to_be_alone() -> None:
    listing = ping()
    listing.stack.event_down(FIND)
    listing.answer()
    listing.answer(problem="Stale file handle")
    assert listing.stack.take_up_events() == []
    listing.stack.advance(1.5)  # A asks once more at half the time-out
    assert isinstance(listing.answer(problem="Stale file handle"), ReadFolder)
    listing.stack.advance(1.6)
    assert listing.stack.take_up_events() == [MembersFound("GMS", (), alone=False)]


def test_members_of_the_last_list_are_asked_before_the_next_list_comes() -> None:
    listing = ping()
    listing.stack.event_down(FIND)
    listing.answer()
    listing.answer(OTHERS)
    listing.stack.advance(4)
    while listing.requests():
        listing.answer(OTHERS)
    listing.asked()
    listing.stack.take_up_events()
    listing.stack.advance(1)
    listing.stack.event_down(FIND)
    assert listing.asked() == ["127.0.0.1:7801", "127.0.0.1:7802"]
    while listing.requests():
        more = contents(StoredMember("B", B, at(7801), True), StoredMember("D", C, at(7803), False))
        listing.answer(more if isinstance(listing.requests()[0], ReadFolder) else None)
    assert listing.asked() == ["127.0.0.1:7803"]


def test_one_look_at_a_time_and_none_for_a_list_that_has_just_come() -> None:
    listing = ping()
    listing.stack.event_down(FIND)
    listing.answer()
    listing.stack.advance(1.6)
    assert len(listing.requests()) == 1
    listing.answer(OTHERS)
    listing.stack.event_down(FIND)
    assert [r for r in listing.requests() if isinstance(r, ReadFolder)] == []


# --- writing


def coordinator(**attributes: Any) -> Listing:
    """A single member A, whose file is written."""
    listing = ping(**attributes)
    listing.stack.answers[GetPhysical] = lambda query: {B: at(7801), C: None}.get(query.member)
    listing.stack.event_down(became(view(A)))
    while listing.requests():
        listing.answer()
    return listing


def test_a_coordinator_writes_all_members_whose_address_it_knows() -> None:
    listing = coordinator()
    listing.stack.stack.names[B] = "B"
    listing.stack.event_down(became(view(A, B, C, number=2), view(A)))
    written = listing.answer()
    assert isinstance(written, WriteFile) and written.name == f"{A}.A.list"
    expected = [StoredMember("A", A, at(7800), True), StoredMember("B", B, at(7801), False)]
    assert parse_lines(written.data, 10) == (expected, 0)


def test_a_coordinator_writes_again_twice() -> None:
    listing = coordinator()
    listing.stack.event_down(became(view(A, B, number=2), view(A)))
    writes = 0
    for _ in range(100):
        listing.stack.advance(1)
        while listing.requests():
            writes += isinstance(listing.answer(), WriteFile)
    assert writes == 3


def test_writes_that_wait_become_one() -> None:
    listing = coordinator()
    for number in range(2, 30):
        listing.stack.event_down(became(view(A, B, number=number), view(A, number=number - 1)))
    listing.answer()
    assert len(listing.requests()) == 1


def test_a_member_that_is_coordinator_no_more_takes_its_file_back() -> None:
    listing = coordinator()
    listing.stack.event_down(became(view(B, A, number=2), view(A)))
    removed = listing.answer()
    assert removed == RemoveFiles("/shared", "test", ".list", (f"{A}.",))
    listing.stack.advance(100)
    assert listing.requests() == []


def test_a_member_that_goes_takes_its_file_back() -> None:
    listing = coordinator()
    listing.stack.event_down(Disconnect())
    assert listing.requests() == []
    listing.stack.stack.close()
    assert listing.requests() == [RemoveFiles("/shared", "test", ".list", (f"{A}.",))]


def test_a_member_that_has_written_nothing_removes_nothing() -> None:
    listing = ping()
    listing.stack.stack.close()
    assert listing.requests() == []


def test_files_of_former_coordinators_are_removed_where_that_is_wanted() -> None:
    listing = ping(remove_old_coords_on_view_change=True)
    listing.stack.event_down(became(view(A, number=2), view(B, A)))
    assert listing.answer() == RemoveFiles("/shared", "test", ".list", (f"{B}.",))
    listing = ping(remove_all_data_on_view_change=True)
    listing.stack.event_down(became(view(A, number=2), view(B, A)))
    assert listing.answer() == RemoveFiles("/shared", "test", ".list", (f"{A}.",), but=True)
    assert isinstance(listing.answer(), WriteFile)


def test_without_updates_a_coordinator_writes_only_when_somebody_has_left() -> None:
    listing = coordinator(update_store_on_view_change=False, info_writer_max_writes_after_view=0)
    listing.stack.event_down(became(view(A, B, number=2), view(A)))
    assert listing.requests() == []
    listing.stack.event_down(became(view(A, number=3), view(A, B, number=2)))
    assert isinstance(listing.answer(), WriteFile)


# --- contents of files


def test_a_file_of_java_is_read() -> None:
    text = (
        b"A \t00000000-0000-0000-0000-00006a677079 \t192.168.1.5:7800 \tT\n"
        b"B 2 fe80:0:0:0:21b:21ff:fe07:a3b0:4500 f\r\n\n"
        b"C 0a6c59fc-7ee0-acd2-2d4b-cf7dd59adb97 fe80::1%3:1 t\n"
    )
    entries, bad = parse_lines(text, 10)
    assert bad == 0
    assert [str(e.physical) for e in entries] == [
        "192.168.1.5:7800",
        "[fe80:0:0:0:21b:21ff:fe07:a3b0]:4500",
        "[fe80::1]:1",
    ]
    assert [e.coordinator for e in entries] == [True, False, True]
    assert entries[1].address == UUID(bytes(15) + b"\2")
    assert entries[2].physical.scope == 3


def test_a_name_with_blanks_is_one_word_in_the_file() -> None:
    (entry,), bad = parse_lines(lines_of([StoredMember("a b\tc\n", A, at(1), True)]), 10)
    assert (entry.name, bad) == ("a_b_c", 0)


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", 'a<b>:"c"', "x" * 500, "ä" * 200, None, "|?*"]
)
def test_the_name_of_a_file_is_one_whatever_the_member_calls_itself(name: str | None) -> None:
    file = file_name(name, A)
    assert file.startswith(f"{A}.") and file.endswith(".list") and len(file.encode()) <= 255
    assert not set(file) & set('/\\<>:"|?*\0')


@given(st.binary(max_size=400))
def test_any_bytes_are_entries_or_bad_lines(data: bytes) -> None:
    entries, bad = parse_lines(data, 3)
    assert len(entries) <= 3 and bad >= 0


@given(
    st.lists(
        st.builds(
            StoredMember,
            st.from_regex(r"[A-Za-z0-9äö\-]{1,20}", fullmatch=True),
            st.builds(UUID, st.binary(min_size=16, max_size=16)),
            st.builds(
                IpAddress,
                st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)).map(str),
                st.integers(0, 65535),
            ),
            st.booleans(),
        ),
        max_size=5,
    )
)
def test_a_written_value_is_read(entries: list[StoredMember]) -> None:
    assert parse_lines(lines_of(entries), 10) == (entries, 0)


@pytest.mark.parametrize(
    "text", ["", ":", "h:1", "1.2.3.4", "1.2.3.4:", "1.2.3.4:x", "1.2.3.4:70000", "::1"]
)
def test_bytes_that_are_no_place_are_refused(text: str) -> None:
    if text == "::1":  # the last colon is before the port
        assert str(parse_place("::1:5")) == "[::1]:5"
        return
    with pytest.raises(ValueError):
        parse_place(text)


@pytest.mark.parametrize("text", ["", "x", "-", str(1 << 63), "1" * 400, "0a6c59fc-7ee0-acd2-2d4b"])
def test_a_text_that_is_no_uuid_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_uuid(text)


def test_rubbish_is_counted_and_readable_lines_are_used() -> None:
    listing = ping(max_hosts=3)
    listing.stack.event_down(FIND)
    listing.answer()
    many = [StoredMember(f"M{n}", make_address(n), at(8000 + n), False) for n in range(2, 10)]
    files = (("a.list", b"\xff\x00 garbage\nB x y z\n"), ("b.list", lines_of(many)))
    listing.answer(FolderContents(files, 7))
    assert listing.asked() == [f"127.0.0.1:{8000 + n}" for n in (2, 3, 4)]
    statistics = listing.statistics()
    assert statistics["dropped_files"] == 7
    assert statistics["dropped_entries"] == 3  # two lines, and the rest of b.list


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [
        ({"location": " "}, "location must be the path of a folder"),
        ({"max_files": 0}, "max_files"),
        ({"lookup_timeout": 0}, "lookup_timeout"),
        ({"info_writer_sleep_time": 0}, "info_writer_sleep_time"),
    ],
)
def test_settings_of_file_ping_that_cannot_be_are_refused(
    attributes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        FILE_PING(**attributes)
