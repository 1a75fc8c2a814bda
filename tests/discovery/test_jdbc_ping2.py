"""JDBC_PING2: its rows, with SQLite and with a real PostgreSQL server."""

from __future__ import annotations

import builtins
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from listing import FIND, A, B, C, Listing, at, became, view
from postgresql import PASSWORD, USER, NoServer, Server, postgresql

from jgroups_py.config.file import parse_stack
from jgroups_py.config.settings import build_one, field_types, value_text
from jgroups_py.driver.directories import DirectoryProblem
from jgroups_py.driver.directories.database import answer
from jgroups_py.errors import ConfigError
from jgroups_py.protocols.discovery.entries import (
    NAME_MAX,
    StoredMember,
    parse_row,
    place_text,
    row_address,
)
from jgroups_py.protocols.discovery.jdbc_ping2 import JDBC_PING2
from jgroups_py.stack.directories import ChangeTable, Database, OpenTable, ReadTable
from jgroups_py.testing import SimCluster
from jgroups_py.values.events import GetPhysical, MembersFound, TransportReady

SQLITE = "jdbc:sqlite:/nowhere"
pytestmark = pytest.mark.sockets


def row(entry: StoredMember) -> tuple[Any, ...]:
    return row_address(entry.address), entry.name, place_text(entry.physical), entry.coordinator


def ping(**attributes: Any) -> Listing:
    listing = Listing(JDBC_PING2(connection_url=SQLITE, **attributes))
    listing.ready()
    return listing


def written(request: Any) -> list[tuple[Any, ...]]:
    """Return the rows that a change adds."""
    assert isinstance(request, ChangeTable)
    return [values for sql, values in request.statements if sql.startswith("INSERT")]


def removed(request: Any) -> list[Any]:
    assert isinstance(request, ChangeTable)
    assert all(sql.startswith("DELETE") for sql, _ in request.statements)
    return [values[0] for _, values in request.statements]


OTHERS = (row(StoredMember("B", B, at(7801), True)), row(StoredMember("C", C, at(7802), False)))


# --- the protocol


def test_the_table_is_made_and_read_before_the_transport_is_ready() -> None:
    listing = Listing(JDBC_PING2(connection_url=SQLITE))
    listing.stack.event_up(TransportReady(at(7800)))
    (request,) = listing.requests()
    assert isinstance(request, OpenTable)
    assert request.statements[0].startswith("CREATE TABLE jgroups")
    assert request.check == (
        "SELECT address, name, ip, coord FROM jgroups WHERE cluster=?",
        ("test",),
    )
    listing = Listing(JDBC_PING2(connection_url=SQLITE, initialize_sql="none"))
    listing.stack.event_up(TransportReady(at(7800)))
    (request,) = listing.requests()
    assert isinstance(request, OpenTable) and request.statements == ()


def test_a_member_that_starts_writes_its_row_and_asks_those_of_the_others() -> None:
    listing = ping()
    listing.stack.event_down(FIND)
    assert written(listing.answer()) == [(f"uuid://{A}", "A", "test", "127.0.0.1:7800", False)]
    assert isinstance(listing.answer(OTHERS), ReadTable)
    assert listing.asked() == ["127.0.0.1:7801", "127.0.0.1:7802"]


def coordinator(**attributes: Any) -> Listing:
    listing = ping(**attributes)
    listing.stack.answers[GetPhysical] = lambda query: {B: at(7801), C: at(7802)}.get(query.member)
    listing.stack.event_down(became(view(A)))
    while listing.requests():
        listing.answer(())
    return listing


def test_a_coordinator_writes_all_rows_in_one_order_and_one_transaction() -> None:
    listing = coordinator()
    listing.stack.event_down(became(view(A, C, B, number=2), view(A)))
    rows = written(listing.answer())
    assert [(r[0], r[4]) for r in rows] == [
        (f"uuid://{A}", True),
        (f"uuid://{B}", False),
        (f"uuid://{C}", False),
    ]


def test_a_member_that_is_coordinator_no_more_says_so_in_its_row() -> None:
    listing = coordinator()
    listing.stack.event_down(became(view(B, A, number=2), view(A)))
    assert written(listing.answer()) == [(f"uuid://{A}", "A", "test", "127.0.0.1:7800", False)]
    listing.stack.event_down(became(view(B, A, C, number=3), view(B, A, number=2)))
    assert listing.requests() == []


