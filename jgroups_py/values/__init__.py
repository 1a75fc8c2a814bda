"""Values that are sent, and that members agree on: addresses, views, messages, batches, headers, digests, events.

May import: nothing of this package.
Imported by: every folder.
"""
