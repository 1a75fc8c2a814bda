"""``jgroups-py router``: a gossip router."""

from __future__ import annotations

import ipaddress

import click
import trio

from jgroups_py.router import GossipRouter, run_router
from jgroups_py.stack.ports import Endpoint
from jgroups_py.tools.options import examples
from jgroups_py.tools.running import run_command


@click.command(
    epilog=examples(
        "jgroups-py router --port 12001",
        "jgroups-py router --bind-addr 10.0.0.5 --port 12001 --allow-remote",
    )
)
@click.option("--bind-addr", default="127.0.0.1", show_default=True, metavar="ADDRESS")
@click.option("--port", default=12001, show_default=True, help="0: a free one, which is printed.")
@click.option("--allow-remote", is_flag=True, help="Other addresses than loopback: not encrypted.")
@click.option("--max-connections", default=1000, show_default=True)
@click.option("--max-connections-per-host", default=200, show_default=True)
@click.option("--max-groups", default=1000, show_default=True)
@click.option("--max-members", default=2000, show_default=True, help="Of one group.")
def router(
    bind_addr: str,
    port: int,
    allow_remote: bool,
    max_connections: int,
    max_connections_per_host: int,
    max_groups: int,
    max_members: int,
) -> int:
    """Run a gossip router until interrupted.

    Members with TCPGOSSIP, of Python and of Java, find each other there. Every process that reaches the port may
    register and ask. The router forwards no messages, so TUNNEL cannot use it.
    """
    machine = GossipRouter(
        bind_addr=bind_addr,
        bind_port=port,
        max_connections=max_connections,
        max_connections_per_host=max_connections_per_host,
        max_groups=max_groups,
        max_members=max_members,
    )
    if not ipaddress.ip_address(bind_addr.partition("%")[0]).is_loopback and not allow_remote:
        raise click.UsageError(
            f"--bind-addr {bind_addr} can be reached by other hosts, and nothing is encrypted: "
            "add --allow-remote if that is meant"
        )

    async def command() -> None:
        async with trio.open_nursery() as nursery:
            where: Endpoint = await nursery.start(_serve, machine)
            click.echo(f"router listens on {where[0]} port {where[1]}")

    return run_command(command)


async def _serve(
    machine: GossipRouter, task_status: trio.TaskStatus[Endpoint] = trio.TASK_STATUS_IGNORED
) -> None:
    await run_router(machine, task_status=task_status)
