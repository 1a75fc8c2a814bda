"""Transports: UDP, TCP, SHARED_LOOPBACK, and their common parts.

May import: stack and what is below.
Imported by: protocols.failure (connections).
"""
