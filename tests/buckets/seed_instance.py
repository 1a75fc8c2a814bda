"""The seed's example (A35): three nodes, nine pairs; each node has three masters and three slaves. Buckets are numbered from 0 here."""

from __future__ import annotations

from functools import cache
from typing import Any

from jgroups_py.buckets.digest import bucket_of, digest_of
from jgroups_py.buckets.ends import Cep
from jgroups_py.buckets.errors import BucketError
from jgroups_py.buckets.index import IndexCopy
from jgroups_py.buckets.plugin import Plugin, Request
from jgroups_py.buckets.router import Router
from jgroups_py.buckets.settings import InstanceSettings
from jgroups_py.testing.explorer.buckets.ledger import ledger
from jgroups_py.testing.explorer.buckets.world import BucketWorld, full_member

MASTERS = {"n1": (1, 2, 3), "n2": (4, 5, 6), "n3": (7, 8, 9)}
SLAVES = {"n1": (5, 7, 9), "n2": (1, 3, 8), "n3": (2, 4, 6)}
PLACEMENT = {
    pair - 1: (f"m/{master}", f"m/{slave}")
    for master, masters in MASTERS.items()
    for slave, slaves in SLAVES.items()
    for pair in masters
    if pair in slaves
}
PAIRS = 9
BUSY_MACHINE = {"FD_ALL3.timeout": "15s", "FD_ALL3.interval": "2s"}
"""Attributes for processes on a machine that may not run one of them for seconds. FD_SOCK2 notices a killed one at once."""
BUSY_DETECTION_MAX = 25.0
"""The ``detection_max`` that these need."""
MASTERS_MAX, BUCKETS_MAX = 5, 6
"""The limits of a node (A35)."""


def seed_settings(**changes: Any) -> InstanceSettings:
    return InstanceSettings(
        **{"buckets": PAIRS, "index_copies": ("i/n1", "i/n2", "i/n3"), "lease": 1.0, **changes}
    )


class Instance:
    """The example in virtual time. Members have the names of their nodes."""

    def __init__(
        self,
        seed: int = 1,
        plugin: Plugin | None = None,
        latency: tuple[float, float] = (0.0005, 0.003),
        **settings: Any,
    ) -> None:
        self.settings = seed_settings(**settings)
        self.world = BucketWorld(self.settings, seed, latency=latency)
        self.plugin = plugin or ledger()
        for name in MASTERS:
            self.start(name)
        self.world.run(1.0)

    def start(self, name: str) -> str:
        build = full_member(self.plugin, name, self.settings, PLACEMENT)
        return self.world.start(name, build)

    def kill(self, name: str) -> None:
        self.world.kill(self.member(name))

    def member(self, name: str) -> str:
        member = self.world.alive(name)
        assert member is not None, name
        return member

    def manager(self, name: str) -> Any:
        return self.world.machines[self.member(name)].managers[f"m/{name}"]

    def index(self, name: str) -> IndexCopy:
        return self.world.machines[self.member(name)].indices[f"i/{name}"]

    def router(self, name: str) -> Router:
        return self.world.machines[self.member(name)].routers[f"r/{name}"]

    def cep(self, name: str) -> Cep:
        return Cep(self.member(name), f"m/{name}")

    def ask(
        self, name: str, key: str | None, body: str, seconds: float = 40.0
    ) -> str | BucketError:
        """Send a request of a client of this node, and return its answer."""
        found: list[Any] = []
        self.world.request(self.member(name), Request(body.encode(), key), found.append)
        assert self.world.run(seconds, lambda: bool(found)), "no answer"
        answer = found[0]
        if isinstance(answer, BucketError):
            return answer
        return answer[0][1].decode() if answer else ""

    def do(self, name: str, what: str, *arguments: Any, **options: Any) -> Any:
        """Give an administrator's order to this node's router; return the new row, or the error."""
        found: list[Any] = []
        getattr(self.router(name), what)(*arguments, found.append, **options)
        self.world.flush(self.member(name))
        assert self.world.run(40.0, lambda: bool(found)), f"no answer to {what}"
        return found[0]

    def layout(self, seen_by: str) -> dict[str, tuple[tuple[int, ...], tuple[int, ...]]]:
        """Return the numbers of each node's masters and slaves, counted from 1 as in the seed."""
        rows = self.index(seen_by).state.rows.values()
        names = [n for n in MASTERS if self.world.alive(n)]
        return {
            name: (
                tuple(row.bucket + 1 for row in rows if row.master == self.cep(name)),
                tuple(row.bucket + 1 for row in rows if row.slave == self.cep(name)),
            )
            for name in names
        }


@cache
def _keys_of(pair: int) -> list[str]:
    keys = (f"key-{n}" for n in range(2_000))
    return [key for key in keys if bucket_of(digest_of(key), PAIRS) == pair - 1]


def key_in(pair: int, number: int = 0) -> str:
    """Return a key of this pair (from 1)."""
    return _keys_of(pair)[number]
