"""Inside one's own site: roles, joiners, leavers, forgotten origins, reports of members, control records.

May import: relay.out, relay.state, relay.wire; leaving and forgetting also relay.bridge and relay.home; stack and what is below.
Imported by: relay.home, relay.holders, relay.bridge, relay.duty, relay.parts.
"""
