"""What travels, and what members agree on: addresses, views, messages, batches, headers, digests, events.

May import: nothing of this package.
Imported by: everybody.
"""