def test_rows_of_strangers_are_removed_where_that_is_wanted() -> None:
    listing = ping(remove_all_data_on_view_change=True)
    listing.stack.event_down(became(view(A, B, number=2), view(C, A, B)))
    assert isinstance(listing.answer(OTHERS), ReadTable)
    written(listing.answer())
    assert removed(listing.answer()) == [f"uuid://{C}"]


def test_a_coordinator_whose_row_somebody_has_removed_writes_again() -> None:
    listing = coordinator()
    listing.stack.advance(60)
    while listing.requests():
        listing.answer(())
    listing.stack.event_down(FIND)
    assert isinstance(listing.answer(OTHERS), ReadTable)
    assert written(listing.answer())


def test_a_member_that_goes_removes_its_row() -> None:
    listing = coordinator()
    listing.stack.event_down(became(view(B, A, number=2), view(A)))
    listing.answer()
    listing.stack.stack.close()
    assert removed(listing.answer_left()) == [f"uuid://{A}"]


def test_a_late_write_does_not_restore_the_row_of_a_former_member() -> None:
    listing = coordinator()
    listing.stack.event_down(became(view(A, B, number=2), view(A)))
    assert listing.requests()  # under way: B's own removal may come before it
    listing.stack.event_down(became(view(A, number=3), view(A, B, number=2)))
    assert f"uuid://{B}" in [r[0] for r in written(listing.answer())]
    assert removed(listing.answer()) == [f"uuid://{B}"]
    assert [r[0] for r in written(listing.answer())] == [f"uuid://{A}"]
    listing.stack.event_down(became(view(A, C, number=4), view(A)))
    listing.answer()
    listing.stack.event_down(became(view(A, number=5), view(A, C, number=4)))
    # C may leave before we have a view without it: our answered write may also have come after its removal.
    assert removed(listing.answer()) == [f"uuid://{C}"]
    assert [r[0] for r in written(listing.answer())] == [f"uuid://{A}"]


def test_a_coordinator_that_leaves_removes_the_rows_whose_removal_still_waits() -> None:
    listing = coordinator()
    listing.stack.event_down(became(view(A, B, number=2), view(A)))
    assert written(listing.requests()[0])  # under way, so the removal of B's row waits
    listing.stack.event_down(became(view(A, number=3), view(A, B, number=2)))
    listing.stack.stack.close()
    written(listing.answer_left())
    assert removed(listing.answer_left()) == [f"uuid://{A}", f"uuid://{B}"]
    assert listing.requests() == []


def test_a_stored_procedure_replaces_two_statements() -> None:
    listing = ping(insert_sp="CREATE PROCEDURE x", call_insert_sp="call x(?,?,?,?,?)")
    listing.stack.event_down(FIND)
    request = listing.answer()
    assert [sql for sql, _ in request.statements] == ["call x(?,?,?,?,?)"]


@pytest.mark.parametrize(
    "bad",
    [
        (),
        ("uuid://x", "B", "127.0.0.1:1", True),
        (None, "B", "127.0.0.1:1", True),
        (f"uuid://{B}", "B", "nowhere", True),
        (f"uuid://{B}", 7, "127.0.0.1:1", True),
        (f"uuid://{B}", "B", b"127.0.0.1:1", True),
        (f"uuid://{B}", "B", "127.0.0.1:1", "yes"),
        ("ip://10.0.0.1:1", "B", "127.0.0.1:1", True),
    ],
)
def test_rows_that_cannot_be_are_counted(bad: Any) -> None:
    listing = ping()
    listing.stack.event_down(FIND)
    listing.answer()
    listing.answer((bad, *OTHERS))
    assert len(listing.asked()) == 2
    assert listing.statistics()["dropped_entries"] == 1


JUNK = st.one_of(st.none(), st.text(max_size=50), st.binary(max_size=9), st.integers(), st.floats())


def test_rows_of_java_are_read() -> None:
    entry = parse_row((f"site-addr://{B}:B:NYC", None, "fe80:0:0:0:1:2:3:4%eth0:7800", None))
    assert (entry.address, entry.name, entry.coordinator) == (B, None, False)
    assert str(entry.physical) == "[fe80:0:0:0:1:2:3:4]:7800"


