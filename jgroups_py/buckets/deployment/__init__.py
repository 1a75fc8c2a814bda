"""Deployment files: the nodes of a bucket store's instance, their components, and the first places of its buckets.

May import: the bucket store's values (digest, settings) and config. The bucket store's openers and the tools may import it.
"""

from __future__ import annotations

from jgroups_py.buckets.deployment.distribution import Distribution, distribute
from jgroups_py.buckets.deployment.findings import findings
from jgroups_py.buckets.deployment.model import DeployedNode, Deployment
from jgroups_py.buckets.deployment.reader import load_deployment, parse_deployment

__all__ = [
    "Deployment",
    "Distribution",
    "DeployedNode",
    "distribute",
    "findings",
    "load_deployment",
    "parse_deployment",
]
