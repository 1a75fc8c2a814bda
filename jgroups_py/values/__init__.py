"""Values that are sent, and that members agree on: addresses, views, messages, batches, headers, digests, events.

May import: no other room of this package.
Imported by: every folder.
"""
