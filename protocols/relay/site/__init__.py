"""Inside one's own site: roles, joiners, leavers, reports of members, control records.

May import: relay.wire, stack and what is below.
Imported by: relay.protocol and its other parts.
"""
