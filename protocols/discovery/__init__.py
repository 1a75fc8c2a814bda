"""Who is there? PING, MPING, TCPPING, LOCAL_PING.

May import: stack and what is below.
Imported by: nobody; found by name in registry.py.
"""
