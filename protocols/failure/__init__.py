"""Who has died? FD_ALL3, FD_SOCK2, VERIFY_SUSPECT2.

May import: protocols.transport.connections, stack and what is below.
Imported by: nobody; found by name in registry.py.
"""
