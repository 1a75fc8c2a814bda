"""Bytes of the wire as JSON for people and tests, and back.

May import: wire, values, errors.
Imported by: tools, testing.
"""