@given(
    st.lists(JUNK, max_size=6)
    | st.tuples(
        st.just(f"uuid://{B}"), JUNK | st.text(min_size=190), st.just("127.0.0.1:7800"), JUNK
    )
)
def test_any_row_is_an_entry_or_refused(values: Sequence[Any]) -> None:
    with suppress(ValueError):
        entry = parse_row(values)
        assert entry.coordinator == bool(values[3])
        assert (entry.name or "") == (values[1] or "")[:NAME_MAX]


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [
        ({}, 'connection_url must be jdbc:postgresql://.* or jdbc:sqlite:FILE, got ""'),
        ({"connection_url": "jdbc:mysql://h/d?password=s3cret"}, 'got "jdbc:mysql://h/d"$'),
        ({"connection_url": "postgresql://u:s3cret@h/d"}, 'got "postgresql://h/d"$'),
        (
            {"connection_url": SQLITE, "delete_single_sql": "DELETE"},
            "delete_single_sql must have 1",
        ),
        ({"connection_url": SQLITE, "insert_sp": "x"}, "call_insert_sp must be set"),
    ],
)
def test_settings_of_jdbc_ping2_that_cannot_be_are_refused(
    attributes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem) as caught:
        JDBC_PING2(**attributes)
    assert "s3cret" not in str(caught.value)


def test_a_database_password_is_in_no_text() -> None:
    secret = "s3cret"
    for url in (
        f"jdbc:postgresql://db/x?user=u&password={secret}",
        f"jdbc:postgresql://u:{secret}@db/x",
    ):
        with pytest.raises(ConfigError, match="connection_url must hold no password") as refused:
            JDBC_PING2(connection_url=url)
        assert secret not in str(refused.value)
    protocol = JDBC_PING2(connection_url="jdbc:postgresql://db/x", connection_password=secret)
    listing = Listing(protocol)
    listing.stack.event_up(TransportReady(at(7800)))
    listing.requests()
    kinds = field_types(JDBC_PING2.Config)
    texts = [
        repr(protocol),
        repr(protocol.config),
        protocol.directory_name,
        value_text(protocol.config.connection_password, kinds["connection_password"]),
    ]
    texts.append(repr(listing.waiting))
    assert all(secret not in text for text in texts)
    stack = parse_stack(
        f'<config><JDBC_PING2 connection_pasword="{secret}"/></config>', language="xml"
    )
    with pytest.raises(ConfigError) as caught:
        build_one(stack.protocols[0])
    assert secret not in str(caught.value)


def test_members_find_each_other_through_a_table_in_virtual_time() -> None:
    attributes = {"JDBC_PING2.connection_url": SQLITE}
    with SimCluster("ABC", "tcp-jdbc.xml", seed=5, attributes=attributes) as cluster:
        tables = cluster.world.directory.tables
        cluster.run_for(30)
        first, *others = cluster["A"].view_names
        rows = tables.execute("SELECT name, coord FROM jgroups").fetchall()
        assert sorted(rows) == sorted([(first, 1), *((name, 0) for name in others)])
        cluster.crash(first)
        cluster.run_for(30)
        rows = tables.execute("SELECT name, coord FROM jgroups").fetchall()
        assert sorted(rows) == sorted([(others[0], 1), (others[1], 0)])
        cluster.world.directory.fails["database"] = "the server is shutting down"
        cluster.restart(others[0])
        cluster.run_for(20)
        del cluster.world.directory.fails["database"]
        cluster.settle()
        assert len(cluster[others[0]].view_names) == 2


# --- databases

CREATE = JDBC_PING2.Config(connection_url=SQLITE).initialize_sql
SELECT = JDBC_PING2.Config(connection_url=SQLITE).select_all_pingdata_sql
INSERT = JDBC_PING2.Config(connection_url=SQLITE).insert_single_sql
DELETE = JDBC_PING2.Config(connection_url=SQLITE).delete_single_sql


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    try:
        with postgresql() as running:
            yield running
    except NoServer as problem:
        pytest.skip(str(problem))


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    if request.param == "sqlite":
        return Database(f"jdbc:sqlite:{tmp_path / 'members.db'}", "", "", 60.0)
    running = request.getfixturevalue("server")
    found = Database(running.url, USER, PASSWORD, 60.0)
    answer(OpenTable(found, ("DROP TABLE jgroups",), ("SELECT ?", ("x",))))
    return found


