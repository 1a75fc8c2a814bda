"""``jgroups-py top``: rows from members' answers, and the command beside real members."""

from __future__ import annotations

import json

import pytest
import trio

from jgroups_py import open_channel
from jgroups_py.tools.cli import run
from jgroups_py.tools.commands.mperf_ports import free_block
from jgroups_py.tools.commands.top import NOBODY, table_of
from jgroups_py.tools.probing import Heard
from jgroups_py.tools.top_rows import Look, TopRow, look_of, row_of, rows_of, split
from jgroups_py.wire.probe import ProbeAnswer


def answer(member: str, *, sent: float = 0.0, view: int = 3, coordinator: str = "A") -> Heard:
    head = f"{member} [ip=127.0.0.1:7800, 2 mbr(s), cluster=shop, version=jgroups_py (wire 5.5.6)]"
    numbers: dict[str, dict[str, float]] = {
        "NAKACK2": {"sent": sent, "delivered": 2 * sent, "requests_sent": 1, "retransmitted": 2},
        "UNICAST3": {"sent": 5, "delivered": 5, "requests_sent": 0, "retransmitted": 0},
        "MFC": {"queued": 700},
        "UFC": {"queued": 1, "turned_away_x": 4},
        "GMS": {"highest_id": view},
    }
    lines = [
        line
        for protocol, counters in numbers.items()
        for line in (f"{protocol}:", *(f"   {name}: {n:g}" for name, n in counters.items()))
    ]
    values = {
        "metrics": "\n".join(lines),
        "GMS": f"{{coordinator={coordinator}}}",
        "MFC": "{waits_for=C, D}",
        "UFC": "{waits_for=D}",
        "RELAY": "{role=relay, buffered=12, buffer_fill=0.1, sites=LON:up SFO:down}",
    }
    return Heard("127.0.0.1", 7500, 900, ProbeAnswer(head, values))


def look(heard: Heard, at: float) -> Look:
    found = look_of(heard, at)
    assert found is not None
    return found


def test_a_row_has_rates_between_two_looks() -> None:
    row = row_of(look(answer("B", sent=100), 10.0), look(answer("B", sent=160), 12.0))
    assert row == TopRow(
        cluster="shop",
        member="B",
        coordinator="A",
        view=3,
        members=2,
        sent=30.0,
        delivered=60.0,
        resent=0.0,
        unstable=None,
        waiting=701.0,
        waits_for="C, D",
        refused=4.0,
        relay="relay",
        buffered="12",
        sites="LON:up SFO:down",
    )


def test_a_member_that_was_not_seen_before_or_has_begun_anew_has_no_rates() -> None:
    now = look(answer("B", sent=160), 12.0)
    assert row_of(None, now).sent is None
    assert row_of(look(answer("B", sent=500), 10.0), now).sent is None
    assert row_of(now, now).delivered is None


def test_a_java_member_has_the_numbers_that_it_tells() -> None:
    head = "J [ip=127.0.0.1:7800, 3 mbr(s), cluster=shop, version=5.5.6.Final (Arles)]"
    heard = Heard(
        "127.0.0.1", 7500, 9, ProbeAnswer(head, {"metrics": "NAKACK4:\n   num_sent: 3\n"})
    )
    row = row_of(None, look(heard, 1.0))
    assert (row.member, row.members, row.view, row.sent, row.waiting) == ("J", 3, None, None, None)


@pytest.mark.parametrize("head", ["", "no member", "A [ip=x, many mbr(s), cluster=c, version=1]"])
def test_any_answer_at_all_is_survived(head: str) -> None:
    values = {"metrics": "GMS:\n   highest_id: nan\n   x: 1e999\n:::", "GMS": "{", "MFC": "{=,}"}
    found = look_of(Heard("127.0.0.1", 1, 2, ProbeAnswer(head, values)), 0.0)
    if found is not None:
        assert row_of(found, found).view is None
        table_of([row_of(found, found)])


def test_members_with_different_views_are_marked() -> None:
    looks = [look(answer("A"), 0.0), look(answer("B", view=4, coordinator="B"), 0.0)]
    rows = rows_of([], looks)
    assert split(rows) == {"shop"} and not split(rows[:1])
    assert [row.member for row in rows] == ["A", "B"]


@pytest.mark.sockets
def test_the_command_shows_running_members(capsys: pytest.CaptureFixture[str]) -> None:
    port = free_block(8)
    attributes = {
        "TCP.diag.enabled": "true",
        "TCP.diag.enable_tcp": "true",
        "TCP.diag.port": str(port),
    }
    hosts = ["--host", f"127.0.0.1:{port}-{port + 7}", "--timeout", "20s", "--interval", "50ms"]

    async def main() -> int:
        with trio.fail_after(60):
            async with (
                open_channel("tcp.xml", cluster="demo", name="A", attributes=attributes) as a,
                open_channel("tcp.xml", cluster="demo", name="B", attributes=attributes) as b,
            ):
                await a.wait_view(2)
                await b.wait_view(2)
                code = await trio.to_thread.run_sync(run, ["top", "--once", *hosts])
                return code or await trio.to_thread.run_sync(run, ["top", "--json", "-", *hosts])

    assert trio.run(main) == 0
    out = capsys.readouterr().out
    table, found, rows = out.partition("[\n")
    assert found and "coordinator" in table and table.count("1 (2)") == 2 and "SPLIT" not in table
    first, second = json.loads(found + rows)
    assert (first["member"], second["member"], second["coordinator"]) == ("A", "B", "A")
    assert first["sent"] is not None and first["waits_for"] == ""


@pytest.mark.sockets
def test_top_says_that_no_member_answers(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["top", "--once", "--host", f"127.0.0.1:{free_block(1)}"]) == 1
    assert NOBODY in capsys.readouterr().out
