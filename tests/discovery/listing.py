"""The common part of tests of discoveries with a directory: the test asks the protocol and answers its
requests by hand."""

from __future__ import annotations

from typing import Any

from jgroups_py.stack.directories import DirectoryRequest
from jgroups_py.stack.ports import Consult, Consulted
from jgroups_py.stack.protocol import Protocol
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.values.address import IpAddress
from jgroups_py.values.events import FindMembers, TransportReady, ViewChange
from jgroups_py.values.view import View, ViewId

A, B, C = make_address(1), make_address(2), make_address(3)
FIND = FindMembers("GMS", 3.0)


def at(port: int, host: str = "127.0.0.1") -> IpAddress:
    return IpAddress(host, port)


def view(*members: Any, number: int = 1) -> View:
    return View(ViewId(members[0], number), members)


def became(new: View, old: View | None = None) -> ViewChange:
    return ViewChange(new, old)


class Listing:
    """A fake stack, and the unanswered requests of its protocol."""

    def __init__(self, protocol: Protocol, **options: Any) -> None:
        self.stack = FakeStack(protocol, address=A, **options)
        self.waiting: list[Consult] = []

    def ready(self, answer: Any = None) -> None:
        """Open the transport and the directory."""
        self.stack.event_up(TransportReady(at(7800)))
        if self.requests():
            self.answer(answer)
        self.stack.take_up_events()

    def requests(self) -> list[DirectoryRequest]:
        """Return the requests that wait for an answer, oldest first."""
        self.waiting += [out for out in self.stack.take_outgoing() if isinstance(out, Consult)]
        return [out.request for out in self.waiting]

    def answer(self, answer: Any = None, problem: str = "", *, final: bool = False) -> Any:
        """Answer the oldest request, and return it."""
        self.requests()
        out = self.waiting.pop(0)
        self.stack.handle(Consulted(out.handle, answer, problem, final))
        return out.request

    def answer_left(self) -> DirectoryRequest:
        """Return the oldest request of a stack that is closed."""
        self.requests()
        return self.waiting.pop(0).request

    def asked(self) -> list[str]:
        """Return the members that got requests since the last call."""
        return [str(batch.dest) for batch in self.stack.take_down()]

    def statistics(self) -> dict[str, int | float]:
        name = self.stack.protocol.name
        return self.stack.stack.statistics()[name]
