"""What the relay keeps of its own site until other sites have it: buffer, spill file, trimming.

May import: relay.wire, relay.config, stack and what is below.
Imported by: relay.protocol and its other parts.
"""
