"""Statistics at three levels (A23): of the instance, of each node, of each component. As JSON, and as samples for Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from jgroups_py.buckets.messages import BucketRow, NodeStatistics
from jgroups_py.buckets.rows import losses
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
        """Return sums of all nodes, named ``KIND_COUNT``, and the numbers of pairs: all, without a backup, lost."""
        found = {**_sums(self.nodes), **counts_of_pairs(self.rows, self.members)}
        return dict(sorted(found.items()))

    def of_nodes(self) -> dict[str, dict[str, int]]:
        """Return the sums of each node's components, named ``KIND_COUNT``, by node."""
        names = sorted({node.node for node in self.nodes})
        return {
            name: dict(sorted(_sums([n for n in self.nodes if n.node == name]).items()))
            for name in names
        }

    def of_components(self) -> dict[str, dict[str, int]]:
        """Return counts by component. Names of clients' components need not be unique, so their member's name is
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
        """Yield samples for ``jgroups_py.channel.metrics.page_of``:
        ``jgroups_buckets_manager_requests{component="m/n1",node="n1",...}``. Prometheus sums up nodes and the
        instance."""
        yield from samples_of(self.nodes, cluster)
        yield from samples_of_pairs(counts_of_pairs(self.rows, self.members), cluster)
        about = "members that have not answered in time"
        silent = metric_name("buckets", "members_missing")
        yield Sample(cluster, "", silent, len(self.missing), about)


def counts_of_pairs(rows: Mapping[int, BucketRow], members: Collection[str]) -> dict[str, int]:
    """Count the pairs of the instance: all, without a backup, lost. ``members``: those that run."""
    found = losses(rows, members)
    lost = sum(loss.lost for loss in found)
    return {
        "pairs": len(rows),
        "pairs_lost": lost,
        "pairs_without_backup": len(found) - lost,
    }


def samples_of_pairs(pairs: Mapping[str, int], cluster: str, member: str = "") -> Iterator[Sample]:
    """Yield one sample for each result of ``counts_of_pairs``. ``member``: the one that has counted."""
    for name, value in pairs.items():
        about = "pairs of buckets of the whole instance"
        yield Sample(cluster, member, metric_name("buckets", name), value, about)


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
