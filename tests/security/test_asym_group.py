"""Groups with ASYM_ENCRYPT in virtual time: joins, leaves, crashes, splits, loss; keys that rotate; the messages that
former members can read."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from jgroups_py.protocols.security.asym_encrypt import ASYM_ENCRYPT
from jgroups_py.protocols.security.ciphers import NotDecrypted
from jgroups_py.protocols.security.key_list import read_keys
from jgroups_py.stack.ports import Datagram
from jgroups_py.testing import Link, SimCluster
from jgroups_py.testing.sim.host import Host
from jgroups_py.wire.headers import EncryptHeader, EncryptType
from jgroups_py.wire.packet import decode_packet

KINDS = [("AES", 0), ("AES/CBC/PKCS5Padding", 16), ("AES/GCM/NoPadding", 12)]


def stack_file(
    folder: Path, algorithm: str = "AES/GCM/NoPadding", iv: int = 12, more: str = ""
) -> str:
    """Return the stack of simulations, with ASYM_ENCRYPT below NAKACK2."""
    text = (Path(__file__).parents[2] / "stacks/sim.xml").read_text()
    door = f'<ASYM_ENCRYPT sym_algorithm="{algorithm}" sym_iv_length="{iv}" change_key_on_leave="true" {more}/>'
    file = folder / "encrypted.xml"
    file.write_text(text.replace("<pbcast.NAKACK2", f"{door}\n    <pbcast.NAKACK2"))
    return str(file)


def asym(member: Any) -> ASYM_ENCRYPT:
    found = member.protocol(ASYM_ENCRYPT)
    assert isinstance(found, ASYM_ENCRYPT)
    return found


def total(cluster: SimCluster, name: str) -> int:
    return sum(int(asym(m).statistics()[name]) for m in cluster.living)


def nothing_was_turned_away(cluster: SimCluster) -> None:
    for member in cluster.living:
        counts = asym(member).statistics()
        assert not {k: v for k, v in counts.items() if k.startswith("turned_away") and v}


@pytest.mark.parametrize(("algorithm", "iv"), KINDS)
def test_members_join_and_leave_and_no_message_is_lost(
    tmp_path: Path, algorithm: str, iv: int
) -> None:
    with SimCluster("ABCD", stack_file(tmp_path, algorithm, iv), seed=3) as cluster:
        for step in range(12):
            for member in cluster.living:
                member.send(b"secret %d of %s" % (step, member.name.encode()))
            cluster.run_for(0.1)
            if step == 3:
                cluster.leave("C")
            if step == 6:
                cluster.crash("A")
            if step == 9:
                cluster.leave("B")
        cluster.settle()
        nothing_was_turned_away(cluster)
        (d,) = cluster.living
        got = [m.payload for m in d.received]
        for name, last in ((b"B", 9), (b"D", 11)):
            ours = [p for p in got if p.endswith(b" of " + name)]
            assert ours == [b"secret %d of %s" % (n, name) for n in range(last + 1)]
        assert asym(d).statistics()["keys_made"] + asym(d).statistics()["keys_adopted"] >= 4


@pytest.mark.parametrize("seed", [0, 3])
def test_a_group_with_loss_splits_and_crashes_comes_together(tmp_path: Path, seed: int) -> None:
    lossy = Link(loss=0.2, jitter=0.02, duplicate=0.1)
    with SimCluster("ABCDE", stack_file(tmp_path), seed=seed, inside=lossy) as cluster:
        for step in range(30):
            for member in cluster.living:
                member.send(b"%d of %s" % (step, member.name.encode()))
            cluster.run_for(1)
            if step == 3:
                cluster.cut("AB", "CDE", seconds=8)
            if step == 15:
                cluster.crash("A")
            if step == 20:
                cluster.leave("D")
            if step == 24:
                cluster.start("A", wait=False)
        cluster.settle()
        assert sorted(m.name for m in cluster.living) == ["A", "B", "C", "E"]
        assert len({m.view for m in cluster.living}) == 1
        assert len({asym(m)._current.version for m in cluster.living}) == 1  # type: ignore[union-attr]


def test_a_former_member_reads_no_later_messages(tmp_path: Path) -> None:
    """All packets are captured. The keys that the former member had decrypt none of the later payloads."""
    packets: list[bytes] = []

    def capture(self: Host, dest: Host, item: Datagram) -> None:
        packets.append(item.data)
        send(self, dest, item)

    send = Host._send_datagram
    with (
        pytest.MonkeyPatch.context() as patch,
        SimCluster("ABC", stack_file(tmp_path), seed=7) as cluster,
    ):
        patch.setattr(Host, "_send_datagram", capture)
        former = asym(cluster["C"])
        cluster["A"].send(b"while C is here")
        cluster.run_for(1)
        cluster.leave("C")
        cluster.run_for(2)
        assert cluster["A"].view_names == ("A", "B") or cluster["A"].view_names == ("B", "A")
        known = [former._current, *[kept.cipher for kept in former._kept.values()]]
        before, packets[:] = list(packets), []
        for n in range(20):
            cluster["A"].send(b"without C %d" % n)
            cluster["B"].send(b"without C %d" % n)
            cluster.run_for(1)
        assert sum(b"while C" in text for text in read_with(known, before)) > 0
        assert read_with(known, packets) == []
        ours = [asym(cluster["A"])._current]
        texts = read_with(ours, packets)
        assert all(any(b"without C %d" % n in text for text in texts) for n in range(20))
        assert not any(b"without C" in packet for packet in packets)


def read_with(ciphers: list[Any], packets: list[bytes]) -> list[bytes]:
    """All payloads of captured packets that one of the keys decrypts."""
    found = []
    for packet in packets:
        for batch in decode_packet(packet).batches:
            header = batch.headers.get(ASYM_ENCRYPT.protocol_id)
            if not isinstance(header, EncryptHeader):
                continue
            for payload in batch.payloads:
                if payload is None:
                    continue
                text = payload
                if header.type == EncryptType.INSTALL_KEYS:
                    text = read_keys(payload)[1]
                for cipher in ciphers:
                    with contextlib.suppress(NotDecrypted):
                        found.append(cipher.decrypt(header.iv, text))
    return found
