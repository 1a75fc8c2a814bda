"""Delivery in order and once: NAKACK2, UNICAST3, STABLE.

May import: stack and what is below.
Imported by: no module; registry.py finds them by name.
"""
