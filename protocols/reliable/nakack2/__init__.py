"""NAKACK2: reliable multicast. protocol.py orders the parts: repair, agreement before a view, what is known of a sender.

May import: stack and what is below.
Imported by: nobody; found by name in registry.py.
"""
