"""Buddy replication: every node has one owner, and the owner's buddies keep copies. Nothing here does I/O.

``BuddyMachine`` (machine.py) is one member: messages, views, calls and time go in; messages, ends of calls and events come
out. machine.py orders the parts, and no part imports it. See design/buddy-replication.md.

May import: errors, values, and ``stack.raised``.
Imported by: cache, and testing, which explores the machine by itself.
"""
