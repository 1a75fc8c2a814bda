"""Stacks whose parts do not fit together: where the error says that it is."""

from __future__ import annotations

from jgroups_py.config.model import ProtocolConfig, StackConfig
from jgroups_py.config.settings import build
from jgroups_py.stack.services import examine


def test_a_protocol_of_a_stack_that_no_file_holds_is_named_by_its_canonical_name() -> None:
    stack = StackConfig((ProtocolConfig("SHARED_LOOPBACK"), ProtocolConfig("UDP")), "in memory")
    problem = next(p for p in examine(stack, build(stack)).problems if "transports" in p.problem)
    assert problem.where == "UDP"
