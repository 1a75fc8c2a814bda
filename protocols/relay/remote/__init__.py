"""What comes from other sites: in order, once, or a gap that is reported.

May import: relay.wire, stack and what is below.
Imported by: relay.protocol and its other parts.
"""
