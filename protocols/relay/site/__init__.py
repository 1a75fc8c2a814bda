"""Inside one's own site: roles, joiners, leavers, reports of members, control records.

May import: relay.out, relay.state, relay.wire; leaving also relay.bridge and relay.home; stack and what is below.
Imported by: relay.home, relay.holders, relay.bridge, relay.protocol.
"""
