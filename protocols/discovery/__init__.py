"""Finding members: PING, MPING, TCPPING, LOCAL_PING, and discoveries with a list outside the group
(design/discovery.md).

May import: stack and what is below.
Imported by: no module; registry.py finds them by name.
"""
