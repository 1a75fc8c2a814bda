"""Becoming a holder: collecting what the members of the site still have.

May import: relay.wire, stack and what is below.
Imported by: relay.protocol and its other parts.
"""
