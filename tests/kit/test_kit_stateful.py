"""The rule machine with a cluster in it: correct protocols pass, and faults are found."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from jgroups_py.stack.protocol import Protocol
from jgroups_py.testing import PropertyViolated, SimCluster
from jgroups_py.testing.stateful import ClusterMachine
from jgroups_py.values.batch import Batch

FEW = settings(
    max_examples=2,
    stateful_step_count=8,
    deadline=None,
    database=None,
    phases=[Phase.generate],  # faults are not made small here, because that takes long
    suppress_health_check=list(HealthCheck),
)


class Third(Protocol):
    """Delivers the third message of each sender twice."""

    def start(self) -> None:
        self.count = 0

    def up(self, batch: Batch) -> None:
        self.count += len(batch)
        if self.count >= 3:
            self.pass_up(Batch(batch.dest, batch.payloads, {}, batch.src, batch.flags))
        self.pass_up(batch)


class Sound(ClusterMachine):
    def make_cluster(self) -> SimCluster:
        return SimCluster("ABC")


class Broken(ClusterMachine):
    def make_cluster(self) -> SimCluster:
        return SimCluster("ABC", ["sim.xml", Third])


def test_a_sound_history_passes() -> None:
    run_state_machine_as_test(Sound, settings=FEW)


def test_broken_sources_are_found() -> None:
    many = settings(FEW, max_examples=30, report_multiple_bugs=False)
    with pytest.raises(PropertyViolated) as caught:
        run_state_machine_as_test(Broken, settings=many)
    assert caught.value.check in ("duplicate", "fifo", "unicast")
