"""A method that raises: its caller gets the error, and its member logs the caller and the method."""

from __future__ import annotations

from typing import Any

import pytest

from jgroups_py import MemoryNetwork, RemoteError, open_channel, open_rpc


class Shop:
    def buy(self, what: str) -> str:
        raise LookupError(f"no {what} here")

    async def sell(self, what: str) -> str:
        raise LookupError(f"nobody wants {what}")


@pytest.mark.parametrize(("method", "text"), [("buy", "no tea here"), ("sell", "nobody wants tea")])
async def test_an_error_of_a_method_leaves_one_line_at_the_callee(
    autojump_clock: Any, caplog: pytest.LogCaptureFixture, method: str, text: str
) -> None:
    network = MemoryNetwork()
    async with (
        open_channel("sim.xml", cluster="shop", name="A", transport=network) as a,
        open_channel("sim.xml", cluster="shop", name="B", transport=network) as b,
        open_rpc(a) as rpc,
        open_rpc(b, Shop()),
    ):
        for _ in range(20):
            with pytest.raises(RemoteError, match=text):
                await rpc.call(b.address, method, "tea")
    (line,) = [r for r in caplog.records if r.levelname in ("WARNING", "ERROR")]
    said = line.getMessage()
    assert f"the method {method}, called by A, raised LookupError: {text}" in said
    assert said.startswith("B: ")
    assert line.exc_info is not None
    assert f"in {method}\n" in caplog.text  # the traceback
