"""``jgroups-py fuzz``: it finds planted faults, prints the command that shows them again, and repeats itself."""

from __future__ import annotations

import json
import mmap
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jgroups_py.protocols.frag2 import FRAG2
from jgroups_py.protocols.reliable.nakack2.protocol import NAKACK2
from jgroups_py.protocols.transport.udp import UDP
from jgroups_py.testing.check.violation import Violation
from jgroups_py.testing.explorer.bytes import engine
from jgroups_py.testing.explorer.bytes.cluster import Cluster
from jgroups_py.testing.explorer.bytes.cover import Cover
from jgroups_py.testing.explorer.bytes.decoder import Decoder, smallest_bytes
from jgroups_py.testing.explorer.bytes.guard import Guard
from jgroups_py.testing.explorer.bytes.mutate import INPUT_MAX, Mutator, mutate_msgpack
from jgroups_py.testing.explorer.bytes.spots import SpyReader, spots_of
from jgroups_py.testing.explorer.bytes.stacks import STACKS, Episode, StackTarget
from jgroups_py.testing.explorer.bytes.targets import DECODERS, FuzzTarget
from jgroups_py.testing.explorer.bytes.work import FuzzWork
from jgroups_py.tools import cli
from jgroups_py.units import parse_seconds
from jgroups_py.wire.headers import PROTOCOL_IDS, NakAckHeader2, NakAckType
from jgroups_py.wire.packet import decode_packet
from jgroups_py.wire.primitives import Reader
from jgroups_py.wire.text.kinds import KINDS

