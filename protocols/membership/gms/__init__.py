"""GMS decides who is in the group. protocol.py orders the parts; they do not know it (design/membership.md).

May import: stack and what is below.
Imported by: no module; registry.py finds GMS by name.
"""
