"""Whole groups with SYM_ENCRYPT, in virtual time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jgroups_py.protocols.security.sym_encrypt import SYM_ENCRYPT
from jgroups_py.testing import Link, SimCluster

KEY, OTHER = bytes(range(16)).hex(), bytes(16).hex()
KINDS = [("AES", 0), ("AES/CBC/PKCS5Padding", 16), ("AES/GCM/NoPadding", 12)]


def stack_file(folder: Path, algorithm: str = "AES", iv: int = 0) -> str:
    """Return the stack of simulations, with SYM_ENCRYPT below NAKACK2."""
    text = (Path(__file__).parents[2] / "stacks/sim.xml").read_text()
    door = f'<SYM_ENCRYPT sym_algorithm="{algorithm}" sym_iv_length="{iv}" secret_key="{KEY}"/>'
    file = folder / "encrypted.xml"
    file.write_text(text.replace("<pbcast.NAKACK2", f"{door}\n    <pbcast.NAKACK2"))
    return str(file)


def eventful(file: str, **options: Any) -> list[list[bytes]]:
    """Run a group with loss, a crash and large messages. Return the messages that each member got."""
    lossy = Link(loss=0.1, jitter=0.01, duplicate=0.05)
    with SimCluster("ABC", file, seed=3, inside=lossy, **options) as cluster:
        for n in range(20):
            for member in cluster.living:
                member.send(b"secret %d of %s" % (n, member.name.encode()))
            cluster.run_for(0.1)
        cluster["A"].send(b"x" * 200_000)
        cluster.crash("C")
        cluster.settle()
        cluster["B"].send(b"last")
        cluster.settle()
        for member in cluster.living:
            counts = member.protocol(SYM_ENCRYPT).statistics()
            assert not any(v for k, v in counts.items() if k.startswith("turned_away"))
            assert counts["messages_encrypted"] > 20 and counts["messages_decrypted"] > 20
        return [[m.payload for m in member.received] for member in cluster.living]


@pytest.mark.parametrize(("algorithm", "iv"), KINDS)
def test_a_group_loses_no_message(tmp_path: Path, algorithm: str, iv: int) -> None:
    for got in eventful(stack_file(tmp_path, algorithm, iv)):
        assert b"last" in got and b"x" * 200_000 in got
        for name in (b"A", b"B"):
            ours = [p for p in got if p.endswith(b" of " + name)]
            assert ours == [b"secret %d of %s" % (n, name) for n in range(20)]


def test_the_same_seed_is_the_same_run(tmp_path: Path) -> None:
    file = stack_file(tmp_path, "AES/GCM/NoPadding", 12)
    assert eventful(file) == eventful(file)
