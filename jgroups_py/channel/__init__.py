"""A channel is one member of one group. Sent messages wait in outbox.py, received ones in stream.py and backlog.py.

May import: driver, protocols, stack and the rooms below.
Imported by: rpc, cache and everything above.
"""
