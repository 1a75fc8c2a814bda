"""A protocol of your own: it counts passing messages, is tested with a fake stack, and runs in a cluster.

python examples/own_protocol.py
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from jgroups_py.stack import Batch, Bytes, Protocol
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.testing.sim import World


class SIZE_LIMIT(Protocol):
    """Drops messages that are larger than `max_size`, and counts them."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Protocol.Config):
        max_size: Bytes = 1000
        """The largest payload that passes, in bytes."""

    def start(self) -> None:
        self.dropped = 0

    def down(self, batch: Batch) -> None:
        for index, payload in enumerate(batch.payloads):
            if payload is None or len(payload) <= self.config.max_size:
                self.pass_down(batch.slice(index, index + 1))
            else:
                self.dropped += 1


STACK = """
<config xmlns="urn:org:jgroups">
    <include file="sim.xml"/>
    <own_protocol.SIZE_LIMIT max_size="5"/>
</config>
"""


def try_alone() -> int:
    """Try one protocol between two fakes: its input and its output."""
    stack = FakeStack(SIZE_LIMIT(max_size=3))
    stack.down(Batch(make_address(2), [b"abc", b"abcd"], {}))
    (passed,) = stack.take_down()
    assert list(passed.payloads) == [b"abc"]
    return stack.protocol.statistics()["dropped"]  # type: ignore[return-value]


def try_in_a_cluster() -> list[bytes]:
    """Return the same protocol on top of a whole stack, three members, virtual time."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "stack.xml"
        path.write_text(STACK)
        world = World(seed=1)
        members = [world.start(name, str(path), "demo") for name in "ABC"]
        world.run_until(lambda: world.views_agree(members), limit=30)
        members[0].send(b"hi", b"too long to pass")
        world.run_for(1.0)
        return members[2].payloads


if __name__ == "__main__":
    import sys

    sys.modules.setdefault("own_protocol", sys.modules["__main__"])
    print("alone: dropped", try_alone())
    print("in a cluster: C received", try_in_a_cluster())
