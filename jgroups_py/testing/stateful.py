"""A Hypothesis rule machine with a cluster in it: rules act, the cluster's checks judge.

    class Mine(ClusterMachine):
        def make_cluster(self):
            return SimCluster("ABC", ["sim.xml", MINE], invariants=[SameOrder()])

    TestMine = Mine.TestCase

Add rules of your own; ``self.cluster`` is open, ``self.one(n)`` is a member that runs. At the end
all faults are taken back, and the cluster must come to rest. Needs hypothesis.
"""

from __future__ import annotations

from jgroups_py.testing.cluster import SimCluster
from jgroups_py.testing.needs import RuleBasedStateMachine, initialize, precondition, rule, st
from jgroups_py.testing.scene import SimMember

TIMES = [0.0, 0.001, 0.05, 0.5, 2.0, 6.0]
"""Virtual seconds: within a step of a protocol, between them, and beyond a failure detection."""
WHO = st.integers(0, 9)
SECONDS = st.sampled_from(TIMES)


class ClusterMachine(RuleBasedStateMachine):
    """See the module's docstring. ``settle_seconds``: for each stage of coming to rest."""

    settle_seconds = 90.0
    cluster: SimCluster

    def make_cluster(self) -> SimCluster:
        """Return a new cluster, not yet open. Override it."""
        raise NotImplementedError("override make_cluster")

    def one(self, number: int) -> SimMember:
        """Return a running member; numbers wrap around."""
        living = self.cluster.living
        return living[number % len(living)]

    @initialize()
    def begin(self) -> None:
        self.cluster = self.make_cluster()
        self.cluster.__enter__()

    @rule(who=WHO, count=st.integers(1, 3), to=st.none() | WHO)
    def send(self, who: int, count: int, to: int | None) -> None:
        member = self.one(who)
        if member.view is not None and not member.member.host.paused:
            dest = None if to is None else self.one(to)
            member.send(*[b"%d" % n for n in range(count)], to=dest)

    @rule(seconds=SECONDS)
    def run(self, seconds: float) -> None:
        self.cluster.run_for(seconds)

    @precondition(lambda self: len(self.cluster.living) > 1)
    @rule(who=WHO)
    def crash(self, who: int) -> None:
        self.cluster.crash(self.one(who))

    @precondition(lambda self: len(self.cluster.living) > 1)
    @rule(who=WHO)
    def leave(self, who: int) -> None:
        member = self.one(who)
        if member.view is not None and not member.member.host.paused:
            self.cluster.leave(member)

    @precondition(lambda self: any(not m.member.host.alive for m in self.cluster))
    @rule(who=WHO)
    def come_back(self, who: int) -> None:
        gone = [m.name for m in self.cluster if not m.member.host.alive]
        self.cluster.start(gone[who % len(gone)], wait=False)

    @rule(who=WHO, seconds=SECONDS)
    def pause(self, who: int, seconds: float) -> None:
        self.cluster.pause(self.one(who), seconds=seconds)

    @precondition(lambda self: len(self.cluster.living) > 1)
    @rule(who=WHO, seconds=SECONDS, one_way=st.booleans())
    def cut(self, who: int, seconds: float, one_way: bool) -> None:
        self.cluster.cut(self.one(who), seconds=seconds, one_way=one_way)

    def teardown(self) -> None:
        if not hasattr(self, "cluster"):
            return
        try:
            self.cluster.settle(self.settle_seconds)
        finally:
            self.cluster.close()