def rows(database: Database, cluster: str = "c", most: int = 10) -> Any:
    return answer(ReadTable(database, (SELECT, (cluster,)), most, 4))


def test_a_table_is_made_once_and_holds_rows(database: Database) -> None:
    for _ in range(2):
        answer(OpenTable(database, (CREATE,), (SELECT, ("c",))))
    new = [
        (INSERT, (f"uuid://{n}", 'it\'s 100% "B"?', "c", "10.0.0.1:1", n == 0)) for n in range(4)
    ]
    answer(ChangeTable(database, tuple(new)))
    assert rows(database, "other") == ()
    found = rows(database)
    assert len(found) == 4 and len(rows(database, most=2)) == 2
    assert found[0][:3] == ("uuid://0", 'it\'s 100% "B"?', "10.0.0.1:1")
    assert [bool(row[3]) for row in found] == [True, False, False, False]
    answer(ChangeTable(database, ((DELETE, ("uuid://0",)), (DELETE, ("uuid://9",)))))
    assert len(rows(database)) == 3


def test_a_change_is_whole_or_not_at_all(database: Database) -> None:
    answer(OpenTable(database, (CREATE,), (SELECT, ("c",))))
    new = (INSERT, ("uuid://1", None, "c", "10.0.0.1:1", False))
    with pytest.raises(DirectoryProblem, match=r"(?i)unique") as caught:
        answer(ChangeTable(database, (new, new)))
    assert not caught.value.final
    assert rows(database) == ()


def test_a_table_that_cannot_be_made_or_read_is_final(database: Database) -> None:
    with pytest.raises(
        DirectoryProblem, match="initialize_sql and select_all_pingdata_sql"
    ) as caught:
        answer(OpenTable(database, ("CREATE GARBAGE",), (SELECT, ("c",))))
    assert caught.value.final


def test_a_wrong_password_and_a_wrong_database_are_final_and_not_reported(server: Server) -> None:
    for url, password in ((server.url, "wr0ng"), (f"{server.url}x", PASSWORD)):
        with pytest.raises(DirectoryProblem) as caught:
            rows(Database(url, USER, password, 60.0))
        assert caught.value.final
        assert password not in str(caught.value)


def test_a_database_that_is_not_there_is_a_problem_that_may_pass() -> None:
    with pytest.raises(DirectoryProblem) as caught:
        rows(Database("jdbc:postgresql://127.0.0.1:1/x", USER, PASSWORD, 2.0))
    assert not caught.value.final and PASSWORD not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("jdbc:postgresql://h", "connection_url must be jdbc:postgresql"),
        ("jdbc:postgresql://h:port/d", "connection_url must be jdbc:postgresql"),
        ("jdbc:h2:mem", "connection_url must be jdbc:postgresql"),
        ("jdbc:postgresql://h/d?sslmode=maybe", "sslmode must be one of disable.*got maybe"),
        ("jdbc:postgresql://h/d?sslmode=require&sslrootcert=/no/ca", "sslrootcert /no/ca"),
    ],
)
def test_urls_that_cannot_be_are_final(url: str, told: str) -> None:
    with pytest.raises(DirectoryProblem, match=told) as caught:
        rows(Database(url, "", "", 1.0))
    assert caught.value.final


def test_the_driver_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *args: Any, **options: Any) -> Any:
        if name.startswith("pg8000"):
            raise ModuleNotFoundError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(
        DirectoryProblem, match=r"needs pg8000: pip install 'jgroups_py\[postgresql\]'"
    ):
        rows(Database("jdbc:postgresql://h/d", "", "", 1.0))


def test_a_table_full_of_garbage_harms_nobody(tmp_path: Path) -> None:
    file = tmp_path / "garbage.db"
    with sqlite3.connect(file) as tables:
        tables.execute(CREATE)
        for number in range(50):
            values = (f"{number}", b"\xff" * number, "c", "x" * number, "maybe")
            tables.execute(INSERT, values)
    tables.close()
    found = rows(Database(f"jdbc:sqlite:{file}", "", "", 1.0), most=20)
    assert len(found) == 20
    listing = ping()
    listing.stack.event_down(FIND)
    listing.answer()
    listing.answer(found)
    assert listing.statistics()["dropped_entries"] == 20
    assert listing.stack.take_up_events(MembersFound) == [MembersFound("GMS", (), alone=True)]
