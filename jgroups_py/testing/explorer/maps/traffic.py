"""The cost of a put on the wire: with a link for each peer, as over TCP, and with a group that multicasts.

The bytes of replicas' messages are counted, with the frame of a TCP stream or the envelope of a group, and without the headers of TCP, IP
and the group's stack. After a put hosts report their numbers, and these reports count, too. Reports without puts are measured separately.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from jgroups_py.testing.explorer.maps import clusters
from jgroups_py.testing.explorer.maps import world as links
from jgroups_py.testing.sim import World

FRAME: Final = 4
"""Bytes before each message in a TCP stream."""
SETTLE_SECONDS: Final = 2.0
PUT_SECONDS: Final = 1.0
"""Virtual seconds between puts. No host reports its numbers unasked again within this time."""
IDLE_SECONDS: Final = 10.0
"""Twice the time in which each host reports its numbers once without changes."""
START_SECONDS: Final = 60.0
Count = tuple[int, int]


def measure(hosts: int, *, puts: int = 3, value_bytes: int = 100) -> dict[str, Any]:
    """Return bytes and messages for one put of a new key, at all hosts together: of the change itself, and with
    acknowledgements."""
    value = b"x" * value_bytes
    return {
        "hosts": hosts,
        "value_bytes": value_bytes,
        "puts": puts,
        "tcp": _over_links(hosts, puts, value),
        "group": _over_a_group(hosts, puts, value),
    }


def _over_links(hosts: int, puts: int, value: bytes) -> dict[str, float]:
    world = links.MapWorld(hosts)
    world.connect_all()
    world.run(SETTLE_SECONDS)
    first = world.hosts[1]

    def count() -> Count:
        return world.messages, world.bytes + FRAME * world.messages

    def there() -> bool:
        return all(
            len(host.table.entries) == len(first.table.entries) for host in world.hosts.values()
        )

    return _measured(puts, count, world.run, lambda n: first.write(b"key %d" % n, value), there)


def _over_a_group(hosts: int, puts: int, value: bytes) -> dict[str, float]:
    world = World(1, check=False)
    members = [clusters.ClusterHost(world, node, ack_delay=0.05) for node in range(1, hosts + 1)]
    for member in members:
        member.start({})

    def run(seconds: float) -> None:
        end = world.now + seconds
        while world.now < end:
            world.run_for(0.05)
            for member in members:
                member.tick()

    while any(len(member.links.linked) < hosts - 1 for member in members):
        run(0.5)
        if world.now > START_SECONDS:
            raise RuntimeError(f"{hosts} members are not linked after {START_SECONDS:g} s")
    run(SETTLE_SECONDS)

    def count() -> Count:
        return sum(m.sent_messages for m in members), sum(m.sent_bytes for m in members)

    def there() -> bool:
        return all(len(m.table.entries) == len(members[0].table.entries) for m in members)

    try:
        return _measured(puts, count, run, lambda n: members[0].write(b"key %d" % n, value), there)
    finally:
        world.close()


def _measured(
    puts: int,
    count: Callable[[], Count],
    run: Callable[[float], None],
    put: Callable[[int], None],
    there: Callable[[], bool],
) -> dict[str, float]:
    put(puts)
    run(SETTLE_SECONDS)  # then vectors have their final length
    before = count()
    run(IDLE_SECONDS)
    after = count()
    for number in range(puts):
        put(number)
        run(PUT_SECONDS)
        if not there():
            raise RuntimeError(f"a put is not everywhere after {PUT_SECONDS:g} s")
    end = count()
    return {
        "messages_per_put": round((end[0] - after[0]) / puts, 1),
        "bytes_per_put": round((end[1] - after[1]) / puts, 1),
        "idle_messages_per_s": round((after[0] - before[0]) / IDLE_SECONDS, 1),
        "idle_bytes_per_s": round((after[1] - before[1]) / IDLE_SECONDS, 1),
    }
