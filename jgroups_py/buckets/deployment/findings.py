"""Findings: broken rules of a distribution, and warnings for an administrator (A32, A37)."""

from __future__ import annotations

from collections import Counter

from jgroups_py.buckets.deployment.distribution import Distribution, overloads
from jgroups_py.buckets.deployment.model import Deployment


def broken_rules(deployment: Deployment, distribution: Distribution) -> list[str]:
    """Return the broken rules. The rules: every bucket has two copies that do not fail together, and no capacity is
    exceeded."""
    found = []
    copies: Counter[str] = Counter()
    masters: Counter[str] = Counter()
    for bucket in range(deployment.buckets):
        pair = distribution.nodes.get(bucket)
        if pair is None:
            found.append(f"bucket {bucket} is nowhere")
            continue
        if not deployment.may_pair(*pair):
            found.append(
                f"bucket {bucket}: {pair[0]} and {pair[1]} share {deployment.shared(*pair)}"
            )
        copies.update(pair)
        masters[pair[0]] += 1
        for manager, name in zip(distribution.components[bucket], pair, strict=True):
            if manager not in deployment.by_name[name].components("m"):
                found.append(f"bucket {bucket}: {manager} is no manager of {name}")
    for node in deployment.nodes:
        if copies[node.name] > node.buckets:
            found.append(f"{node.name} has {copies[node.name]} copies and room for {node.buckets}")
        if masters[node.name] > node.masters:
            found.append(
                f"{node.name} has {masters[node.name]} masters and room for {node.masters}"
            )
    return found


def findings(deployment: Deployment, distribution: Distribution) -> list[str]:
    """Return warnings within the rules: overload after a loss, copies that fail together, settings."""
    found = []
    for cause, name, masters in overloads(deployment, distribution.pairs()):
        most = deployment.by_name[name].masters
        found.append(
            f"after the loss of {cause} node {name} has {masters} masters, and room for {most}"
        )
    together: Counter[str] = Counter()
    for pair in distribution.nodes.values():
        if cause := deployment.shared(*pair):
            together[cause] += 1
    found += [
        f"both copies of {count} buckets fail with {cause} (separate: nodes)"
        for cause, count in sorted(together.items())
    ]
    settings = deployment.settings
    if settings.quorum * 2 <= len(settings.index_copies):
        found.append(
            f"index_quorum {settings.quorum} of {len(settings.index_copies)} is no majority: both sides of a cut network would have masters"
        )
    return found
