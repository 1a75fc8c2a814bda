"""SEAL: every whole packet of a stack is encrypted and authenticated, with keys of a ring that all members have.

May import: cryptography, config, stack and what is below.
Imported by: registry.py by name; tools, for the key ring.
"""
