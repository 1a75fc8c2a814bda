"""The members of the group: GMS, MERGE3.

May import: stack and what is below.
Imported by: nobody; found by name in registry.py.
"""
