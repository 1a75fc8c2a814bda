"""Maps, bucket stores, and live and backup send messages of any size. Datagrams without FRAG2 are refused when they are
opened: later a single large value ended its member."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "buckets"))

from seed_instance import PLACEMENT, seed_settings  # noqa: E402

from jgroups_py import MemoryNetwork, open_channel  # noqa: E402
from jgroups_py.buckets import FAST_DETECTION, NodeParts, open_buckets  # noqa: E402
from jgroups_py.errors import ConfigError  # noqa: E402
from jgroups_py.livebackup import Stateful, Work, open_livebackup  # noqa: E402
from jgroups_py.maps import open_map_channel  # noqa: E402
from jgroups_py.testing.explorer.buckets.ledger import ledger  # noqa: E402

TOLD = (
    r"sends messages of any size, and a packet of this stack takes at most 65007 bytes: put FRAG2"
)


class Box(Stateful):
    def __init__(self) -> None:
        self.last: Any = None

    def put(self, value: Any) -> None:
        self.last = value


async def put(work: Work, value: Any) -> None:
    await work.get(Box, "box").put(value)


@pytest.fixture
def whole(tmp_path: Path) -> str:
    file = tmp_path / "whole.xml"
    text = (ROOT / "stacks" / "udp.xml").read_text()
    file.write_text(re.sub(r"<FRAG2 [^>]*/>", "", text))
    return str(file)


async def test_a_map_on_datagrams_without_fragments_is_refused(
    whole: str, autojump_clock: Any
) -> None:
    async with open_channel(whole, cluster="maps", transport=MemoryNetwork()) as channel:
        with pytest.raises(ConfigError, match=f"a map {TOLD}"):
            async with open_map_channel(channel):
                pass
        await channel.send(b"the channel is still there")


async def test_a_bucket_store_on_datagrams_without_fragments_is_refused(
    whole: str, autojump_clock: Any
) -> None:
    settings = seed_settings()
    with pytest.raises(ConfigError, match=f"whole.xml: a bucket store {TOLD}"):
        async with open_buckets(
            whole,
            cluster="test",
            plugin=ledger(),
            settings=settings,
            parts=NodeParts.of("n1", settings),
            placement=PLACEMENT,
            attributes=FAST_DETECTION,
            transport=MemoryNetwork(),
        ):
            pass


async def test_live_and_backup_on_datagrams_without_fragments_are_refused(
    whole: str, autojump_clock: Any
) -> None:
    network = MemoryNetwork()
    with pytest.raises(ConfigError, match=f"whole.xml: live and backup {TOLD}"):
        async with open_livebackup(
            whole, cluster="b", kinds=[Box], operations=[put], transport=network
        ):
            pass
    async with open_livebackup(
        "udp.xml", cluster="b", kinds=[Box], operations=[put], transport=network
    ) as node:
        await node.wait_role("live")
        await node.run(put, bytes(200_000))
