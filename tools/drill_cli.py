"""``jgroups-py drill``."""

from jgroups_py.drill.cli import drill

__all__ = ["drill"]
