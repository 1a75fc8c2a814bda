"""From relay to relay: the stack of the bridge, a session for each remote relay, which site sends to which.

May import: relay.wire, relay.home, stack and what is below.
Imported by: relay.protocol and its other parts.
"""
