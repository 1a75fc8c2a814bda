"""GMS: joins, leaves, crashes, merges. protocol.py orders the parts.

May import: stack and what is below.
Imported by: nobody; found by name in registry.py.
"""
