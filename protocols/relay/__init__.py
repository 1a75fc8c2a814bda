"""RELAY: multicasts of one site reach every other site, also when relays crash. protocol.py orders the parts.

May import: stack and what is below.
Imported by: channel, testing, drill.
"""
