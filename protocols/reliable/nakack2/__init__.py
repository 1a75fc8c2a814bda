"""NAKACK2: reliable multicast. protocol.py orders the parts: the table of senders, repair, the round of survivors.

May import: stack and what is below.
Imported by: no module; registry.py finds NAKACK2 by name.
"""
