"""Finding members: PING, MPING, TCPPING, LOCAL_PING, and those with a list outside the group (design/discovery.md).

May import: stack and what is below.
Imported by: nobody; found by name in registry.py.
"""
