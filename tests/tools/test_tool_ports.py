"""Ports that tools take for their members, and the range that an operator gives them."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from jgroups_py.errors import ConfigError
from jgroups_py.tools.commands.mperf_ports import free_block


@pytest.mark.sockets
def test_a_block_lies_within_the_range_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    low = free_block(12)
    monkeypatch.setenv("JGROUPS_TOOL_PORTS", f"{low}..{low + 9}")
    assert {free_block(9) for _ in range(40)} == {low, low + 1}
    assert free_block(10) == low
    with pytest.raises(OSError, match=rf"no 11 free consecutive ports within {low}\.\.{low + 9}"):
        free_block(11)


@pytest.mark.sockets
def test_a_port_that_somebody_has_is_in_no_block(monkeypatch: pytest.MonkeyPatch) -> None:
    low = free_block(4)
    monkeypatch.setenv("JGROUPS_TOOL_PORTS", f"{low}..{low + 3}")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", low))
        assert free_block(3) == low + 1
        with pytest.raises(OSError, match="no 4 free"):
            free_block(4)


@pytest.mark.parametrize("text", ["", "12000", "5..4", "0..9", "12000..70000", "a..b", "1..2..3"])
def test_what_is_no_range_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("JGROUPS_TOOL_PORTS", text)
    with pytest.raises(ConfigError, match=rf"JGROUPS_TOOL_PORTS='{text}' is no range of ports"):
        free_block(1)


@pytest.mark.sockets
def test_a_test_that_opens_sockets_without_the_marker_fails(request: pytest.FixtureRequest) -> None:
    """The house rule of tests/conftest.py, and that it does not blame a test for sockets of this machine's own kind."""
    plugins: list[Any] = list(request.config.pluginmanager.get_plugins())
    watch = next(plugin.SOCKETS for plugin in plugins if hasattr(plugin, "SOCKETS"))
    opened = r"some test opens sockets \(socket\.bind"
    with (
        pytest.raises(pytest.fail.Exception, match=opened),
        watch.forbidden("some test"),
        socket.socket() as one,
    ):
        one.bind(("127.0.0.1", 0))
    with watch.forbidden("some test"), socket.socket(socket.AF_UNIX) as one:
        one.bind("\0jgroups-py-test")
