"""The cost of a request, and whether it grows: with nodes (A16), at the rate of the seed (A25), within its times (A26), with entries (A27). In virtual time, so the figures
are counts; those of real processes come from the benches (design/buckets.md)."""

from __future__ import annotations

import time
import tracemalloc
from collections import Counter
from typing import Any

import pytest

from jgroups_py.buckets import Request
from jgroups_py.buckets.bucket import Bucket
from jgroups_py.buckets.deployment import distribute, parse_deployment
from jgroups_py.buckets.digest import bucket_of, digest_of
from jgroups_py.buckets.errors import BucketError
from jgroups_py.buckets.latency import percentile
from jgroups_py.buckets.messages import (
    Answer,
    BucketPacket,
    EntryChange,
    Forward,
    Save,
    Saved,
    Statistics,
    decode,
    encode,
)
from jgroups_py.testing.explorer.buckets.ledger import OLD, LedgerProvider, ledger
from jgroups_py.testing.explorer.buckets.world import BucketWorld, full_member

LINK = 0.001
BUCKETS = 16
OF_A_REQUEST = (Forward, Answer, Save, Saved)


class Load:
    """Nodes with equal shares of buckets, and a client at each node. Every message takes the time ``LINK``."""

    def __init__(self, nodes: int) -> None:
        names = [f"n{number}" for number in range(nodes)]
        deployment = parse_deployment(
            f"name: growth\nbuckets: {BUCKETS}\nsettings: {{index_quorum: 1, lease: 1s}}\n"
            f"nodes: {{{', '.join(f'{name}: {{}}' for name in names)}}}\nstack: udp.xml\n"
        )
        placement = dict(distribute(deployment).components)
        self.world = BucketWorld(deployment.settings, seed=1, latency=(LINK, LINK))
        self.members = [
            self.world.start(
                name, full_member(ledger(), name, deployment.settings, placement), node=name
            )
            for name in names
        ]
        self.world.run(3.0)
        self.keys = [_key_in(bucket) for bucket in range(BUCKETS)]
        self.answers: list[Any] = []
        self.sent: Counter[type] = Counter()
        send = self.world._send

        def counted(frm: str, to: str, data: bytes) -> None:
            self.sent[type(decode(data).message)] += 1
            send(frm, to, data)

        self.world._send = counted  # type: ignore[method-assign]

    def run(self, rate: float, seconds: float) -> int:
        """Each client sends ``rate`` requests a second, changes and reads alternately. Each bucket gets equally many
        changes and reads. Return the number of requests."""
        count = int(rate * seconds) // (2 * BUCKETS) * 2 * BUCKETS
        for number in range(count):
            body = b"?" if number // BUCKETS % 2 else b"+x"
            request = Request(body, self.keys[number % BUCKETS])
            for member in self.members:
                self.world.at(
                    number / rate,
                    lambda m=member, r=request: self.world.request(m, r, self.answers.append),  # type: ignore[misc]
                )
        self.world.run(seconds + 1.0)
        return count * len(self.members)

    def manager(self, member: str) -> Any:
        return next(iter(self.world.machines[member].managers.values()))

    def counts(self) -> Counter[str]:
        """The sums of the routers' counters."""
        found: Counter[str] = Counter()
        for member in self.members:
            for router in self.world.machines[member].routers.values():
                found.update(router.latencies.counts())
        return found


def _key_in(bucket: int) -> str:
    return next(
        key
        for number in range(100_000)
        if bucket_of(digest_of(key := f"key-{number}"), BUCKETS) == bucket
    )


@pytest.mark.seed("A16")
@pytest.mark.parametrize("nodes", [2, 4, 8])
def test_each_of_more_nodes_has_an_equal_share_and_a_request_costs_as_many_messages(
    nodes: int,
) -> None:
    load = Load(nodes)
    count = load.run(200.0, 0.16)
    assert len(load.answers) == count and not _errors(load.answers)
    for member in load.members:
        manager = load.manager(member)
        assert manager.counts["requests"] == count / nodes
        assert manager.counts["saves"] == count / 2 / nodes
        assert len(manager.copies) == 2 * BUCKETS / nodes, "room for entries grows with nodes"
    elsewhere = count * (nodes - 1) // nodes
    found = {kind: load.sent[kind] for kind in OF_A_REQUEST}
    assert found == {Forward: elsewhere, Answer: elsewhere, Save: count // 2, Saved: count // 2}


@pytest.mark.seed("A25", "A26")
def test_at_a_thousand_requests_a_second_and_node_nothing_waits_but_for_messages() -> None:
    """A read costs a message in each direction; a change costs one more pair of messages for the slave. The rest is
    the CPU time of the components: less than a core at this rate."""
    load = Load(2)
    began = time.process_time()
    count = load.run(1_000.0, 0.32)
    used = time.process_time() - began
    assert len(load.answers) == count == 640 and not _errors(load.answers)
    found = load.counts()
    times = {
        kind: [percentile(found, kind, part) or 0.0 for part in (0.99, 1.0)]
        for kind in ("reads", "changes")
    }
    slack = 0.5  # of a millisecond, the step of the counts
    assert 0 < times["reads"][0] <= 2 * 1000 * LINK + slack
    assert 0 < times["changes"][0] <= 4 * 1000 * LINK + slack
    assert times["reads"][1] <= 10 and times["changes"][1] <= 15, "the seed's limits"
    assert used < count / 1_000, f"{used:.2f} s of CPU for {count} requests"


def _errors(answers: list[Any]) -> list[Any]:
    return [answer for answer in answers if isinstance(answer, BucketError)]


@pytest.mark.seed("A27")
def test_an_entry_costs_its_bytes_and_little_more_and_no_message_grows_with_entries() -> None:
    bucket = Bucket(0, LedgerProvider(OLD), 10)
    number = 10_000
    changes = [EntryChange(f"key-{n}", {"": b"x" * 30}, True, OLD) for n in range(number)]
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for change in changes:
            bucket.unserialise_entry(change)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Key and data exist already. A pair of data and version has 56 bytes, its place in a dict up to 120.
    assert (after - before) / number < 200
    assert len(bucket) == number and bucket.live == 0
    bucket.forward_to_entry("key-7", Request(b"+y"), None, modifies=True, now=0.0)
    assert bucket.live == 1, "a request makes one object"

    load = Load(2)
    manager, machine = load.manager(load.members[0]), load.world.machines[load.members[0]]
    copy = next(c for c in manager.copies.values() if c.row.master == manager.cep)
    told = [len(encode(BucketPacket("", "", Statistics(1, machine.statistics(True)))))]
    copy.bucket = bucket
    told.append(len(encode(BucketPacket("", "", Statistics(1, machine.statistics(True))))))
    assert told[1] - told[0] <= 10, "numbers with more digits"
