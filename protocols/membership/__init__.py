"""The members of the group: GMS, MERGE3.

May import: stack and what is below.
Imported by: no module; registry.py finds them by name.
"""
