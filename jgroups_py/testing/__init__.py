"""For testing protocols, ours and yours: from one protocol to a cluster under faults.

    FakeStack       one protocol, or a few, between a fake above and below
    SimCluster      a whole cluster in virtual time; faults by hand; checks after every step
    explore         faults drawn from seeds; a failure is made smaller, written, and replayed
    check_rule      does a conflict rule of a map keep its promises?
    check_history   is a history of concurrent callers linearizable? (jgroups_py.testing.linearizable)
    strategies      Hypothesis strategies (jgroups_py.testing.strategies; needs hypothesis)
    stateful        a Hypothesis rule machine with a cluster in it (jgroups_py.testing.stateful)

design/testing-kit.md walks through it, examples/own_protocol_property.py is a test of a protocol.

May import: drill and the rooms below.
Imported by: spark, tools, tests, users.
"""

from jgroups_py.testing.checks import CHECKS
from jgroups_py.testing.cluster import Invariant, SimCluster
from jgroups_py.testing.conflict_rules import RuleBroken, check_rule
from jgroups_py.testing.explorer.stacks.schedule import (
    After,
    Healing,
    Link,
    Load,
    Schedule,
    Site,
    Step,
)
from jgroups_py.testing.exploring import FAULTS, Report, check_schedule, draw, explore, replay
from jgroups_py.testing.fake import FakeStack, make_address
from jgroups_py.testing.linearizable import (
    NEVER,
    UNKNOWN,
    Call,
    Model,
    Nodes,
    Operation,
    Registers,
    Use,
    Verdict,
    check_history,
)
from jgroups_py.testing.scene import SimMember
from jgroups_py.testing.violated import PropertyViolated

__all__ = [
    "After",
    "CHECKS",
    "Call",
    "FAULTS",
    "FakeStack",
    "Healing",
    "Invariant",
    "Link",
    "Load",
    "Model",
    "NEVER",
    "Nodes",
    "Operation",
    "PropertyViolated",
    "Registers",
    "Report",
    "RuleBroken",
    "Schedule",
    "SimCluster",
    "SimMember",
    "Site",
    "Step",
    "UNKNOWN",
    "Use",
    "Verdict",
    "check_history",
    "check_rule",
    "check_schedule",
    "draw",
    "explore",
    "make_address",
    "replay",
]
