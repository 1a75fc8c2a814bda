"""What users hold: one member of one group. outbox.py waits on the way down, stream.py and backlog.py on the way up.

May import: driver, protocols, stack and what is below.
Imported by: rpc, cache and everything above.
"""
