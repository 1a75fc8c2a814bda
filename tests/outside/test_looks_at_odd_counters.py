"""A user's protocol whose statistics raise, or are no numbers. A page, a recording or a probe is a look, and ends no member."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest
import trio
import trio.testing

from jgroups_py import Channel, MemoryNetwork, open_channel
from jgroups_py.channel.metrics import page_of, samples_of
from jgroups_py.protocols.transport.probe_answers import ProbeAnswers

QUICK = {"FD_ALL3.timeout": "1s", "FD_ALL3.interval": "200ms"}
NAMES = ["UNCOUNTED", "MISCOUNTED"]


def stack_with(name: str, folder: Path) -> Path:
    file = folder / "odd.xml"
    file.write_text(
        f'<config xmlns="urn:org:jgroups"><include file="udp.xml"/><raising_protocols.{name}/></config>'
    )
    return file


@pytest.mark.parametrize("name", NAMES)
async def test_pages_probes_and_statistics_leave_them_out(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    stack = stack_with(name, tmp_path)
    async with open_channel(stack, cluster="demo", name="A", transport=MemoryNetwork()) as a:
        counted = {} if name == "UNCOUNTED" else {"sightings": 5}
        assert a.statistics().protocols[name] == counted
        page = page_of(samples_of(a)).decode()
        assert "jgroups_gms_views_installed" in page
        assert ("jgroups_miscounted_sightings" in page) is bool(counted)
        asked = ProbeAnswers(a.stack, lambda: None, lambda member: None, lambda: 0)
        told = asked.values(("metrics", f"jmx={name}"), may_write=False)
        assert ("sightings" in told["metrics"]) is ("sightings" in told[name]) is bool(counted)
    said = [r.getMessage() for r in caplog.records if "statistics" in r.getMessage()]
    assert len(said) == (name == "UNCOUNTED") and all("nobody counted" in line for line in said)


@pytest.mark.parametrize("name", NAMES)
async def test_a_recording_after_a_suspicion_ends_no_member(
    name: str, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    network, file = MemoryNetwork(), tmp_path / "flight.json"
    stack = stack_with(name, tmp_path)

    async def crash_beside(a: Channel) -> None:
        with trio.CancelScope() as crash:
            async with open_channel(
                "udp.xml", cluster="demo", name="B", transport=network, attributes=QUICK
            ) as b:
                await a.wait_view(2)
                b.stack.closed = True  # it does not say goodbye
                crash.cancel()

    async with open_channel(
        stack, cluster="demo", name="A", transport=network, attributes=QUICK, flight_file=file
    ) as a:
        await crash_beside(a)
        await a.wait_view(1)
        until = time.monotonic() + 30
        while not await trio.to_thread.run_sync(file.exists):  # a thread writes the file
            assert time.monotonic() < until, "no file was written"
            await trio.sleep(0.1)
        await a.send(b"it goes on")
    assert file.exists()
