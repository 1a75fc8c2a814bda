"""From relay to relay: the stack of the bridge, a session for each remote relay, the direction between sites.

May import: relay.home, relay.remote, relay.site but leaving, relay.posts, stack and what is below.
Imported by: relay.posts (sessions), relay.site.leaving and forgetting, relay.duty, relay.parts.
"""
