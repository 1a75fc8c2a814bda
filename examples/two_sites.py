"""Two sites in virtual time: the relay crashes while members send, and no message is lost.

The protocol code is the real one; only clock and network are simulated. Takes about a second.

    python examples/two_sites.py [SEED]
"""

from __future__ import annotations

import sys

from jgroups_py.testing.sim import Member, World

PRIMARY = {"RELAY.sites": "NYC,SFO"}  # the first one relays to the others


def main(seed: int) -> None:
    world = World(seed)
    names = {"NYC": "EDC", "SFO": "TSU"}
    hosts = [world.host_address(site, n) for site, members in names.items() for n in members]
    properties = {"relay.bridge.hosts": ",".join(f"{host}[7950]" for host in hosts)}
    sites: dict[str, list[Member]] = {}
    for site, members in names.items():
        for name in members:
            own = {
                "relay.site": site,
                "relay.bridge.bind_addr": world.host_address(site, name),
                "jgroups.bind_addr": world.host_address(site, name),
                **properties,
            }
            member = world.start(
                name, "relay-udp.xml", site, site=site, properties=own, attributes=PRIMARY
            )
            sites.setdefault(site, []).append(member)
            world.run_for(1.0)
    world.run_for(5.0)
    relay, standby, sender = sites["NYC"]
    print("NYC is", relay.view_names, "and SFO is", sites["SFO"][0].view_names)

    for number in range(100):
        world.at(world.now + number * 0.05, sender.send, f"message {number}".encode())
    world.at(world.now + 2.0, relay.crash)
    world.run_for(20.0)

    print("after the crash NYC is", standby.view_names)
    for member in sites["SFO"]:
        received = [p.decode() for p in member.payloads]
        print(
            f"{member.name} in SFO received {len(received)} messages in order:",
            received == [f"message {n}" for n in range(100)],
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
