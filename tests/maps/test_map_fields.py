"""The rule per-field: hosts that change different fields of a Struct lose no change."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from jgroups_py import blocking
from jgroups_py.maps import MapChange, MapError, MapTypeError, MemoryLinks, PerField, open_map
from jgroups_py.maps.codecs import JSON, struct_codec
from jgroups_py.maps.fields import Fields
from jgroups_py.maps.stamp import MapStamp

SIZE = 1 << 28


class Quote(msgspec.Struct, kw_only=True):
    bid: float = 0.0
    ask: float = 0.0
    venue: bytes = b""
    at: dt.datetime | None = None


class Listed(msgspec.Struct, array_like=True):
    bid: float


def after(fields: Fields, before: bytes | None, value: Any, time: int, node: int) -> bytes:
    data = (JSON if isinstance(value, dict) else struct_codec(Quote)).encode(value)
    return fields.changed(before, data, MapStamp(time, node))


def test_a_changed_field_gets_a_new_writer_and_others_keep_theirs() -> None:
    fields, rule = Fields(struct_codec(Quote)), PerField()
    first = after(fields, None, Quote(bid=1.0, ask=2.0), 5, 1)
    here = after(fields, first, Quote(bid=1.5, ask=2.0), 8, 1)
    there = after(fields, first, Quote(bid=1.0, ask=2.5), 7, 2)
    assert fields.value(rule.merge(here, there)) == Quote(bid=1.5, ask=2.5)
    stored = msgspec.json.decode(here)
    assert (stored["bid"][:2], stored["ask"][:2]) == ([8, 1], [5, 1])
    older = after(fields, first, Quote(bid=1.25, ask=2.0), 6, 2)
    assert fields.value(rule.merge(here, older)) == Quote(bid=1.5, ask=2.0)


def test_every_type_of_a_struct_comes_back() -> None:
    value = Quote(bid=1e300, venue=b"\x00\xff", at=dt.datetime(2026, 1, 2, tzinfo=dt.UTC))
    fields = Fields(struct_codec(Quote))
    assert fields.value(after(fields, None, value, 1, 1)) == value


def test_a_field_of_json_that_is_left_out_is_gone_and_may_come_back() -> None:
    fields, rule = Fields(JSON), PerField()
    first = after(fields, None, {"a": 1, "b": None}, 1, 1)
    assert fields.value(first) == {"a": 1, "b": None}
    without = after(fields, first, {"b": None}, 2, 1)
    other = after(fields, first, {"a": 1, "b": 5}, 3, 2)
    assert fields.value(rule.merge(without, other)) == {"b": 5}
    assert fields.value(after(fields, without, {"a": 2}, 4, 1)) == {"a": 2}
    again = after(fields, without, {"b": None}, 9, 1)
    assert again == without  # nothing has changed


def test_one_and_true_are_two_values() -> None:
    fields = Fields(JSON)
    first = after(fields, None, {"a": 1}, 1, 1)
    assert fields.value(after(fields, first, {"a": True}, 2, 1))["a"] is True


def test_an_older_program_keeps_the_fields_of_a_newer_one() -> None:
    newer, older = Fields(JSON), Fields(struct_codec(Quote))
    first = after(newer, None, {"bid": 1.0, "depth": 7}, 1, 1)
    assert older.value(first) == Quote(bid=1.0)
    second = after(older, first, Quote(bid=2.0), 2, 1)
    assert newer.value(second)["depth"] == 7 and newer.value(second)["bid"] == 2.0


class Short(msgspec.Struct, omit_defaults=True):
    a: int = 0
    b: int = 0


def test_a_field_that_goes_back_to_its_default_does_so_at_all_hosts() -> None:
    codec = struct_codec(Short)
    fields, rule = Fields(codec), PerField()
    first = fields.changed(None, codec.encode(Short(1, 1)), MapStamp(1, 1))
    here = fields.changed(first, codec.encode(Short(0, 1)), MapStamp(2, 1))
    there = fields.changed(first, codec.encode(Short(1, 2)), MapStamp(3, 2))
    assert fields.value(rule.merge(here, there)) == Short(0, 2)


def test_values_that_have_no_fields_are_refused() -> None:
    fields = Fields(JSON)
    for wrong in ([1], "text", 5, None):
        with pytest.raises(MapTypeError, match="takes objects with fields, got"):
            fields.changed(None, JSON.encode(wrong), MapStamp(1, 1))
    structs = Fields(struct_codec(Quote))
    for number in ("nan", "inf"):
        with pytest.raises(MapTypeError, match=r"cannot be stored by fields, in JSON: .*bid"):
            after(structs, None, Quote(bid=float(number)), 1, 1)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("bytes", 'is for values of "json" or of a msgspec Struct, got bytes'),
        ((str.encode, bytes.decode), "got own"),
        (Listed, "Listed is array_like"),
        (None, "got bytes"),
    ],
)
def test_codecs_without_fields_are_refused(tmp_path: Path, value: Any, says: str) -> None:
    options: Any = {"value": value, "rule": PerField(), "max_bytes": SIZE}
    with pytest.raises(MapError, match=says), blocking.open_map(tmp_path / "m", **options):
        pass


def test_calls_of_a_map_see_structs(tmp_path: Path) -> None:
    options: Any = {"key": str, "value": Quote, "max_bytes": SIZE}
    with blocking.open_map(tmp_path / "m", rule=PerField(), **options) as m:
        m["a"] = Quote(bid=1.0)
        assert m.update("a", lambda old: msgspec.structs.replace(old, ask=2.0)) == m["a"]
        assert m.put("a", Quote(bid=3.0, ask=2.0)) == Quote(bid=1.0, ask=2.0)
        assert m.compare_and_set("a", Quote(bid=3.0, ask=2.0), Quote(bid=4.0))
        assert m.put_if_absent("a", Quote()) == m.replace("a", Quote(bid=5.0)) == Quote(bid=4.0)
        assert dict(m) == {"a": Quote(bid=5.0)}
        with pytest.raises(MapTypeError, match="it must be a Quote"):
            m["a"] = {"bid": 1.0}
    with blocking.open_map(tmp_path / "m", **options) as m:  # the file stores the rule
        assert m["a"] == Quote(bid=5.0)


async def test_two_hosts_that_change_two_fields_at_once_keep_both(tmp_path: Path) -> None:
    links = MemoryLinks()
    options: Any = {"name": "q", "key": str, "value": Quote, "max_bytes": SIZE}
    one = open_map(tmp_path / "1", identifier=1, rule=PerField(), network=links, **options)
    two = open_map(tmp_path / "2", identifier=2, rule=PerField(), network=links, **options)
    async with one as a, two as b:
        a["x"] = Quote(bid=1.0, ask=1.0)
        with trio.fail_after(60):
            while b.get("x") is None:  # noqa: ASYNC110 - another host brings it
                await trio.sleep(0.005)
            changes = b.listen()
            a["x"] = Quote(bid=2.0, ask=1.0)
            b["x"] = Quote(bid=1.0, ask=2.0)
            wanted = Quote(bid=2.0, ask=2.0)
            while a["x"] != wanted or b["x"] != wanted:  # noqa: ASYNC110
                await trio.sleep(0.005)
            async for change in changes:
                if isinstance(change, MapChange) and change.value == wanted:
                    break
        assert a["x"] == b["x"] == wanted
