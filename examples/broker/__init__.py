"""A message broker with a hot backup: STOMP 1.2 in front of live and backup (docs/howto/live-and-backup.md).

    frames.py      the protocol without I/O: bytes in, frames out
    message.py     a message, a delivery, a subscription
    bodies.py      where messages wait: memory, and SQLite for deep queues
    changes.py     what changed in a queue, and how it is taken back
    objects.py     the kinds of objects: Session, Queue, PostOffice
    operations.py  what clients and timers start
    connection.py  one client
    server.py      the port of the live node

python -m examples.broker --name A --port 61613
python -m examples.broker --name B --port 61614
"""
