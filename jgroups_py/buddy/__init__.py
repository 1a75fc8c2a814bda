"""Buddy replication: who owns a node, who keeps copies of it, and how neither is lost. Sans-IO.

``BuddyMachine`` (machine.py) is one member. It needs no stack: messages, views, calls and time go in,
messages, completions and events come out. See design/buddy-replication.md.
"""
