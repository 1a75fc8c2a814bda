"""A property test of a protocol of your own: faults drawn from seeds find its bug.

TOTAL_ORDER has a bug that a test of the usual kind does not show. ``explore`` plays it in simulated clusters whose
members crash, leave and come back; a violation is made small and reported. MENDED holds.

python examples/own_protocol_property.py
"""

from __future__ import annotations

from itertools import groupby

from jgroups_py import UUID, Address, Flag, Message, View, ViewId
from jgroups_py.stack import Batch, Event, Protocol, ViewChange
from jgroups_py.testing import Invariant, PropertyViolated, SimCluster, SimMember, explore, replay
from jgroups_py.wire.headers import SequencerHeader, SequencerType

ID = 1100
UUID_BYTES = 16


class TOTAL_ORDER(Protocol):
    """Multicasts are delivered in one order by all members. Place: on top.

    The first member of the view is the sequencer.

        multicast from above     forward it to the sequencer; keep it until it comes back
        FORWARD from a member    multicast it, with the member's address before the payload
        BCAST                    deliver it; what is ours has come back
        view with another first  forward the kept messages again: they were lost with the former sequencer

    Limits: no order between the parts of a split group; the number of kept messages is not bounded.
    """

    protocol_id = ID

    def start(self) -> None:
        self._view: View | None = None
        self._kept: list[bytes] = []

    def down(self, batch: Batch) -> None:
        if batch.dest is not None or batch.flags & Flag.OOB:
            self.pass_down(batch)
            return
        payloads = [bytes(p or b"") for p in batch.payloads]
        self._kept += payloads
        self._forward(payloads)

    def up(self, batch: Batch) -> None:
        header = batch.header(ID, SequencerHeader)
        if header is None:
            self.pass_up(batch)
        elif header.type is SequencerType.FORWARD:
            self.consume(batch)
            if self._view is not None and batch.src in self._view:
                self._order(batch.src, batch.payloads)
        else:
            self._deliver(batch)

    def event_up(self, event: Event) -> None:
        if isinstance(event, ViewChange):
            former, self._view = self._view, event.view
            if former is None or former.coordinator != event.view.coordinator:
                self._take_over()
        self.pass_event_up(event)

    def _take_over(self) -> None:
        """Take over: another member is sequencer now."""
        if self._is_sequencer():
            return  # there is no sequencer
        self._forward(self._kept)

    def _is_sequencer(self) -> bool:
        return self._view is not None and self._view.coordinator == self.local_address

    def _forward(self, payloads: list[bytes]) -> None:
        if not payloads or self._view is None:
            return
        if self._is_sequencer():
            self._order(self.local_address, payloads)
        else:
            header = SequencerHeader(SequencerType.FORWARD, 0)
            self.pass_down(self._batch(self._view.coordinator, list(payloads), header))

    def _order(self, origin: Address, payloads: list[bytes]) -> None:
        header = SequencerHeader(SequencerType.BCAST, 0)
        self.pass_down(self._batch(None, [bytes(origin) + bytes(p) for p in payloads], header))

    def _batch(self, to: Address | None, payloads: list[bytes], header: SequencerHeader) -> Batch:
        return Batch(to, payloads, {ID: header}, self.local_address)

    def _deliver(self, batch: Batch) -> None:
        """A run may hold messages of several origins."""
        left = len(batch)
        for origin, run in groupby(batch.payloads, key=lambda p: UUID(bytes(p[:UUID_BYTES]))):
            payloads = [bytes(p[UUID_BYTES:]) for p in run]
            if origin == self.local_address:
                del self._kept[: len(payloads)]
            left -= len(payloads)
            credits = () if left else batch.credits
            self.pass_up(Batch(None, payloads, {}, origin, batch.flags, credits=credits))


class MENDED(TOTAL_ORDER):
    """The new sequencer has messages of its own that were lost with the former one."""

    def _take_over(self) -> None:
        self._forward(self._kept)  # the destination may be this member itself


class SameOrder(Invariant):
    """In each view all members deliver one sequence; some are further along it than others."""

    def __init__(self) -> None:
        self.sequences: dict[ViewId, list[bytes]] = {}
        self.places: dict[SimMember, int] = {}

    def on_view(self, member: SimMember, view: View) -> None:
        self.places[member] = 0

    def on_message(self, member: SimMember, message: Message) -> None:
        if message.dest is not None or member.view is None:
            return
        sequence = self.sequences.setdefault(member.view.view_id, [])
        place = self.places[member]
        self.places[member] += 1
        if place == len(sequence):
            sequence.append(message.payload)
        said, here = message.payload[:20], sequence[place][:20]
        assert message.payload == sequence[place], f"{member.name} has {said!r} for {here!r}"


FAULTS = ("crash", "vanish", "leave", "restart")


def first(seed: int) -> SimCluster:
    """Four members with TOTAL_ORDER on top of a whole stack."""
    return SimCluster("ABCD", ["sim.xml", TOTAL_ORDER], seed=seed, invariants=[SameOrder()])


def mended(seed: int) -> SimCluster:
    return SimCluster("ABCD", ["sim.xml", MENDED], seed=seed, invariants=[SameOrder()])


def try_as_usual() -> None:
    """Run two ordinary tests: the protocol works, and it goes on after a crash of the sequencer."""
    with SimCluster("ABC", ["sim.xml", TOTAL_ORDER], invariants=[SameOrder()]) as cluster:
        for member in cluster:
            member.send(b"from everybody", b"twice")
        cluster.run_for(1)
        cluster.crash(cluster["A"].view_names[0])
        cluster.run_for(1)
        for member in cluster.living:
            member.send(b"and again")
        cluster.settle()


def what_explore_finds() -> PropertyViolated | None:
    """Return the first violation of TOTAL_ORDER, made small."""
    try:
        explore(first, seeds=range(1, 51), faults=FAULTS, count=5, seconds=10, shrink_runs=60)
    except PropertyViolated as violated:
        return violated
    return None


def is_the_same_again(violated: PropertyViolated) -> bool:
    """Check that the file that explore wrote replays the same violation."""
    assert violated.file is not None
    try:
        replay(first, violated.file)
    except PropertyViolated as again:
        return str(again) == str(violated)
    return False


if __name__ == "__main__":
    try_as_usual()
    print("the usual test holds")
    found = what_explore_finds()
    assert found is not None
    print("explore finds", found)
    print("replayed, it is the same:", is_the_same_again(found))
    print("with MENDED it holds:", not mended(found.seed).play(found.schedule).problems)
    print("MENDED:", explore(mended, seeds=range(1, 4), faults=FAULTS, count=5, seconds=10))
