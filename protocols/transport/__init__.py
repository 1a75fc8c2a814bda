"""Transports: UDP, TCP, SHARED_LOOPBACK, and what they have in common.

May import: stack and what is below.
Imported by: protocols.failure (connections).
"""
