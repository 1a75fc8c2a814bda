"""Messages of other sites: multicast here once and in order, or a gap that is reported.

May import: relay.out, relay.state, relay.wire, stack and what is below.
Imported by: relay.bridge, relay.parts, relay.protocol.
"""
