"""Messages with one changed byte, including texts that are not UTF-8, end in the error that their readers declare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from jgroups_py.cache.changes import Drop, Put, RemoveTree
from jgroups_py.cache.fqn import Fqn
from jgroups_py.cache.total_order import Propose
from jgroups_py.cache.wire import body_bytes, body_from, said_bytes, said_from, state_from
from jgroups_py.errors import RemoteProtocolError
from jgroups_py.export.errors import ExportError
from jgroups_py.export.messages import ClientHello, hello_from, request_from
from jgroups_py.protocols.discovery.kube_ping import parse_pods
from jgroups_py.rpc.form import Unreadable
from jgroups_py.rpc.ours import Msgpack, OurForm
from jgroups_py.testing import make_address

PATH = Fqn("/some/path")
PODS = (
    b'{"items": [{"metadata": {"name": "a"}, "status": {"podIP": "10.0.0.1", "phase": "Running"}}]}'
)


def error_of_a_call(data: bytes) -> Any:
    return OurForm(Msgpack()).read_error(data, make_address(1))


READERS: dict[str, tuple[bytes, Callable[[bytes], Any], type[Exception] | tuple[()]]] = {
    "a cache's batch": (
        body_bytes([Put(PATH, {"key": b"x"}), Drop(PATH, ("key",)), RemoveTree(PATH)]),
        body_from,
        RemoteProtocolError,
    ),
    "a cache's message": (said_bytes(Propose(3, 1, b"body")), said_from, RemoteProtocolError),
    "a cache's state": (
        msgspec.msgpack.encode(({b"me": 1}, [(("some", "path"), {"key": b"x"})])),
        state_from,
        RemoteProtocolError,
    ),
    "a hello": (
        msgspec.msgpack.encode(ClientHello(2, b"nonce", b"proof")),
        hello_from,
        ExportError,
    ),
    "a request": (msgspec.msgpack.encode({"type": "hello"}), request_from, ExportError),
    "an error": (msgspec.msgpack.encode((False, "Kind", "text")), error_of_a_call, Unreadable),
    "pods": (PODS, parse_pods, ()),
}


@pytest.mark.parametrize("name", READERS)
def test_each_byte_may_be_anything(name: str) -> None:
    good, read, declared = READERS[name]
    refused = 0
    for place in range(len(good)):
        for byte in (0xFF, 0xC1, 0xA5, 0xDB, 0x80, 0xED):
            data = good[:place] + bytes([byte]) + good[place + 1 :]
            try:
                read(data)
            except declared:
                refused += 1
    assert refused > len(good) or declared == ()