FEW = ("kind:view", "kind:digest", "wire:handshake", "control:relay_local", "file:units")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def fuzz(*arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    """Exit code and JSON of a run."""
    code = cli.run(["fuzz", "--jobs", "1", "--json", "-", *arguments])
    return code, json.loads(capsys.readouterr().out)


def replayed(result: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Return the result of the command that a finding names."""
    command = result["findings"][0]["replay"].split()
    assert command[0] == "jgroups-py"
    code = cli.run(command[1:])
    return code, capsys.readouterr().out


# --- it can fail: faults are planted where compiled code calls plain code


def plant(patch: pytest.MonkeyPatch, kind: str, read: Callable[[Reader], Any]) -> None:
    """Let ``read`` read this kind from now on."""
    patch.setitem(KINDS, kind, (read, KINDS[kind][1]))


def plant_in(patch: pytest.MonkeyPatch, protocol: type, **methods: Any) -> None:
    """Stacks that are built from now on have a class of that name with these methods."""
    faulty = type(protocol.__name__, (protocol,), methods)
    patch.setattr(sys.modules[protocol.__module__], protocol.__name__, faulty)


def test_a_planted_error_is_found_made_small_and_shown_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    honest = KINDS["delta_view"][0]

    def read(r: Reader) -> Any:
        fields = honest(r)
        return fields, fields["new"][2]  # IndexError if less than three join

    with monkeypatch.context() as patch:
        plant(patch, "delta_view", read)
        code, result = fuzz("--target", "kind:delta_view", "--inputs", "300", capsys=capsys)
        assert code == 1
        finding = result["findings"][0]
        assert finding["target"] == "kind:delta_view" and "IndexError" in finding["detail"]
        assert result["targets"]["kind:delta_view"]["findings"] == len(result["findings"])
        file = Path(finding["replay"].split()[-1])
        assert file.parent == Path("build/fuzz") and 0 < file.stat().st_size < 300
        code, text = replayed(result, capsys)
        assert code == 1 and "IndexError" in text
    code, text = replayed(result, capsys)
    assert code == 0 and "nothing goes wrong" in text


def test_a_planted_endless_loop_is_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    honest = KINDS["view_id"][0]

    def read(r: Reader) -> Any:
        while r.end > 26:
            pass
        return honest(r)

    plant(monkeypatch, "view_id", read)
    code, result = fuzz("--target", "kind:view_id", "--inputs", "100", "--hang", "1", capsys=capsys)
    assert code == 1 and "CPU time" in result["findings"][0]["detail"]
    assert len(result["findings"]) == 1


def test_memory_by_a_count_nobody_checked_is_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    honest = KINDS["seqno_list"][0]

    def read(r: Reader) -> Any:
        start = r.pos
        _ = [0] * max(0, min(r.i32(), 5_000_000))
        r.pos = start
        return honest(r)

    plant(monkeypatch, "seqno_list", read)
    code, result = fuzz("--target", "kind:seqno_list", "--inputs", "600", capsys=capsys)
    assert code == 1 and "bytes allocated for" in result["findings"][0]["detail"]


def test_a_process_that_dies_is_a_finding(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    parent = os.getpid()

    def read(r: Reader) -> Any:
        if r.left == 0 and os.getpid() != parent:
            os._exit(9)
        r.fail("no creator")

    plant(monkeypatch, "view_id", read)
    code, result = fuzz("--target", "kind:view_id", "--inputs", "2000", capsys=capsys)
    assert code == 1 and "exit code 9" in result["findings"][0]["detail"]


@pytest.mark.slow
def test_a_loop_that_no_signal_ends_is_ended_from_outside(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    parent = os.getpid()

    def read(r: Reader) -> Any:
        if os.getpid() != parent and r.left > 2:
            sum(iter(int, 1))  # for ever, within C
        r.fail("no text")

    plant(monkeypatch, "bits_string", read)
    code, result = fuzz(
        "--target", "kind:bits_string", "--inputs", "50", "--hang", "1", capsys=capsys
    )
    assert code == 1 and "killed" in result["findings"][0]["detail"]


def test_memory_that_grows_with_every_input_is_a_finding(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept: list[mmap.mmap] = []

    def read(r: Reader) -> Any:
        pages = mmap.mmap(-1, 200_000)  # a bytearray may lie in memory that earlier tests gave back
        pages.write(b"x" * len(pages))  # pages that nobody wrote are not resident
        kept.append(pages)
        r.fail("no")

    plant(monkeypatch, "version", read)
    monkeypatch.setattr(
        engine,
        "catalogue",
        lambda: {t.name: Decoder(t, 50) for t in DECODERS if t.name == "kind:version"},
    )
    plan = engine.FuzzPlan(list(engine.catalogue().values()), "1", 800, None, 1)
    assert engine.fuzz(plan).rss_growth > 50_000_000
    kept.clear()


def test_a_stack_that_fails_is_found_and_the_episode_shown_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    honest = FRAG2.up

    def up(self: FRAG2, batch: Any) -> None:
        for header in batch.headers.values():
            if getattr(header, "count", 0) < 0:
                raise KeyError("planted")
        honest(self, batch)

    with monkeypatch.context() as patch:
        plant_in(patch, FRAG2, up=up)
        patch.setattr("jgroups_py.testing.explorer.bytes.stacks.SHRINK_TRIES", 1)
        code, result = fuzz("--target", "stack:udp", "--inputs", "300", capsys=capsys)
        assert code == 1 and "KeyError: 'planted'" in result["findings"][0]["detail"]
        code, text = replayed(result, capsys)
        assert code == 1 and "planted" in text
    code, text = replayed(result, capsys)
    assert code == 0


def test_a_drop_that_nobody_counts_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    plant_in(monkeypatch, UDP, _garbage=lambda self, problem: None)
    stack = next(t for t in STACKS if t.name == "stack:udp")
    with Guard() as guard:
        done = stack.chunk(FuzzWork("1", 0, 200, stack.begin()), guard)
    assert "no counter says so" in done.findings[0].problem.detail


# --- it passes, and repeats itself


def test_a_run_without_findings(capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"--target={name}" for name in FEW]
    code, result = fuzz(*names, "--inputs", "1500", capsys=capsys)
    assert code == 0 and result["findings"] == []
    assert result["inputs"] == 1500 == sum(t["inputs"] for t in result["targets"].values())
    assert set(result["targets"]) == set(FEW)
    assert set(result) == {"inputs", "targets", "findings", "wall_s", "rss_growth"}
    for target in result["targets"].values():
        assert target["edges"] > 0 and target["corpus"] > 0 and target["findings"] == 0


def test_a_run_by_time_sends_until_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    for seconds in (1, 10):  # a busy machine may need a second to start the process
        code, result = fuzz("--target", "kind:utf", "--for", f"{seconds}s", capsys=capsys)
        if result["inputs"]:
            break
    assert code == 0 and seconds <= result["wall_s"] < 60 and result["inputs"] > 0


@pytest.mark.slow
def test_in_a_run_by_time_every_target_has_its_turn(capsys: pytest.CaptureFixture[str]) -> None:
    code, result = fuzz("--target", "kind", "--target", "control", "--for", "10s", capsys=capsys)
    assert code == 0 and min(t["inputs"] for t in result["targets"].values()) > 0


@pytest.mark.parametrize("name", ["kind:message", "control:relay_local", "file:drill.log"])
def test_the_same_seed_makes_the_same_inputs(name: str) -> None:
    target = next(t for t in DECODERS if t.name == name)

    def inputs(seed: str) -> list[bytes]:
        made: list[bytes] = []
        decoder, corpus = Decoder(target), Decoder(target).begin()
        with Guard() as guard:
            for number in range(2):
                done = decoder.chunk(FuzzWork(seed, number, 150, corpus), guard, made.append)
                corpus = done.corpus
        return made

    assert inputs("1") == inputs("1")
    assert inputs("1") != inputs("2")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--target", "nothing"],
        ["--inputs", "0"],
        ["--inputs", "5", "--for", "5s"],
        ["--for", "x"],
        ["--replay", "no-such-file"],
    ],
)
def test_wrong_usage_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["fuzz", *arguments]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_replay_needs_its_target(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x.bin"
    file.write_bytes(b"xx")
    assert cli.run(["fuzz", "--replay", str(file)]) == 2
    assert cli.run(["fuzz", "--target", "stack:udp", "--replay", str(file)]) == 2
    assert "not an episode" in capsys.readouterr().err


# --- its parts


@pytest.mark.parametrize(
    "target",
    [
        # Traffic of whole clusters takes some seconds.
        pytest.param(
            t,
            marks=[pytest.mark.slow] if t.name in ("wire:packet", "wire:payloads") else [],
            id=t.name,
        )
        for t in DECODERS
    ],
)
def test_each_fuzz_target_begins_with_accepted_inputs(target: FuzzTarget) -> None:
    taken = 0
    for data in target.seeds():
        try:
            target.run(data)
        except target.errors:
            continue
        taken += 1
    assert taken * 2 >= len(list(target.seeds())) > 0


def test_a_spy_reads_like_a_reader() -> None:
    target = next(t for t in DECODERS if t.name == "kind:packet")
    for data in list(target.seeds())[:20]:
        read = KINDS["packet"][0]
        spy = SpyReader(data)
        assert read(spy) == read(Reader(data))
        ends = [spot.end for spot in spots_of(data, read)]
        assert len(ends) > 5 and max(ends) <= len(data)


def test_mutations_have_a_limit_and_differ() -> None:
    mutator = Mutator(random.Random(1))
    data = bytes(range(256)) * 60
    spots = spots_of(data, lambda r: [r.u16() for _ in range(100)])
    made = [mutator.mutate((data, spots), (data[:9], [])) for _ in range(500)]
    assert max(map(len, made)) <= INPUT_MAX
    assert len(set(made)) > 400
    assert mutate_msgpack(random.Random(1), b"\xc1", b"") == b"\xc1"


def test_cover_tells_ways_apart() -> None:
    cover = Cover()

    def read(text: str) -> set[int]:
        try:
            return cover.watch(lambda: parse_seconds(text))  # of a module that is never compiled
        except ValueError:
            return cover.edges

    assert read("5s") == read("7m") != set()
    assert read("5s") != read("late")


@pytest.mark.parametrize("forgers", [False, True])
def test_messages_of_members_stay_in_an_episode_of_strangers(
    forgers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a replayed packet becomes one that no member has sent."""
    says, bad = [("say", "local/Alocal")] * 3, ("udp", "local/Alocal", 1, b"bad", "10.0.0.1")
    ops = [*says, *[("udp", "local/Alocal", 1, bytes((n,)), "10.0.0.1") for n in range(9)], bad]

    def play(self: Any, episode: Episode, ops: list[Any], guard: Any) -> Violation | None:
        return Violation("key", "wrong") if bad in ops else None

    monkeypatch.setattr(StackTarget, "_play", play)
    data = msgspec.msgpack.encode(Episode("udp", forgers, ops))
    small = STACKS[0].smaller(data, Guard(), "key")
    kept = msgspec.msgpack.decode(small, type=Episode).ops
    assert kept == ([bad] if forgers else [*says, bad])


def test_a_replayed_message_was_sent_before() -> None:
    """Otherwise it is a forgery: it takes the number that the member's own message has then."""
    cluster = Cluster(1, "udp.xml", incarnations=0)
    first, second, _ = cluster.members
    nak = first.stack.find(NAKACK2)
    assert nak is not None

    def numbered(number: int) -> bytes:
        headers = {PROTOCOL_IDS["NAKACK2"]: NakAckHeader2(NakAckType.MSG, number)}
        return cluster.forged(headers, src=first.address)

    def reach(data: bytes) -> int:
        """Return the number of messages, or of packets of another version, that reach the second member."""
        before = come()
        cluster.deliver(second, data)
        return come() - before

    def come() -> int:
        counters = second.statistics()["UDP"]
        return int(counters["messages_received"] + counters["dropped_version"])

    cluster.only_said = True
    to_come, far_ahead = numbered(nak.seqno + 1), numbered(2**40)
    said = next(data for data in cluster.packets if decode_packet(data).src == first.address)
    assert [reach(data) for data in (to_come, far_ahead, said, b"noise")] == [0, 1, 1, 1]
    cluster.talk()
    cluster.once_in_order()
    cluster.only_said = False
    assert reach(numbered(nak.seqno + 1)) == 1


def test_steps_that_are_not_needed_are_left_out() -> None:
    data = bytes(range(1, 100))
    assert smallest_bytes(data, lambda d: 7 in d and 50 in d) == bytes((7, 50))
    assert smallest_bytes(data, lambda d: False) == data
