"""Rehearsal: a deployment in virtual time, with clients, and with all that an administrator may meet: the loss of each
cause of failure and the way back, an upgrade of all nodes.

Nodes run the real components; the application is the ledger of the explorer, so each answer tells whether something was lost.

    jgroups-py buckets rehearse seats.yaml
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from jgroups_py.buckets.deployment.distribution import distribute, masters_after
from jgroups_py.buckets.deployment.model import DeployedNode, Deployment
from jgroups_py.buckets.digest import bucket_of, digest_of
from jgroups_py.buckets.ends import Cep
from jgroups_py.buckets.errors import BucketError, OutcomeUnknown, Refused
from jgroups_py.buckets.machine import BucketMachine
from jgroups_py.buckets.messages import BucketRow
from jgroups_py.buckets.plugin import Request
from jgroups_py.testing.explorer.buckets.ledger import NEW, OLD, ledger
from jgroups_py.testing.explorer.buckets.world import BucketWorld

BUCKETS_MAX: Final = 256
"""The most buckets that are rehearsed; of a larger deployment the first ones, which are on all nodes in turns."""
KEYS_MAX: Final = 64
"""The most clients, one for each key."""
PAUSE: Final = 0.1
"""Seconds from an answer to the next request of a client."""
BEFORE: Final = 2.0
"""Seconds of work before something happens, and at the end."""
TRIES: Final = 5
"""The most tries of a refused operation of an administrator."""
PATIENCE: Final = 120.0
"""Seconds for an administrator's operation, and for all clients to go on."""


@dataclass
class RehearsalClient:
    """Adds tokens to one key, one after the other. ``answered``: places by token. ``gap``: the longest time between two
    answers."""

    key: str
    answered: dict[str, int] = field(default_factory=dict)
    asked: int = 0
    errors: int = 0
    last: float = 0.0
    gap: float = 0.0


@dataclass(frozen=True)
class RehearsedEvent:
    """The result of one event. ``interruption``: longest time without an answer of any client, seconds; ``lost``:
    answered tokens that are gone or not in their place; ``problems``: other faults."""

    name: str
    interruption: float
    requests: int
    lost: int
    without_backup: int = 0
    overloaded: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def rehearse(
    deployment: Deployment, *, seed: int = 1, detection: float = 10.0
) -> Iterator[RehearsedEvent]:
    """Play all events, each on an instance of its own: the loss of each cause and the way back; an upgrade.

    Args:
        detection: seconds until a loss is noticed, at most; ``jgroups-py validate`` prints them for a stack.
    """
    for cause in deployment.causes:
        yield from _loss(RehearsalStage(deployment, seed, detection), cause)
    yield _upgrade(RehearsalStage(deployment, seed, detection))


def _loss(stage: RehearsalStage, cause: str) -> Iterator[RehearsedEvent]:
    lost = stage.deployment.causes[cause]
    stage.begin()
    for name in lost:
        stage.kill(name)
    problems = stage.until_all_answer()
    bare = sum(row.slave is None for row in stage.rows())
    yield stage.scene(f"loss of {cause}", problems, bare, stage.overloaded(lost))
    stage.forget_gaps()
    for name in lost:
        stage.start(stage.deployment.by_name[name])
    stage.world.run(BEFORE)
    problems = stage.restore()
    yield stage.scene(f"return of {cause}", problems)


def _upgrade(stage: RehearsalStage) -> RehearsedEvent:
    stage.begin()
    problems: list[str] = []
    for node in stage.deployment.nodes:
        if node.managers:
            problems += stage.upgrade(node)
    problems += stage.until_all_answer()
    return stage.scene("upgrade of all nodes", problems)


