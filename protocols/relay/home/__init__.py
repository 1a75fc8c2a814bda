"""Home: numbers and copies of the own site's messages until other sites have them, trims, departures, origins.

May import: relay.out, relay.state, relay.wire, relay.config, site.roles; origins also holders; stack and what is below.
Imported by: relay.holders, relay.bridge, relay.site.leaving and forgetting, relay.duty, relay.parts.
"""
