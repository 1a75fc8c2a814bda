"""Becoming a holder: collecting the messages that members of the site still have.

May import: relay.out, relay.state, relay.wire, home.buffer, site.roles, stack and what is below.
Imported by: relay.home.origins, relay.duty, relay.parts, relay.protocol.
"""