class RehearsalStage:
    """One instance of the deployment, and its clients."""

    def __init__(self, deployment: Deployment, seed: int, detection: float) -> None:
        self.deployment = deployment
        self.buckets = min(deployment.buckets, BUCKETS_MAX)
        self.settings = dataclasses.replace(deployment.settings, buckets=self.buckets)
        whole = distribute(deployment)
        self.nodes = {b: whole.nodes[b] for b in range(self.buckets)}
        self.placement = {b: whole.components[b] for b in range(self.buckets)}
        self.pairs = whole.pairs()
        self.world = BucketWorld(self.settings, seed, detection=(detection / 2, detection))
        self.clients = [RehearsalClient(key) for key in _keys(self.buckets)]
        self.doors = [node.name for node in deployment.nodes if node.routers]
        self.old, self.new = ledger(OLD), ledger(NEW)
        self._turn = 0
        self._waiting: dict[str, set[str]] = {}
        """Keys whose client waits for an answer, by the member that is to answer."""

    # --- members

    def begin(self) -> None:
        for node in self.deployment.nodes:
            self.start(node)
        self.world.run(1.0)
        for client in self.clients:
            client.last = self.world.now
            self._ask(client)
        self.world.run(BEFORE)

    def start(self, node: DeployedNode, name: str = "", kinds: str = "mirp") -> None:
        """Start a process of this node with these kinds of components."""

        def build(machine: BucketMachine) -> None:
            for manager in node.components("m") if "m" in kinds else ():
                machine.add_manager(manager, self.old)
            for index in node.components("i") if "i" in kinds else ():
                copy = machine.add_index(index, self.placement)
                for router in node.components("r"):
                    machine.add_router(router, self.old, copy)
            for proxies in node.components("p") if "p" in kinds else ():
                machine.add_proxies(proxies)
            if not machine.proxies and machine.routers:
                machine.add_proxies(f"clients/{node.name}")

        self.world.start(
            name or node.name, build, node=node.name, zone=self.deployment.zone_of(node)
        )

    def kill(self, name: str) -> None:
        member = self.world.alive(name)
        assert member is not None, name
        self.world.kill(member)
        for client in self.clients:  # a client whose door is gone asks at another one
            if client.key in self._waiting.get(member, ()):
                client.errors += 1
                self.world.at(PAUSE, lambda c=client: self._ask(c))  # type: ignore[misc]
        self._waiting.pop(member, None)

    # --- clients

    def _ask(self, client: RehearsalClient) -> None:
        doors = [m for m in map(self.world.alive, self._open_doors()) if m is not None]
        if not doors:
            self.world.at(PAUSE, lambda: self._ask(client))
            return
        self._turn += 1
        member = doors[self._turn % len(doors)]
        client.asked += 1
        token = f"t{client.asked}"
        self._waiting.setdefault(member, set()).add(client.key)

        def answered(answer: Any) -> None:
            self._waiting.get(member, set()).discard(client.key)
            if isinstance(answer, BucketError):
                client.errors += 1
            else:
                client.answered[token] = int(answer[0][1])
                client.gap = max(client.gap, self.world.now - client.last)
                client.last = self.world.now
            self.world.at(PAUSE, lambda: self._ask(client))

        self.world.request(member, Request(f"+{token}".encode(), client.key), answered)

    def _open_doors(self) -> list[str]:
        return [name for door in self.doors for name in (door, _rest(door))]

    def until_all_answer(self) -> list[str]:
        """Go on until every client has had an answer since now. Return the problems."""
        now = self.world.now
        self.world.run(PATIENCE, lambda: all(client.last > now for client in self.clients))
        silent = [client.key for client in self.clients if client.last <= now]
        self.world.run(BEFORE)
        return (
            [f"{len(silent)} of {len(self.clients)} keys have no answer after {PATIENCE:g} s"]
            if silent
            else []
        )

    def forget_gaps(self) -> None:
        for client in self.clients:
            client.gap = 0.0

    # --- the administrator

    def rows(self) -> list[BucketRow]:
        """Return the places that the index has decided."""
        best: list[BucketRow] = []
        version = -1
        for machine in self.world.machines.values():
            for index in machine.indices.values():
                if index.state.version > version:
                    version, best = index.state.version, list(index.state.rows.values())
        return best

    def do(self, what: str, *arguments: Any, **options: Any) -> BucketRow | BucketError:
        """Do an administrator's operation at a router that lives. A refusal is tried again: the router's index copy may
        not have heard of the operation before."""
        answer: BucketRow | BucketError = BucketError("nobody is there to ask")
        for _ in range(TRIES):
            answer = self._do(what, *arguments, **options)
            if not isinstance(answer, Refused):
                break
            self.world.run(1.0)
        return answer

    def _do(self, what: str, *arguments: Any, **options: Any) -> BucketRow | BucketError:
        machine = self.world.machines[self._door()]
        found: list[BucketRow | BucketError] = []
        machine.advance(self.world.now)
        getattr(next(iter(machine.routers.values())), what)(*arguments, found.append, **options)
        self.world.flush(machine.member)
        if not self.world.run(PATIENCE, lambda: bool(found)):
            return OutcomeUnknown(f"{what} has no end after {PATIENCE:g} s")
        return found[0]

    def _door(self) -> str:
        """Return a member with a router that lives. A deployment leaves one after any loss."""
        return next(m for m in map(self.world.alive, self._open_doors()) if m is not None)

    def cep(self, component: str) -> Cep:
        """Return the manager of this name that lives."""
        for member, machine in self.world.machines.items():
            if component in machine.managers:
                return Cep(member, component)
        raise AssertionError(component)

    def restore(self) -> list[str]:
        """Recreate slaves and move masters back until all is where it was at the beginning (A38)."""
        problems = []
        for bucket, (master, slave) in self.placement.items():
            problems += self._restore(bucket, self.cep(master), self.cep(slave))
        rows = {row.bucket: row for row in self.rows()}
        wrong = [
            bucket
            for bucket, (master, slave) in self.placement.items()
            if bucket not in rows
            or (rows[bucket].master, rows[bucket].slave) != (self.cep(master), self.cep(slave))
        ]
        if wrong:
            problems.append(f"{len(wrong)} buckets are not where they were, such as {wrong[0]}")
        return problems

    def _restore(self, bucket: int, master: Cep, slave: Cep) -> list[str]:
        row = next((row for row in self.rows() if row.bucket == bucket), None)
        if row is None:
            return [f"bucket {bucket}: the index has no row"]
        steps: list[Callable[[], BucketRow | BucketError]] = []
        if row.master == slave:
            steps.append(lambda: self.do("migrate_master_bucket", slave, master, bucket=bucket))
            steps.append(lambda: self.do("recreate_bucket", slave, bucket=bucket))
        elif row.slave is None:
            steps.append(lambda: self.do("recreate_bucket", slave, bucket=bucket))
        return [
            f"bucket {bucket}: {answer}"
            for answer in (step() for step in steps)
            if isinstance(answer, BucketError)
        ]

    def upgrade(self, node: DeployedNode) -> list[str]:
        """Start new managers beside the old ones, move a bucket there and back and there again, move the others, stop the old process (A39)."""
        problems: list[str] = []
        old = {name: self.cep(name) for name in node.components("m")}

        def build(machine: BucketMachine) -> None:
            for name in node.components("m"):
                machine.add_manager(f"{name}/new", self.new)

        self.world.start(
            f"{node.name}/new", build, node=node.name, zone=self.deployment.zone_of(node)
        )
        self.world.run(BEFORE)
        for name, source in old.items():
            to = self.cep(f"{name}/new")
            fallen_back = False
            for row in self.rows():
                role = row.role_of(source)
                if role is None:
                    continue
                ways = [(source, to)]
                if not fallen_back and role == "master":
                    fallen_back = True
                    ways = [(source, to), (to, source), (source, to)]
                for one, other in ways:
                    answer = self.do(f"migrate_{role}_bucket", one, other, bucket=row.bucket)
                    if isinstance(answer, BucketError):
                        problems.append(f"{node.name}, bucket {row.bucket}: {answer}")
                        break
        self.kill(node.name)
        problems += self.until_all_answer()
        if node.routers or node.proxies:
            self.start(node, _rest(node.name), "irp")
            self.world.run(BEFORE)
        return problems

    # --- the judge

    def overloaded(self, lost: Sequence[str]) -> tuple[str, ...]:
        after = masters_after(self.pairs, lost)
        return tuple(
            f"{node.name} has {after[node.name]} masters of {node.masters}"
            for node in self.deployment.nodes
            if after[node.name] > node.masters
        )

    def scene(
        self,
        name: str,
        problems: Sequence[str],
        without_backup: int = 0,
        overloaded: tuple[str, ...] = (),
    ) -> RehearsedEvent:
        answered = {
            c.key: list(c.answered.items()) for c in self.clients
        }  # requests are answered meanwhile
        read = self._read()
        lost = sum(
            read[key][place : place + 1] != [token]
            for key in read
            for token, place in answered[key]
        )
        unread = len(self.clients) - len(read)
        more = [f"{unread} keys cannot be read"] if unread else []
        return RehearsedEvent(
            name,
            round(max(max(c.gap, self.world.now - c.last) for c in self.clients), 3),
            sum(client.asked for client in self.clients),
            lost,
            without_backup,
            overloaded,
            (*problems, *more),
        )

    def _read(self) -> dict[str, list[str]]:
        """Return the tokens of each key that can be read."""
        found: dict[str, Any] = {}
        for client in self.clients:
            self.world.request(
                self._door(),
                Request(b"?", client.key),
                lambda answer, key=client.key: found.update({key: answer}),  # type: ignore[misc]
            )
        self.world.run(PATIENCE, lambda: len(found) == len(self.clients))
        return {
            key: str(answer[0][1].decode()).split()
            for key, answer in found.items()
            if not isinstance(answer, BucketError)
        }


def _rest(name: str) -> str:
    """Return the process of an upgraded node that has no managers."""
    return f"{name}/rest"


def _keys(buckets: int) -> list[str]:
    """Return keys in as many buckets as there may be clients."""
    found: dict[int, str] = {}
    for number in range(40 * buckets):
        key = f"key-{number}"
        found.setdefault(bucket_of(digest_of(key), buckets), key)
        if len(found) >= min(buckets, KEYS_MAX):
            break
    return list(found.values())
