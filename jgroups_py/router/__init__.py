"""A gossip router: a process that knows where the members of groups are, for TCPGOSSIP of ours and of Java.

May import: driver, protocols and the rooms below.
Imported by: tools.
"""

from jgroups_py.router.machine import GossipRouter
from jgroups_py.router.serving import RouterError, run_router

__all__ = ["GossipRouter", "RouterError", "run_router"]
