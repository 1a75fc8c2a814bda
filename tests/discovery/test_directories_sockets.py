"""Members on real sockets that find each other through a real directory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
import trio

from jgroups_py import Channel, JGroupsError, open_channel

pytestmark = pytest.mark.sockets

QUICK = {
    "MERGE3.min_interval": "200ms",
    "MERGE3.max_interval": "500ms",
    "GMS.join_timeout": "500ms",
    "VERIFY_SUSPECT2.timeout": "500ms",
}


def member(
    name: str, stack: str, port: int, attributes: Mapping[str, str] | None = None
) -> AbstractAsyncContextManager[Channel]:
    return open_channel(
        stack,
        cluster="directories",
        name=name,
        attributes={"TCP.bind_port": str(port), **QUICK, **(attributes or {})},
    )


async def together(*channels: Channel) -> None:
    """All have one view of exactly themselves, and hear each other."""
    with trio.fail_after(20):
        while any(  # noqa: ASYNC110 - several channels
            len(channel.view.members) != len(channels) for channel in channels
        ):
            await trio.sleep(0.05)


def files(location: Path) -> list[str]:
    return sorted(name.split(".")[1] for name in os.listdir(location / "directories"))


async def test_a_folder_brings_members_together_and_is_clean_when_they_have_gone(
    tmp_path: Path,
) -> None:
    folder = {"FILE_PING.location": str(tmp_path)}
    async with member("A", "tcp-file.xml", 7910, folder) as a:
        async with member("B", "tcp-file.xml", 7920, folder) as b:
            await together(a, b)
            with trio.fail_after(10):
                while files(tmp_path) != ["A"]:  # noqa: ASYNC110 - a file
                    await trio.sleep(0.05)
            await a.send(b"hello")
        await together(a)
    assert files(tmp_path) == []


async def test_a_location_that_cannot_be_is_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(JGroupsError, match=rf'FILE_PING: location must be a folder.*"{file}"'):
        async with member("A", "tcp-file.xml", 7910, {"FILE_PING.location": str(file)}):
            pass
