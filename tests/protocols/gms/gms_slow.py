"""GMSs on a network that is slow for some pairs of members: a message reaches one member long before the others.

Pairs stay in order. Members send (their numbers rise), die, are suspected wrongly, leave and join; a seed decides.
After each view two promises are checked: views with one id have the same members everywhere, and members that go from
one view to the next together have the same messages of all members that are not in it any more.
"""

from __future__ import annotations

import random
from collections import deque
from typing import Any

from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import Disconnect, ViewChange
from jgroups_py.values.view import MergeView, View

DELAYS = (0.0, 0.0, 0.01, 0.04, 0.15, 0.6)


class Slow:
    """Makes ``net`` slow and plays a schedule on it."""

    def __init__(self, net: Any, seed: int, members: str = "ABCDE") -> None:
        self.net = net
        self.random = random.Random(f"slow {seed}")
        self.ways: dict[tuple[str, str], deque[tuple[float, Batch]]] = {}
        self.known: dict[tuple[int, bytes], tuple[Address, ...]] = {}
        self.had: dict[tuple[Any, Any, Address], int] = {}
        """For members that went from one view to another: their numbers for a sender that is not in the later view."""
        self.seen: dict[str, int] = {}
        self.slow = True
        net.group(members, agree_timeout=2.0)
        self.compared = 0
        """Members with which one was compared that was in both views before them."""
        self._event, net._event = net._event, self._on_event
        net._carry = self._delay

    # --- playing

    def play(self, steps: int = 60) -> None:
        for _ in range(steps):
            self._one()
            self._pass(self.random.choice((0.01, 0.01, 0.05, 0.3)))
        self.settle()

    def _one(self) -> None:
        draw, living = self.random.random(), self.living()
        node = self.random.choice(living)
        if draw < 0.3:
            self._send(node)
        elif draw < 0.38 and len(living) > 2:
            node.dead = True
        elif draw < 0.75:
            self._suspect(node)
        elif draw < 0.8 and len(living) > 2:
            node.fake.event_down(Disconnect())
        elif draw < 0.92 and len(self.net.nodes) < 14:
            self.net.connect("ABCDEFGHIJKLMNO"[len(self.net.nodes)], agree_timeout=2.0)
        elif draw < 0.95 and self.inside():
            other = self.random.choice(self.inside())
            self.net.suspect(node.name, other.name)  # the suspected member lives
            self.net.unsuspect(node.name, other.name)

    def _send(self, node: Any) -> None:
        """A message that some members have at once. Others get it when NAKACK2 repeats it, or by a fetch."""
        if node.gms.view is None or node.held is not None:
            return
        me = node.address
        node.delivered[me] = node.delivered.get(me, 0) + 1
        for other in self.inside():
            hears = other.gms.view is not None and me in other.gms.view and me not in other.frozen
            if hears and other.held is None and self.random.random() < 0.6:
                other.delivered[me] = node.delivered[me]

    def _suspect(self, node: Any) -> None:
        nodes, view = self.net.nodes.values(), node.gms.view
        dead = [n.name for n in nodes if (n.dead or n.left) and view and n.address in view]
        if dead:
            self.net.suspect(node.name, self.random.choice(dead))

    def settle(self) -> None:
        """Let all members suspect dead ones, and let separate groups find each other."""
        self.slow = False
        for _ in range(4):
            for node in self.inside():
                for other in self.net.nodes.values():
                    if (other.dead or other.left) and other.address in node.gms.view:
                        self.net.suspect(node.name, other.name)
            self._pass(5.0, step=0.05)
            heads = [n.name for n in self.inside() if n.gms.view.members[0] == n.address]
            if len(heads) > 1:
                self.net.merge(*heads)
            self._pass(5.0, step=0.05)

    def living(self) -> list[Any]:
        return [n for n in self.net.nodes.values() if not n.dead and not n.left]

    def inside(self) -> list[Any]:
        """Return the members with a view."""
        return [n for n in self.living() if n.gms.view is not None]

    # --- the network

    def _delay(self, node: Any, batch: Batch) -> None:
        if node.dead:
            return
        batch.src = node.address
        dest = self.net.node(batch.dest)
        for target in list(self.net.nodes.values()) if batch.dest is None else [dest]:
            if target is None or (target is node and batch.dest is None):
                continue
            way = self.ways.setdefault((node.name, target.name), deque())
            due = self.net.now + (self.random.choice(DELAYS) if self.slow else 0.0)
            way.append((max(due, way[-1][0]) if way else due, batch))

    def _pass(self, seconds: float, step: float = 0.01) -> None:
        for _ in range(round(seconds / step)):
            self.net.run(0.01)
            self.net.now += step - 0.01
            for (source, target), way in list(self.ways.items()):
                while way and way[0][0] <= self.net.now:
                    self._arrive(self.net.nodes[source], self.net.nodes[target], way.popleft()[1])
            self.look()

    def _arrive(self, source: Any, target: Any, batch: Batch) -> None:
        if target.dead or target.left:
            return
        if batch.dest is None:
            if not self.net._hears(target, source):
                return
            if target.held is not None:
                target.held.append(batch)
                return
        target.fake.up(batch)
        self.net.pump()

    # --- invariants

    def look(self) -> None:
        for node in self.net.nodes.values():
            for at in range(self.seen.get(node.name, 0), len(node.views)):
                self._look_at(node, node.views[at], node.views[at - 1] if at else None)
            self.seen[node.name] = len(node.views)

    def _look_at(self, node: Any, view: View, before: View | None) -> None:
        key = (view.id, bytes(view.view_id.creator))
        assert node.address in view.members
        assert self.known.setdefault(key, view.members) == view.members, f"two views {key}"
        assert before is None or view.id > before.id, f"{node.name}: {view} after {before}"

    def _on_event(self, node: Any, event: Any) -> None:
        if isinstance(event, ViewChange) and node.views and not isinstance(event.view, MergeView):
            self._compare(node, node.views[-1], event.view)
        self._event(node, event)

    def _compare(self, node: Any, before: View, view: View) -> None:
        """Compare only where no member went on alone because the others took too long."""
        for member in [m for m in before.members if m not in view.members]:
            had = node.delivered.get(member, 0)
            key = (before.view_id, view.view_id, member)
            self.compared += key in self.had
            if self.had.setdefault(key, had) != had:
                late = sum(
                    n.gms.agreements_timed_out + n.gms.holds_expired
                    for n in self.net.nodes.values()
                )
                assert late, f"{node.name} has {had} of {member!r}, others {self.had[key]}"

    def at_rest(self) -> None:
        """Check that all living members have one view, and that none holds a message back."""
        nodes = self.inside()
        views = {n.gms.view.view_id for n in nodes}
        assert len(views) == 1, {n.name: str(n.gms.view) for n in nodes}
        assert {n.address for n in nodes} == set(nodes[0].gms.view.members)
        for node in nodes:
            assert node.held is None and not node.frozen, node.name
