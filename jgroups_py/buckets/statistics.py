"""Statistics at three levels (A23): of the instance, of each node, of each component. As JSON, and as samples for Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jgroups_py.buckets.messages import BucketRow, NodeStatistics
from jgroups_py.channel.metrics import Sample, metric_name


class InstanceStatistics:
    """The members' statistics. ``missing``: members that have not answered in time. ``rows``: the places of the
    buckets."""

    def __init__(
        self, nodes: Sequence[NodeStatistics], missing: Sequence[str], rows: Mapping[int, BucketRow]
    ) -> None:
        self.nodes = sorted(nodes, key=lambda node: (node.node, node.member))
        self.missing, self.rows = list(missing), rows

    @property
    def members(self) -> set[str]:
        """Return the running members."""
        return {node.member for node in self.nodes} | set(self.missing)

    def of_instance(self) -> dict[str, int]:
        """Return sums of all nodes, named ``KIND_COUNT``, and how many pairs there are, lack a backup and are lost."""
        found = _sums(self.nodes)
        here = self.members
        pairs = self.rows.values()
        found["pairs"] = len(pairs)
        found["pairs_lost"] = sum(row.master.member not in here for row in pairs)
        found["pairs_without_backup"] = sum(
            row.master.member in here and (row.slave is None or row.slave.member not in here)
            for row in pairs
        )
        return dict(sorted(found.items()))

    def of_nodes(self) -> dict[str, dict[str, int]]:
        """Return node -> sums of its components, named ``KIND_COUNT``."""
        names = sorted({node.node for node in self.nodes})
        return {
            name: dict(sorted(_sums([n for n in self.nodes if n.node == name]).items()))
            for name in names
        }

    def of_components(self) -> dict[str, dict[str, int]]:
        """Return component -> its counts. Names of clients' components need not be unique, so their member's name is
        appended."""
        found: dict[str, dict[str, int]] = {}
        for node in self.nodes:
            for part in node.components:
                name = part.name if part.name not in found else f"{part.name}@{node.member}"
                found[name] = dict(sorted(part.counts.items()))
        return found

    def as_json(self) -> dict[str, Any]:
        """Return values for ``json.dumps``."""
        return {
            "instance": self.of_instance(),
            "nodes": self.of_nodes(),
            "components": self.of_components(),
            "missing": self.missing,
        }

    def samples(self, cluster: str) -> Iterator[Sample]:
        """For ``jgroups_py.channel.metrics.page_of``: ``jgroups_buckets_manager_requests{component="m/n1",node="n1",...}``. Prometheus sums up nodes and the
        instance."""
        yield from samples_of(self.nodes, cluster)
        for name, value in self.of_instance().items():
            if name.startswith("pairs"):
                about = "pairs of buckets of the whole instance"
                yield Sample(cluster, "", metric_name("buckets", name), value, about)


def samples_of(nodes: Sequence[NodeStatistics], cluster: str, member: str = "") -> Iterator[Sample]:
    """Yield a sample for each count of each component. ``member``: a name for the samples instead of each node's
    member."""
    for node in nodes:
        for part in node.components:
            labels = (("node", node.node), ("component", part.name))
            for count, value in sorted(part.counts.items()):
                name = metric_name("buckets", part.kind, count)
                about = f"{count} of a {part.kind} of the bucket store"
                yield Sample(cluster, member or node.member, name, value, about, labels)


def _sums(nodes: Sequence[NodeStatistics]) -> Counter[str]:
    found: Counter[str] = Counter()
    for node in nodes:
        for part in node.components:
            for count, value in part.counts.items():
                found[f"{part.kind}_{count}"] += value
    return found
