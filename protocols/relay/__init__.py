"""RELAY: multicasts of one site reach every other site, also when relays crash. parts.py makes the parts, protocol.py orders them.

May import: stack and what is below.
Imported by: channel, testing, drill.
"""
