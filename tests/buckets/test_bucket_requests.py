"""Requests on the machine: classification, keys, replies, deletion, order, limits, errors of the plug-in."""

from __future__ import annotations

from typing import Any

import pytest
from seed_instance import Instance, key_in

from jgroups_py.buckets import Busy, EntryFailed, NotSensible, Request


@pytest.mark.seed("A8", "A11")
def test_a_request_that_is_not_sensible_reaches_no_entry() -> None:
    instance = Instance()
    assert isinstance(instance.ask("n1", "k", "nonsense"), NotSensible)
    assert sum(instance.manager(n).counts["requests"] for n in ("n1", "n2", "n3")) == 0


@pytest.mark.seed("A12")
def test_a_request_without_a_key_makes_a_new_entry_each_time() -> None:
    instance = Instance()
    assert [instance.ask("n1", None, "+x") for _ in range(3)] == ["0", "0", "0"]
    assert instance.ask("n1", "never seen", "?") == "", "an unknown key is a blank entry"
    entries = sum(
        len(c.bucket) for n in ("n1", "n2", "n3") for c in instance.manager(n).copies.values()
    )
    assert entries == 6, (
        "three entries in two copies each; a blank one that was only read is not kept"
    )


@pytest.mark.seed("A4", "A13", "A14", "A63")
def test_an_entry_stays_until_it_is_deleted_and_then_is_gone_in_both_copies() -> None:
    instance = Instance()
    key = key_in(4)
    instance.ask("n1", key, "+x")
    instance.world.run(600.0)
    assert instance.ask("n3", key, "?") == "x"
    assert instance.ask("n3", key, "-") == "deleted"
    assert instance.ask("n1", key, "?") == ""
    assert [len(instance.manager(n).copies[3].bucket) for n in ("n2", "n3")] == [0, 0]


@pytest.mark.seed("A9", "A10")
def test_a_client_sends_many_requests_before_the_first_answer() -> None:
    instance = Instance()
    found: list[Any] = []
    for n in range(200):
        body = f"+t{n}".encode()
        instance.world.request(instance.member("n1"), Request(body, key_in(4)), found.append)
    assert not found
    instance.world.run(2.0)
    places = sorted(int(answer[0][1]) for answer in found)
    assert places == list(range(200)), "one after the other, each once"
    assert instance.manager("n2").copies[3].counts["found_locked"] > 0, (
        "64 wait for the slave at most"
    )


@pytest.mark.seed("A15")
def test_reads_at_the_slave_leave_the_master_alone() -> None:
    instance = Instance()
    key = key_in(4)
    instance.ask("n1", key, "+x")
    before = instance.manager("n2").counts["requests"]
    found: list[Any] = []
    for _ in range(5):
        request = Request(b"?", key, read_at="slave")
        instance.world.request(instance.member("n1"), request, found.append)
    instance.world.run(1.0)
    assert [answer[0][1] for answer in found] == [b"x"] * 5
    assert instance.manager("n2").counts["requests"] == before
    assert instance.manager("n3").counts["requests"] == 5


@pytest.mark.parametrize(
    ("how", "answered_before_slave"), [("before_reply", False), ("after_reply", True)]
)
@pytest.mark.seed("A15", "A30")
def test_the_plug_in_decides_whether_the_answer_waits_for_the_slave(
    how: Any, answered_before_slave: bool
) -> None:
    instance = Instance()
    instance.plugin.provider.backup = how
    found: list[Any] = []
    world = instance.world
    world.request(instance.member("n2"), Request(b"+x", key_in(4)), found.append)
    world.run(0.0)
    slave = instance.manager("n3").copies[3].bucket
    assert (bool(found), len(slave)) == (answered_before_slave, 0)
    world.run(1.0)
    assert (len(found), len(slave)) == (1, 1)


def test_an_entry_that_raises_is_as_it_was_saved_and_the_caller_is_told() -> None:
    instance = Instance()
    instance.ask("n1", "k", "+x")
    failed = instance.ask("n1", "k", "!")
    assert isinstance(failed, EntryFailed) and "ValueError: as asked" in str(failed)
    assert instance.ask("n1", "k", "?") == "x"


@pytest.mark.parametrize(
    ("limit", "value", "refused", "counted"),
    [("queue_max", 3, 3, "queue_full"), ("pending_max", 5, 2, "pending_full")],
)
def test_a_full_queue_and_a_full_router_refuse_by_name_and_are_counted(
    limit: str, value: int, refused: int, counted: str
) -> None:
    limits: dict[str, Any] = {limit: value}
    instance = Instance(pipeline_max=1, **limits)
    found: list[Any] = []
    for n in range(7):
        instance.world.request(instance.member("n2"), Request(b"+%d" % n, key_in(4)), found.append)
    instance.world.run(1.0)
    texts = [str(answer) for answer in found if isinstance(answer, Busy)]
    assert len(texts) == refused and all(limit in text for text in texts)
    counts = instance.manager("n2").counts + instance.router("n2").counts
    assert (counts[counted], len(found)) == (refused, 7)


@pytest.mark.seed("A6")
def test_a_repeated_request_is_answered_from_memory_also_after_a_take_over() -> None:
    instance = Instance(repeat_after=0.5)
    key = key_in(4)
    found: list[Any] = []
    for n in range(20):
        instance.world.request(instance.member("n1"), Request(b"+t%d" % n, key), found.append)
    instance.world.run(0.0015)
    instance.kill(
        "n2"
    )  # some requests are on their way, others are saved at the slave but not answered
    instance.world.run(20.0)
    assert sorted(int(answer[0][1]) for answer in found) == list(range(20))
    tokens = str(instance.ask("n1", key, "?")).split()
    assert len(tokens) == len(set(tokens)) == 20


def test_bytes_that_are_no_message_are_counted_and_dropped() -> None:
    instance = Instance()
    machine = instance.world.machines[instance.member("n1")]
    for data in (b"", b"\x00", b"\x93\xa1x\xa1y\x91\xa3fwd", b"\xff" * 100):
        machine.receive(instance.member("n2"), data)
    assert machine.counts["bad_messages"] == 4
    assert instance.ask("n1", "k", "+x") == "0"
