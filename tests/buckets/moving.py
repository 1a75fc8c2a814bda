"""A copy that moves under load, with each part of the instance in a member of its own. Each message takes a
millisecond."""

from __future__ import annotations

from typing import Any

from seed_instance import key_in, seed_settings

from jgroups_py.buckets import Cep, Request
from jgroups_py.buckets.errors import BucketError
from jgroups_py.buckets.machine import BucketMachine
from jgroups_py.testing.explorer.buckets.ledger import ledger
from jgroups_py.testing.explorer.buckets.world import BucketWorld

MS = 0.001
KEY = key_in(1)
"""A key of bucket 0."""
SETTINGS = seed_settings(index_copies=("i/x", "i/y", "i/z"))
PLACEMENT = {bucket: ("m/source", "m/slave") for bucket in range(SETTINGS.buckets)}
MANAGERS = ("source", "slave", "there")
STEPS = range(26)
"""A move takes about 20 ms."""


def member(name: str) -> Any:
    def build(machine: BucketMachine) -> None:
        if name in MANAGERS:
            machine.add_manager(f"m/{name}", ledger())
            return
        index = machine.add_index(f"i/{name}", PLACEMENT)
        machine.add_router(f"r/{name}", ledger(), index)
        machine.add_proxies(f"p/{name}")

    return build


class Moving:
    """Index copies and routers are at x, y and z, managers at three other members. A client of z changes the bucket
    each millisecond while a copy moves."""

    def __init__(self, role: str, bucket: int = 0) -> None:
        self.world = world = BucketWorld(SETTINGS, 1, latency=(MS, MS))
        for name in ("x", "y", "z", *MANAGERS):
            world.start(name, member(name))
        world.run(1.0)
        self.answers: list[Any] = []
        self.asked = 0
        self.moves: list[Any] = []
        router = world.machines["z.1"].routers["r/z"]
        name = "source" if role == "master" else "slave"
        frm = Cep(f"{name}.1", f"m/{name}")
        migrate = getattr(router, f"migrate_{role}_bucket")
        migrate(frm, Cep("there.1", "m/there"), self.moves.append, bucket=bucket)
        world.flush("z.1")

    @property
    def phase(self) -> str:
        transfer = self.world.machines["source.1"].managers["m/source"].copies[0].transfer
        return "none" if transfer is None else transfer.phase

    def change(self) -> None:
        self.asked += 1
        token = f"t{self.asked}"
        request = Request(b"+" + token.encode(), KEY)
        self.world.request("z.1", request, lambda answer: self.answers.append((token, answer)))

    def play(self, lost: list[str], step: int) -> None:
        for at in range(STEPS.stop + 10):
            for name in lost if at == step else ():
                self.world.kill(f"{name}.1")
            self.change()
            self.world.run(MS)
        assert self.world.run(35.0, lambda: len(self.answers) == self.asked), "all have an end"
        self.world.run(2.0)

    def judge(self) -> None:
        found: list[Any] = []
        self.world.request("z.1", Request(b"?", KEY), found.append)
        assert self.world.run(5.0, lambda: bool(found)) and not isinstance(found[0], BucketError)
        tokens = found[0][0][1].decode().split()
        assert len(tokens) == len(set(tokens)), "none is there twice"
        for token, answer in self.answers:
            if not isinstance(answer, BucketError):
                assert tokens[int(answer[0][1])] == token, "an answered change is lost"
        machines = self.world.machines.values()
        managers = [m for machine in machines for m in machine.managers.values()]
        copies = [(m.cep, m.copies[0]) for m in managers if 0 in m.copies]
        assert len({copy.row for _, copy in copies}) == 1, "all copies have the same row"
        assert sum(copy.row.master == cep for cep, copy in copies) == 1
        states = [copy.bucket.state() for _, copy in copies]
        assert all(state == states[0] for state in states)
        assert not any(copy.locked or copy.held or copy.transfer for _, copy in copies)
        assert not any(manager.incoming for manager in managers)
        indices = [index for machine in machines for index in machine.indices.values()]
        assert [index.locked_by for index in indices] == [None] * len(indices)
        assert [index.proposed for index in indices] == [None] * len(indices)
