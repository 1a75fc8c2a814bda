"""UNICAST3: reliable unicast. protocol.py orders the tables: connections out, connections in, and unknown connections.

May import: stack and what is below.
Imported by: no module; registry.py finds UNICAST3 by name.
"""
