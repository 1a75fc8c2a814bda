"""Stacks whose parts do not fit together: the place in the error."""

from __future__ import annotations

from jgroups_py.config.model import ProtocolConfig, StackConfig
from jgroups_py.config.settings import build
from jgroups_py.protocols.transport.udp import UDP
from jgroups_py.stack.protocol import Protocol
from jgroups_py.stack.services import examine


class FIRST(Protocol):
    protocol_id = 2010


class SECOND(Protocol):
    protocol_id = 2010


class QUIET(Protocol):
    """A protocol without headers, which may be in a stack twice."""


def test_a_protocol_of_a_stack_that_no_file_holds_is_named_by_its_canonical_name() -> None:
    stack = StackConfig((ProtocolConfig("SHARED_LOOPBACK"), ProtocolConfig("UDP")), "in memory")
    problem = next(p for p in examine(stack, build(stack)).problems if "transports" in p.problem)
    assert problem.where == "UDP"


def test_two_protocols_with_headers_of_one_id_are_refused() -> None:
    kinds: list[type[Protocol]] = [UDP, FIRST, SECOND, QUIET, QUIET]
    stack = StackConfig(tuple(ProtocolConfig(kind.__name__) for kind in kinds), "in memory")
    found = examine(stack, [(kind, kind.Config()) for kind in kinds])
    problems = [p for p in found.problems if "protocol_id" in p.problem]
    assert [(p.where, p.problem) for p in problems] == [
        ("SECOND", "FIRST has the protocol_id 2010, too: change one")
    ]
