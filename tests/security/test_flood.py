"""A short share of the flood (``make flood`` sends a million packets), and its judge."""

from __future__ import annotations

from pathlib import Path

import pytest
from flood import KINDS, WAYS, Flood


@pytest.mark.parametrize(
    ("kind", "packets"), list(zip(KINDS, (4000, 800, 800), strict=True)), ids=KINDS
)
def test_a_flood_is_kept_out_and_no_memory_grows(tmp_path: Path, kind: str, packets: int) -> None:
    result = Flood(tmp_path, kind, 2).run(packets)
    assert result.wrong == []
    assert set(result.thrown) == set(WAYS) and result.thrown.total() == packets
    assert result.objects < 400
    door = kind.partition(" ")[0]
    assert all(cause.startswith(f"{door}.") for cause in result.refused)
    if kind == KINDS[0]:
        # Some go to their own sender. A misdirected packet may be accepted once, and the transport drops it.
        assert result.refused["SEAL.replayed"] > 0.5 * result.thrown["replayed"]
        assert result.refused.total() + result.own > 0.9 * packets
    else:
        assert result.refused.total() > 0.95 * packets


def test_packets_that_come_in_all_the_same_are_seen(tmp_path: Path) -> None:
    flood = Flood(tmp_path, KINDS[0], 3)
    flood._members[1].send(b"forged")
    result = flood.run(400)
    assert any("got b'forged'" in problem for problem in result.wrong)


def test_a_view_that_changes_is_seen(tmp_path: Path) -> None:
    flood = Flood(tmp_path, KINDS[0], 4)
    flood._members[2].leave()
    flood._world.run_for(5)
    assert any("has another view" in problem for problem in flood.run(200).wrong)
