"""A notebook's cell that opens a cache and its export port, and closes neither, is run again, as users do."""

from __future__ import annotations

import threading
import time
import warnings
from typing import Any

import pytest

from jgroups_py import blocking
from jgroups_py.blocking.loop import THREAD_NAME
from jgroups_py.errors import ConfigError
from jgroups_py.export import ExportClient
from jgroups_py.tools.commands.mperf_ports import free_block

pytestmark = pytest.mark.sockets

TOKEN = "a token for the notebook"


def test_a_cell_with_a_port_is_run_again() -> None:
    number = free_block(1)
    names: dict[str, Any] = {}

    def cell(value: int) -> None:
        names["cache"] = blocking.open_tree_cache("local.xml")
        names["port"] = blocking.open_export(names["cache"], token=TOKEN, port=number)
        names["cache"].put("/a", "v", value)
        for more in range(value):
            names["cache"].put(f"/more/{more}", "v", more)

    cell(0)
    for value in (1, 2):
        with pytest.warns(ResourceWarning) as told:
            cell(value)
        said = [str(warning.message) for warning in told]
        assert f"the export port at 127.0.0.1:{number} was not closed; it is now" in said[0]
        with ExportClient(("127.0.0.1", number), TOKEN) as client:
            assert client.describe().rows == 1 + value, "it exports the new cache"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        names["port"].close()
        names["port"] = blocking.open_export(names["cache"], token=TOKEN, port=number)
        names["cache"].close()
    end = time.monotonic() + 60
    while any(thread.name == THREAD_NAME for thread in threading.enumerate()):
        assert time.monotonic() < end, "the loop goes on"
        time.sleep(0.01)


def test_a_port_that_somebody_else_has_is_refused() -> None:
    import socket

    with socket.socket() as other, blocking.open_tree_cache("local.xml") as cache:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(ConfigError, match="cannot listen on"):
            blocking.open_export(cache, token=TOKEN, port=other.getsockname()[1])
        cache.put("/a", "v", 1)
