"""A member that prints the members of its group until it is told to end: the program of the deployment examples.

STACK (tcp-dns.xml), CLUSTER (demo) and BIND (site_local: the private address of this host or container) come from the
environment, and so do the stack's variables: JGROUPS_DNS_QUERY for ${jgroups.dns.query}.
"""

import os
import signal

import trio

from jgroups_py import Message, View, open_channel


async def main() -> None:
    properties = {}
    if "JGROUPS_BIND_ADDR" not in os.environ:
        properties["jgroups.bind_addr"] = os.environ.get("BIND", "site_local")
    async with (
        open_channel(
            os.environ.get("STACK", "tcp-dns.xml"),
            cluster=os.environ.get("CLUSTER", "demo"),
            name=os.environ.get("NAME") or None,
            properties=properties,
        ) as channel,
        trio.open_nursery() as nursery,
    ):
        await nursery.start(leave_when_told, nursery.cancel_scope)
        async for item in channel:
            match item:
                case View(members=members):
                    names = ", ".join(channel.name_of(member) for member in members)
                    print(f"{channel.name}: {len(members)} members: {names}", flush=True)
                case Message(sender=sender, payload=payload):
                    print(f"{channel.name_of(sender)}: {bytes(payload)!r}", flush=True)


async def leave_when_told(
    scope: trio.CancelScope, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Containers and systemd end a process with SIGTERM: leave the group, so that no member suspects a crash."""
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        task_status.started()
        async for _ in signals:
            scope.cancel()
            return


if __name__ == "__main__":
    trio.run(main)
