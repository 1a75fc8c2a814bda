"""Failure detection: FD_ALL3, FD_SOCK2, VERIFY_SUSPECT2.

May import: protocols.transport.connections, stack and what is below.
Imported by: no module; registry.py finds them by name.
"""
