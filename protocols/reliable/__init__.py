"""Delivery in order and once: NAKACK2, UNICAST3, STABLE.

May import: stack and what is below.
Imported by: nobody; found by name in registry.py.
"""
