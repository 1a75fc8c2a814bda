"""GMS decides who is in the group. protocol.py orders the parts, which do not know it (design/membership.md).

May import: stack and what is below.
Imported by: nobody; found by name in registry.py.
"""
